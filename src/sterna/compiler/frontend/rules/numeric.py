"""Functions of `math`, `cmath` and NumPy that are put together from simpler ones, by NumPy's own formulas."""

from __future__ import annotations

import ast
import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sterna.compiler.frontend import operators
from sterna.compiler.frontend.frame import Frame, tuple_items
from sterna.compiler.frontend.promotion import result_type
from sterna.compiler.frontend.rules import RULES, Rule, many, typing_rule
from sterna.compiler.frontend.rules.mathematics import common_float
from sterna.compiler.frontend.values import Rt, TupleValue, Value, describe
from sterna.compiler.ir.nodes import Assign, Binary, Cast, Compare, Const, Expr, IfExp, Intrinsic, Local, Unary, While
from sterna.types import BOOL, INT32, PYINT, UINT8, Scalar

__all__: list[str] = []


def _real(frame: Frame, node: ast.AST, args: list[Value], shown: str) -> tuple[list[Expr], Scalar]:
    """Arguments of one real floating type, each evaluated once."""
    parts, t = common_float(frame, node, args, shown)
    if t.kind == "c":
        frame.fail(node, f"{shown} has no complex numbers")
    return [part if isinstance(part, Const) else frame.temp(part) for part in parts], t


def _integers(frame: Frame, node: ast.AST, args: list[Value], shown: str) -> tuple[list[Expr], Scalar]:
    """Arguments of one integer type, each evaluated once."""
    numbers = [operators.scalar(frame, arg, node, shown) for arg in args]
    types = [PYINT if number.pybool else number.expr.type for number in numbers]
    t = types[0]
    for other in types[1:]:
        t = result_type(t, other)
    if not isinstance(t, Scalar) or t.kind not in "iu":
        frame.fail(node, f"{shown} needs integers, this is {describe(numbers[0])}", "convert with int(…)")
    return [frame.temp(frame.cast(number.expr, t, node)) for number in numbers], t


def _call(name: str, x: Expr, t: Scalar) -> Expr:
    return Intrinsic(f"math.{name}", (x,), t)


# ---- integers ----


def _magnitude(x: Expr, t: Scalar) -> Expr:
    """``abs(x)`` as an unsigned number of the same width: right for the most negative one too."""
    wide = Scalar("u", t.bits)
    return Cast(Intrinsic("abs", (x,), t) if t.kind == "i" else x, wide)


def _divisor(frame: Frame, x: Expr, y: Expr) -> Expr:
    """Greatest common divisor of two unsigned numbers, by Euclid's algorithm."""
    t = x.type
    assert isinstance(t, Scalar)
    a, b, rest = Local(frame.fresh(t), t), Local(frame.fresh(t), t), Local(frame.fresh(t), t)
    frame.out += [Assign(a.name, x, frame.line), Assign(b.name, y, frame.line)]
    turn = (
        Assign(rest.name, Binary("mod", a, b, t), frame.line),
        Assign(a.name, b, frame.line),
        Assign(b.name, rest, frame.line),
    )
    frame.out.append(While(Compare("ne", b, Const(0, t)), turn, frame.line))
    return a


def _gcd(frame: Frame, node: ast.AST, parts: list[Expr], t: Scalar) -> Value:
    found = _magnitude(parts[0], t)
    for part in parts[1:]:
        found = _divisor(frame, found, _magnitude(part, t))
    return Rt(Cast(found, t), False, t.weak)


def _lcm(frame: Frame, node: ast.AST, parts: list[Expr], t: Scalar) -> Value:
    found: Expr = frame.temp(_magnitude(parts[0], t))
    for part in parts[1:]:
        other = frame.temp(_magnitude(part, t))
        divisor = _divisor(frame, found, other)
        wide = other.type
        found = frame.temp(Binary("mul", Binary("floordiv", found, divisor, wide), other, wide))  # 0 // 0 is 0
    return Rt(Cast(found, t), False, t.weak)


