"""``isclose`` of `math`, `cmath` and NumPy: whether two numbers are nearly equal, by each module's own definition."""

from __future__ import annotations

import ast
import cmath
import math
from typing import Any

import numpy as np

from sterna.compiler.frontend import operators
from sterna.compiler.frontend.frame import Frame
from sterna.compiler.frontend.rules import RULES, Rule
from sterna.compiler.frontend.values import Rt, Value
from sterna.compiler.ir.nodes import Binary, Const, Expr, Unary
from sterna.types import BOOL, FLOAT64, PYFLOAT, Scalar

__all__: list[str] = []

_TOLERANCES = ("rel_tol", "abs_tol")
_DEFAULTS = (Const(1e-5, PYFLOAT), Const(1e-8, PYFLOAT), Const(False, BOOL))
"""NumPy's: relative and absolute tolerance, and whether NaN is near NaN."""


def _either(*tests: Expr) -> Expr:
    found = tests[0]
    for test in tests[1:]:
        found = Binary("or", found, test, BOOL)
    return found


def _python_rule(kind: type, isinf: Any, shown: str) -> Rule:
    """The rule of Python's function on numbers of one kind: relative to the larger of the two."""

    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        def rule(function: Any, *values: Value) -> Value:
            return frame.stable(RULES[function].typing(frame, node, list(values)))

        def at_most(x: Value, y: Value) -> Expr:
            return operators.compare(frame, node, "le", x, y).expr

        tolerances = [
            Rt(Const(default, PYFLOAT)) if given is None else rule(float, given)
            for given, default in zip(args[:2], (1e-9, 0.0), strict=True)
        ]
        for tolerance in tolerances:
            negative = operators.compare(frame, node, "lt", tolerance, Rt(Const(0.0, PYFLOAT))).expr
            if negative != Const(False, BOOL):
                frame.check(negative, "ValueError", "tolerances must be non-negative")
        relative, absolute = tolerances
        x, y = rule(kind, args[2]), rule(kind, args[3])
        apart = rule(abs, operators.binary(frame, node, "sub", x, y))
        near = [
            at_most(apart, frame.stable(operators.binary(frame, node, "mul", relative, rule(abs, z)))) for z in (y, x)
        ]
        infinite = _either(*(operators.truth(frame, rule(isinf, z), node) for z in (x, y)))
        finite = Binary("and", _either(*near, at_most(apart, absolute)), Unary("not", infinite, BOOL), BOOL)
        return Rt(_either(operators.compare(frame, node, "eq", x, y).expr, finite), True)

    return Rule(shown, typing, 2, 2, ("a", "b"), _TOLERANCES)


RULES[math.isclose] = _python_rule(float, math.isinf, "math.isclose")
RULES[cmath.isclose] = _python_rule(complex, cmath.isinf, "cmath.isclose")


def _isclose(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    """NumPy's: relative to the second number, which is made a floating one first."""
    named, positional = args[:3], [*args[5:], None, None, None]
    x = frame.stable(operators.scalar(frame, args[3], node, "numpy.isclose"))
    second = operators.scalar(frame, args[4], node, "numpy.isclose")
    t = second.expr.type
    if isinstance(t, Scalar) and t.kind not in "fc":
        second = Rt(frame.cast(second.expr, FLOAT64, node))
    y = frame.stable(second)
    rtol, atol, equal_nan = (
        given if given is not None else other if other is not None else Rt(default)
        for given, other, default in zip(named, positional, _DEFAULTS, strict=False)
    )

    def tested(function: Any, value: Value) -> Expr:
        return operators.truth(frame, RULES[function].typing(frame, node, [value]), node)

    def size(value: Value) -> Value:
        return RULES[abs].typing(frame, node, [value])

    limit = operators.binary(
        frame, node, "add", atol, frame.stable(operators.binary(frame, node, "mul", rtol, size(y)))
    )
    apart = frame.stable(size(frame.stable(operators.binary(frame, node, "sub", x, y))))
    near = operators.compare(frame, node, "le", apart, frame.stable(limit)).expr
    same = operators.compare(frame, node, "eq", x, y).expr
    result = _either(Binary("and", near, tested(np.isfinite, y), BOOL), same)
    wanted = operators.truth(frame, equal_nan, node)
    if wanted != Const(False, BOOL):
        both = Binary("and", tested(np.isnan, x), tested(np.isnan, y), BOOL)
        result = _either(result, Binary("and", both, wanted, BOOL))
    return Rt(result)


RULES[np.isclose] = Rule("isclose", _isclose, 2, 5, ("a", "b"), ("rtol", "atol", "equal_nan"))
