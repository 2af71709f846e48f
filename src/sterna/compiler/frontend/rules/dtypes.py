"""Conversions (``int``, ``np.float32``…) and what dtypes and classes say at compile time."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from sterna.compiler.frontend import operators
from sterna.compiler.frontend.captures import constant_value
from sterna.compiler.frontend.frame import Frame
from sterna.compiler.frontend.promotion import cast_expr, fits, float_type
from sterna.compiler.frontend.rules import RULES, Rule, typing_rule
from sterna.compiler.frontend.values import Rt, Static, Value, describe
from sterna.compiler.ir.nodes import Cast, Compare, Const, Expr, If, Intrinsic, Unary
from sterna.types import (
    BFLOAT16,
    BOOL,
    COMPLEX128,
    FLOAT64,
    PYCOMPLEX,
    PYFLOAT,
    PYINT,
    RecordType,
    Scalar,
    from_dtype,
    scalar_named,
)  # fmt: skip

__all__ = ["convert_number", "element_type", "scalar_type_of", "static_attribute", "static_type"]

_PYTHON: dict[type, Scalar] = {bool: BOOL, int: PYINT, float: PYFLOAT, complex: PYCOMPLEX}
_NUMPY = (
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.complex64, np.complex128,
)  # fmt: skip


def scalar_type_of(value: Any) -> Scalar | None:
    """The scalar type a class, dtype or dtype name stands for (``float`` as a dtype is float64), else None."""
    found = element_type(value)
    return found if isinstance(found, Scalar) else None


def element_type(value: Any) -> Scalar | RecordType | None:
    """Element type named by a class, dtype, string or storage type; None if it names none."""
    if type(value).__name__ == "StorageType":
        return scalar_named(value.name)
    if value in (bool, int, float, complex) if isinstance(value, type) else False:
        return {bool: BOOL, int: scalar_named("int64"), float: FLOAT64, complex: COMPLEX128}[value]
    try:
        return from_dtype(np.dtype(value))
    except (TypeError, KeyError):
        return None


def static_type(value: Value) -> np.dtype[Any] | None:
    """A dtype or NumPy class as a dtype, for comparing; None for other values."""
    if not isinstance(value, Static) or isinstance(value.value, str):
        return None
    if isinstance(value.value, np.dtype):
        return value.value
    if isinstance(value.value, type) and (issubclass(value.value, np.generic) or value.value in _PYTHON):
        return np.dtype(value.value)
    return None


def static_attribute(value: Any, name: str) -> Value | None:
    """Attributes of dtypes and of ``np.finfo``/``np.iinfo`` objects."""
    if isinstance(value, np.dtype):
        if name == "type":
            return Static(value.type)
        if name in ("itemsize", "kind", "name", "char", "alignment"):
            return constant_value(getattr(value, name))
    if isinstance(value, np.finfo | np.iinfo):
        found = getattr(value, name, None)
        return constant_value(found) if found is not None else None
    return None


def convert_number(frame: Frame, node: ast.AST, value: Value, t: Scalar) -> Rt:
    """``np.float32(x)``: conversion by NumPy's rules; a Python float to an int type truncates."""
    number = operators.scalar(frame, value, node, f"conversion to {t}")
    s = number.expr.type
    assert isinstance(s, Scalar)
    if t == BOOL:
        return Rt(operators.truth(frame, number, node))
    if s.kind == "c" and t.kind != "c":
        frame.fail(node, f"a complex number cannot be converted to {t}", "use z.real or abs(z)")
    if isinstance(number.expr, Const) and isinstance(number.expr.value, float) and t.kind in "iu":
        try:
            whole = int(number.expr.value)
        except (ValueError, OverflowError):
            return Rt(Cast(number.expr, t))
        if not s.weak and not fits(whole, t):
            return Rt(Cast(number.expr, t))  # as a number that is not known: the low bits of it
        return Rt(frame.cast(Const(whole, PYINT), t, node))
    if t.kind in "iu" and s.kind == "e":
        return Rt(Cast(Cast(number.expr, float_type(s)), t))
    nonneg = t.kind == "u" or (number.nonneg and t.kind == "i")
    return Rt(frame.cast(number.expr, t, node), False, nonneg)


def _default(t: Scalar) -> Rt:
    zero = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}[t.kind]
    return Rt(Const(zero, t))


