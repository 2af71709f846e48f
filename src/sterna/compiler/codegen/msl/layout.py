"""How values of device types are written in Metal: types, components, literals.

A value of any type is a tuple of operands (texts), one for each *component*:

========== =======================================================================================
scalar     itself; a complex number is a ``float2``, a bfloat16 its bits (``ushort``)
array      address (a pointer to bytes in its address space), extents (``long``), then byte strides unless C-ordered
record     address
tuple      the components of its items; named tuples and dataclasses likewise
object     two words (``long``); a type tag one word
none       nothing; a literal string likewise
========== =======================================================================================

Metal has no float64.  A Python number (weak ``float``, ``complex``) is computed in float32 (complex64) there; the types
float64 and complex128 are refused.
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache

import numpy as np

from sterna.compiler.codegen.values import Value, components_of, slice_of
from sterna.errors import UnsupportedError
from sterna.types import COMPLEX64, FLOAT32, ArrayType, RecordRefType, Scalar, StructType, TupleType, Type

__all__ = [
    "SPACES", "Value", "components", "item_slice", "literal", "long_literal", "memory_type", "native", "pointer_type",
    "register_type", "unsigned_type",
]  # fmt: skip

SPACES = {"global": "device", "shared": "threadgroup", "local": "thread"}
"""Memory space of an array type → Metal's address space."""

_INTEGERS = {8: "char", 16: "short", 32: "int", 64: "long"}
_NARROWER = {"float64": "float32", "complex128": "complex64"}


def native(t: Scalar) -> Scalar:
    """The type a number is computed in: that of Python's floats is float32.

    Raises
    ------
    UnsupportedError
        For float64 and complex128, naming what to use instead.
    """
    if t.kind in "fc" and t.bits == (64 if t.kind == "f" else 128):
        if t.weak:
            return FLOAT32 if t.kind == "f" else COMPLEX64
        narrower = _NARROWER[str(t)]
        raise UnsupportedError(
            f"{t} is not available on target metal",
            hint=f"compute in {narrower}: convert with np.{narrower}(…) and pass arrays of {narrower}; Python's own "
            "floats are float32 there",
        )
    return t


def register_type(t: Scalar) -> str:
    """Type of a variable that holds a scalar."""
    t = native(t)
    if t.kind == "b":
        return "bool"
    if t.kind == "c":
        return "float2"
    if t.kind == "e":
        return "ushort"
    if t.kind == "f":
        return "half" if t.bits == 16 else "float"
    return ("u" if t.kind == "u" else "") + _INTEGERS[t.bits]


def memory_type(t: Scalar) -> str:
    """Type of a scalar in memory: as in a variable, but a bool is a byte."""
    return "uchar" if t.kind == "b" else register_type(t)


def unsigned_type(t: Scalar) -> str:
    """The unsigned integer type of the same width."""
    return "u" + _INTEGERS[t.bits]


def pointer_type(t: ArrayType | RecordRefType) -> str:
    """Type of the address of an array or a record: a pointer to bytes."""
    return f"{SPACES[t.space]} uchar *"


@lru_cache(maxsize=4096)
def components(t: Type) -> tuple[str, ...]:
    """Types of the components of a value of type `t`."""
    return components_of(t, lambda scalar: (register_type(scalar),), pointer_type, "long")


def item_slice(t: TupleType | StructType, index: int) -> slice:
    """Where the components of item `index` lie among those of the tuple."""
    return slice_of(t, index, components)


# ---- literals ------------------------------------------------------------------------------------


def long_literal(value: int) -> str:
    """An integer of 64 bits, wrapped to the signed range."""
    value &= 2**64 - 1
    value = value - 2**64 if value >> 63 else value
    return f"{value}L" if value != -(2**63) else "(-9223372036854775807L - 1L)"


def literal(value: object, t: Scalar) -> str:
    """A constant of type `t`; it has exactly the type of a variable that holds one."""
    t = native(t)
    if t.kind == "c":
        number = complex(value)  # type: ignore[call-overload]
        return f"float2({_float_literal(number.real)}, {_float_literal(number.imag)})"
    if t.kind == "e":
        return f"ushort({_bfloat_bits(float(value))})"  # type: ignore[arg-type]
    if t.kind == "f":
        if t.bits == 16:
            with np.errstate(all="ignore"):
                return f"half({_float_literal(float(np.float16(value)))})"  # type: ignore[arg-type]
        return _float_literal(float(value))  # type: ignore[arg-type]
    return _integer_literal(int(value), t)  # type: ignore[call-overload]


def _integer_literal(value: int, t: Scalar) -> str:
    if t.kind == "b":
        return "true" if value & 1 else "false"
    if t.kind == "i" and t.bits == 64:
        return long_literal(value)
    value &= (1 << t.bits) - 1
    if t.kind == "u":
        return f"{value}UL" if t.bits == 64 else f"{value}u" if t.bits == 32 else f"{register_type(t)}({value})"
    value = value - (1 << t.bits) if value >> (t.bits - 1) else value
    if t.bits == 32:
        return str(value) if value != -(2**31) else "(-2147483647 - 1)"
    return f"{register_type(t)}({value})"


def _float_literal(value: float) -> str:
    """The shortest decimal that float32 reads back exactly."""
    if math.isnan(value):
        return "NAN"
    with np.errstate(all="ignore"):
        single = np.float32(value)
    if np.isinf(single):
        return "INFINITY" if single > 0 else "-INFINITY"
    text = str(single)
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def _bfloat_bits(value: float) -> int:
    """bfloat16 bits of a number, rounded once to the nearest, ties to even."""
    if math.isnan(value):
        return 0x7FC0
    with np.errstate(all="ignore"):
        (word,) = struct.unpack("<I", struct.pack("<f", np.float32(value)))
    if word & 0x7F800000 == 0x7F800000:
        return int(word >> 16)
    low = int(word >> 16)
    size = abs(value)
    below, above = (struct.unpack("<f", struct.pack("<I", (low + n & 0x7FFF) << 16))[0] for n in (0, 1))
    if size < below:  # rounding to float32 went up to a number of bfloat16
        low, above = low - 1, below
        (below,) = struct.unpack("<f", struct.pack("<I", (low & 0x7FFF) << 16))
    if math.isinf(above):
        above = 2.0**128
    up, down = above - size, size - below
    return low + 1 if up < down or (up == down and low & 1) else low
