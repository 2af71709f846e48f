"""Arithmetic, comparison and truth: result types, conversions, and the checks that Python makes.

Rules (`docs/language.md`): NumPy 2 promotion; `//` and `%` floor; `/` is true division; dividing by zero raises
for Python numbers only; a Python ``bool`` counts as an int in arithmetic, a ``numpy.bool_`` is a truth value.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from sterna.compiler.frontend.frame import Frame, tuple_items
from sterna.compiler.frontend.promotion import fits, float_type, result_type
from sterna.compiler.frontend.values import (
    Rt,
    Static,
    TupleValue,
    Value,
    describe,
    is_none,
    plain_number,
    static_text,
)  # fmt: skip
from sterna.compiler.ir.nodes import Binary, Cast, Compare, Const, Expr, IfExp, Intrinsic, Unary
from sterna.types import (
    BOOL,
    FLOAT64,
    INT8,
    INT64,
    NONE,
    OPAQUE,
    PYCOMPLEX,
    PYFLOAT,
    PYINT,
    TYPE_TAG,
    UINT64,
    ArrayType,
    Scalar,
    TupleType,
    Type,
)  # fmt: skip

__all__ = ["BINARY_NAMES", "binary", "compare", "equal", "identity", "scalar", "truth", "unary", "word_of"]

BINARY_NAMES: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "shr",
}  # fmt: skip
_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip
_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "shl": operator.lshift, "shr": operator.rshift,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_MAX_FOLDED_BITS = 512


def scalar(frame: Frame, value: Value, node: ast.AST, what: str) -> Rt:
    """`value` as a scalar, or an error that says what it is instead."""
    value = plain_number(value)
    if isinstance(value, Rt) and isinstance(value.expr.type, Scalar):
        return value
    hint = ""
    if isinstance(value, Rt) and isinstance(value.expr.type, ArrayType):
        hint = "work on elements: index the array"
    frame.fail(node, f"{what} needs a number, this is {describe(value)}", hint)


def _number(value: Rt) -> tuple[Expr, Scalar]:
    """Operand of arithmetic: a Python bool counts as an int."""
    t = value.expr.type
    assert isinstance(t, Scalar)
    if value.pybool:
        expr = value.expr
        return (Const(int(expr.value), PYINT) if isinstance(expr, Const) else Cast(expr, PYINT)), PYINT
    return value.expr, t


def _operands(a: Rt, b: Rt) -> tuple[tuple[Expr, Scalar], tuple[Expr, Scalar]]:
    """Both operands of arithmetic: a Python bool beside a NumPy bool is one too (NEP 50), else an int."""
    if a.expr.type == b.expr.type == BOOL and a.pybool != b.pybool:
        return (a.expr, BOOL), (b.expr, BOOL)
    return _number(a), _number(b)


def binary(frame: Frame, node: ast.AST, op: str, left: Value, right: Value) -> Value:
    """``left op right``; both evaluated, in that order."""
    if op == "add" or op == "mul":
        joined = _sequence(frame, node, op, left, right)
        if joined is not None:
            return joined
    what = f"operator {_SYMBOLS[op]}"
    a, b = scalar(frame, left, node, what), scalar(frame, right, node, what)
    if a.pybool and b.pybool and op in ("and", "or", "xor"):
        if isinstance(a.expr, Const) and isinstance(b.expr, Const):
            return Rt(Const(bool(_FOLD[op](a.expr.value, b.expr.value)), BOOL), True)
        return Rt(Binary(op, a.expr, b.expr, BOOL), True)
    (x, tx), (y, ty) = _operands(a, b)
    if tx.weak and ty.weak and isinstance(x, Const) and isinstance(y, Const):
        folded = _fold(op, x, y)
        if folded is not None:
            return folded
    t = _operation_type(frame, node, op, tx, ty)
    if isinstance(y, Const) and op == "pow" and t.kind in "iu" and y.value < 0:
        if not t.weak:
            frame.fail(node, "integers to negative integer powers are not allowed (NumPy raises)", "use 1.0 / x ** n")
        t = PYFLOAT
    x, y = frame.cast(x, t, node), frame.cast(y, t, node)
    if t == BOOL:
        return _boolean(frame, node, op, x, y)
    if op == "pow" and t == PYFLOAT:
        return Rt(_checked_power(frame, x, y))
    x, y = _checked(frame, op, x, y, t)
    return Rt(Binary(op, x, y, t), False, _result_nonneg(op, t, a.nonneg or _nonneg(x), b.nonneg or _nonneg(y)))


def _result_nonneg(op: str, t: Scalar, left: bool, right: bool) -> bool:
    """Whether an integer result cannot be negative (wrapping aside, which a bounds check catches)."""
    if t.kind != "i":
        return t.kind == "u"
    if op in ("add", "mul", "floordiv", "or", "xor", "min", "max"):
        return left and right
    if op == "and":
        return left or right
    return right if op == "mod" else left and op == "shr"


def _nonneg(expr: Expr) -> bool:
    if isinstance(expr, Const):
        return isinstance(expr.value, int) and expr.value >= 0
    if isinstance(expr, Cast):
        source = expr.operand.type
        return isinstance(source, Scalar) and source.kind in "ub" and source.bits < 64
    return False


def _sequence(frame: Frame, node: ast.AST, op: str, left: Value, right: Value) -> Value | None:
    """Tuple and string concatenation and repetition known at compile time."""
    texts = static_text(left), static_text(right)
    if texts[0] is not None and texts[1] is not None and op == "add":
        return Static(texts[0] + texts[1])
    a, b = tuple_items(frame, left, node), tuple_items(frame, right, node)
    if a is not None and b is not None and op == "add":
        return TupleValue(a + b)
    if (a is None) != (b is None) and op == "mul":
        count = right if a is not None else left
        if isinstance(count, Rt) and isinstance(count.expr, Const) and isinstance(count.expr.value, int):
            return TupleValue((a or b or ()) * count.expr.value)
        frame.unsupported(node, "a tuple is repeated a number of times not known at compile time", "use a constant")
    return None


def _fold(op: str, x: Const, y: Const) -> Value | None:
    """Arithmetic of two Python constants, done now; None where Python would raise."""
    if op == "pow":
        whole = isinstance(y.value, int) and isinstance(x.value, int) and y.value >= 0
        if whole and abs(x.value).bit_length() * y.value > _MAX_FOLDED_BITS:
            return None
        function: Callable[[Any, Any], Any] = operator.pow
    elif op == "shl" and (not isinstance(y.value, int) or not 0 <= y.value <= _MAX_FOLDED_BITS):
        return None
    else:
        function = _FOLD[op]
    try:
        value = function(x.value, y.value)
    except (ArithmeticError, TypeError, ValueError):
        return None
    kind = {int: PYINT, float: PYFLOAT}.get(type(value))
    if kind is None:
        return Rt(Const(value, PYCOMPLEX)) if isinstance(value, complex) else None
    return Rt(Const(value, kind), False, isinstance(value, int) and value >= 0)


def _operation_type(frame: Frame, node: ast.AST, op: str, tx: Scalar, ty: Scalar) -> Scalar:
    t = result_type(tx, ty)
    if op == "truediv":
        return t if t.kind in "fc" else (PYFLOAT if t.weak else FLOAT64)
    if op in ("and", "or", "xor", "shl", "shr"):
        if t.kind not in "biu":
            frame.fail(node, f"operator {_SYMBOLS[op]} needs integers, these are {tx} and {ty}", "convert with int(…)")
        return INT8 if t == BOOL and op in ("shl", "shr") else t
    if op in ("floordiv", "mod") and t.kind == "c":
        frame.fail(node, f"complex numbers have no operator {_SYMBOLS[op]}")
    if t == BOOL:
        if op == "sub":
            frame.fail(node, "booleans cannot be subtracted (NumPy raises TypeError)", "use ^, or int(a) - int(b)")
        return INT8 if op in ("floordiv", "mod", "pow") else BOOL
    return t


def _boolean(frame: Frame, node: ast.AST, op: str, x: Expr, y: Expr) -> Value:
    names = {"add": "or", "mul": "and"}
    return Rt(Binary(names.get(op, op), x, y, BOOL))


def _checked(frame: Frame, op: str, x: Expr, y: Expr, t: Scalar) -> tuple[Expr, Expr]:
    """Operands with the checks emitted that Python (weak) or NumPy (strong) makes."""
    test: Callable[[Expr], Expr] | None = None
    error, message = "ValueError", ""
    if op in ("truediv", "floordiv", "mod") and t.weak:
        if not (isinstance(y, Const) and y.value != 0):
            error, message = "ZeroDivisionError", "division by zero"
            test = _is_zero
    elif op in ("shl", "shr") and t.weak and not _nonneg(y):
        test, message = _is_negative, "negative shift count"
    elif op == "pow" and t.kind == "i" and not _nonneg(y):
        test, message = _is_negative, "Integers to negative integer powers are not allowed."
        if t.weak:
            message = "a Python int to a negative power is a float; write float(x) ** y"
    if test is None:
        return x, y
    if not isinstance(x, Const):
        x = frame.temp(x)
    if not isinstance(y, Const):
        y = frame.temp(y)
    frame.check(test(y), error, message)
    return x, y


def _is_zero(expr: Expr) -> Expr:
    t = expr.type
    assert isinstance(t, Scalar)
    zero = {"i": 0, "f": 0.0, "c": 0j}[t.kind]
    return Compare("eq", expr, Const(zero, t))


def _is_negative(expr: Expr) -> Expr:
    if isinstance(expr, Const):
        return Const(expr.value < 0, BOOL)
    return Compare("lt", expr, Const(0, expr.type))


def _checked_power(frame: Frame, x: Expr, y: Expr) -> Expr:
    """Power of Python floats: it raises where Python's does, and where the result would be complex in Python."""
    x = x if isinstance(x, Const) else frame.temp(x)
    y = y if isinstance(y, Const) else frame.temp(y)
    _check_base(frame, x, y)
    power = frame.temp(Binary("pow", x, y, PYFLOAT))
    finite = Binary("and", Intrinsic("math.isfinite", (x,), BOOL), Intrinsic("math.isfinite", (y,), BOOL), BOOL)
    overflow = Binary("and", Intrinsic("math.isinf", (power,), BOOL), finite, BOOL)
    frame.check(overflow, "OverflowError", "(34, 'Numerical result out of range')")
    return power


