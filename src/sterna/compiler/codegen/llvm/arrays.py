"""Arrays: addresses of elements, bounds checks, views with Python's slice rules.

An array value is (address, extents, byte strides unless C-ordered); see `layout`.
"""

from __future__ import annotations

from sterna.compiler.codegen import values
from sterna.compiler.codegen.llvm.builder import Builder
from sterna.compiler.codegen.llvm.integers import int_constant
from sterna.compiler.codegen.llvm.layout import Value, memory_type
from sterna.compiler.codegen.values import ArrayParts, c_strides
from sterna.types import ArrayType, RecordType, Scalar, itemsize

__all__ = ["ArrayParts", "byte_strides", "element_address", "parts_of", "slice_axis", "value_of"]


def byte_strides(b: Builder, array: ArrayParts) -> tuple[str, ...]:
    """Byte strides, computed from the extents for a C-ordered array."""
    return c_strides(array, str, lambda left, right: product(b, left, right))


def product(b: Builder, left: str, right: str) -> str:
    """Product of two int64, folded when both are known."""
    x, y = int_constant(left), int_constant(right)
    if x is not None and y is not None:
        return str(x * y)
    if x == 1:
        return right
    if y == 1:
        return left
    return b.op(f"mul i64 {left}, {right}")


def parts_of(t: ArrayType, value: Value) -> ArrayParts:
    """Take an array value apart."""
    return values.parts_of(t, value, str)


def value_of(b: Builder, t: ArrayType, address: str, shape: Value, strides: Value) -> Value:
    """An array value of type `t`."""
    return (address, *shape) if t.layout == "C" else (address, *shape, *strides)


def element_address(b: Builder, array: ArrayParts, indices: tuple[str, ...], by_strides: bool = False) -> str:
    """Address of an element whose indices are in range and non-negative.

    `by_strides` adds up index times stride for a C-ordered array too, whose products are then shared by all accesses.
    """
    if not indices:
        return array.address
    t = array.type
    kind = memory_type(t.dtype) if isinstance(t.dtype, Scalar) and t.dtype.kind != "c" else ""
    if array.strides is None:
        linear = _sum_of_strides(b, array, indices) if by_strides else indices[0]
        for extent, index in () if by_strides else zip(array.shape[1:], indices[1:], strict=True):
            linear = b.op(f"add nuw nsw i64 {b.op(f'mul nuw nsw i64 {linear}, {extent}')}, {index}")
        if not kind:
            kind = f"[{itemsize(t.dtype)} x i8]"
        return b.op(f"getelementptr inbounds {kind}, ptr {array.address}, i64 {linear}")
    address = array.address
    for stride, index in zip(array.strides, indices, strict=True):
        if kind and int_constant(stride) == itemsize(t.dtype):
            address = b.op(f"getelementptr inbounds {kind}, ptr {address}, i64 {index}")
        else:
            address = b.op(f"getelementptr i8, ptr {address}, i64 {b.op(f'mul i64 {stride}, {index}')}")
    return address


def _sum_of_strides(b: Builder, array: ArrayParts, indices: tuple[str, ...]) -> str:
    linear, stride = indices[-1], array.shape[-1]
    for axis in range(len(indices) - 2, -1, -1):
        linear = b.op(f"add nuw nsw i64 {linear}, {b.op(f'mul nuw nsw i64 {indices[axis]}, {stride}')}")
        if axis:
            stride = product(b, stride, array.shape[axis])
    return linear


def slice_axis(b: Builder, extent: str, start: str | None, stop: str | None, step: str | None) -> tuple[str, str, str]:
    """Start, length and step of ``start:stop:step`` on an axis, as CPython's PySlice_AdjustIndices has them."""
    step = step or "1"
    known = int_constant(step)
    if start is None and stop is None and known == 1:
        return "0", extent, step
    down = None if known is not None else b.icmp("slt", 64, step, "0")
    last = b.op(f"add i64 {extent}, -1")

    def choose(if_down: str, if_up: str) -> str:
        if known is not None:
            return if_down if known < 0 else if_up
        return b.select(str(down), "i64", if_down, if_up)

    def clamp(index: str) -> str:
        wrapped = b.op(f"add i64 {index}, {extent}")
        index = b.select(b.icmp("slt", 64, index, "0"), "i64", wrapped, index)
        low = b.call("i64", "llvm.smax.i64", f"i64 {index}, i64 {choose('-1', '0')}")
        return b.call("i64", "llvm.smin.i64", f"i64 {low}, i64 {choose(last, extent)}")

    first = choose(last, "0") if start is None else clamp(start)
    end = choose("-1", extent) if stop is None else clamp(stop)
    return first, _slice_length(b, first, end, step, known, down), step


def _slice_length(b: Builder, first: str, end: str, step: str, known: int | None, down: str | None) -> str:
    if known is None:
        span = b.select(str(down), "i64", b.op(f"sub i64 {first}, {end}"), b.op(f"sub i64 {end}, {first}"))
        size = b.select(str(down), "i64", b.op(f"sub i64 0, {step}"), step)
        size = b.call("i64", "llvm.umax.i64", f"i64 {size}, i64 1")
    else:
        span = b.op(f"sub i64 {first}, {end}" if known < 0 else f"sub i64 {end}, {first}")
        size = str(abs(known))
    span = b.call("i64", "llvm.smax.i64", f"i64 {span}, i64 0")
    if size == "1":
        return span
    turns = b.op(f"udiv i64 {b.op(f'add i64 {span}, -1')}, {size}")
    return b.select(b.icmp("eq", 64, span, "0"), "i64", "0", b.op(f"add i64 {turns}, 1"))


def record_field(record: RecordType, name: str) -> tuple[int, int]:
    """Offset of a field and its position among the fields."""
    for number, field in enumerate(record.fields):
        if field.name == name:
            return field.offset, number
    raise KeyError(name)
