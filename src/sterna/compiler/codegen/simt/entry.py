"""The entry function of a GPU kernel: read arguments and state, leave if past the extents, run the body.

All arguments travel in one structure passed by value: the launch arguments as `sterna.abi` lays them out, then the
state words that it reads (`sterna.abi.STATE_WORDS`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from sterna.abi import arg_layout, state_offsets
from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
from sterna.compiler.codegen.llvm.failures import RECORD_ARRAYS, runtime_symbol
from sterna.compiler.codegen.llvm.frame import Frame
from sterna.compiler.codegen.llvm.integers import int_constant
from sterna.compiler.codegen.llvm.layout import Value, components
from sterna.compiler.codegen.llvm.module import ModuleContext, entry_symbol
from sterna.compiler.codegen.llvm.statements import emit_body
from sterna.compiler.codegen.simt.frame import STATE_TYPES, SimtFrame
from sterna.compiler.codegen.simt.meeting import barriers_diverge, holds_meeting
from sterna.compiler.codegen.simt.printing import emit_print
from sterna.compiler.codegen.simt.profile import SimtProfile
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk
from sterna.compiler.passes.collectives import functions_with_block_state
from sterna.types import ArrayType, Type, itemsize

__all__ = ["EntryEmitter", "SimtContext", "emit_entry", "is_inside", "read_state"]

_UNROLLED_NODES = 8000
"""Most nodes of a loop's turns together that are unrolled, in code that uses arrays of a thread."""
_RECORD_WORDS = ("bx", "by", "bz", "d0", "d1", "d2")
_NO_EXTENT = str(2**63 - 1)


