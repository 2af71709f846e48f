"""`math`, `cmath` and NumPy's scalar functions.

A function of a float32 gives a float32 whichever module it comes from (NumPy's meaning); of integers `math` gives a
float64, of Python numbers a Python float.  Where Python's `math` raises ValueError, NaN is the result, as in NumPy.
"""

from __future__ import annotations

import ast
import cmath
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sterna.compiler.frontend import operators
from sterna.compiler.frontend.frame import Frame
from sterna.compiler.frontend.promotion import float_type, result_type
from sterna.compiler.frontend.rules import RULES, Rule, typing_rule
from sterna.compiler.frontend.rules.dtypes import to_int
from sterna.compiler.frontend.values import Rt, TupleValue, Value
from sterna.compiler.ir.nodes import Binary, Compare, Const, Expr, IfExp, Intrinsic
from sterna.types import BOOL, FLOAT16, FLOAT32, FLOAT64, PYFLOAT, PYINT, Scalar

__all__ = ["common_float"]

_REAL: dict[str, tuple[Any, ...]] = {
    "sin": (math.sin, np.sin), "cos": (math.cos, np.cos), "tan": (math.tan, np.tan),
    "asin": (math.asin, np.arcsin), "acos": (math.acos, np.arccos), "atan": (math.atan, np.arctan),
    "sinh": (math.sinh, np.sinh), "cosh": (math.cosh, np.cosh), "tanh": (math.tanh, np.tanh),
    "asinh": (math.asinh, np.arcsinh), "acosh": (math.acosh, np.arccosh), "atanh": (math.atanh, np.arctanh),
    "exp": (math.exp, np.exp), "exp2": (math.exp2, np.exp2), "expm1": (math.expm1, np.expm1),
    "log2": (math.log2, np.log2), "log10": (math.log10, np.log10), "log1p": (math.log1p, np.log1p),
    "log": (np.log,), "sqrt": (math.sqrt, np.sqrt), "cbrt": (math.cbrt, np.cbrt), "fabs": (math.fabs, np.fabs),
    "erf": (math.erf,), "erfc": (math.erfc,), "gamma": (math.gamma,), "lgamma": (math.lgamma,),
}  # fmt: skip
_BINARY: dict[str, tuple[Any, ...]] = {
    "atan2": (math.atan2, np.arctan2), "hypot": (np.hypot,), "fmod": (math.fmod,),
    "copysign": (math.copysign, np.copysign), "nextafter": (math.nextafter, np.nextafter),
    "remainder": (math.remainder,),
}  # fmt: skip
_TESTS: dict[str, tuple[Any, ...]] = {
    "isnan": (math.isnan, np.isnan), "isinf": (math.isinf, np.isinf), "isfinite": (math.isfinite, np.isfinite),
}  # fmt: skip
_COMPLEX = ("sqrt", "exp", "log", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
            "asinh", "acosh", "atanh")  # fmt: skip


def common_float(frame: Frame, node: ast.AST, args: Sequence[Value], shown: str) -> tuple[list[Expr], Scalar]:
    """Arguments converted to their common floating (or complex) type.

    Of integers, `math` makes float64; NumPy's own functions (``np.…``) the narrowest float that holds them.
    """
    numbers = [operators.scalar(frame, arg, node, shown) for arg in args]
    types = [PYINT if number.pybool else number.expr.type for number in numbers]
    found: Scalar | None = None
    for t in _floats_as_numpy(types) if shown.startswith("np.") else types:
        assert isinstance(t, Scalar)
        t = float_type(t) if t.kind != "b" else FLOAT64
        found = t if found is None else result_type(found, t)
    assert found is not None
    return [frame.cast(number.expr, found, node) for number in numbers], found


