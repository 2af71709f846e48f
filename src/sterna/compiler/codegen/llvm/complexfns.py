"""Functions of complex numbers, from real ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.builder import float_text
from sterna.compiler.codegen.llvm.complexes import complex_binary
from sterna.compiler.codegen.llvm.floats import copysign, fabs, suffix
from sterna.compiler.codegen.llvm.layout import Value, real_type, register_type
from sterna.errors import UnsupportedError
from sterna.types import Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
    from sterna.compiler.ir.nodes import Intrinsic

__all__ = ["COMPLEX_OPERATIONS", "complex_power", "emit_complex"]


def _real(e: FunctionEmitter, f: str, name: str, x: str) -> str:
    return e.b.op(f"call {f} @llvm.{name}.{suffix(f)}({f} {x})")


def _modulus(e: FunctionEmitter, f: str, z: Value) -> str:
    return e.library(f, "hypot", ((f, z[0]), (f, z[1])))


def _argument(e: FunctionEmitter, f: str, z: Value) -> str:
    return e.library(f, "atan2", ((f, z[1]), (f, z[0])))


def _exp(e: FunctionEmitter, f: str, z: Value) -> Value:
    size = _real(e, f, "exp", z[0])
    flat = e.b.op(f"fcmp oeq {f} {z[1]}, {float_text(0.0, f)}")
    sine = e.b.op(f"fmul {f} {size}, {_real(e, f, 'sin', z[1])}")
    return e.b.op(f"fmul {f} {size}, {_real(e, f, 'cos', z[1])}"), e.b.select(flat, f, z[1], sine)


def _log(e: FunctionEmitter, f: str, z: Value) -> Value:
    return _real(e, f, "log", _modulus(e, f, z)), _argument(e, f, z)


def _sqrt(e: FunctionEmitter, f: str, z: Value) -> Value:
    """``t = sqrt((|re| + |z|) / 2)``; the other part is ``im / 2t``; parts swap for a negative real part."""
    b, zero, half = e.b, float_text(0.0, f), float_text(0.5, f)
    size = b.op(f"fadd {f} {fabs(b, f, z[0])}, {_modulus(e, f, z)}")
    root = _real(e, f, "sqrt", b.op(f"fmul {f} {size}, {half}"))
    other = b.op(f"fdiv {f} {z[1]}, {b.op(f'fadd {f} {root}, {root}')}")
    positive = b.op(f"fcmp oge {f} {z[0]}, {zero}")
    real = b.select(positive, f, root, fabs(b, f, other))
    imag = b.select(positive, f, other, copysign(b, f, root, z[1]))
    nothing = b.both(b.op(f"fcmp oeq {f} {z[0]}, {zero}"), b.op(f"fcmp oeq {f} {z[1]}, {zero}"))
    return b.select(nothing, f, zero, real), b.select(nothing, f, z[1], imag)


def complex_power(e: FunctionEmitter, t: Scalar, x: Value, y: Value) -> Value:
    """``x ** y`` as NumPy has it: by products for a small whole exponent, else ``exp(y * log(x))``.

    A zero base gives 0 for an exponent with a positive real part and NaN for any other but 0.
    """
    b, f = e.b, register_type(real_type(t))
    zero, limit = float_text(0.0, f), float_text(100.0, f)
    whole = b.op(f"fcmp oeq {f} {_real(e, f, 'trunc', y[0])}, {y[0]}")
    small = b.both(whole, b.op(f"fcmp olt {f} {fabs(b, f, y[0])}, {limit}"))
    products, general, done = (b.label(h) for h in ("power.whole", "power.any", "power.done"))
    result = b.slot(f), b.slot(f)
    b.branch(b.both(small, b.op(f"fcmp oeq {f} {y[1]}, {zero}")), products, general)
    b.place(products)
    _whole_power(e, t, x, y[0], result)
    b.jump(done)
    b.place(general)
    _store(e, f, _exp(e, f, complex_binary(b, "mul", t, y, _log(e, f, x))), result)
    b.jump(done)
    b.place(done)
    real, imag = (b.op(f"load {f}, ptr {slot}") for slot in result)
    no_base = b.both(*(b.op(f"fcmp oeq {f} {part}, {zero}") for part in x))
    no_power = b.both(*(b.op(f"fcmp oeq {f} {part}, {zero}") for part in y))
    positive = b.op(f"fcmp ogt {f} {y[0]}, {zero}")
    of_zero = b.select(positive, f, zero, float_text(math.nan, f))
    special = b.both(no_base, b.op(f"xor i1 {no_power}, true"))
    return b.select(special, f, of_zero, real), b.select(special, f, of_zero, imag)


def _store(e: FunctionEmitter, f: str, value: Value, slots: tuple[str, str]) -> None:
    for part, slot in zip(value, slots, strict=True):
        e.b.emit(f"store {f} {part}, ptr {slot}")


def _whole_power(e: FunctionEmitter, t: Scalar, x: Value, exponent: str, result: tuple[str, str]) -> None:
    """By squaring, in the order of NumPy's ``npy_cpow``; a negative exponent by the reciprocal at the end."""
    b, f = e.b, register_type(real_type(t))
    one = float_text(1.0, f), float_text(0.0, f)
    base, left = (b.slot(f), b.slot(f)), b.slot("i32")
    turn, multiply, square, end, reciprocal, done = (
        b.label(f"power.{h}") for h in ("turn", "multiply", "square", "end", "reciprocal", "whole.done")
    )
    few = b.op(f"fcmp ole {f} {exponent}, {float_text(3.0, f)}")
    plain = b.both(few, b.op(f"fcmp ogt {f} {exponent}, {float_text(0.0, f)}"))
    _store(e, f, one, result)
    _store(e, f, x, base)
    b.emit(f"store i32 {b.op(f'fptosi {f} {fabs(b, f, exponent)} to i32')}, ptr {left}")
    b.place(turn)
    bits = b.op(f"load i32, ptr {left}")
    now = tuple(b.op(f"load {f}, ptr {slot}") for slot in base)
    b.branch(b.op(f"trunc i32 {bits} to i1"), multiply, square)
    b.place(multiply)
    so_far = tuple(b.op(f"load {f}, ptr {slot}") for slot in result)
    at_one = b.both(*(b.op(f"fcmp oeq {f} {p}, {q}") for p, q in zip(so_far, one, strict=True)))
    first = b.both(at_one, plain)  # NumPy multiplies by 1 too, which tells where zeros are signed
    product = complex_binary(b, "mul", t, so_far, now)
    _store(e, f, tuple(b.select(first, f, p, q) for p, q in zip(now, product, strict=True)), result)
    b.place(square)
    rest = b.op(f"lshr i32 {bits}, 1")
    b.emit(f"store i32 {rest}, ptr {left}")
    _store(e, f, complex_binary(b, "mul", t, now, now), base)
    b.branch(b.icmp("ne", 32, rest, "0"), turn, end)
    b.place(end)
    b.branch(b.op(f"fcmp olt {f} {exponent}, {float_text(0.0, f)}"), reciprocal, done)
    b.place(reciprocal)
    power = tuple(b.op(f"load {f}, ptr {slot}") for slot in result)
    _store(e, f, complex_binary(b, "truediv", t, one, power), result)
    b.place(done)