class SimtContext(ModuleContext):
    """Shared state of emitting one module for a GPU."""

    profile: SimtProfile

    def shared_array(self, e: FunctionEmitter, node: ir.SharedArray) -> Value:
        """One per block: a global of the module in shared memory, or the launch's dynamic memory."""
        space = self.profile.shared_space
        assert isinstance(node.type, ArrayType)
        size = itemsize(node.type.dtype)
        if not node.shape and node.type.ndim == 1:
            total = self.profile.dynamic_shared_bytes(e)
            return (self.profile.dynamic_shared(e), e.b.op(f"udiv i64 {total}, {size}"))
        count = 1
        for extent in node.shape:
            count *= extent
        nbytes = max(count * size, 1)
        name = f"@shared_{''.join(c if c.isalnum() and c.isascii() else '_' for c in node.name)}"
        if self.helper(name, f"{name} = internal {space}global [{nbytes} x i8] undef, align 16"):
            self.shared_bytes += nbytes
        return (self._generic(e, name), *(str(n) for n in node.shape))

    def can_copy(self, body: tuple[ir.Stmt, ...]) -> bool:
        """Not where threads meet: they must meet at one instruction."""
        return not holds_meeting(body, self.meeting)

    @cached_property
    def meeting(self) -> frozenset[str]:
        """Device functions in which threads meet."""
        return functions_with_block_state(self.module)

    @cached_property
    def threads_leave(self) -> bool:
        """Whether threads may be done while others of their warp go on: an ``over`` launch, or an early return."""
        kernel = self.module.functions[self.module.entry]
        body = kernel.body[:-1] if kernel.body and isinstance(kernel.body[-1], ir.Return) else kernel.body
        return bool(self.options.over) or any(isinstance(node, ir.Return) for node in walk(body))

    @cached_property
    def barriers_diverge(self) -> bool:
        """Whether threads may come to a barrier by different ways."""
        return barriers_diverge(self.module, self.meeting)

    def loop_note(self, node: ir.ForRange, bounds: tuple[str, str, str]) -> str:
        """Short loops of known length are unrolled whole, so that arrays of a thread can live in registers."""
        start, stop, step = map(int_constant, bounds)
        if start is None or stop is None or not step or self.options.opt < 2:
            return ""
        turns, nodes = len(range(start, stop, step)), self._nodes(node.body, ())
        arrays = any(isinstance(n, ir.LocalArray) for n in walk(node.body))
        if turns * nodes > (_UNROLLED_NODES if arrays else _UNROLLED_NODES // 8):
            return ""
        full = self.metadata_node('!{!"llvm.loop.unroll.full"}')
        return f", !llvm.loop {self.metadata_node(f'distinct !{{{{self}}, {full}}}')}"

    def _nodes(self, body: tuple[ir.Stmt, ...], within: tuple[str, ...]) -> int:
        """Nodes of some code, with those of the functions it calls: they are inlined."""
        total = 0
        for node in walk(body):
            total += 1
            if isinstance(node, ir.Call) and node.function not in within and total <= _UNROLLED_NODES:
                total += self._nodes(self.module.functions[node.function].body, (*within, node.function))
        return total

    def print_line(self, e: FunctionEmitter, node: ir.Print) -> None:
        """A ``print``."""
        emit_print(self, e, node)

    def _generic(self, e: FunctionEmitter, name: str) -> str:
        space = self.profile.shared_space
        return e.b.op(f"addrspacecast ptr {space}{name} to ptr")

    def raise_text(self) -> str:
        """The function by which a failing thread reports; blocks are the hardware's own, so it lies in its block."""
        e = FunctionEmitter(self, Frame())
        b = e.b
        report = runtime_symbol(self, "report_failure")
        threads = tuple(self.profile.hardware_index(e, "thread_idx", axis) for axis in range(3))
        values = ("%bx", "%by", "%bz", *threads, "%d0", "%d1", "%d2")
        number = b.op("zext i32 %error to i64")
        words = ", ".join(f"i64 {x}" for x in (_NO_EXTENT, _NO_EXTENT, number, *values))
        b.emit(f"call void {report}({RECORD_ARRAYS.format(record='%to')}, {words})")
        b.end("ret void")
        parameters = "ptr %to, i32 %error, " + ", ".join(f"i64 %{w}" for w in _RECORD_WORDS)
        return f"define internal void @sterna_raise({parameters}) alwaysinline nounwind {{\n{b.body()}\n}}"


class EntryEmitter(FunctionEmitter):
    """Emits the entry function of a kernel."""

    context: SimtContext
    profile: SimtProfile
    frame: SimtFrame

    def __init__(self, context: SimtContext) -> None:
        super().__init__(context, SimtFrame())

    def finish(self, value: Value) -> None:
        """The thread is done."""
        self.b.jump(self.leave)

    def parameter(self, offset: int, kind: str) -> str:
        """Load a field of the argument structure."""
        place = self.b.op(f"getelementptr inbounds i8, ptr %args, i64 {offset}")
        if kind == "i1":
            return self.b.icmp("ne", 8, self.b.op(f"load i8, ptr {place}, !invariant.load !1"), "0")
        if kind == "ptr" and self.profile.slot_space:
            value = self.b.op(f"load ptr {self.profile.slot_space}, ptr {place}, !invariant.load !1")
            return self.b.op(f"addrspacecast ptr {self.profile.slot_space}{value} to ptr")
        return self.b.op(f"load {kind}, ptr {place}, !invariant.load !1")

    def arguments(self) -> dict[str, Value]:
        """Values of the kernel's parameters."""
        kernel = self.context.module.functions[self.context.module.entry]
        layout = arg_layout(tuple(t for _, t in kernel.params))
        values, position = {}, 0
        for name, t in kernel.params:
            kinds = components(t)
            offsets = [field.offset for field in layout.fields[position : position + len(kinds)]]
            values[name] = tuple(self.parameter(at, kind) for at, kind in zip(offsets, kinds, strict=True))
            position += len(kinds)
        return values

    def declare_locals(self, types: Mapping[str, Type], values: Mapping[str, Value]) -> None:
        """Stack slots for locals; those of parameters hold their values, all others zero."""
        for name, t in types.items():
            self.declare(name, t)
            if name not in values:
                self.clear(name)
        params = dict(self.context.module.functions[self.context.module.entry].params)
        for name, value in values.items():
            if name not in self.locals:
                self.declare(name, params[name])
            self.write(name, value)

    def text(self, debug: str) -> str:
        """The whole function."""
        context, profile = self.context, self.profile
        kernel = context.module.functions[context.module.entry]
        size = max(_state_start(kernel) + 8 * state_offsets(context.state)[1], 8)  # a structure of nothing is none
        attributes = profile.call_attributes() + profile.entry_attributes(context.options)
        parameters = f"ptr byval({profile.argument_type(size)}) align 8 %args{profile.entry_parameters(context.state)}"
        name = entry_symbol(context.module.entry)
        return (
            f"define {profile.entry_convention}void @{name}({parameters}) {attributes}{debug} {{\n{self.b.body()}\n}}"
        )


def emit_entry(context: SimtContext) -> str:
    """Text of the entry function."""
    kernel = context.module.functions[context.module.entry]
    e = EntryEmitter(context)
    e.types = kernel.locals
    debug = e.open_scope(kernel)
    values = e.arguments()
    read_state(e)
    for axis in range(context.options.over):
        inside = e.b.label("inside")
        e.b.branch(is_inside(e, axis), inside, e.leave)
        e.b.place(inside)
    e.declare_locals(kernel.locals, values)
    emit_body(e, kernel.body)
    e.b.jump(e.leave)
    e.place_failure()
    e.b.place(e.leave)
    e.b.end("ret void")
    return e.text(debug)


def _state_start(kernel: ir.Function) -> int:
    return -(-arg_layout(tuple(t for _, t in kernel.params)).size // 8) * 8


def read_state(e: EntryEmitter) -> None:
    """Make the thread's frame: find its block, and read the words of the launch's state."""
    context, profile = e.context, e.profile
    state = _state_start(context.module.functions[context.module.entry])
    offsets, _ = state_offsets(context.state)

    def word(name: str, axis: int = 0) -> str:
        return e.parameter(state + 8 * (offsets[name] + axis), STATE_TYPES.get(name, "i64"))

    x, y, z = (profile.hardware_index(e, "block_idx", axis) for axis in range(3))
    block = (x, y, z)
    extents = e.frame.extents
    if "extents" in offsets:
        extents = (word("extents", 0), word("extents", 1), word("extents", 2))
    if "flat" in offsets:
        block = _unflatten(e, block, (word("flat", 0), word("flat", 1)))
    words = {name: word(name) for name in context.state if name in STATE_TYPES}
    e.frame = replace(e.frame, block=block, words=words, extents=extents)


def is_inside(e: EntryEmitter, axis: int) -> str:
    """Whether the thread is within the extents of an ``over`` launch along an axis, as i1."""
    base = e.b.op(f"mul nuw nsw i64 {e.frame.block[axis]}, {e.frame.dim(e, 'block_dim', axis)}")
    index = e.b.op(f"add nuw nsw i64 {base}, {e.frame.threads(e)[axis]}")
    return e.b.icmp("ult", 64, index, e.frame.extents[axis])


def _unflatten(e: EntryEmitter, block: tuple[str, str, str], counts: tuple[str, str]) -> tuple[str, str, str]:
    """The block index of a flat grid, taken apart; the hardware's own for any other."""
    b = e.b
    flat, done, start = b.label("flat"), b.label("placed"), b.current
    b.branch(b.icmp("ne", 64, counts[0], "0"), flat, done)
    b.place(flat)
    x, y = (b.op(f"trunc i64 {n} to i32") for n in counts)
    number = b.op(f"trunc i64 {block[0]} to i32")
    rows = b.op(f"udiv i32 {number}, {x}")
    parts = b.op(f"urem i32 {number}, {x}"), b.op(f"urem i32 {rows}, {y}"), b.op(f"udiv i32 {rows}, {y}")
    wide = tuple(b.op(f"zext i32 {part} to i64") for part in parts)
    b.jump(done)
    b.place(done)
    first, second, third = (b.phi("i64", [(block[n], start), (wide[n], flat)]) for n in range(3))
    return first, second, third