def _check_base(frame: Frame, x: Expr, y: Expr) -> None:
    """Zero to a negative power raises, and so does a negative number to a fractional one."""
    constant = y.value if isinstance(y, Const) else None
    if constant is not None and constant >= 0 and float(constant).is_integer():
        return
    zero = Const(0.0, PYFLOAT)
    if constant is None or constant < 0:
        test: Expr = Compare("eq", x, zero)
        if constant is None:
            test = IfExp(test, Compare("lt", y, zero), Const(False, BOOL), BOOL)
        frame.check(test, "ZeroDivisionError", "0.0 cannot be raised to a negative power")
    if constant is None or not float(constant).is_integer():
        test = Compare("lt", x, zero)
        if constant is None:
            whole = Compare("ne", Intrinsic("math.trunc", (y,), PYFLOAT), y)
            test = IfExp(test, whole, Const(False, BOOL), BOOL)
        message = "a negative float to a fractional power is complex; write complex(x) ** y"
        frame.check(test, "ValueError", message)


# ---- unary ----


def unary(frame: Frame, node: ast.AST, op: str, value: Value) -> Value:
    """``-x``, ``+x``, ``~x``."""
    a = scalar(frame, value, node, f"unary {op}")
    expr, t = _number(a)
    if t == BOOL:
        if op == "~":
            return Rt(Unary("not", expr, BOOL))
        frame.fail(node, f"numpy.bool_ has no unary {op} (NumPy raises TypeError)", "use ~x or int(x)")
    t = float_type(t) if t.kind == "e" else t
    expr = frame.cast(expr, t, node) if not isinstance(expr, Const) else expr
    if op == "+":
        return Rt(expr, False, a.nonneg)
    if op == "~":
        if t.kind not in "iu":
            frame.fail(node, f"operator ~ needs an integer, this is {t}")
        if isinstance(expr, Const) and t.weak:
            return Rt(Const(~expr.value, t))
        return Rt(Unary("invert", expr, t))
    if isinstance(expr, Const) and (t.weak or t.kind in "fc"):
        return Rt(Const(-expr.value, t), False, t.kind == "i" and -expr.value >= 0)
    return Rt(Unary("neg", expr, t))


