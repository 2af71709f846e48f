"""Values of device types as tuples of operands: what is the same in LLVM IR and in Metal's language.

A value of any type is a tuple of operands (texts), one for each *component*.  How a scalar, an address and a word are
written is the language's (`sterna.compiler.codegen.llvm.layout`, `sterna.compiler.codegen.msl.layout`); how they make
up arrays, records, tuples and objects is said here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sterna.compiler.ir import nodes as ir
from sterna.errors import UnsupportedError
from sterna.frozen import frozen
from sterna.types import (
    OPAQUE,
    TYPE_TAG,
    ArrayType,
    RecordRefType,
    Scalar,
    StructType,
    TupleType,
    Type,
    itemsize,
)  # fmt: skip

__all__ = ["ArrayParts", "Value", "c_strides", "components_of", "make_tuple", "parts_of", "slice_of", "type_of"]

Value = tuple[str, ...]


def components_of(
    t: Type,
    scalar: Callable[[Scalar], tuple[str, ...]],
    pointer: Callable[[ArrayType | RecordRefType], str],
    word: str,
) -> tuple[str, ...]:
    """Types of the components of a value of type `t`.

    Parameters
    ----------
    t : Type
        Of the value.
    scalar, pointer : callable
        Types of a scalar's components, and of the address of an array or record.
    word : str
        Type of 64 bits: extents and strides, the words of objects and type tags.
    """
    if isinstance(t, Scalar):
        return scalar(t)
    if isinstance(t, ArrayType):
        return (pointer(t),) + (word,) * (t.ndim * (1 if t.layout == "C" else 2))
    if isinstance(t, RecordRefType):
        return (pointer(t),)
    if isinstance(t, TupleType | StructType):
        return tuple(c for item in t.items for c in components_of(item, scalar, pointer, word))
    if t == OPAQUE:
        return (word, word)
    return (word,) if t == TYPE_TAG else ()


def slice_of(t: TupleType | StructType, index: int, components: Callable[[Type], tuple[str, ...]]) -> slice:
    """Where the components of item `index` lie among those of the tuple."""
    start = sum(len(components(item)) for item in t.items[:index])
    return slice(start, start + len(components(t.items[index])))


# ---- arrays --------------------------------------------------------------------------------------


@frozen
class ArrayParts:
    """An array value taken apart; `strides` is None for a C-ordered array whose strides nobody needs yet."""

    type: ArrayType
    address: str
    shape: tuple[str, ...]
    strides: tuple[str, ...] | None


def parts_of(t: ArrayType, value: Value, number: Callable[[int], str]) -> ArrayParts:
    """Take an array value apart; `number` writes a 64-bit constant."""
    n = t.ndim
    strides = None if t.layout == "C" else value[1 + n :]
    if strides and t.layout == "F":
        strides = (number(itemsize(t.dtype)), *strides[1:])
    return ArrayParts(t, value[0], value[1 : 1 + n], strides)


def c_strides(parts: ArrayParts, number: Callable[[int], str], product: Callable[[str, str], str]) -> tuple[str, ...]:
    """Byte strides of an array, computed from the extents for a C-ordered one."""
    if parts.strides is not None:
        return parts.strides
    stride, result = number(itemsize(parts.type.dtype)), []
    for extent in reversed(parts.shape):
        result.append(stride)
        stride = product(stride, extent)
    return tuple(reversed(result))


# ---- expressions ---------------------------------------------------------------------------------


class Emitter(Protocol):
    """What writes the operands of an expression."""

    def value(self, node: Any) -> Value:
        """The operands of an expression."""
        ...


def make_tuple(e: Emitter, node: ir.MakeTuple) -> Value:
    """The operands of all items."""
    return tuple(part for item in node.items for part in e.value(item))


def type_of(e: Emitter, node: ir.TypeOf) -> Value:
    """The word of an object's class."""
    if node.value.type != OPAQUE:
        raise UnsupportedError(f"type() of a value of type {node.value.type} at run time")
    return e.value(node.value)[1:]
