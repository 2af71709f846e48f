"""How values of device types are held: as flat lists of LLVM scalars.

A value of any type is a tuple of operands, one for each *component*:

========== =======================================================================
scalar     itself; a bool is an ``i1``; float16 and bfloat16 their bits (``i16``);
           a complex number its real and imaginary parts
array      address (``ptr``), extents (``i64``), then byte strides unless C-ordered
record     address (``ptr``)
tuple      the components of its items; named tuples and dataclasses likewise
object     two words; a type tag one word
none       nothing; a literal string likewise
========== =======================================================================
"""

from __future__ import annotations

from functools import lru_cache

from sterna.compiler.codegen.values import Value, components_of, slice_of
from sterna.types import Scalar, StructType, TupleType, Type

__all__ = ["Value", "components", "int_bits", "is_float", "item_slice", "memory_type", "real_type", "register_type"]


def register_type(t: Scalar) -> str:
    """LLVM type of a scalar in a register; of one part of a complex number."""
    if t.kind == "b":
        return "i1"
    if t.kind == "c":
        return "float" if t.bits == 64 else "double"
    if t.kind == "f" and t.bits != 16:
        return "float" if t.bits == 32 else "double"
    return f"i{t.bits}"


def memory_type(t: Scalar) -> str:
    """LLVM type of a scalar in memory: as in a register, but a bool is a byte."""
    return "i8" if t.kind == "b" else register_type(t)


def real_type(t: Scalar) -> Scalar:
    """The float type of a complex type's parts."""
    return Scalar("f", t.bits // 2, t.weak)


def is_float(t: Type) -> bool:
    """True for IEEE floats and bfloat16."""
    return isinstance(t, Scalar) and t.kind in "fe"


def int_bits(t: Scalar) -> int:
    """Register width of an integer or bool."""
    return 1 if t.kind == "b" else t.bits


@lru_cache(maxsize=4096)
def components(t: Type) -> tuple[str, ...]:
    """LLVM types of the components of a value of type `t`."""
    return components_of(t, _of_scalar, lambda _: "ptr", "i64")


def _of_scalar(t: Scalar) -> tuple[str, ...]:
    return (register_type(t),) * (2 if t.kind == "c" else 1)


def item_slice(t: TupleType | StructType, index: int) -> slice:
    """Where the components of item `index` lie among those of the tuple."""
    return slice_of(t, index, components)