# ---- truth ----


def truth(frame: Frame, value: Value, node: ast.AST) -> Expr:
    """``bool(value)`` as a BOOL expression; constant where the type decides."""
    value = plain_number(value)
    if isinstance(value, Rt):
        expr, t = value.expr, value.expr.type
        if isinstance(expr, Const):
            return Const(bool(expr.value), BOOL)
        if t == BOOL:
            return expr
        if isinstance(t, Scalar):
            t = float_type(t) if t.kind == "e" else t
            zero = {"i": 0, "u": 0, "f": 0.0, "c": 0j}[t.kind]
            return Compare("ne", frame.cast(expr, t, node), Const(zero, t))
        if isinstance(t, TupleType):
            return Const(bool(t.items), BOOL)
    elif isinstance(value, TupleValue) and (value.struct is None or value.struct[2]):
        return Const(bool(value.items), BOOL)
    elif isinstance(value, Static) and isinstance(value.value, str):
        return Const(bool(value.value), BOOL)
    hint = "compare with `is` or `is not`"
    if isinstance(value, Rt) and isinstance(value.expr.type, ArrayType):
        hint = "test an element, or a.size"
    frame.fail(node, f"{describe(value)} has no truth value in device code", hint)


# ---- comparison ----


def compare(frame: Frame, node: ast.AST, op: str, left: Value, right: Value) -> Rt:
    """``left op right`` for ``eq ne lt le gt ge``."""
    left, right = plain_number(left), plain_number(right)
    if isinstance(left, Rt) and isinstance(right, Rt):
        tx, ty = left.expr.type, right.expr.type
        if isinstance(tx, Scalar) and isinstance(ty, Scalar):
            return _compare_numbers(frame, node, op, left, right)
    if op in ("eq", "ne"):
        same = equal(frame, node, left, right)
        if op == "eq":
            return same
        if isinstance(same.expr, Const):
            return Rt(Const(not same.expr.value, BOOL), True)
        return Rt(Unary("not", same.expr, BOOL), True)
    a, b = tuple_items(frame, left, node), tuple_items(frame, right, node)
    if a is not None and b is not None:
        return _compare_tuples(frame, node, op, a, b)
    frame.fail(node, f"{describe(left)} and {describe(right)} cannot be ordered")