def _whole(module: str, name: str, typing: Callable[[Frame, ast.AST, list[Expr], Scalar], Value]) -> Rule:
    """`math`'s function gives a Python int of any integers, NumPy's the common type of two."""

    def of_python(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        parts, _ = _integers(frame, node, args, f"math.{name}")
        return typing(frame, node, [frame.temp(frame.cast(part, PYINT, node)) for part in parts], PYINT)

    def of_numpy(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        return typing(frame, node, *_integers(frame, node, args, f"np.{name}"))

    return Rule(f"{module}.{name}", of_python, 1, many()) if module == "math" else Rule(f"np.{name}", of_numpy, 2, 2)


for _name, _typing in (("gcd", _gcd), ("lcm", _lcm)):
    RULES[getattr(math, _name)], RULES[getattr(np, _name)] = (
        _whole("math", _name, _typing),
        _whole("np", _name, _typing),
    )


@typing_rule(np.bitwise_count)
def _bitwise_count(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    (x,), t = _integers(frame, node, args, "np.bitwise_count")
    return Rt(Cast(Intrinsic("popc", (_magnitude(x, t),), PYINT), UINT8), False, True)


# ---- remainders and parts ----


@typing_rule(np.fmod, least=2)
def _fmod(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    numbers = [operators.scalar(frame, arg, node, "np.fmod") for arg in args]
    if any(number.expr.type.kind not in "iu" for number in numbers):  # type: ignore[union-attr]
        (x, y), t = _real(frame, node, args, "np.fmod")
        return Rt(Intrinsic("math.fmod", (x, y), t))
    (x, y), t = _integers(frame, node, args, "np.fmod")
    floored = frame.temp(Binary("mod", x, y, t))  # has the sign of y, or is 0
    zero = Const(0, t)
    differs = Compare("lt", Binary("xor", floored, x, t), zero)
    moved = Binary("and", Compare("ne", floored, zero), differs, BOOL)
    return Rt(IfExp(moved, Binary("sub", floored, y, t), floored, t))


@typing_rule(np.modf)
def _modf(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    return RULES[math.modf].typing(frame, node, args)


@typing_rule(np.frexp)
def _frexp(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    (x,), t = _real(frame, node, args, "np.frexp")
    exponent = Intrinsic("math.frexp.exponent", (x,), PYINT)
    return TupleValue((Rt(Intrinsic("math.frexp.mantissa", (x,), t)), Rt(frame.cast(exponent, INT32, node))))


@typing_rule(np.positive)
def _positive(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    return operators.unary(frame, node, "+", args[0])


# ---- floats ----


@typing_rule(np.heaviside, least=2)
def _heaviside(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    (x, half), t = _real(frame, node, args, "np.heaviside")
    zero, one = Const(0.0, t), Const(1.0, t)
    negative = IfExp(Compare("lt", x, zero), zero, x, t)  # NaN stays NaN
    positive = IfExp(Compare("gt", x, zero), one, negative, t)
    return Rt(IfExp(Compare("eq", x, zero), half, positive, t))


def _log_of_sum(log1p: Callable[[Expr, Scalar], Expr], exp: str, doubled: float, shown: str) -> Rule:
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        (x, y), t = _real(frame, node, args, shown)
        d = frame.temp(Binary("sub", x, y, t))
        zero = Const(0.0, t)
        first = Binary("add", x, log1p(_call(exp, Unary("neg", d, t), t), t), t)
        second = Binary("add", y, log1p(_call(exp, d, t), t), t)
        unequal = IfExp(Compare("gt", d, zero), first, IfExp(Compare("le", d, zero), second, d, t), t)
        equal = Binary("add", x, frame.cast(Const(doubled, Scalar("f", 64, weak=True)), t, node), t)
        return Rt(IfExp(Compare("eq", x, y), equal, unequal, t))

    return Rule(shown, typing, 2, 2)


def _log2_1p(x: Expr, t: Scalar) -> Expr:
    return Binary("mul", Const(float(np.dtype(f"f{t.bits // 8}").type(math.log2(math.e))), t), _call("log1p", x, t), t)


RULES[np.logaddexp] = _log_of_sum(lambda x, t: _call("log1p", x, t), "exp", math.log(2), "np.logaddexp")
RULES[np.logaddexp2] = _log_of_sum(_log2_1p, "exp2", 1.0, "np.logaddexp2")


@typing_rule(np.float_power, least=2)
def _float_power(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    parts, t = common_float(frame, node, args, "np.float_power")
    wide = Scalar("c", 128) if t.kind == "c" else Scalar("f", 64)
    x, y = (frame.cast(part, wide, node) for part in parts)
    return Rt(Binary("pow", x, y, wide))


def _next(x: Expr, towards: Expr, t: Scalar) -> Expr:
    return Intrinsic("math.nextafter", (x, towards), t)


@typing_rule(np.spacing)
def _spacing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    (x,), t = _real(frame, node, args, "np.spacing")
    up, zero = Const(math.inf, t), Const(0.0, t)
    away: Expr = up  # NumPy's float16 looks upwards, its other floats away from zero
    if t.bits > 16:
        away = IfExp(Compare("eq", x, zero), up, Intrinsic("math.copysign", (up, x), t), t)
    infinite = Intrinsic("math.isinf", (x,), BOOL)
    return Rt(IfExp(infinite, Const(math.nan, t), Binary("sub", _next(x, away, t), x, t), t))


@typing_rule(math.ulp)
def _ulp(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    (x,), t = _real(frame, node, args, "math.ulp")
    size = frame.temp(_call("fabs", x, t))
    step = frame.temp(Binary("sub", _next(size, Const(math.inf, t), t), size, t))
    last = Binary("sub", size, _next(size, Const(0.0, t), t), t)  # of the largest number: the step below it
    finite = IfExp(Intrinsic("math.isinf", (step,), BOOL), last, step, t)
    return Rt(IfExp(Intrinsic("math.isinf", (size,), BOOL), size, finite, t))


@typing_rule(math.prod, most=1)
def _prod(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    items = tuple_items(frame, args[0], node)
    if items is None:
        frame.unsupported(node, f"math.prod of {describe(args[0])} cannot be used in device code", "write a for loop")
    product: Value = Rt(Const(1, PYINT))
    for item in items:
        product = operators.binary(frame, node, "mul", product, item)
    return product


# ---- complex numbers ----


@typing_rule(cmath.polar)
def _polar(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    z = frame.stable(RULES[complex].typing(frame, node, args) if _is_weak_real(frame, node, args[0]) else args[0])
    return TupleValue((RULES[abs].typing(frame, node, [z]), RULES[cmath.phase].typing(frame, node, [z])))


def _is_weak_real(frame: Frame, node: ast.AST, value: Value) -> bool:
    t: Any = operators.scalar(frame, value, node, "cmath.polar").expr.type
    return bool(t.weak) and t.kind != "c"


@typing_rule(cmath.rect, least=2)
def _rect(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    (r, phi), t = _real(frame, node, args, "cmath.rect")
    parts = tuple(Binary("mul", r, _call(name, phi, t), t) for name in ("cos", "sin"))
    return Rt(Intrinsic("complex.make", parts, Scalar("c", t.bits * 2, t.weak)))
