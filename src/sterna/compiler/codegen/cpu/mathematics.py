"""Exponential, logarithm and error function of float32 that LLVM can vectorise.

The C library's functions are calls, so a loop over threads that has one is not vectorised.  These are straight lines of
arithmetic in float64, rounded once at the end: within 0.52 units in the last place, for every argument.  Functions of
float64 stay the library's.

Polynomials are least-maximum fits of the relative error: exp(r) on ±log(2)/2, 2e-10; 2 atanh(s) / s, 7e-10;
erf(x) / x in x², |x| ≤ 4, 3e-10.  The reductions are the usual ones (Muller, *Elementary Functions*, ch. 11).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.builder import float_text
from sterna.compiler.codegen.llvm.mathops import Emit

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter

__all__ = ["FLOAT32_FUNCTIONS"]

_EXP = (
    0.5000000013379456, 0.16666666532287128, 0.04166646552808415, 0.008333360741154577, 0.0013933597547368158,
    0.00019857781741982838,
)  # fmt: skip
"""(exp(r) - 1 - r) / r², lowest power first."""
_ATANH = (
    1.9999999986207928, 0.6666681599511529, 0.39974789886454865, 0.2992578811413739,
)  # fmt: skip
"""2 atanh(s) / s in s²."""
_ERF = (
    1.128379166756463, -0.3761263751672719, 0.11283781979161492, -0.026865896064266405, 0.005223559357235119,
    -0.0008544379709452907, 0.00012030222277821988, -1.4811850403961355e-05, 1.6080271154448546e-06,
    -1.539020752194985e-07, 1.286793424735009e-08, -9.239851591540887e-10, 5.566574471917971e-11,
    -2.7347971911491045e-12, 1.0584150495441623e-13, -3.0841870756511308e-15, 6.328144771042584e-17,
    -8.119117552989771e-19, 4.88635863526178e-21,
)  # fmt: skip
"""erf(x) / x in x²."""
_ROUNDER = 1.5 * 2.0**52
"""A number that rounds what is added to it to a whole number, which its lowest bits then are."""
_ONE_BITS, _HALF_ROOT_BITS, _COUNT_BITS = 1023 << 52, 0x3FE6A09E667F3BCD, 0x433 << 52
"""Bits of 1; of the root of one half; of 2 to the power of 52."""


class _Text:
    """Lines of one function that computes in float64."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def op(self, text: str) -> str:
        """Append an instruction; gives the name of its result."""
        self.lines.append(f"  %v{len(self.lines)} = {text}")
        return f"%v{len(self.lines) - 1}"

    def number(self, op: str, left: str, right: str) -> str:
        """Arithmetic."""
        return self.op(f"{op} double {left}, {right}")

    def whole(self, op: str, left: str, right: str) -> str:
        """Arithmetic on bits."""
        return self.op(f"{op} i64 {left}, {right}")

    def bits(self, value: str) -> str:
        """Bits of a number."""
        return self.op(f"bitcast double {value} to i64")

    def of_bits(self, value: str) -> str:
        """The number of some bits."""
        return self.op(f"bitcast i64 {value} to double")

    def fused(self, x: str, y: str, z: str) -> str:
        """``x * y + z``, in one instruction where the processor has it."""
        return self.op(f"call double @llvm.fmuladd.f64(double {x}, double {y}, double {z})")

    def select(self, test: str, x: str, then: str, other: str) -> str:
        """``then`` where the comparison of float32 (as ``ogt float %x, 0.0``) is true."""
        return self.op(f"select i1 {self.op(f'fcmp {test}')}, {x} {then}, {x} {other}")

    def polynomial(self, coefficients: tuple[float, ...], x: str) -> str:
        """By Horner's rule."""
        value = _double(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = self.fused(value, x, _double(coefficient))
        return value

    def clamp(self, low: float, high: float) -> str:
        """The argument between two float32 numbers, as float64; NaN stays."""
        above = self.select(f"ogt float %x, {_float(high)}", "float", _float(high), "%x")
        inside = self.select(f"olt float %x, {_float(low)}", "float", _float(low), above)
        return self.op(f"fpext float {inside} to double")

    def function(self, name: str, result: str) -> str:
        """The whole definition; `result` is float32."""
        head = f"define internal float @{name}(float %x) inlinehint nounwind memory(none) {{\nentry:\n"
        return head + "\n".join(self.lines) + f"\n  ret float {result}\n}}"


def _double(value: float) -> str:
    return float_text(value, "double")


def _float(value: float) -> str:
    return float_text(value, "float")


def _exponential(name: str, low: float, high: float, per_unit: float, unit: float) -> str:
    """The function ``exp(x * unit * per_unit)``, with the whole part of ``x * per_unit`` taken out as powers of two."""
    t = _Text()
    x = t.clamp(low, high)
    moved = t.fused(x, _double(per_unit), _double(_ROUNDER))
    count = t.number("fsub", moved, _double(_ROUNDER))
    if per_unit == 1.0:
        r = t.number("fmul", t.number("fsub", x, count), _double(unit))
    else:
        r = t.fused(count, _double(-unit), x)
    p = t.polynomial(_EXP, r)
    power = t.number("fadd", t.fused(t.number("fmul", r, r), p, r), _double(1.0))
    scaled = t.of_bits(t.whole("add", t.bits(power), t.whole("shl", t.bits(moved), "52")))
    rounded = t.op(f"fptrunc double {scaled} to float")
    return t.function(name, t.select("uno float %x, %x", "float", "%x", rounded))


def _logarithm(name: str, scale: float) -> str:
    """The function ``log(x) * scale``: x is m times a power of 2, √½ ≤ m ≤ √2, log m = 2 atanh((m - 1) / (m + 1))."""
    t = _Text()
    bits = t.bits(t.op("fpext float %x to double"))
    above = t.whole("add", bits, str(_ONE_BITS - _HALF_ROOT_BITS))
    power = t.whole("lshr", above, "52")
    fraction = t.whole("sub", bits, t.whole("shl", power, "52"))
    m = t.of_bits(t.whole("add", fraction, str(_ONE_BITS)))
    count = t.number("fsub", t.of_bits(t.whole("or", power, str(_COUNT_BITS))), _double(2.0**52 + 1023))
    s = t.number("fdiv", t.number("fadd", m, _double(-1.0)), t.number("fadd", m, _double(1.0)))
    g = t.polynomial(_ATANH, t.number("fmul", s, s))
    if scale != 1.0:
        s = t.number("fmul", s, _double(scale))
    value = t.fused(count, _double(math.log(2) * scale), t.number("fmul", s, g))
    rounded = t.op(f"fptrunc double {value} to float")
    infinite = t.select(f"oeq float %x, {_float(math.inf)}", "float", "%x", rounded)
    at_zero = t.select("oeq float %x, 0.0", "float", _float(-math.inf), infinite)
    return t.function(name, t.select("ult float %x, 0.0", "float", _float(math.nan), at_zero))


def _error_function(name: str) -> str:
    t = _Text()
    x = t.clamp(-4.0, 4.0)  # beyond, it is ±1 to the last bit
    value = t.number("fmul", x, t.polynomial(_ERF, t.number("fmul", x, x)))
    return t.function(name, t.op(f"fptrunc double {value} to float"))


_TEXTS: dict[str, Callable[[str], str]] = {
    "exp": lambda name: _exponential(name, -104.0, 89.0, 1 / math.log(2), math.log(2)),
    "exp2": lambda name: _exponential(name, -151.0, 129.0, 1.0, math.log(2)),
    "log": lambda name: _logarithm(name, 1.0),
    "log2": lambda name: _logarithm(name, 1 / math.log(2)),
    "log10": lambda name: _logarithm(name, 1 / math.log(10)),
    "erf": _error_function,
}


def _caller(name: str) -> Emit:
    def emit(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
        symbol = f"sterna_{name}f"
        if not e.context.has_helper(symbol):
            e.context.helper(symbol, _TEXTS[name](symbol))
            e.context.declare("declare double @llvm.fmuladd.f64(double, double, double)")
        apart = " noinline" if e.plain else ""  # in code that hardly ever runs
        return e.b.op(f"call float @{symbol}(float {args[0]}){apart}")

    return emit


FLOAT32_FUNCTIONS: Mapping[str, Emit] = {name: _caller(name) for name in _TEXTS}
"""Name of a function, without ``math.`` or ``numpy.`` → what emits it."""