def _compare_numbers(frame: Frame, node: ast.AST, op: str, left: Rt, right: Rt) -> Rt:
    (x, tx), (y, ty) = _number(left), _number(right)
    pybool = tx.weak and ty.weak
    ordered = "c" not in (tx.kind, ty.kind) or op in ("eq", "ne")
    if pybool and ordered and isinstance(x, Const) and isinstance(y, Const):
        return Rt(Const(_COMPARE[op](x.value, y.value), BOOL), True)
    t = result_type(tx, ty)
    if t.kind == "c" and op not in ("eq", "ne"):
        frame.fail(node, "complex numbers cannot be ordered", "compare abs(z), z.real or z.imag")
    if tx.kind in "biu" and ty.kind in "biu" and tx != ty:
        return Rt(_compare_integers(op, x, y, tx, ty), pybool)
    return Rt(Compare(op, frame.cast(x, t, node), frame.cast(y, t, node)), pybool)


def _compare_integers(op: str, x: Expr, y: Expr, tx: Scalar, ty: Scalar) -> Expr:
    """Integers compare by value, whatever their types; so a constant no 64-bit type holds decides at once."""
    for expr, other_op in ((x, _SWAPPED[op]), (y, op)):
        if isinstance(expr, Const) and not (fits(expr.value, INT64) or fits(expr.value, UINT64)):
            return Const(_COMPARE[other_op](0, expr.value), BOOL)
    wide = [_wide(x, tx), _wide(y, ty)]
    if wide[0].type == wide[1].type or {wide[0].type, wide[1].type} == {INT64, UINT64}:
        return Compare(op, wide[0], wide[1])
    return Compare(op, Cast(wide[0], INT64), Cast(wide[1], INT64))


_SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def _wide(expr: Expr, t: Scalar) -> Expr:
    wide = UINT64 if t == UINT64 else INT64
    if isinstance(expr, Const):
        return Const(int(expr.value), INT64 if fits(expr.value, INT64) and wide == INT64 else UINT64)
    return expr if t == wide else Cast(expr, wide)


def equal(frame: Frame, node: ast.AST, left: Value, right: Value) -> Rt:
    """``left == right`` of values that are not both numbers."""
    if isinstance(left, Static) and isinstance(right, Static):
        return Rt(Const(left.value is right.value or _plain_equal(left.value, right.value), BOOL), True)
    dtypes = _dtype_of(left), _dtype_of(right)
    if None not in dtypes:
        return Rt(Const(dtypes[0] == dtypes[1], BOOL), True)
    a, b = tuple_items(frame, left, node), tuple_items(frame, right, node)
    if a is not None and b is not None:
        return _all_equal(frame, node, a, b)
    words = _words(frame, left), _words(frame, right)
    if words[0] is not None and words[1] is not None:
        if words[0].type == words[1].type:
            return Rt(Compare("is", words[0], words[1]), True)
        return Rt(Const(False, BOOL), True)
    if any(isinstance(v, Rt) and isinstance(v.expr.type, ArrayType) for v in (left, right)):
        frame.fail(node, "whole arrays cannot be compared in device code", "compare elements")
    if is_none(left) or is_none(right) or _kinds_differ(left, right):
        return Rt(Const(is_none(left) and is_none(right), BOOL), True)
    frame.fail(node, f"{describe(left)} and {describe(right)} cannot be compared", "use `is`")