def _floats_as_numpy(types: Sequence[Any]) -> list[Scalar]:
    """The one type of a NumPy function's arguments: integers of 8 and 16 bits go to float16 and float32."""
    common = types[0]
    for t in types[1:]:
        common = result_type(common, t)
    if common.kind in "biu" and not common.weak and common.bits <= 16:
        return [FLOAT16 if common.bits == 8 else FLOAT32]
    return [common]


def _unary(intrinsic: str, shown: str, has_complex: bool) -> Rule:
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        (x,), t = common_float(frame, node, args, shown)
        if t.kind == "c":
            if not has_complex:
                frame.fail(node, f"{shown} has no complex numbers", "use the functions of cmath")
            return Rt(Intrinsic(f"cmath.{intrinsic}", (x,), t))
        return Rt(Intrinsic(f"math.{intrinsic}", (x,), t), False, intrinsic in ("fabs", "sqrt", "exp"))

    return Rule(shown, typing, 1, 1)


def _binary(intrinsic: str, shown: str) -> Rule:
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        parts, t = common_float(frame, node, args, shown)
        if t.kind == "c":
            frame.fail(node, f"{shown} has no complex numbers")
        return Rt(Intrinsic(f"math.{intrinsic}", tuple(parts), t))

    return Rule(shown, typing, 2, 2)


def _test(intrinsic: str, shown: str, python: bool) -> Rule:
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        number = operators.scalar(frame, args[0], node, shown)
        t = number.expr.type
        assert isinstance(t, Scalar)
        if t.kind in "biu":
            return Rt(Const(intrinsic == "isfinite", BOOL), python)
        if t.kind == "c":
            return Rt(_complex_test(frame, intrinsic, number.expr, t), python)
        (x,), t = common_float(frame, node, args, shown)
        return Rt(Intrinsic(f"math.{intrinsic}", (x,), BOOL), python)

    return Rule(shown, typing, 1, 1)