def _swap(z: Value, e: FunctionEmitter, f: str) -> Value:
    """``i * z``."""
    return e.b.op(f"fneg {f} {z[1]}"), z[0]


def _turned(function: Callable[[FunctionEmitter, str, Value], Value]) -> Callable[[FunctionEmitter, str, Value], Value]:
    """``-i * f(i * z)``, by which circular functions are hyperbolic ones."""

    def emit(e: FunctionEmitter, f: str, z: Value) -> Value:
        w = function(e, f, _swap(z, e, f))
        return w[1], e.b.op(f"fneg {f} {w[0]}")

    return emit


def _product(e: FunctionEmitter, f: str, x: str, y: str) -> str:
    return e.b.op(f"fmul {f} {x}, {y}")


def _library(e: FunctionEmitter, f: str, name: str, *args: str) -> str:
    return e.library(f, name, tuple((f, a) for a in args))


def _sinh(e: FunctionEmitter, f: str, z: Value) -> Value:
    cosine, sine = _real(e, f, "cos", z[1]), _real(e, f, "sin", z[1])
    return _product(e, f, _library(e, f, "sinh", z[0]), cosine), _product(e, f, _library(e, f, "cosh", z[0]), sine)


def _cosh(e: FunctionEmitter, f: str, z: Value) -> Value:
    cosine, sine = _real(e, f, "cos", z[1]), _real(e, f, "sin", z[1])
    return _product(e, f, _library(e, f, "cosh", z[0]), cosine), _product(e, f, _library(e, f, "sinh", z[0]), sine)


