"""Mathematical functions: LLVM intrinsics where LLVM has them, C library names otherwise.

An operation ``math.f`` or ``numpy.f`` is looked up by its last part.  float16 and
bfloat16 are computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.builder import float_text
from sterna.compiler.codegen.llvm.casts import narrow, widen
from sterna.compiler.codegen.llvm.floats import copysign, fabs, float_binary, is_small, suffix
from sterna.compiler.codegen.llvm.layout import Value, register_type
from sterna.types import Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
    from sterna.compiler.ir.nodes import Intrinsic

__all__ = ["MATH_OPERATIONS", "emit_math"]

_INTRINSIC = {
    "sqrt": "sqrt", "fabs": "fabs", "absolute": "fabs", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "fix": "trunc",
    "rint": "roundeven", "round": "roundeven", "round_even": "roundeven", "fma": "fma", "copysign": "copysign",
    "sin": "sin", "cos": "cos", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "log10": "log10",
    "pow": "pow", "power": "pow", "float_power": "pow", "fmin": "minnum", "fmax": "maxnum",
}  # fmt: skip
_LIBRARY = {
    "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "expm1": "expm1", "log1p": "log1p",
    "erf": "erf", "erfc": "erfc", "gamma": "tgamma", "lgamma": "lgamma", "hypot": "hypot", "cbrt": "cbrt",
    "fmod": "fmod", "remainder": "remainder", "nextafter": "nextafter", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
}  # fmt: skip
Emit = Callable[["FunctionEmitter", str, tuple[str, ...]], str]


def _constant_factor(factor: float) -> Emit:
    def emit(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
        return e.b.op(f"fmul {f} {args[0]}, {float_text(factor, f)}")

    return emit


def _rsqrt(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
    root = e.b.call(f, f"llvm.sqrt.{suffix(f)}", f"{f} {args[0]}")
    return e.b.op(f"fdiv {f} {float_text(1.0, f)}, {root}")


def _extremum(op: str) -> Emit:
    """NumPy's ``minimum`` and ``maximum``: a NaN on either side wins, the left one first."""

    def emit(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
        x, y = args
        better = e.b.op(f"fcmp {'ole' if op == 'min' else 'oge'} {f} {x}, {y}")
        nan = e.b.op(f"fcmp uno {f} {x}, {x}")
        return e.b.select(e.b.either(better, nan), f, x, y)

    return emit


def _sign(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
    (x,) = args
    zero = float_text(0.0, f)
    moved = copysign(e.b, f, float_text(1.0, f), x)
    nonzero = e.b.op(f"fcmp one {f} {x}, {zero}")
    nan = e.b.op(f"fcmp uno {f} {x}, {x}")
    return e.b.select(nonzero, f, moved, e.b.select(nan, f, x, zero))


def _ldexp(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
    low = e.b.call("i64", "llvm.smax.i64", f"i64 {args[1]}, i64 -100000")
    exponent = e.b.op(f"trunc i64 {e.b.call('i64', 'llvm.smin.i64', f'i64 {low}, i64 100000')} to i32")
    return e.library(f, "ldexp", ((f, args[0]), ("i32", exponent)))


def _reciprocal(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
    return e.b.op(f"fdiv {f} {float_text(1.0, f)}, {args[0]}")


def _square(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
    return e.b.op(f"fmul {f} {args[0]}, {args[0]}")


_OWN: dict[str, Emit] = {
    "degrees": _constant_factor(180.0 / math.pi), "rad2deg": _constant_factor(180.0 / math.pi),
    "radians": _constant_factor(math.pi / 180.0), "deg2rad": _constant_factor(math.pi / 180.0),
    "rsqrt": _rsqrt, "minimum": _extremum("min"), "maximum": _extremum("max"), "sign": _sign,
    "ldexp": _ldexp, "reciprocal": _reciprocal, "square": _square,
}  # fmt: skip


def _is_nan(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
    return e.b.op(f"fcmp uno {f} {args[0]}, {args[0]}")


def _size_test(test: str) -> Emit:
    def emit(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
        size, infinity = fabs(e.b, f, args[0]), float_text(math.inf, f)
        return e.b.op(f"fcmp {test} {f} {size}, {infinity}")

    return emit


def _signbit(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
    bits = 32 if f == "float" else 64
    return e.b.icmp("slt", bits, e.b.op(f"bitcast {f} {args[0]} to i{bits}"), "0")


_FORMATS = {"float": (32, 23, 127), "double": (64, 52, 1023)}  # bits of the number, of its fraction; exponent's bias


def _frexp_word(e: FunctionEmitter, f: str, x: str) -> tuple[str, str, str]:
    """Bits of the scaled number; whether it is finite and not zero; whether it was subnormal.

    LLVM's own intrinsic gives a pair, which its vectoriser cannot widen.  A subnormal number is scaled first; zeros,
    infinities and NaN are their own mantissa, with exponent 0.
    """
    bits, digits, bias = _FORMATS[f]
    size = fabs(e.b, f, x)
    subnormal = e.b.op(f"fcmp olt {f} {size}, {float_text(2.0 ** (1 - bias), f)}")
    scaled = e.b.op(f"fmul {f} {x}, {float_text(2.0 ** (digits + 1), f)}")
    word = e.b.op(f"bitcast {f} {e.b.select(subnormal, f, scaled, x)} to i{bits}")
    finite = e.b.op(f"fcmp olt {f} {size}, {float_text(math.inf, f)}")
    ordinary = e.b.both(finite, e.b.op(f"fcmp one {f} {x}, {float_text(0.0, f)}"))
    return word, ordinary, subnormal


def _mantissa(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
    bits, digits, bias = _FORMATS[f]
    word, ordinary, _ = _frexp_word(e, f, args[0])
    rest = e.b.op(f"and i{bits} {word}, {~((2 * bias + 1) << digits)}")
    moved = e.b.op(f"or i{bits} {rest}, {bias - 1 << digits}")
    return e.b.select(ordinary, f, e.b.op(f"bitcast i{bits} {moved} to {f}"), args[0])


def _exponent(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
    bits, digits, bias = _FORMATS[f]
    word, ordinary, subnormal = _frexp_word(e, f, args[0])
    field = 2 * bias + 1
    high = e.b.op(f"and i{bits} {e.b.op(f'lshr i{bits} {word}, {digits}')}, {field}")
    base = e.b.select(subnormal, f"i{bits}", str(bias + digits), str(bias - 1))
    exponent = e.b.op(f"sub i{bits} {high}, {base}")
    whole = exponent if bits == 64 else e.b.op(f"sext i{bits} {exponent} to i64")
    return e.b.select(ordinary, "i64", whole, "0")


def _next_half(e: FunctionEmitter, bits: tuple[str, str], f: str, values: tuple[str, ...]) -> str:
    """The neighbour of a 16-bit float towards another, from the bits: they count magnitudes."""
    b, (x, y) = e.b, values
    zero = float_text(0.0, f)
    outwards = b.op(f"xor i1 {b.op(f'fcmp olt {f} {x}, {y}')}, {b.op(f'fcmp olt {f} {x}, {zero}')}")
    moved = b.op(f"add i16 {bits[0]}, {b.select(outwards, 'i16', '1', '-1')}")
    smallest = b.op(f"or i16 {b.op(f'and i16 {bits[1]}, -32768')}, 1")
    found = b.select(b.op(f"fcmp oeq {f} {x}, {zero}"), "i16", smallest, moved)
    found = b.select(b.op(f"fcmp oeq {f} {x}, {y}"), "i16", bits[1], found)  # matters for the zeros only
    found = b.select(b.op(f"fcmp uno {f} {y}, {y}"), "i16", bits[1], found)
    return b.select(b.op(f"fcmp uno {f} {x}, {x}"), "i16", bits[0], found)


def _common(name: str) -> Emit:
    """A function that is an intrinsic of LLVM's."""

    def emit(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
        operands = ", ".join(f"{f} {v}" for v in args)
        return e.b.op(f"call{e.fast} {f} @llvm.{name}.{suffix(f)}({operands})")

    return emit


def _of_library(name: str) -> Emit:
    """A function of the target's mathematical library."""

    def emit(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
        return e.library(f, name, tuple((f, v) for v in args))

    return emit


def _operator(op: str) -> Emit:
    """A function that is an operator of Python."""

    def emit(e: FunctionEmitter, f: str, args: tuple[str, ...]) -> str:
        return float_binary(e.b, op, Scalar("f", _FORMATS[f][0]), *args)

    return emit


_NUMBERS: dict[str, Emit] = {
    **{name: _common(intrinsic) for name, intrinsic in _INTRINSIC.items()},
    **{name: _of_library(symbol) for name, symbol in _LIBRARY.items()},
    **_OWN, "floor_divide": _operator("floordiv"), "mod": _operator("mod"), "mantissa": _mantissa,
}  # fmt: skip
"""Functions that give a float of the type they compute in."""
_OTHERS: dict[str, Emit] = {
    "isnan": _is_nan, "isinf": _size_test("oeq"), "isfinite": _size_test("olt"), "signbit": _signbit,
    "exponent": _exponent,
}  # fmt: skip
"""Functions that give a truth value or an int."""
_SMALL = {"nextafter": _next_half}
"""Functions of 16-bit floats that look at their bits."""
MATH_OPERATIONS = (*(name for name in (*_NUMBERS, *_OTHERS) if name not in ("mantissa", "exponent")),
                   "frexp.mantissa", "frexp.exponent")  # fmt: skip
"""Names, without ``math.`` or ``numpy.``, of the functions that `emit_math` knows."""


def emit_math(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    """Compute a mathematical function of real arguments."""
    name = node.name.rpartition(".")[2]
    source = node.args[0].type
    assert isinstance(source, Scalar)  # the verifier's business
    pairs = [widen(e.b, a.type, v[0], e.profile.native_half) if isinstance(a.type, Scalar) and a.type.kind in "fe"
             else (v[0], a.type) for a, v in zip(node.args, args, strict=True)]  # fmt: skip
    wide = pairs[0][1]
    assert isinstance(wide, Scalar)
    f, values = register_type(wide), tuple(p[0] for p in pairs)
    if name in _SMALL and is_small(source):
        return (_SMALL[name](e, (args[0][0], args[1][0]), f, values),)
    if name in _OTHERS:
        return (_OTHERS[name](e, f, values),)
    own = e.profile.float32_functions().get(name) if f == "float" else None
    result = (own or _NUMBERS[name])(e, f, values)
    assert isinstance(node.type, Scalar)
    if node.type.kind in "fe":
        return (narrow(e.b, node.type, wide, result, e.profile.native_half),)
    return e.cast_value(wide, node.type, (result,))