def _complex_test(frame: Frame, intrinsic: str, z: Expr, t: Scalar) -> Expr:
    z = frame.temp(z)
    part = Scalar("f", t.bits // 2, t.weak)
    tests = [Intrinsic(f"math.{intrinsic}", (Intrinsic(f"complex.{p}", (z,), part),), BOOL) for p in ("real", "imag")]
    return Binary("and" if intrinsic == "isfinite" else "or", tests[0], tests[1], BOOL)


def _shown(function: Any) -> str:
    module = "np" if isinstance(function, np.ufunc) else str(getattr(function, "__module__", "")).split(".")[0]
    return f"{module}.{function.__name__}"


def _fill() -> None:
    for intrinsic, functions in _REAL.items():
        for function in functions:
            numpy = isinstance(function, np.ufunc)
            RULES[function] = _unary(intrinsic, _shown(function), numpy and intrinsic in _COMPLEX)
    for name in _COMPLEX:
        RULES[getattr(cmath, name)] = _complex_rule(name)
    for intrinsic, functions in _BINARY.items():
        for function in functions:
            RULES[function] = _binary(intrinsic, _shown(function))
    for intrinsic, functions in _TESTS.items():
        for function in functions:
            RULES[function] = _test(intrinsic, _shown(function), not isinstance(function, np.ufunc))
    for intrinsic in ("isnan", "isinf", "isfinite"):
        RULES[getattr(cmath, intrinsic)] = _test(intrinsic, f"cmath.{intrinsic}", True)


def _complex_rule(name: str) -> Rule:
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        (x,), t = common_float(frame, node, args, f"cmath.{name}")
        if t.kind != "c":
            t = result_type(t, Scalar("c", 128, weak=True))
        return Rt(Intrinsic(f"cmath.{name}", (frame.cast(x, t, node),), t))

    return Rule(f"cmath.{name}", typing, 1, 1)


_fill()


# ---- logarithms and powers with Python's own signatures ----


@typing_rule(math.log, most=2)
def _log(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    parts, t = common_float(frame, node, args, "math.log")
    if t.kind == "c":
        frame.fail(node, "math.log has no complex numbers", "use cmath.log")
    logs = [Intrinsic("math.log", (x,), t) for x in parts]
    if len(logs) == 1:
        return Rt(logs[0])
    return Rt(Binary("truediv", logs[0], logs[1], t))


@typing_rule(math.pow, least=2)
def _pow(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    (x, y), t = common_float(frame, node, args, "math.pow")
    return Rt(Binary("pow", x, y, t))


@typing_rule(math.hypot, least=1, most=8)
def _hypot(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    parts, t = common_float(frame, node, args, "math.hypot")
    if t.kind == "c":
        frame.fail(node, "math.hypot has no complex numbers", "use abs(z)")
    expr: Expr = Intrinsic("math.fabs", (parts[0],), t)
    for part in parts[1:]:
        expr = Intrinsic("math.hypot", (expr if len(parts) > 2 else parts[0], part), t)
    return Rt(expr)


def _ldexp(shown: str) -> Rule:
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        (x,), t = common_float(frame, node, args[:1], shown)
        exponent = operators.scalar(frame, args[1], node, shown)
        s = exponent.expr.type
        if not isinstance(s, Scalar) or s.kind not in "iu":
            frame.fail(node, f"the exponent of {shown} must be an integer, this is {s}")
        return Rt(Intrinsic("math.ldexp", (x, frame.cast(exponent.expr, PYINT, node)), t))

    return Rule(shown, typing, 2, 2)


RULES[math.ldexp], RULES[np.ldexp] = _ldexp("math.ldexp"), _ldexp("np.ldexp")


@typing_rule(math.frexp)
def _frexp(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    (x,), t = common_float(frame, node, args, "frexp")
    x = frame.temp(x)
    return TupleValue(
        (Rt(Intrinsic("math.frexp.mantissa", (x,), t)), Rt(Intrinsic("math.frexp.exponent", (x,), PYINT)))
    )


@typing_rule(math.modf)
def _modf(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    (x,), t = common_float(frame, node, args, "modf")
    x = frame.temp(x)
    whole = frame.temp(Intrinsic("math.trunc", (x,), t))
    rest = IfExp(Intrinsic("math.isinf", (x,), BOOL), Const(0.0, t), Binary("sub", x, whole, t), t)
    return TupleValue((Rt(Intrinsic("math.copysign", (rest, x), t)), Rt(whole)))


def _fma(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    parts, t = common_float(frame, node, args, "math.fma")
    return Rt(Intrinsic("math.fma", tuple(parts), t))


if hasattr(math, "fma"):  # from Python 3.13 on
    RULES[math.fma] = Rule("math.fma", _fma, 3, 3)


def _scaled(factor: float, shown: str) -> Rule:
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        (x,), t = common_float(frame, node, args, shown)
        return Rt(Binary("mul", x, frame.cast(Const(factor, PYFLOAT), t, node), t))

    return Rule(shown, typing, 1, 1)


RULES |= {f: _scaled(180.0 / math.pi, _shown(f)) for f in (math.degrees, np.degrees, np.rad2deg)}
RULES |= {f: _scaled(math.pi / 180.0, _shown(f)) for f in (math.radians, np.radians, np.deg2rad)}


# ---- rounding ----


def _rounding(intrinsic: str, shown: str) -> Rule:
    """`math`'s: a Python int."""

    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        number = operators.scalar(frame, args[0], node, shown)
        t = number.expr.type
        assert isinstance(t, Scalar)
        if t.kind in "biu":
            return Rt(frame.cast(number.expr, PYINT, node), False, number.nonneg)
        (x,), t = common_float(frame, node, args, shown)
        if t.kind == "c":
            frame.fail(node, f"{shown} has no complex numbers")
        if isinstance(x, Const) and math.isfinite(x.value):
            return Rt(Const(int(getattr(math, intrinsic)(x.value)), PYINT))
        return Rt(to_int(frame, Intrinsic(f"math.{intrinsic}", (x,), t), "cannot convert float {} to integer"))

    return Rule(shown, typing, 1, 1)


def _rounding_float(intrinsic: str, shown: str) -> Rule:
    """NumPy's: the type of the argument."""

    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        number = operators.scalar(frame, args[0], node, shown)
        t = number.expr.type
        assert isinstance(t, Scalar)
        if t.kind in "iu":
            return Rt(frame.cast(number.expr, t, node), False, number.nonneg)
        (x,), t = common_float(frame, node, args, shown)
        if t.kind == "c":
            frame.fail(node, f"{shown} has no complex numbers")
        return Rt(Intrinsic(f"math.{intrinsic}", (x,), t))

    return Rule(shown, typing, 1, 1)


for _name, _function in (("floor", math.floor), ("ceil", math.ceil), ("trunc", math.trunc)):
    RULES[_function] = _rounding(_name, f"math.{_name}")
_ROUNDING: tuple[tuple[str, Any], ...] = (
    ("floor", np.floor),
    ("ceil", np.ceil),
    ("trunc", np.trunc),
    ("rint", np.rint),
)
for _name, _ufunc in _ROUNDING:
    RULES[_ufunc] = _rounding_float(_name, f"np.{_name}")


# ---- NumPy's arithmetic by name ----


def _ufunc_operator(op: str) -> Any:
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        return operators.binary(frame, node, op, _numpy(args[0]), _numpy(args[1]))

    return typing


def _ufunc_compare(op: str) -> Any:
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        return Rt(operators.compare(frame, node, op, args[0], args[1]).expr)

    return typing


def _numpy(value: Value) -> Value:
    """NumPy's functions take a Python bool as a truth value."""
    return Rt(value.expr, False, value.nonneg) if isinstance(value, Rt) and value.pybool else value


_ARITHMETIC: tuple[tuple[Any, str], ...] = (
    (np.add, "add"), (np.subtract, "sub"), (np.multiply, "mul"), (np.true_divide, "truediv"),
    (np.floor_divide, "floordiv"), (np.mod, "mod"), (np.power, "pow"), (np.bitwise_and, "and"),
    (np.bitwise_or, "or"), (np.bitwise_xor, "xor"), (np.left_shift, "shl"), (np.right_shift, "shr"),
)  # fmt: skip
for _ufunc, _op in _ARITHMETIC:
    RULES[_ufunc] = Rule(f"np.{_ufunc.__name__}", _ufunc_operator(_op), 2, 2)
_COMPARISONS: tuple[tuple[Any, str], ...] = (
    (np.equal, "eq"), (np.not_equal, "ne"), (np.less, "lt"), (np.less_equal, "le"), (np.greater, "gt"),
    (np.greater_equal, "ge"),
)  # fmt: skip
for _ufunc, _op in _COMPARISONS:
    RULES[_ufunc] = Rule(f"np.{_ufunc.__name__}", _ufunc_compare(_op), 2, 2)


@typing_rule(np.negative)
def _negative(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    return operators.unary(frame, node, "-", args[0])


@typing_rule(np.invert)
def _invert(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    return operators.unary(frame, node, "~", _numpy(args[0]))


@typing_rule(np.square)
def _square(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    value = frame.stable(args[0])
    return operators.binary(frame, node, "mul", value, value)


@typing_rule(np.reciprocal)
def _reciprocal(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    (x,), t = common_float(frame, node, args, "np.reciprocal")
    one = Const(1.0 if t.kind == "f" else 1 + 0j, t)
    return Rt(Binary("truediv", one, x, t))


def _logical(op: str) -> Any:
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        tests = [operators.truth(frame, arg, node) for arg in args]
        return Rt(Binary(op, tests[0], tests[1], BOOL))

    return typing


_LOGICAL: tuple[tuple[Any, str], ...] = ((np.logical_and, "and"), (np.logical_or, "or"), (np.logical_xor, "xor"))
for _ufunc, _op in _LOGICAL:
    RULES[_ufunc] = Rule(f"np.{_ufunc.__name__}", _logical(_op), 2, 2)


@typing_rule(np.logical_not)
def _logical_not(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    return operators.unary(frame, node, "~", Rt(operators.truth(frame, args[0], node)))


@typing_rule(np.signbit)
def _signbit(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    (x,), _ = common_float(frame, node, args, "np.signbit")
    return Rt(Intrinsic("math.signbit", (x,), BOOL))


@typing_rule(np.sign)
def _sign(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    number = operators.scalar(frame, args[0], node, "np.sign")
    t = number.expr.type
    assert isinstance(t, Scalar)
    if t.kind in "bc":
        frame.unsupported(node, f"np.sign of {t} cannot be used in device code")
    t = float_type(t) if t.kind == "e" else t
    x = frame.temp(frame.cast(number.expr, t, node))
    zero, one, minus = (_of(v, t) for v in (0, 1, -1 if t.kind != "u" else 1))
    rest = IfExp(Compare("eq", x, zero), zero, x, t)  # NaN stays NaN
    negative = IfExp(Compare("lt", x, zero), minus, rest, t)
    return Rt(IfExp(Compare("gt", x, zero), one, negative, t))


def _of(value: int, t: Scalar) -> Const:
    return Const(float(value) if t.kind == "f" else value, t)


def _extreme(intrinsic: str, op: str) -> Any:
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        numbers = [operators.scalar(frame, arg, node, f"np.{intrinsic}") for arg in args]
        a, b = (PYINT if n.pybool else n.expr.type for n in numbers)
        assert isinstance(a, Scalar) and isinstance(b, Scalar)
        t = result_type(a, b)
        if t.kind == "c":
            frame.unsupported(node, f"np.{intrinsic} of complex numbers cannot be used in device code")
        x, y = (frame.cast(n.expr, t, node) for n in numbers)
        if t.kind == "f":
            return Rt(Intrinsic(f"math.{intrinsic}", (x, y), t))
        if t.kind == "b":
            return Rt(Binary("or" if op == "max" else "and", x, y, t))
        return Rt(Binary(op, x, y, t), False, all(n.nonneg for n in numbers))

    return typing


_EXTREMES: tuple[tuple[Any, str, str], ...] = (
    (np.minimum, "minimum", "min"), (np.maximum, "maximum", "max"), (np.fmin, "fmin", "min"), (np.fmax, "fmax", "max"),
)  # fmt: skip
for _ufunc, _intrinsic, _op in _EXTREMES:
    RULES[_ufunc] = Rule(f"np.{_ufunc.__name__}", _extreme(_intrinsic, _op), 2, 2)


@typing_rule(np.conjugate)
def _conjugate(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    number = operators.scalar(frame, args[0], node, "np.conj")
    t = number.expr.type
    if isinstance(t, Scalar) and t.kind == "c":
        return Rt(Intrinsic("complex.conj", (number.expr,), t))
    return number


@typing_rule(cmath.phase, np.angle)
def _phase(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    (z,), t = common_float(frame, node, args, "phase")
    if t.kind != "c":
        return Rt(Intrinsic("math.atan2", (Const(0.0, t), z), t))
    z = frame.temp(z)
    part = Scalar("f", t.bits // 2, t.weak)
    return Rt(
        Intrinsic("math.atan2", (Intrinsic("complex.imag", (z,), part), Intrinsic("complex.real", (z,), part)), part)
    )


@typing_rule(np.where, least=3)
def _where(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    from sterna.compiler.frontend.rules import LANGUAGE

    return LANGUAGE["selp"].typing(frame, node, args)


@typing_rule(np.clip, least=3)
def _clip(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    low = RULES[np.maximum].typing(frame, node, [args[0], args[1]])
    return RULES[np.minimum].typing(frame, node, [low, args[2]])