def _cos(e: FunctionEmitter, f: str, z: Value) -> Value:
    return _cosh(e, f, _swap(z, e, f))


def _tanh(e: FunctionEmitter, f: str, z: Value) -> Value:
    """Kahan, "Branch cuts for complex elementary functions" (1987), CTANH."""
    b, one = e.b, float_text(1.0, f)
    tangent, sinh = _library(e, f, "tan", z[1]), _library(e, f, "sinh", z[0])
    beta = b.op(f"fadd {f} {one}, {_product(e, f, tangent, tangent)}")
    square = _product(e, f, sinh, sinh)
    rho = _real(e, f, "sqrt", b.op(f"fadd {f} {one}, {square}"))
    below = b.op(f"fadd {f} {one}, {_product(e, f, beta, square)}")
    real = b.op(f"fdiv {f} {_product(e, f, beta, _product(e, f, rho, sinh))}, {below}")
    far = b.op(f"fcmp oge {f} {fabs(b, f, z[0])}, {float_text(18.0, f)}")
    imag = b.op(f"fdiv {f} {tangent}, {below}")
    real = b.select(far, f, copysign(b, f, one, z[0]), real)
    return real, b.select(far, f, copysign(b, f, float_text(0.0, f), imag), imag)


def _roots(e: FunctionEmitter, f: str, z: Value, first: str) -> tuple[Value, Value]:
    """``sqrt(1 - z)`` (or ``sqrt(z - 1)``) and ``sqrt(1 + z)``."""
    b, one = e.b, float_text(1.0, f)
    minus = (b.op(f"fsub {f} {one}, {z[0]}"), b.op(f"fneg {f} {z[1]}"))
    if first == "z-1":
        minus = (b.op(f"fsub {f} {z[0]}, {one}"), z[1])
    return _sqrt(e, f, minus), _sqrt(e, f, (b.op(f"fadd {f} {z[0]}, {one}"), z[1]))


def _cross(e: FunctionEmitter, f: str, x: Value, y: Value) -> str:
    """Imaginary part of ``conj(x) * y``."""
    return e.b.op(f"fsub {f} {_product(e, f, x[0], y[1])}, {_product(e, f, x[1], y[0])}")


def _dot(e: FunctionEmitter, f: str, x: Value, y: Value, op: str) -> str:
    """Real part of ``conj(x) * y`` (``fadd``) or ``x * y`` (``fsub``)."""
    return e.b.op(f"{op} {f} {_product(e, f, x[0], y[0])}, {_product(e, f, x[1], y[1])}")


def _asin(e: FunctionEmitter, f: str, z: Value) -> Value:
    """Kahan (1987), CASIN; likewise the next three."""
    minus, plus = _roots(e, f, z, "1-z")
    real = _library(e, f, "atan2", z[0], _dot(e, f, minus, plus, "fsub"))
    return real, _library(e, f, "asinh", _cross(e, f, minus, plus))


def _acos(e: FunctionEmitter, f: str, z: Value) -> Value:
    minus, plus = _roots(e, f, z, "1-z")
    half = _library(e, f, "atan2", minus[0], plus[0])
    return e.b.op(f"fadd {f} {half}, {half}"), _library(e, f, "asinh", _cross(e, f, plus, minus))


