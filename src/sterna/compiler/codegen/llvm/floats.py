"""Floating-point arithmetic, equal to NumPy's (and Python's, which is the same on doubles).

float16 and bfloat16 are held as bits and computed in float32, rounding each result, as NumPy does.
"""

from __future__ import annotations

from sterna.compiler.codegen.llvm.builder import Builder, float_text
from sterna.compiler.codegen.llvm.layout import register_type
from sterna.errors import UnsupportedError
from sterna.types import Scalar

__all__ = [
    "FLOAT_PREDICATES", "copysign", "fabs", "float_binary", "float_compare", "from_bfloat", "from_half", "is_small",
    "suffix", "to_bfloat", "to_half",
]  # fmt: skip

FLOAT_PREDICATES = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_PLAIN = {"add": "fadd", "sub": "fsub", "mul": "fmul", "truediv": "fdiv"}


def is_small(t: Scalar) -> bool:
    """True for types held as bits and computed in float32."""
    return t.kind in "fe" and t.bits == 16


def suffix(llvm_type: str) -> str:
    """Suffix of an LLVM intrinsic's name for this type."""
    return "f32" if llvm_type == "float" else "f64"


def fabs(b: Builder, llvm_type: str, x: str) -> str:
    """Absolute value."""
    return b.call(llvm_type, f"llvm.fabs.{suffix(llvm_type)}", f"{llvm_type} {x}")


def copysign(b: Builder, llvm_type: str, x: str, sign: str) -> str:
    """`x` with the sign of `sign`."""
    return b.call(llvm_type, f"llvm.copysign.{suffix(llvm_type)}", f"{llvm_type} {x}, {llvm_type} {sign}")


def float_compare(b: Builder, op: str, llvm_type: str, x: str, y: str) -> str:
    """IEEE comparison: false with a NaN, except ``ne``."""
    return b.op(f"fcmp {FLOAT_PREDICATES[op]} {llvm_type} {x}, {y}")


def float_binary(b: Builder, op: str, t: Scalar, x: str, y: str, flags: str = "") -> str:
    """``x op y``; operands and result of type `t` (not float16 or bfloat16)."""
    f = register_type(t)
    if op in _PLAIN:
        return b.op(f"{_PLAIN[op]}{flags} {f} {x}, {y}")
    if op == "min":
        return b.select(b.op(f"fcmp olt {f} {y}, {x}"), f, y, x)
    if op == "max":
        return b.select(b.op(f"fcmp ogt {f} {y}, {x}"), f, y, x)
    if op == "pow":
        if y == float_text(2.0, f):  # exact, as NumPy and C libraries have it
            return b.op(f"fmul{flags} {f} {x}, {x}")
        return b.op(f"call{flags} {f} @llvm.pow.{suffix(f)}({f} {x}, {f} {y})")
    if op == "floordiv":
        return _divmod(b, f, x, y)[0]
    if op == "mod":
        return _divmod(b, f, x, y)[1]
    raise UnsupportedError(f"operation {op!r} on {t}")


def _divmod(b: Builder, f: str, x: str, y: str) -> tuple[str, str]:
    """NumPy's ``npy_divmod`` (numpy/_core/src/npymath/npy_math_internal.h.src), which is CPython's float_divmod."""
    zero, one = float_text(0.0, f), float_text(1.0, f)
    rest = b.op(f"frem {f} {x}, {y}")
    quotient = b.op(f"fdiv {f} {b.op(f'fsub {f} {x}, {rest}')}, {y}")
    inexact = b.op(f"fcmp une {f} {rest}, {zero}")
    opposite = b.op(f"xor i1 {b.op(f'fcmp olt {f} {y}, {zero}')}, {b.op(f'fcmp olt {f} {rest}, {zero}')}")
    below = b.both(inexact, opposite)
    remainder = b.select(below, f, b.op(f"fadd {f} {rest}, {y}"), rest)
    quotient = b.select(below, f, b.op(f"fsub {f} {quotient}, {one}"), quotient)
    remainder = b.select(inexact, f, remainder, copysign(b, f, zero, y))
    floor = b.call(f, f"llvm.floor.{suffix(f)}", f"{f} {quotient}")
    up = b.op(f"fcmp ogt {f} {b.op(f'fsub {f} {quotient}, {floor}')}, {float_text(0.5, f)}")
    floor = b.select(up, f, b.op(f"fadd {f} {floor}, {one}"), floor)
    ratio = b.op(f"fdiv {f} {x}, {y}")
    floor = b.select(b.op(f"fcmp une {f} {quotient}, {zero}"), f, floor, copysign(b, f, zero, ratio))
    by_zero = b.op(f"fcmp oeq {f} {y}, {zero}")
    return b.select(by_zero, f, ratio, floor), b.select(by_zero, f, rest, remainder)


