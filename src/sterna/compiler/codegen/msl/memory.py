"""Arrays in memory: places of elements, bounds checks, loads and stores, views with Python's slice rules.

Addresses are pointers to bytes in the array's address space; a place is read as its element's type.  Elements that may
lie at any address (packed records) are read and written byte by byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sterna.compiler.codegen import values
from sterna.compiler.codegen.msl.code import bare, call
from sterna.compiler.codegen.msl.layout import (
    SPACES,
    Value,
    long_literal,
    memory_type,
    native,
    register_type,
    unsigned_type,
)
from sterna.compiler.codegen.values import ArrayParts, c_strides
from sterna.compiler.ir import nodes as ir
from sterna.types import ArrayType, RecordType, Scalar, field_align, itemsize

if TYPE_CHECKING:
    from sterna.compiler.codegen.msl.emitter import FunctionEmitter

__all__ = ["ArrayParts", "byte_strides", "element_place", "load", "offset", "parts_of", "store", "view"]


def byte_strides(array: ArrayParts) -> tuple[str, ...]:
    """Byte strides, computed from the extents for a C-ordered array."""
    return c_strides(array, long_literal, _product)


def _number(text: str) -> int | None:
    return int(text[:-1]) if text.endswith("L") and text[:-1].lstrip("-").isdigit() else None


def _product(left: str, right: str) -> str:
    x, y = _number(left), _number(right)
    if x is not None and y is not None:
        return long_literal(x * y)
    if x == 1:
        return right
    return left if y == 1 else f"({left} * {right})"


def parts_of(t: ArrayType, value: Value) -> ArrayParts:
    """Take an array value apart."""
    return values.parts_of(t, value, long_literal)


def _value_of(t: ArrayType, address: str, shape: Value, strides: Value) -> Value:
    return (address, *shape) if t.layout == "C" else (address, *shape, *strides)


def offset(address: str, *terms: str) -> str:
    """An address some bytes further on."""
    terms = tuple(t for t in terms if t != "0L")
    return f"({' + '.join([address, *terms])})" if terms else address


# ---- elements ------------------------------------------------------------------------------------


def index(e: FunctionEmitter, axis: int, extent: str, text: str, check: int | None, nonnegative: bool) -> str:
    """An index counted from 0, checked if asked for."""
    known, size = _number(text), _number(extent)
    original = text
    if known is not None and known < 0:
        text = f"({extent} + {text})"
    elif known is None and not nonnegative:
        original = e.code.atom("long", text)
        text = e.helper("from_start", original, extent)
    if check is None:
        return text
    if known is not None and size is not None and -size <= known < size:
        return long_literal(known + size if known < 0 else known)
    text = e.code.atom("long", text)
    original = text if nonnegative and known is None else original
    with e.code.block(f"if (ulong({text}) >= ulong({extent}))"):
        e.fail(check, (original, long_literal(axis), extent))
    return text


def element_place(e: FunctionEmitter, node: Any, nonnegative: bool = False) -> str:
    """Address of ``node.array[node.indices]``, checked."""
    array = e.parts(node.array)
    texts = [e.one(i) for i in node.indices]
    indices = [
        index(e, axis, extent, text, node.check, nonnegative)
        for axis, (extent, text) in enumerate(zip(array.shape, texts, strict=True))
    ]
    if array.strides is not None:
        return offset(array.address, *(_product(s, i) for s, i in zip(array.strides, indices, strict=True)))
    if not indices:
        return array.address
    linear = indices[0]
    for extent, following in zip(array.shape[1:], indices[1:], strict=True):
        linear = f"({linear} * {extent} + {bare(following)})"
    return offset(array.address, _product(long_literal(itemsize(array.type.dtype)), linear))


def _is_packed(t: Scalar, align: int) -> bool:
    return 0 < align < (t.bits // 8 if t.kind != "c" else t.bits // 16)


def load(e: FunctionEmitter, t: Scalar, place: str, space: str, align: int = 0) -> str:
    """Load a scalar."""
    where, kind = SPACES[space], register_type(t)
    if native(t).kind == "c":
        place = e.code.atom(f"{where} uchar *", place)
        half = Scalar("f", 32)
        parts = [load(e, half, offset(place, long_literal(4 * k)), space, align) for k in range(2)]
        return e.code.temp(kind, call("float2", *parts))
    if _is_packed(t, align):
        word = e.helper("gather_bytes", place, f"{t.bits // 8}u")
        if t.kind not in "iu":
            word = f"as_type<{kind}>({unsigned_type(t)}({word}))"
        return e.code.temp(kind, word if t.kind not in "iu" else call(kind, word))
    text = f"*({where} {memory_type(t)} *){place}" if memory_type(t) != "uchar" else f"*{place}"
    return e.code.temp(kind, f"({text} != 0)" if t.kind == "b" else text)


def store(e: FunctionEmitter, t: Scalar, place: str, text: str, space: str, align: int = 0) -> None:
    """Store a scalar."""
    where = SPACES[space]
    if native(t).kind == "c":
        place, text = e.code.atom(f"{where} uchar *", place), e.code.atom("float2", text)
        for k, part in enumerate("xy"):
            store(e, Scalar("f", 32), offset(place, long_literal(4 * k)), f"{text}.{part}", space, align)
    elif _is_packed(t, align):
        word = text if t.kind in "iu" else f"as_type<{unsigned_type(t)}>({bare(text)})"
        e.code.emit(f"{e.helper('scatter_bytes', place, f'{t.bits // 8}u', call('ulong', word))};")
    elif memory_type(t) == "uchar":
        e.code.emit(f"*{place} = {call('uchar', text) if t.kind == 'b' else bare(text)};")
    else:
        e.code.emit(f"*({where} {memory_type(t)} *){place} = {bare(text)};")


# ---- views ---------------------------------------------------------------------------------------


def view(e: FunctionEmitter, node: ir.View) -> Value:
    """A view: other extents, strides and start of the same memory."""
    array = e.parts(node.array)
    strides = byte_strides(array) if node.type.layout != "C" or node.items or node.transpose else ()
    if node.transpose is not None:
        shape = tuple(array.shape[k] for k in node.transpose)
        return _value_of(node.type, array.address, shape, tuple(strides[k] for k in node.transpose))
    if node.field is not None:
        return _field_view(node, array)
    pointer = f"{SPACES[array.type.space]} uchar *"
    extents: list[str] = []
    kept: list[str] = []
    terms: list[str] = []
    axis = 0
    for item in node.items:
        if isinstance(item, ir.NewAxis):
            extents.append("1L")
            kept.append(long_literal(itemsize(node.type.dtype)))
            continue
        extent, stride = array.shape[axis], strides[axis]
        if isinstance(item, ir.SliceAxis):
            first, length, step = _slice(e, extent, item)
            extents.append(length)
            kept.append(_product(stride, step))
        else:
            first = index(e, axis, extent, e.one(item), node.check, False)
        if first != "0L":
            terms.append(_product(stride, first))
        axis += 1
    extents.extend(array.shape[axis:])
    kept.extend(strides[axis:])
    address = e.code.short(pointer, offset(array.address, *terms))
    return _value_of(
        node.type, address, tuple(e.code.atom("long", s) for s in extents), tuple(e.code.atom("long", s) for s in kept)
    )


def _slice(e: FunctionEmitter, extent: str, item: ir.SliceAxis) -> tuple[str, str, str]:
    """Start, length and step of ``start:stop:step``, as CPython's PySlice_AdjustIndices has them."""
    start, stop, step = (None if x is None else e.one(x) for x in (item.start, item.stop, item.step))
    step = e.code.atom("long", step or "1L")
    known = _number(step)
    if start is None and stop is None and known == 1:
        return "0L", extent, step

    def end(if_down: str, if_up: str) -> str:
        if known is not None:
            return if_down if known < 0 else if_up
        return f"({step} < 0 ? {if_down} : {if_up})"

    first = end(f"({extent} - 1L)", "0L") if start is None else e.helper("slice_bound", start, extent, step)
    last = end("-1L", extent) if stop is None else e.helper("slice_bound", stop, extent, step)
    first = first if _number(first) is not None else e.code.temp("long", first)
    return first, e.code.temp("long", e.helper("slice_length", first, last, step)), step