def _acosh(e: FunctionEmitter, f: str, z: Value) -> Value:
    minus, plus = _roots(e, f, z, "z-1")
    half = _library(e, f, "atan2", minus[1], plus[0])
    return _library(e, f, "asinh", _dot(e, f, minus, plus, "fadd")), e.b.op(f"fadd {f} {half}, {half}")


def _atanh(e: FunctionEmitter, f: str, z: Value) -> Value:
    b, one = e.b, float_text(1.0, f)
    below, above = b.op(f"fsub {f} {one}, {z[0]}"), b.op(f"fadd {f} {one}, {z[0]}")
    square = _product(e, f, z[1], z[1])
    size = b.op(f"fadd {f} {_product(e, f, below, below)}, {square}")
    ratio = b.op(f"fdiv {f} {_product(e, f, float_text(4.0, f), z[0])}, {size}")
    real = _product(e, f, _library(e, f, "log1p", ratio), float_text(0.25, f))
    twice = b.op(f"fadd {f} {z[1]}, {z[1]}")
    angle = _library(e, f, "atan2", twice, b.op(f"fsub {f} {_product(e, f, below, above)}, {square}"))
    return real, _product(e, f, angle, float_text(0.5, f))


def _log10(e: FunctionEmitter, f: str, z: Value) -> Value:
    factor = float_text(1.0 / math.log(10.0), f)
    real, imag = _log(e, f, z)
    return _product(e, f, real, factor), _product(e, f, imag, factor)


_FUNCTIONS: dict[str, Callable[[FunctionEmitter, str, Value], Value]] = {
    "exp": _exp, "log": _log, "sqrt": _sqrt, "log10": _log10, "sinh": _sinh, "cosh": _cosh, "tanh": _tanh,
    "sin": _turned(_sinh), "cos": _cos, "tan": _turned(_tanh), "asin": _asin, "acos": _acos, "acosh": _acosh,
    "asinh": _turned(_asin), "atanh": _atanh, "atan": _turned(_atanh),
}  # fmt: skip


def _conjugate(e: FunctionEmitter, f: str, z: Value) -> Value:
    return z[0], e.b.op(f"fneg {f} {z[1]}")


def _is_nan(e: FunctionEmitter, f: str, z: Value) -> Value:
    return (e.b.either(*(e.b.op(f"fcmp uno {f} {x}, {x}") for x in z)),)


def _sizes(e: FunctionEmitter, f: str, z: Value, test: str) -> list[str]:
    """Both parts' sizes compared with infinity."""
    infinity = float_text(float("inf"), f)
    return [e.b.op(f"fcmp {test} {f} {fabs(e.b, f, x)}, {infinity}") for x in z]


def _is_inf(e: FunctionEmitter, f: str, z: Value) -> Value:
    return (e.b.either(*_sizes(e, f, z, "oeq")),)


def _is_finite(e: FunctionEmitter, f: str, z: Value) -> Value:
    return (e.b.both(*_sizes(e, f, z, "olt")),)


_TABLE: dict[str, Callable[[FunctionEmitter, str, Value], Value]] = {
    **_FUNCTIONS,
    **dict.fromkeys(("abs", "absolute", "fabs"), lambda e, f, z: (_modulus(e, f, z),)),
    **dict.fromkeys(("phase", "angle"), lambda e, f, z: (_argument(e, f, z),)),
    **dict.fromkeys(("conj", "conjugate"), _conjugate),
    "real": lambda e, f, z: z[:1], "imag": lambda e, f, z: z[1:], "isnan": _is_nan, "isinf": _is_inf,
    "isfinite": _is_finite,
}  # fmt: skip
COMPLEX_OPERATIONS = tuple(_TABLE)
"""Names, without the module's, of the functions of one complex number."""


def emit_complex(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    """Emit a function of one complex number."""
    t, emit = node.args[0].type, _TABLE.get(node.name.rpartition(".")[2])
    assert isinstance(t, Scalar)
    if emit is None:
        raise UnsupportedError(f"operation {node.name!r} on {t}")
    return emit(e, register_type(real_type(t)), args[0])