def from_half(b: Builder, bits: str, native: bool) -> str:
    """float32 from float16 bits; by integer arithmetic where the target has no instruction for it."""
    if native:
        return b.op(f"fpext half {b.op(f'bitcast i16 {bits} to half')} to float")
    wide = b.op(f"zext i16 {bits} to i32")
    body = b.op(f"shl i32 {b.op(f'and i32 {wide}, 32767')}, 13")
    special = b.icmp("uge", 32, body, str(0x7C00 << 13))
    normal = b.op(f"add i32 {body}, {b.select(special, 'i32', str(224 << 23), str(112 << 23))}")
    small = b.icmp("ult", 32, body, str(0x0400 << 13))
    biased = b.op(f"bitcast i32 {b.op(f'add i32 {body}, {113 << 23}')} to float")
    tiny = b.op(f"fsub float {biased}, {float_text(2.0**-14, 'float')}")
    value = b.select(small, "i32", b.op(f"bitcast float {tiny} to i32"), normal)
    sign = b.op(f"shl i32 {b.op(f'and i32 {wide}, 32768')}, 16")
    return b.op(f"bitcast i32 {b.op(f'or i32 {value}, {sign}')} to float")


def to_half(b: Builder, t: Scalar, x: str, native: bool) -> str:
    """float16 bits from a float32 or float64, rounded once to the nearest, ties to even."""
    if t.bits == 64:
        x = _odd_float(b, x)
    if native:
        return b.op(f"bitcast half {b.op(f'fptrunc float {x} to half')} to i16")
    bits = b.op(f"bitcast float {x} to i32")
    sign = b.op(f"and i32 {b.op(f'lshr i32 {bits}, 16')}, 32768")
    body = b.op(f"and i32 {bits}, {0x7FFFFFFF}")
    magic = float_text(0.5, "float")
    tiny = b.op(f"fadd float {b.op(f'bitcast i32 {body} to float')}, {magic}")
    tiny = b.op(f"sub i32 {b.op(f'bitcast float {tiny} to i32')}, {0x3F000000}")
    odd = b.op(f"and i32 {b.op(f'lshr i32 {body}, 13')}, 1")
    rounded = b.op(f"add i32 {b.op(f'add i32 {body}, {0xFFF - (112 << 23)}')}, {odd}")
    rounded = b.op(f"lshr i32 {rounded}, 13")
    payload = _nan_payload(b, body)
    value = b.select(b.icmp("ult", 32, body, str(113 << 23)), "i32", tiny, rounded)
    value = b.select(b.icmp("uge", 32, body, str(143 << 23)), "i32", str(0x7C00), value)
    value = b.select(b.icmp("ugt", 32, body, str(255 << 23)), "i32", payload, value)
    return b.op(f"trunc i32 {b.op(f'or i32 {value}, {sign}')} to i16")


def _nan_payload(b: Builder, body: str) -> str:
    top = b.op(f"and i32 {b.op(f'lshr i32 {body}, 13')}, 1023")
    return b.op(f"or i32 {top}, {0x7E00}")


def _odd_float(b: Builder, x: str) -> str:
    """float32 from float64 rounded to odd, so that a second rounding to float16 is right.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
    odd" (2008).
    """
    near = b.op(f"fptrunc double {x} to float")
    back = b.op(f"fpext float {near} to double")
    bits = b.op(f"bitcast float {near} to i32")
    inexact = b.op(f"fcmp one double {back}, {x}")
    size, size_back = fabs(b, "double", x), fabs(b, "double", back)
    above = b.op(f"fcmp ogt double {size_back}, {size}")
    cut = b.op(f"sub i32 {bits}, {b.op(f'zext i1 {above} to i32')}")
    odd = b.op(f"or i32 {cut}, 1")
    return b.op(f"bitcast i32 {b.select(inexact, 'i32', odd, bits)} to float")


def from_bfloat(b: Builder, bits: str) -> str:
    """float32 from bfloat16 bits."""
    wide = b.op(f"zext i16 {bits} to i32")
    return b.op(f"bitcast i32 {b.op(f'shl i32 {wide}, 16')} to float")


def to_bfloat(b: Builder, t: Scalar, x: str) -> str:
    """bfloat16 bits, rounded to the nearest, ties to even; NaN stays NaN."""
    if t.bits == 64:
        x = _odd_float(b, x)
    bits = b.op(f"bitcast float {x} to i32")
    odd = b.op(f"and i32 {b.op(f'lshr i32 {bits}, 16')}, 1")
    raised = b.op(f"add i32 {b.op(f'add i32 {bits}, 32767')}, {odd}")
    rounded = b.op(f"lshr i32 {raised}, 16")
    quiet = b.op(f"or i32 {b.op(f'lshr i32 {bits}, 16')}, 64")
    nan = b.op(f"fcmp uno float {x}, {x}")
    return b.op(f"trunc i32 {b.select(nan, 'i32', quiet, rounded)} to i16")
