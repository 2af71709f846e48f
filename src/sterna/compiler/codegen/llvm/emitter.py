"""Emits the expressions of one function; `statements` and `intrinsics` build on it.

A `FunctionEmitter` holds what the code of one thread needs: where its locals live, its frame (indices of the
thread and block, launch state), where a failing thread goes, and which index checks a guard has already
proven (`guards`).  `ahead` has the indices of accesses, by node identity, that were computed before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sterna.compiler.codegen.llvm import arrays as A
from sterna.compiler.codegen.llvm.builder import Builder, float_text, int_text
from sterna.compiler.codegen.llvm.casts import cast, narrow, widen
from sterna.compiler.codegen.llvm.complexes import complex_binary, complex_compare
from sterna.compiler.codegen.llvm.complexfns import complex_power
from sterna.compiler.codegen.llvm.floats import float_binary, float_compare, is_small
from sterna.compiler.codegen.llvm.integers import int_binary, int_compare, int_constant
from sterna.compiler.codegen.llvm.layout import (
    Value,
    components,
    int_bits,
    item_slice,
    memory_type,
    real_type,
    register_type,
)
from sterna.compiler.codegen.values import make_tuple, type_of
from sterna.compiler.ir import nodes as ir
from sterna.errors import UnsupportedError
from sterna.frozen import frozen
from sterna.types import ArrayType, RecordRefType, RecordType, Scalar, Type, field_align, itemsize

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.frame import Frame
    from sterna.compiler.codegen.llvm.module import ModuleContext

__all__ = ["FunctionEmitter", "Slot"]

_STACK_ARRAY_BYTES = 256 * 1024


@frozen
class Slot:
    """Where one component of a local lives: an address, its type in a register and in memory."""

    address: str
    type: str
    memory: str
    note: str = ""


class FunctionEmitter:
    """State of emitting one function.

    Parameters
    ----------
    context : ModuleContext
        What functions of the module share.
    frame : Frame
        Indices and launch state as operands.
    """

    def __init__(self, context: ModuleContext, frame: Frame) -> None:
        self.context, self.frame, self.profile = context, frame, context.profile
        self.b = Builder()
        self.fast = context.fast_flags
        self.locals: dict[str, tuple[Slot, ...]] = {}
        self._local_arrays: dict[str, str] = {}
        self.types: Mapping[str, Type] = {}
        self.loops: list[tuple[str, str]] = []
        self.leave, self.function = "leave", context.module.entry
        self.proven: frozenset[int] = frozenset()
        self.ahead: dict[int, tuple[str, ...]] = {}
        self.access_note = ""
        self.versions_loops = context.options.opt >= 2
        self.plain = False
        self.scope: tuple[str, int] | None = None
        self.failure: tuple[str, ...] | None = None
        self.failure_label = "raise"

    def open_scope(self, function: ir.Function) -> str:
        """Begin a function, and its line table if the target has one; gives the note of its definition."""
        self.function = function.name
        if not self.profile.line_info:
            return ""
        self.scope = self.context.lines.scope(function)
        self.at(0)
        return f" !dbg {self.scope[0]}"

    def at(self, line: int) -> None:
        """What follows comes from this line, counted from the ``def``."""
        if self.scope is not None:
            self.b.note = self.context.lines.location(self.scope[0], self.scope[1] + line)

    # ---- locals ------------------------------------------------------------------------------

    def declare(self, name: str, t: Type) -> None:
        """Give a local a stack slot for each component."""
        self.locals[name] = tuple(Slot(self.b.slot(c), c, c) for c in components(t))

    def clear(self, name: str) -> None:
        """Give a local a defined start, so that no value seems to come from an earlier thread."""
        for slot in self.locals[name]:
            zero = "null" if slot.memory == "ptr" else "zeroinitializer"
            self.b.emit(f"store {slot.memory} {zero}, ptr {slot.address}")

    def read(self, name: str) -> Value:
        """Value of a local."""
        return tuple(self._read_slot(slot) for slot in self.locals[name])

    def _read_slot(self, slot: Slot) -> str:
        value = self.b.op(f"load {slot.memory}, ptr {slot.address}{slot.note}")
        return value if slot.memory == slot.type else self.b.op(f"trunc {slot.memory} {value} to {slot.type}")

    def write(self, name: str, value: Value) -> None:
        """Assign a local."""
        for slot, part in zip(self.locals[name], value, strict=True):
            if slot.memory != slot.type:
                part = self.b.op(f"zext {slot.type} {part} to {slot.memory}")
            self.b.emit(f"store {slot.memory} {part}, ptr {slot.address}{slot.note}")

    # ---- expressions -------------------------------------------------------------------------

    def value(self, node: ir.Expr) -> Value:
        """Emit an expression."""
        return _EMIT[type(node)](self, node)

    def one(self, node: ir.Expr) -> str:
        """Emit an expression of one component."""
        (part,) = _EMIT[type(node)](self, node)
        return part

    def cast_value(self, source: Scalar, target: Scalar, value: Value) -> Value:
        """Convert a scalar."""
        return cast(self.b, source, target, value, self.profile.native_half)

    def library(self, result: str, name: str, args: tuple[tuple[str, str], ...]) -> str:
        """Call a function of the mathematical library on ``float`` or ``double``."""
        symbol = self.profile.math_function(name, result)
        self.context.declare(f"declare {result} @{symbol}({', '.join(t for t, _ in args)}) nounwind memory(none)")
        return self.b.call(result, symbol, ", ".join(f"{t} {v}" for t, v in args))

    def parts(self, node: ir.Expr) -> A.ArrayParts:
        """Emit an array expression and take it apart."""
        assert isinstance(node.type, ArrayType)
        return A.parts_of(node.type, self.value(node))

    # ---- failures ----------------------------------------------------------------------------

    def fail(self, error: int, details: tuple[str, ...]) -> None:
        """Record a failure and leave; ends the block."""
        first, second, third = (*details, "0", "0", "0")[:3]
        if not self.profile.gathers_failures:
            self.frame.record_failure(self, str(error), (first, second, third))
            self.b.jump(self.leave)
            return
        self.failure = self.failure or (self.failure_label, self.b.slot("i32"), *(self.b.slot("i64") for _ in range(3)))
        label, *slots = self.failure
        for slot, kind, value in zip(slots, ("i32", "i64", "i64", "i64"), (error, first, second, third), strict=True):
            self.b.emit(f"store {kind} {value}, ptr {slot}")
        self.b.jump(label)

    def place_failure(self) -> None:
        """The one place where failures of this function are recorded, if they are gathered; then it leaves."""
        if self.failure is None:
            return
        label, error, *details = self.failure
        self.b.place(label)
        number = self.b.op(f"load i32, ptr {error}")
        first, second, third = (self.b.op(f"load i64, ptr {slot}") for slot in details)
        self.frame.record_failure(self, number, (first, second, third))
        self.b.jump(self.leave)

    def require(self, ok: str, error: int, details: Callable[[], tuple[str, ...]]) -> None:
        """Go on only if the i1 `ok` holds."""
        go, failed = self.b.label("ok"), self.b.label("fail")
        self.b.branch(ok, go, failed, ", !prof !0")
        self.b.place(failed)
        self.fail(error, details())
        self.b.place(go)

    def index(self, node: Any, axis: int, extent: str, index: str, check: int | None, nonnegative: bool) -> str:
        """An index in range and counted from 0; checked unless proven or not asked for."""
        proven = id(node) in self.proven
        known = int_constant(index)
        original = index
        if known is not None:
            if known < 0:
                index = self.b.op(f"add nsw i64 {extent}, {index}")
        elif not nonnegative and not proven:
            wrapped = self.b.op(f"add i64 {index}, {extent}")
            index = self.b.select(self.b.icmp("slt", 64, index, "0"), "i64", wrapped, index)
        if check is None or proven:
            return index
        size = int_constant(extent)
        if known is not None and size is not None and -size <= known < size:
            return index if known >= 0 else str(known + size)
        ok = self.b.icmp("ult", 64, index, extent)
        self.require(ok, check, lambda: (original, str(axis), extent))
        return index

    def address(self, node: Any, nonnegative: bool = False) -> str:
        """Address of ``node.array[node.indices]``, checked."""
        array = self.parts(node.array)
        found = self.ahead.get(id(node)) or tuple(self.one(i) for i in node.indices)
        indices = tuple(
            self.index(node, axis, extent, i, node.check, nonnegative)
            for axis, (extent, i) in enumerate(zip(array.shape, found, strict=True))
        )
        return A.element_address(self.b, array, indices, self.profile.adds_strides)

    def loop_note(self, node: ir.ForRange | ir.While, bounds: tuple[str, str, str] | None) -> str:
        """A note for the jump back of a loop, such as ``, !llvm.loop !n``."""
        return "" if bounds is None or isinstance(node, ir.While) else self.context.loop_note(node, bounds)

    def finish(self, value: Value) -> None:
        """A ``return``: each kind of function has its own."""
        raise NotImplementedError

    def shared_array(self, node: ir.SharedArray) -> Value:
        """One array for each block: the kernel's emitter, or the target's module, knows where."""
        return self.context.shared_array(self, node)

    def local_array(self, node: ir.LocalArray) -> Value:
        """One array for each call, on the stack; the same one wherever the node stands."""
        address = self._local_arrays.get(node.name)
        if address is None:
            size = math.prod(node.shape) * itemsize(node.type.dtype)
            if size > _STACK_ARRAY_BYTES:
                raise UnsupportedError(
                    f"a local.array of {size} bytes in a function that is called; allowed are {_STACK_ARRAY_BYTES}. "
                    "Make it in the kernel, and pass it to the function"
                )
            address = self._local_arrays[node.name] = self.stack_array(node.type, node.shape)
        return (address, *(str(n) for n in node.shape))

    def stack_array(self, t: ArrayType, shape: tuple[int, ...]) -> str:
        """Address of a stack array."""
        count = max(math.prod(shape), 1)
        if isinstance(t.dtype, RecordType) or t.dtype.kind == "c":
            return self.b.slot("i8", 16, count * itemsize(t.dtype))
        return self.b.slot(memory_type(t.dtype), 16, max(count, 2))

    # ---- memory ------------------------------------------------------------------------------

    def alias_note(self, array: ir.Expr, is_load: bool) -> str:
        """What LLVM is told of an access to memory of `array` beside its address: see `aliases`."""
        notes = self.context.aliases
        return "" if notes is None else notes.note(self.function, array, is_load)

    def load(self, t: Scalar, address: str, space: str, align: int = 0, note: str = "") -> Value:
        """Load a scalar from memory."""
        note += self.access_note if space != "local" else ""
        suffix = (f", align {align}" if align else "") + note
        if t.kind == "c":
            f, size = register_type(real_type(t)), t.bits // 16
            second = self.b.op(f"getelementptr inbounds i8, ptr {address}, i64 {size}")
            align_text = f", align {align or size}"
            return tuple(self.b.op(f"load {f}, ptr {a}{align_text}{note}") for a in (address, second))
        if t.kind == "b":
            byte = self.b.op(f"load i8, ptr {address}{note}")
            return (self.b.icmp("ne", 8, byte, "0"),)
        return (self.b.op(f"load {register_type(t)}, ptr {address}{suffix}"),)

    def store(self, t: Scalar, address: str, value: Value, space: str, align: int = 0, note: str = "") -> None:
        """Store a scalar to memory."""
        note += self.access_note if space != "local" else ""
        suffix = (f", align {align}" if align else "") + note
        if t.kind == "c":
            f, size = register_type(real_type(t)), t.bits // 16
            second = self.b.op(f"getelementptr inbounds i8, ptr {address}, i64 {size}")
            for place, part in zip((address, second), value, strict=True):
                self.b.emit(f"store {f} {part}, ptr {place}, align {align or size}{note}")
        elif t.kind == "b":
            self.b.emit(f"store i8 {self.b.op(f'zext i1 {value[0]} to i8')}, ptr {address}{note}")
        else:
            self.b.emit(f"store {register_type(t)} {value[0]}, ptr {address}{suffix}")


# ---- one function a node -----------------------------------------------------------------------


def _const(e: FunctionEmitter, node: ir.Const) -> Value:
    t = node.type
    if not isinstance(t, Scalar):
        return tuple(int_text(int(node.value), 64) for _ in components(t))
    if t.kind == "c":
        f, value = register_type(real_type(t)), complex(node.value)
        return float_text(value.real, f), float_text(value.imag, f)
    if is_small(t):
        return (narrow(e.b, t, Scalar("f", 64), float_text(float(node.value), "double"), False),)
    if t.kind == "f":
        return (float_text(float(node.value), register_type(t)),)
    return (int_text(int(node.value), int_bits(t)),)


def _local(e: FunctionEmitter, node: ir.Local) -> Value:
    return e.read(node.name)


def _unary(e: FunctionEmitter, node: ir.Unary) -> Value:
    value, t = e.value(node.operand), node.operand.type
    assert isinstance(t, Scalar)
    if node.op == "not" or (node.op == "invert" and t.kind == "b"):
        return (e.b.op(f"xor i1 {value[0]}, true"),)
    if node.op == "invert":
        return (e.b.op(f"xor i{t.bits} {value[0]}, -1"),)
    if t.kind == "c":
        return tuple(e.b.op(f"fneg {register_type(real_type(t))} {x}") for x in value)
    if is_small(t):
        return (e.b.op(f"xor i16 {value[0]}, -32768"),)
    if t.kind == "f":
        return (e.b.op(f"fneg {register_type(t)} {value[0]}"),)
    return (e.b.op(f"sub i{int_bits(t)} 0, {value[0]}"),)


def _binary(e: FunctionEmitter, node: ir.Binary) -> Value:
    spine = [node]
    while isinstance(spine[-1].left, ir.Binary):
        spine.append(spine[-1].left)
    left = e.value(spine[-1].left)
    for item in reversed(spine):
        left = _apply(e, item.op, item.type, left, e.value(item.right))
    return left


def _apply(e: FunctionEmitter, op: str, t: Type, left: Value, right: Value) -> Value:
    assert isinstance(t, Scalar)
    if t.kind == "c":
        return complex_power(e, t, left, right) if op == "pow" else complex_binary(e.b, op, t, left, right, e.fast)
    if is_small(t):
        (x, wide), (y, _) = (widen(e.b, t, v[0], e.profile.native_half) for v in (left, right))
        result = float_binary(e.b, op, wide, x, y, e.fast)
        return (narrow(e.b, t, wide, result, e.profile.native_half),)
    if t.kind == "f":
        return (float_binary(e.b, op, t, left[0], right[0], e.fast),)
    return (int_binary(e.b, op, t, left[0], right[0]),)


def _compare(e: FunctionEmitter, node: ir.Compare) -> Value:
    left, right = e.value(node.left), e.value(node.right)
    t = node.left.type
    if not isinstance(t, Scalar):
        return (_same_words(e, node, left, right),)
    op = {"is": "eq", "is not": "ne"}.get(node.op, node.op)
    if t.kind == "c":
        return (complex_compare(e.b, op, t, left, right),)
    if t.kind in "fe":
        (x, wide), (y, _) = (widen(e.b, t, v[0], e.profile.native_half) for v in (left, right))
        return (float_compare(e.b, op, register_type(wide), x, y),)
    assert isinstance(node.right.type, Scalar)
    return (int_compare(e.b, op, t, node.right.type, left[0], right[0]),)


def _same_words(e: FunctionEmitter, node: ir.Compare, left: Value, right: Value) -> str:
    """Identity: the first word names the object."""
    if not left or not right:
        return "true" if node.op in ("is", "eq") else "false"
    return e.b.icmp("eq" if node.op in ("is", "eq") else "ne", 64, left[0], right[0])


def _is_cheap(node: ir.Expr, depth: int = 3) -> bool:
    """Whether evaluating in vain costs nothing and cannot fail."""
    if isinstance(node, ir.Const | ir.Local):
        return True
    if depth == 0:
        return False
    if isinstance(node, ir.Binary):
        plain = node.op not in ("floordiv", "mod", "pow", "truediv")
        return plain and _is_cheap(node.left, depth - 1) and _is_cheap(node.right, depth - 1)
    if isinstance(node, ir.Compare):
        return _is_cheap(node.left, depth - 1) and _is_cheap(node.right, depth - 1)
    return isinstance(node, ir.Unary | ir.Cast) and _is_cheap(node.operand, depth - 1)


def _if_expression(e: FunctionEmitter, node: ir.IfExp) -> Value:
    kinds, b = components(node.type), e.b
    done, arms = b.label("if.done"), []
    step: ir.Expr = node
    while isinstance(step, ir.IfExp):
        test = e.one(step.test)
        if _is_cheap(step.then) and _is_cheap(step.orelse):
            then, orelse = e.value(step.then), e.value(step.orelse)
            value = tuple(b.select(test, k, x, y) for k, x, y in zip(kinds, then, orelse, strict=True))
            break
        yes, no = b.label("if.then"), b.label("if.else")
        b.branch(test, yes, no)
        b.place(yes)
        chosen = e.value(step.then)
        arms.append((chosen, b.current))
        b.jump(done)
        b.place(no)
        step = step.orelse
    else:
        value = e.value(step)
    if not arms:
        return value
    arms.append((value, b.current))
    b.jump(done)
    b.place(done)
    return tuple(b.phi(k, [(v[n], block) for v, block in arms]) for n, k in enumerate(kinds))


def _cast(e: FunctionEmitter, node: ir.Cast) -> Value:
    source = node.operand.type
    if not isinstance(source, Scalar):  # an identity word as an integer
        return e.cast_value(Scalar("u", 64), node.type, e.value(node.operand)[:1])
    return e.cast_value(source, node.type, e.value(node.operand))


def _call(e: FunctionEmitter, node: ir.Call) -> Value:
    args = tuple(part for a in node.args for part in e.value(a))
    return e.context.call(e, node.function, args)


def _intrinsic(e: FunctionEmitter, node: ir.Intrinsic) -> Value:
    args = tuple(e.value(a) for a in node.args)
    return e.context.intrinsic(e, node, args)


def _slot_word(e: FunctionEmitter, node: ir.SlotWord) -> Value:
    return (e.context.slot_word(e, node.slot, node.index),)


def _table_word(e: FunctionEmitter, node: ir.TableWord) -> Value:
    table = e.frame.table(e)
    place = e.b.op(f"getelementptr inbounds i64, ptr {table}, i64 {node.index}")
    return (e.b.op(f"load i64, ptr {place}, !invariant.load !1"),)


def _ref_word(e: FunctionEmitter, node: ir.RefWord) -> Value:
    words = tuple(e.one(w) for w in node.words)
    t = node.type
    if not isinstance(t, Scalar):
        return words[: len(components(t))]
    (word,) = words[:1]
    if t.kind == "c":
        half = e.b.op(f"trunc i64 {word} to i32"), e.b.op(f"trunc i64 {e.b.op(f'lshr i64 {word}, 32')} to i32")
        return tuple(e.b.op(f"bitcast i32 {h} to float") for h in half)
    if t.kind == "b":
        return (e.b.icmp("ne", 8, e.b.op(f"trunc i64 {word} to i8"), "0"),)
    bits = word if t.bits == 64 else e.b.op(f"trunc i64 {word} to i{t.bits}")
    kind = register_type(t)
    return (bits if kind == f"i{t.bits}" else e.b.op(f"bitcast i{t.bits} {bits} to {kind}"),)


def _array_of(e: FunctionEmitter, node: ir.ArrayOf) -> Value:
    address = e.one(node.address)
    if components(node.address.type) != ("ptr",):
        space = e.profile.slot_space
        address = e.b.op(f"inttoptr i64 {address} to ptr {space}".rstrip())
        if space:
            address = e.b.op(f"addrspacecast ptr {space}{address} to ptr")
    shape, strides = tuple(e.one(s) for s in node.shape), tuple(e.one(s) for s in node.strides)
    if isinstance(node.type, RecordRefType):
        return (address,)
    return A.value_of(e.b, node.type, address, shape, strides)


def _element(e: FunctionEmitter, node: ir.Element) -> Value:
    address = e.address(node, node.nonnegative)
    if isinstance(node.type, RecordRefType):
        return (address,)
    assert isinstance(node.array.type, ArrayType)
    assert isinstance(node.type, Scalar)
    t = node.array.type
    return e.load(node.type, address, t.space, t.align, e.alias_note(node.array, True))


def _field_ref(e: FunctionEmitter, node: ir.FieldRef) -> Value:
    t = node.value.type
    if not isinstance(t, RecordRefType):
        value = e.value(node.value)
        return value[item_slice(t, t.names.index(node.name))]  # type: ignore[union-attr,arg-type]
    field = next(f for f in t.record.fields if f.name == node.name)
    address = e.b.op(f"getelementptr inbounds i8, ptr {e.one(node.value)}, i64 {field.offset}")
    if isinstance(node.type, ArrayType):
        shape = tuple(str(n) for n in field.shape)
        assert isinstance(field.type, Scalar | RecordType)
        parts = A.ArrayParts(ArrayType(field.type, len(shape), "C"), address, shape, None)
        return A.value_of(e.b, node.type, address, shape, () if node.type.layout == "C" else A.byte_strides(e.b, parts))
    if isinstance(node.type, RecordRefType):
        return (address,)
    assert isinstance(node.type, Scalar)
    note = e.alias_note(node.value, True)
    return e.load(node.type, address, t.space, field_align(t.record, t.align, field), note)


def _view(e: FunctionEmitter, node: ir.View) -> Value:
    array = e.parts(node.array)
    strides = A.byte_strides(e.b, array) if node.type.layout != "C" or node.items or node.transpose else ()
    address, shape = array.address, list(array.shape)
    if node.transpose is not None:
        shape = [array.shape[k] for k in node.transpose]
        return A.value_of(e.b, node.type, address, tuple(shape), tuple(strides[k] for k in node.transpose))
    if node.field is not None and isinstance(array.type.dtype, Scalar):
        return _complex_part_view(e, node, array)
    if node.field is not None:
        return _field_view(e, node, array)
    shape, kept, axis = [], [], 0
    for item in node.items:
        if isinstance(item, ir.NewAxis):
            shape.append("1")
            kept.append(str(itemsize(node.type.dtype)))
            continue
        extent, stride = array.shape[axis], strides[axis]
        if isinstance(item, ir.SliceAxis):
            ends = (None if x is None else e.one(x) for x in (item.start, item.stop, item.step))
            first, length, step = A.slice_axis(e.b, extent, *ends)
            shape.append(length)
            kept.append(A.product(e.b, stride, step))
        else:
            first = e.index(node, axis, extent, e.one(item), node.check, False)
        if first != "0":
            address = e.b.op(f"getelementptr i8, ptr {address}, i64 {A.product(e.b, stride, first)}")
        axis += 1
    shape.extend(array.shape[axis:])
    kept.extend(strides[axis:])
    return A.value_of(e.b, node.type, address, tuple(shape), tuple(kept))


def _field_view(e: FunctionEmitter, node: ir.View, array: A.ArrayParts) -> Value:
    assert isinstance(array.type.dtype, RecordType)
    field = next(f for f in array.type.dtype.fields if f.name == node.field)
    address = e.b.op(f"getelementptr inbounds i8, ptr {array.address}, i64 {field.offset}")
    inner = tuple(str(n) for n in field.shape)
    assert isinstance(field.type, Scalar | RecordType)
    parts = A.ArrayParts(ArrayType(field.type, len(inner), "C"), address, inner, None)
    strides = (*A.byte_strides(e.b, array), *A.byte_strides(e.b, parts))
    return A.value_of(e.b, node.type, address, (*array.shape, *inner), strides)


def _complex_part_view(e: FunctionEmitter, node: ir.View, array: A.ArrayParts) -> Value:
    """``real`` or ``imag`` of an array of complex numbers: the same places, from its own half of each on."""
    address = array.address
    if node.field == "imag":
        address = e.b.op(f"getelementptr inbounds i8, ptr {address}, i64 {itemsize(node.type.dtype)}")
    return A.value_of(e.b, node.type, address, array.shape, A.byte_strides(e.b, array))


def _extent(e: FunctionEmitter, node: ir.Extent) -> Value:
    return (e.parts(node.array).shape[node.axis],)


def _stride(e: FunctionEmitter, node: ir.Stride) -> Value:
    return (A.byte_strides(e.b, e.parts(node.array))[node.axis],)


def _get_item(e: FunctionEmitter, node: ir.GetItem) -> Value:
    if isinstance(node.value, ir.MakeTuple) and all(isinstance(i, ir.Local | ir.Const) for i in node.value.items):
        return e.value(node.value.items[node.index])
    return e.value(node.value)[item_slice(node.value.type, node.index)]  # type: ignore[arg-type]


def _shared_array(e: FunctionEmitter, node: ir.SharedArray) -> Value:
    return e.shared_array(node)


def _local_array(e: FunctionEmitter, node: ir.LocalArray) -> Value:
    return e.local_array(node)


def _atomic(e: FunctionEmitter, node: ir.Atomic) -> Value:
    return e.context.atomic(e, node)


_EMIT: dict[type, Callable[[FunctionEmitter, Any], Value]] = {
    ir.Const: _const, ir.Local: _local, ir.Unary: _unary, ir.Binary: _binary, ir.Compare: _compare,
    ir.IfExp: _if_expression, ir.Cast: _cast, ir.Call: _call, ir.Intrinsic: _intrinsic, ir.SlotWord: _slot_word,
    ir.TableWord: _table_word, ir.RefWord: _ref_word, ir.ArrayOf: _array_of, ir.Element: _element,
    ir.FieldRef: _field_ref, ir.View: _view, ir.Extent: _extent, ir.Stride: _stride, ir.MakeTuple: make_tuple,
    ir.GetItem: _get_item, ir.TypeOf: type_of, ir.SharedArray: _shared_array, ir.LocalArray: _local_array,
    ir.Atomic: _atomic,
}  # fmt: skip
