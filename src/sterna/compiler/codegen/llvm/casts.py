"""Conversions between scalars, as NumPy's ``astype`` does them.

A float outside the integer's range is undefined in C; here it gives, on every target, what NumPy gives on
x86-64: the most negative integer for ``int64`` and for
``int32``; narrower integers take the low bits of the int32 answer, ``uint32`` those of the int64 answer;
``uint64`` converts values of 2**63 and more by subtracting 2**63 first, so out of range gives 2**63 or 0.
NaN counts as out of range.
"""

from __future__ import annotations

from sterna.compiler.codegen.llvm.builder import Builder, float_text
from sterna.compiler.codegen.llvm.floats import from_bfloat, from_half, is_small, to_bfloat, to_half
from sterna.compiler.codegen.llvm.layout import Value, int_bits, real_type, register_type
from sterna.types import FLOAT32, Scalar

__all__ = ["cast", "narrow", "widen"]


def widen(b: Builder, t: Scalar, x: str, native_half: bool) -> tuple[str, Scalar]:
    """A float16 or bfloat16 as float32; any other float unchanged; with its type."""
    if not is_small(t):
        return x, t
    return (from_bfloat(b, x) if t.kind == "e" else from_half(b, x, native_half)), FLOAT32


def narrow(b: Builder, t: Scalar, source: Scalar, x: str, native_half: bool) -> str:
    """The float `x` of type `source` (32 or 64 bits) as a float of type `t`."""
    if is_small(t):
        return to_bfloat(b, source, x) if t.kind == "e" else to_half(b, source, x, native_half)
    if t.bits == source.bits:
        return x
    ins = "fptrunc" if t.bits < source.bits else "fpext"
    return b.op(f"{ins} {register_type(source)} {x} to {register_type(t)}")


def cast(b: Builder, source: Scalar, target: Scalar, value: Value, native_half: bool) -> Value:
    """Convert a scalar value."""
    if (source.kind, source.bits) == (target.kind, target.bits):
        return value
    if source.kind == "c":
        return _from_complex(b, source, target, value, native_half)
    if target.kind == "c":
        part = real_type(target)
        return (*cast(b, source, part, value, native_half), float_text(0.0, register_type(part)))
    (x,) = value
    if source.kind in "fe":
        x, wide = widen(b, source, x, native_half)
        return (_from_float(b, wide, target, x, native_half),)
    if target.kind in "fe":
        return (_int_to_float(b, source, target, x, native_half),)
    return (_int_to_int(b, source, target, x),)


def _from_complex(b: Builder, source: Scalar, target: Scalar, value: Value, native_half: bool) -> Value:
    part = real_type(source)
    if target.kind == "c":
        return tuple(narrow(b, real_type(target), part, x, native_half) for x in value)
    if target.kind == "b":
        zero, f = float_text(0.0, register_type(part)), register_type(part)
        return (b.either(*(b.op(f"fcmp une {f} {x}, {zero}") for x in value)),)
    return cast(b, part, target, value[:1], native_half)


def _int_to_int(b: Builder, source: Scalar, target: Scalar, x: str) -> str:
    have, want = int_bits(source), int_bits(target)
    if target.kind == "b":
        return b.icmp("ne", have, x, "0")
    if have == want:
        return x
    if want < have:
        return b.op(f"trunc i{have} {x} to i{want}")
    return b.op(f"{'sext' if source.kind == 'i' else 'zext'} i{have} {x} to i{want}")


def _int_to_float(b: Builder, source: Scalar, target: Scalar, x: str, native_half: bool) -> str:
    wide = FLOAT32 if is_small(target) else target
    ins = "sitofp" if source.kind == "i" else "uitofp"
    result = b.op(f"{ins} i{int_bits(source)} {x} to {register_type(wide)}")
    return narrow(b, target, wide, result, native_half)


def _from_float(b: Builder, source: Scalar, target: Scalar, x: str, native_half: bool) -> str:
    f = register_type(source)
    if target.kind in "fe":
        return narrow(b, target, source, x, native_half)
    if target.kind == "b":
        return b.op(f"fcmp une {f} {x}, {float_text(0.0, f)}")
    if target.kind == "u" and target.bits == 64:
        limit = float_text(2.0**63, f)
        high = b.op(f"fcmp oge {f} {x}, {limit}")
        low = b.select(high, f, b.op(f"fsub {f} {x}, {limit}"), x)
        bits = _truncate(b, f, low, 64)
        return b.op(f"xor i64 {bits}, {b.select(high, 'i64', str(-(2**63)), '0')}")
    base = 64 if target.bits == 64 or (target.kind, target.bits) == ("u", 32) else 32
    whole = _truncate(b, f, x, base)
    return whole if base == target.bits else b.op(f"trunc i{base} {whole} to i{target.bits}")


def _truncate(b: Builder, f: str, x: str, bits: int) -> str:
    """Towards zero; the most negative integer for anything that does not fit."""
    low = -(2.0 ** (bits - 1))
    if bits == 32 and f == "double":
        inside = b.both(
            b.op(f"fcmp ogt double {x}, {float_text(low - 1, f)}"), b.op(f"fcmp olt double {x}, {float_text(-low, f)}")
        )
    else:
        above = b.op(f"fcmp oge {f} {x}, {float_text(low, f)}")
        inside = b.both(above, b.op(f"fcmp olt {f} {x}, {float_text(-low, f)}"))
    safe = b.select(inside, f, x, float_text(0.0, f))
    whole = b.op(f"fptosi {f} {safe} to i{bits}")
    return b.select(inside, f"i{bits}", whole, str(-(2 ** (bits - 1))))