def _numpy_rule(t: Scalar, shown: str) -> Rule:
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        return convert_number(frame, node, args[0], t) if args else _default(t)

    return Rule(shown, typing, 0, 1)


for _cls in _NUMPY:
    _t = from_dtype(np.dtype(_cls))
    assert isinstance(_t, Scalar)
    RULES[_cls] = _numpy_rule(_t, f"np.{_cls.__name__}")


@typing_rule(int, least=0, most=1)
def _int(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    """``int(x)``: truncation; NaN raises ValueError and infinity OverflowError, as Python does."""
    if not args:
        return _default(PYINT)
    number = operators.scalar(frame, args[0], node, "int()")
    s = number.expr.type
    assert isinstance(s, Scalar)
    if s.kind == "c":
        frame.fail(node, "int() of a complex number", "use z.real")
    if s.kind not in "fe":
        return Rt(frame.cast(number.expr, PYINT, node), False, number.nonneg or (s.kind in "ub" and s.bits < 64))
    if isinstance(number.expr, Const):
        try:
            return Rt(Const(int(number.expr.value), PYINT))
        except (ValueError, OverflowError) as error:
            frame.fail(node, f"int(): {error}")
    return Rt(to_int(frame, number.expr, "cannot convert float {} to integer"))


def to_int(frame: Frame, expr: Expr, message: str) -> Expr:
    """A floating number that has no fraction any more, or loses it, as a Python int; checked as Python does."""
    t = expr.type
    assert isinstance(t, Scalar)
    if t == BFLOAT16:
        t = float_type(t)
        expr = cast_expr(expr, t)
    expr = frame.temp(expr)
    size = Intrinsic("math.fabs", (expr,), expr.type)
    finite = Compare("lt", size, Const(float("inf"), expr.type))  # one comparison on the way that goes on
    before, frame.out = frame.out, []
    frame.check(Intrinsic("math.isnan", (expr,), BOOL), "ValueError", message.format("NaN"))
    frame.check(Const(True, BOOL), "OverflowError", message.format("infinity"))
    before.append(If(Unary("not", finite, BOOL), frame.out, [], frame.line))  # type: ignore[arg-type]
    frame.out = before
    return Cast(expr, PYINT)


@typing_rule(float, least=0, most=1)
def _float(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    if not args:
        return _default(PYFLOAT)
    if isinstance(args[0], Static) and isinstance(args[0].value, str):
        try:
            return Rt(Const(float(args[0].value), PYFLOAT))
        except ValueError:
            frame.fail(node, f"could not convert string to float: {args[0].value!r}")
    return convert_number(frame, node, args[0], PYFLOAT)


@typing_rule(bool, least=0, most=1)
def _bool(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    return Rt(operators.truth(frame, args[0], node) if args else Const(False, BOOL), True)


@typing_rule(complex, least=0, most=2, names=("real", "imag"))
def _complex(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    if len(args) < 2:
        return convert_number(frame, node, args[0], PYCOMPLEX) if args else _default(PYCOMPLEX)
    parts = []
    for arg in args:
        number = operators.scalar(frame, arg, node, "complex()")
        if isinstance(number.expr.type, Scalar) and number.expr.type.kind == "c":
            frame.unsupported(node, "complex() of complex parts cannot be used in device code", "write a + b * 1j")
        parts.append(frame.cast(number.expr, PYFLOAT, node))
    if isinstance(parts[0], Const) and isinstance(parts[1], Const):
        return Rt(Const(complex(parts[0].value, parts[1].value), PYCOMPLEX))
    return Rt(Intrinsic("complex.make", tuple(parts), PYCOMPLEX))


@typing_rule(np.dtype, least=1)
def _dtype(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    value = args[0]
    if isinstance(value, Static):
        try:
            return Static(np.dtype(value.value))
        except TypeError:
            pass
    frame.fail(node, f"np.dtype of {describe(value)}")


@typing_rule(np.finfo, np.iinfo, least=1)
def _info(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    value = args[0]
    if isinstance(value, Static):
        t = scalar_type_of(value.value)
        if t is not None and t.kind in "iu":
            return Static(np.iinfo(str(t)))
        if t is not None and t.kind in "fc":
            return Static(np.finfo(str(t)))
    frame.fail(node, f"np.finfo and np.iinfo need a dtype, this is {describe(value)}", "np.finfo(np.float32)")
