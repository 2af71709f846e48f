"""The kernel's entry: its arguments and frame, and its body, written out or in steps (`meeting`).

In steps, ``live`` says whether the thread is still at work; one that leaves breaks out of the region it is in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sterna.abi import ArgField, arg_layout, state_offsets
from sterna.compiler.codegen.msl.code import bare
from sterna.compiler.codegen.msl.emitter import FunctionEmitter, component_names, from_bits
from sterna.compiler.codegen.msl.functions import declare_locals, definition, local_names
from sterna.compiler.codegen.msl.layout import Value, components, memory_type, native
from sterna.compiler.codegen.msl.meeting import Meeting, Region, Step, Together, leaves
from sterna.compiler.codegen.msl.statements import emit_body, enter_turn, for_head
from sterna.compiler.ir import nodes as ir
from sterna.types import Scalar, StructType, TupleType

if TYPE_CHECKING:
    from sterna.compiler.codegen.msl.module import ModuleContext
    from sterna.types import Type

__all__ = ["emit_entry"]

_ADDRESSES = {"record": "device atomic_uint *", "table": "device const long *", "print": "device uchar *"}


class _Entry(FunctionEmitter):
    def finish(self, value: Value) -> None:
        """The thread is done."""
        self.leave()

    def leave(self) -> None:
        """The thread leaves the kernel."""
        self.code.emit("return;")


class _Stepwise(_Entry):
    """A kernel in steps."""

    def __init__(self, context: ModuleContext, function: ir.Function) -> None:
        super().__init__(context, function, local_names(function))
        self.takes_part = "live"

    def leave(self) -> None:
        """The thread is live no more: it leaves the innermost loop, and what is around it, up to its region."""
        self.code.emit("live = false;")
        self.code.emit("break;")

    def left_loop(self, body: tuple[ir.Stmt, ...]) -> None:
        """Behind a loop: leave what is around it, too."""
        if leaves(body):
            self.code.emit("if (!live) break;")

    def steps(self, steps: Sequence[Step]) -> None:
        """Emit steps in order."""
        for step in steps:
            if isinstance(step, Region):
                self._region(step)
            elif isinstance(step, Meeting):
                self._meet(step)
            elif isinstance(step.node, ir.If | ir.While | ir.ForRange):
                self._control(step)
            elif isinstance(step.node, ir.Return):
                self.code.emit("return;")  # all threads do
            else:
                emit_body(self, (step.node,))

    def _region(self, step: Region) -> None:
        if leaves(step.body):
            with self.code.block("if (live) do", "} while (false);"):
                emit_body(self, step.body)
        else:
            with self.code.block("if (live)"):
                emit_body(self, step.body)

    def _meet(self, step: Meeting) -> None:
        value = self.value(step.operation)
        if step.target is not None:
            self.write(step.target, value)

    def _control(self, step: Together) -> None:
        node, code = step.node, self.code
        if isinstance(node, ir.If):
            with code.block(f"if ({bare(self.one(node.test))})", "}" if not step.parts[1] else "} else {"):
                self.steps(step.parts[0])
            if step.parts[1]:
                code.depth += 1
                self.steps(step.parts[1])
                code.depth -= 1
                code.emit("}")
        elif isinstance(node, ir.While):
            with code.block("while (true)"):
                code.emit(f"if (!({bare(self.one(node.test))})) break;")
                self.steps(step.parts[0])
        else:
            with code.block(for_head(self, node)):
                enter_turn(self, node)
                self.steps(step.parts[0])


def emit_entry(context: ModuleContext, steps: tuple[Step, ...] | None) -> str:
    """Text of the kernel.

    Parameters
    ----------
    context : ModuleContext
        What its functions share.
    steps : tuple of Step or None
        The kernel cut at its barriers, or None to write it as it is.
    """
    kernel = context.module.functions[context.module.entry]
    e = _Entry(context, kernel, local_names(kernel)) if steps is None else _Stepwise(context, kernel)
    context.emitting(e)
    layout = arg_layout(tuple(t for _, t in kernel.params))
    fields = iter(layout.fields)
    arguments = []
    for name, t in kernel.params:
        values = list(_read(e, t, fields))
        for text, kind, value in zip(component_names(e.names[name], t), components(t), values, strict=True):
            arguments.append(f"    {definition(kind, text)} = {bare(value)};")
    if isinstance(e, _Stepwise):
        e.steps(steps or ())
    else:
        emit_body(e, kernel.body)
    state = -(-layout.size // 8) * 8
    locals_ = declare_locals(kernel, dict(e.names), {name for name, _ in kernel.params})
    frame = _frame(context, state, steps is not None)
    return "\n".join([*_head(context, kernel), *frame, *arguments, *locals_, *context.arrays_of(e), *e.code.lines, "}"])


def _head(context: ModuleContext, kernel: ir.Function) -> list[str]:
    parameters = [
        "constant uchar *args [[buffer(0)]]",
        *(["threadgroup uchar *shared [[threadgroup(0)]]"] if context.uses_shared else []),
        "uint3 thread_idx [[thread_position_in_threadgroup]]",
        "uint3 block_idx [[threadgroup_position_in_grid]]",
        "uint3 block_dim [[threads_per_threadgroup]]",
        "uint3 grid_dim [[threadgroups_per_grid]]",
        "uint lane [[thread_index_in_simdgroup]]",
    ]
    bounds = context.options.launch_bounds
    attribute = f"[[max_total_threads_per_threadgroup({bounds[0]})]] " if bounds else ""
    head = f"{attribute}kernel void {context.entry}("
    return [context.title(kernel), head, ",\n".join(f"    {p}" for p in parameters) + ")", "{"]


def _frame(context: ModuleContext, state: int, stepwise: bool) -> list[str]:
    """The frame of the thread; one past the extents leaves, or is not live."""
    offsets, _ = state_offsets(context.state)
    over = context.options.over

    def word(name: str, kind: str, axis: int = 0) -> str:
        return f"*(constant {kind} *)(args + {state + 8 * (offsets[name] + axis)})"

    lines = []
    if "flat" in offsets:
        lines += [
            f"    const uint2 flat = uint2({word('flat', 'uint')}, {word('flat', 'uint', 1)});",
            "    if (flat.x != 0)  // all blocks lie along x: take the index apart",
            "        block_idx = uint3(block_idx.x % flat.x, block_idx.x / flat.x % flat.y, "
            "block_idx.x / flat.x / flat.y);",
        ]
    if stepwise:
        lines.append("    bool live = true;  // all threads come to all barriers; this one has work to do")
    for axis, letter in enumerate("xyz"[:over]):
        index = f"ulong(block_idx.{letter}) * block_dim.{letter} + thread_idx.{letter}"
        leave = "live = false;" if stepwise else "return;"
        lines.append(f"    if ({index} >= {word('extents', 'ulong', axis)}) {leave}")
    addresses = [
        f"({kind})({word(name, 'ulong')})" if name in offsets else "nullptr" for name, kind in _ADDRESSES.items()
    ]
    values = [
        *addresses, "shared" if context.uses_shared else "nullptr",
        *(word(name, "long") if name in offsets else "0L" for name in ("dynamic", "seed")),
        "thread_idx", "block_idx", "block_dim", "grid_dim",
        *(word("extents", "long", axis) if over else "1L" for axis in range(3)), "lane",
    ]  # fmt: skip
    return [*lines, "    const Frame f = {", *(f"        {v}," for v in values), "    };"]


def _read(e: FunctionEmitter, t: Type, fields: Iterator[ArgField]) -> Iterator[str]:
    """Components of one argument, out of the buffer."""
    if isinstance(t, TupleType | StructType):
        for item in t.items:
            yield from _read(e, item, fields)
    elif isinstance(t, Scalar):
        yield _read_scalar(e, t, fields)
    else:
        for kind in components(t):
            place = f"(args + {next(fields).offset})"
            yield f"({kind})*(constant ulong *){place}" if "*" in kind else f"*(constant {kind} *){place}"


def _read_scalar(e: FunctionEmitter, t: Scalar, fields: Iterator[ArgField]) -> str:
    if t.weak and t.kind in "fc":  # Python's floats come as float64
        part = Scalar("f", 64, weak=True)
        words = [f"*(constant ulong *)(args + {next(fields).offset})" for _ in range(2 if t.kind == "c" else 1)]
        parts = [from_bits(e, part, word) for word in words]
        return parts[0] if t.kind == "f" else f"float2({', '.join(parts)})"
    if native(t).kind == "c":
        parts = [f"*(constant float *)(args + {next(fields).offset})" for _ in range(2)]
        return f"float2({', '.join(parts)})"
    text = f"*(constant {memory_type(t)} *)(args + {next(fields).offset})"
    return f"({text} != 0)" if t.kind == "b" else text
