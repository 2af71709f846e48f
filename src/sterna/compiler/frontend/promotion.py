"""Types of arithmetic and of control-flow joins (NEP 50), and conversion of expressions between types.

Python numbers are weak and take the other side's type; a literal that does not fit it is an error, as NumPy
raises OverflowError.  bfloat16 is for memory only: arithmetic takes it as float32.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np

from sterna.compiler.ir.nodes import Cast, Const, Expr, GetItem, MakeTuple, View
from sterna.types import (
    BFLOAT16,
    BOOL,
    COMPLEX64,
    COMPLEX128,
    FLOAT32,
    FLOAT64,
    INT64,
    PYINT,
    ArrayType,
    RecordRefType,
    Scalar,
    StructType,
    TupleType,
    Type,
    from_dtype,
    to_dtype,
)

__all__ = ["Unfit", "cast_expr", "convert", "fits", "float_type", "join_types", "result_type", "strong"]

_ORDER = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


class Unfit(Exception):
    """A constant that its target type cannot hold; who translates the expression or statement adds the place."""

    def __init__(self, message: str, t: Scalar) -> None:
        super().__init__(message)
        self.type = t

    @property
    def hint(self) -> str:
        """What to try."""
        return f"use a type that holds it, such as np.{'uint64' if self.type.weak else 'int64'}(…)"

    def of_variable(self, name: str) -> Unfit:
        """The same, where variable `name` has to be of one type on all paths."""
        return Unfit(f"{self}, the type that {name!r} has on another path", self.type)


def strong(t: Scalar) -> Scalar:
    """The strong type of the same width (``float`` → ``float64``), bfloat16 as float32."""
    if t == BFLOAT16:
        return FLOAT32
    return Scalar(t.kind, t.bits) if t.weak else t


@lru_cache(maxsize=1024)
def result_type(a: Scalar, b: Scalar) -> Scalar:
    """Type in which ``a op b`` is computed."""
    a = FLOAT32 if a == BFLOAT16 else a
    b = FLOAT32 if b == BFLOAT16 else b
    if a.weak and b.weak:
        return a if _ORDER[a.kind] >= _ORDER[b.kind] else b
    if a.weak or b.weak:
        weak, other = (a, b) if a.weak else (b, a)
        if _ORDER[weak.kind] <= _ORDER[other.kind]:
            return other
        if weak.kind == "i":
            return INT64
        if weak.kind == "f":
            return FLOAT64
        return COMPLEX64 if other.kind == "f" and other.bits <= 32 else COMPLEX128
    if a == b:
        return a
    found = from_dtype(np.result_type(to_dtype(a), to_dtype(b)))
    assert isinstance(found, Scalar)
    return found


def float_type(t: Scalar) -> Scalar:
    """The type of a floating function of `t`: float32 of float32, float64 of ints, weak of weak."""
    t = FLOAT32 if t == BFLOAT16 else t
    if t.kind in "fc":
        return t
    return Scalar("f", 64, weak=t.weak)


def join_types(a: Type, b: Type) -> Type | None:
    """Type of a variable that is `a` on one path and `b` on another; None when there is none."""
    if a == b:
        return a
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        if {a, b} == {BOOL, PYINT}:
            return PYINT
        return result_type(a, b)
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        items = _join_items(a.items, b.items)
        return None if items is None else TupleType(items)
    if isinstance(a, StructType) and isinstance(b, StructType) and (a.name, a.names) == (b.name, b.names):
        items = _join_items(a.items, b.items)
        return None if items is None else StructType(a.name, a.names, items, a.is_tuple)
    if isinstance(a, ArrayType) and isinstance(b, ArrayType):
        if (a.dtype, a.ndim, a.space) != (b.dtype, b.ndim, b.space):
            return None
        layout = a.layout if a.layout == b.layout else "A"
        return ArrayType(a.dtype, a.ndim, layout, a.readonly or b.readonly, a.space, _least(a.align, b.align))
    if isinstance(a, RecordRefType) and isinstance(b, RecordRefType) and (a.record, a.space) == (b.record, b.space):
        return RecordRefType(a.record, a.space, a.readonly or b.readonly, _least(a.align, b.align))
    return None


def _least(a: int, b: int) -> int:
    """The lesser of two alignments, of which 0 is the natural one."""
    return min(a, b) or max(a, b)


def _join_items(a: tuple[Type, ...], b: tuple[Type, ...]) -> tuple[Type, ...] | None:
    if len(a) != len(b):
        return None
    items = [join_types(x, y) for x, y in zip(a, b, strict=True)]
    return None if None in items else tuple(items)  # type: ignore[arg-type]


def fits(value: int, t: Scalar) -> bool:
    """Whether integer `value` can be held by integer type `t`."""
    if t.kind == "u":
        return 0 <= value < 1 << t.bits
    return -(1 << (t.bits - 1)) <= value < 1 << (t.bits - 1)


def _constant(value: Any, t: Scalar) -> Any:
    """`value` as a constant of type `t`, or None to convert at run time."""
    if t.kind in "iu":
        if not isinstance(value, int):
            return None
        if not fits(int(value), t):
            raise Unfit(f"the integer {value} does not fit {'64 bits (int)' if t.weak else t}", t)
        return int(value)
    if t.kind == "b":
        return bool(value)
    if isinstance(value, complex) and t.kind != "c":
        return None
    if t.kind == "c":
        return complex(value)
    try:
        number = float(value)
    except OverflowError:
        raise Unfit(f"the integer is too large for {t}", t) from None
    if t.kind == "f" and t.bits == 32:
        return ctypes.c_float(number).value  # rounds, and overflows to infinity, as float32(…) does
    if t.kind == "f" and t.bits == 16:
        with np.errstate(all="ignore"):
            return float(np.float16(number))
    return number


def _wrapped(value: int, t: Scalar) -> int:
    """`value` modulo the range of integer type `t`."""
    value &= (1 << t.bits) - 1
    return value - (1 << t.bits) if t.kind == "i" and value >> (t.bits - 1) else value


def cast_expr(expr: Expr, t: Scalar) -> Expr:
    """`expr` (a scalar) converted to `t`; constants are converted here, strong integers wrapping as at run time.

    Raises
    ------
    Unfit
        For a Python integer constant outside the range of `t`.
    """
    if isinstance(expr, Const):
        if expr.type == t and not (t.kind in "iu" and not fits(expr.value, t)):
            return expr
        strong = isinstance(expr.type, Scalar) and not expr.type.weak and expr.type != t
        if strong and t.kind in "iu" and isinstance(expr.value, int):
            return Const(_wrapped(int(expr.value), t), t)
        if t != BFLOAT16:
            value = _constant(expr.value, t)
            if value is not None:
                return Const(value, t)
    if expr.type == t:
        return expr
    return Cast(expr, t)


def convert(expr: Expr, t: Type) -> Expr:
    """`expr` (stable if a tuple) converted to `t`, a type that `join_types` gave."""
    if expr.type == t:
        return cast_expr(expr, t) if isinstance(t, Scalar) else expr
    if isinstance(t, Scalar):
        return cast_expr(expr, t)
    if isinstance(t, ArrayType):
        return View(expr, (), t, None)
    if isinstance(t, TupleType | StructType):
        parts = expr.items if isinstance(expr, MakeTuple) else _parts(expr)
        return MakeTuple(tuple(convert(p, item) for p, item in zip(parts, t.items, strict=True)), t)
    raise TypeError(f"no conversion from {expr.type} to {t}")


def _parts(expr: Expr) -> tuple[Expr, ...]:
    t = expr.type
    assert isinstance(t, TupleType | StructType)
    return tuple(GetItem(expr, k, item) for k, item in enumerate(t.items))