def _field_view(node: ir.View, array: ArrayParts) -> Value:
    """A field of a structured array, or ``real`` or ``imag`` of a complex one."""
    dtype = array.type.dtype
    if isinstance(dtype, Scalar):
        start = long_literal(itemsize(node.type.dtype) if node.field == "imag" else 0)
        return _value_of(node.type, offset(array.address, start), array.shape, byte_strides(array))
    field = next(f for f in dtype.fields if f.name == node.field)
    assert isinstance(field.type, Scalar | RecordType)
    inner = tuple(map(long_literal, field.shape))
    parts = ArrayParts(ArrayType(field.type, len(inner), "C"), array.address, inner, None)
    strides = (*byte_strides(array), *byte_strides(parts))
    return _value_of(node.type, offset(array.address, long_literal(field.offset)), (*array.shape, *inner), strides)


# ---- records -------------------------------------------------------------------------------------


def field_value(e: FunctionEmitter, node: ir.FieldRef, record: Any, address: str) -> Value:
    """A field of a record in memory: a number is loaded, a record or an array is a place again."""
    field = next(f for f in record.record.fields if f.name == node.name)
    place = offset(address, long_literal(field.offset))
    if isinstance(node.type, ArrayType):
        shape = tuple(map(long_literal, field.shape))
        parts = ArrayParts(ArrayType(field.type, len(shape), "C"), place, shape, None)
        return _value_of(node.type, place, shape, () if node.type.layout == "C" else byte_strides(parts))
    if not isinstance(node.type, Scalar):
        return (place,)
    return (load(e, node.type, place, record.space, field_align(record.record, record.align, field)),)