def _kinds_differ(left: Value, right: Value) -> bool:
    """Values of kinds that are never equal in Python: a number and a string, a tuple and an object…"""

    def kind(value: Value) -> str:
        if isinstance(value, Rt):
            t: Type = value.expr.type
            return "number" if isinstance(t, Scalar) else "word" if t in (OPAQUE, TYPE_TAG, NONE) else "other"
        if isinstance(value, Static):
            return "str" if isinstance(value.value, str) else "static"
        return "tuple" if isinstance(value, TupleValue) else "other"

    kinds = {kind(left), kind(right)}
    return len(kinds) == 2 and not kinds & {"other", "word"}


def _plain_equal(a: Any, b: Any) -> bool:
    import numpy as np

    if isinstance(a, np.dtype) or isinstance(b, np.dtype):
        try:
            return bool(np.dtype(a) == np.dtype(b))
        except TypeError:
            return False
    return isinstance(a, str) and isinstance(b, str) and a == b


def _dtype_of(value: Value) -> Any:
    from sterna.compiler.frontend.rules.dtypes import static_type

    return static_type(value)


def _words(frame: Frame, value: Value) -> Expr | None:
    if isinstance(value, Rt) and value.expr.type in (OPAQUE, TYPE_TAG):
        return value.expr
    if isinstance(value, Static):
        return frame.build.static_expr(frame, value)
    return None


def _all_equal(frame: Frame, node: ast.AST, a: tuple[Value, ...], b: tuple[Value, ...]) -> Rt:
    if len(a) != len(b):
        return Rt(Const(False, BOOL), True)
    result: Expr = Const(True, BOOL)
    for x, y in zip(reversed(a), reversed(b), strict=True):
        test = compare(frame, node, "eq", x, y).expr
        result = _both(test, result)
    return Rt(result, True)


def _both(test: Expr, rest: Expr) -> Expr:
    if isinstance(test, Const):
        return rest if test.value else Const(False, BOOL)
    if isinstance(rest, Const) and rest.value:
        return test
    return IfExp(test, rest, Const(False, BOOL), BOOL)


def _compare_tuples(frame: Frame, node: ast.AST, op: str, a: tuple[Value, ...], b: tuple[Value, ...]) -> Rt:
    """Lexicographic order, as Python compares tuples: the first pair that differs decides."""
    result: Expr = Const(_COMPARE[op](len(a), len(b)), BOOL)
    pairs = [(frame.stable(x), frame.stable(y)) for x, y in zip(a, b, strict=False)]
    for x, y in reversed(pairs):
        same = compare(frame, node, "eq", x, y).expr
        order = compare(frame, node, op, x, y).expr
        result = result if isinstance(same, Const) and same.value else IfExp(same, result, order, BOOL)
    return Rt(result, True)


def identity(frame: Frame, node: ast.AST, left: Value, right: Value) -> Rt:
    """``left is right``: identity of objects and classes; None is decided by type."""
    if is_none(left) or is_none(right):
        return Rt(Const(is_none(left) and is_none(right), BOOL), True)
    if isinstance(left, Static) and isinstance(right, Static):
        same = left.value is right.value
        if isinstance(left.value, str) and isinstance(right.value, str):
            same = left.value == right.value
        return Rt(Const(same, BOOL), True)
    a, b = _words(frame, left), _words(frame, right)
    if a is not None and b is not None:
        if a.type != b.type:
            return Rt(Const(False, BOOL), True)
        return Rt(Compare("is", a, b), True)
    known = [v for v in (left, right) if isinstance(v, Rt) and v.pybool]
    if len(known) == 2:
        return Rt(Compare("eq", known[0].expr, known[1].expr), True)
    if a is not None or b is not None or isinstance(left, Static) or isinstance(right, Static):
        return Rt(Const(False, BOOL), True)
    frame.unsupported(
        node, f"`is` between {describe(left)} and {describe(right)} has no meaning in device code", "use =="
    )


def word_of(expr: Expr) -> Expr:
    """Identity word of an object or class as a number."""
    return Intrinsic("object.word", (expr,), UINT64)
