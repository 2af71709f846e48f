"""Python's built-in functions."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from sterna.compiler.frontend import operators
from sterna.compiler.frontend.frame import Frame, tuple_items
from sterna.compiler.frontend.iteration import length, make_range
from sterna.compiler.frontend.promotion import float_type, join_types
from sterna.compiler.frontend.rules import RULES, Rule, many, typing_rule
from sterna.compiler.frontend.rules.dtypes import to_int
from sterna.compiler.frontend.values import (
    IterValue,
    Rt,
    Static,
    TupleValue,
    Value,
    describe,
    is_none,
    plain_number,
    static_int,
)  # fmt: skip
from sterna.compiler.ir.nodes import Binary, Const, Expr, IfExp, Intrinsic, Print, TypeOf
from sterna.types import (
    BOOL,
    NONE,
    OPAQUE,
    PYINT,
    TYPE_TAG,
    ArrayType,
    Scalar,
    StructType,
    TupleType,
    to_dtype,
)  # fmt: skip

__all__: list[str] = []


@typing_rule(abs, np.absolute)
def _abs(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    number = operators.scalar(frame, args[0], node, "abs")
    t = number.expr.type
    assert isinstance(t, Scalar)
    if number.pybool:
        return Rt(frame.cast(number.expr, PYINT, node), False, True)
    if t.kind == "b" or t.kind == "u":
        return number
    if t.kind == "i":
        if isinstance(number.expr, Const) and t.weak:
            return Rt(Const(abs(number.expr.value), t), False, True)
        return Rt(Intrinsic("abs", (number.expr,), t))
    if t.kind == "c":
        return Rt(Intrinsic("complex.abs", (number.expr,), Scalar("f", t.bits // 2, t.weak)))
    t = float_type(t)
    return Rt(Intrinsic("math.fabs", (frame.cast(number.expr, t, node),), t))


def _extreme(op: str, shown: str) -> Rule:
    """``min``/``max`` of Python: the first of equal ones wins, and a NaN stays where it stands first."""

    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        if len(args) == 1:
            items = tuple_items(frame, args[0], node)
            if items is None:
                frame.fail(node, f"{shown} of {describe(args[0])}", "give the numbers, or write a loop over the array")
            if not items:
                frame.fail(node, f"{shown}() of an empty tuple")
            args = list(items)
        numbers = [operators.scalar(frame, arg, node, shown) for arg in args]
        best = numbers[0]
        for number in numbers[1:]:
            best = _better(frame, node, op, best, number)
        return best

    return Rule(shown, typing, 1, many())


def _better(frame: Frame, node: ast.AST, op: str, a: Rt, b: Rt) -> Rt:
    ta, tb = a.expr.type, b.expr.type
    assert isinstance(ta, Scalar) and isinstance(tb, Scalar)
    joined = join_types(ta, tb)
    t = float_type(joined) if isinstance(joined, Scalar) and joined.kind == "e" else joined
    assert isinstance(t, Scalar)
    if t.kind in "iu" and ta.kind == tb.kind:
        nonneg = (a.nonneg and b.nonneg) or (op == "max" and (_nonneg(a) or _nonneg(b)))
        return Rt(Binary(op, frame.cast(a.expr, t, node), frame.cast(b.expr, t, node), t), False, nonneg)
    x, y = frame.stable(a), frame.stable(b)
    assert isinstance(x, Rt) and isinstance(y, Rt)
    test = operators.compare(frame, node, "lt" if op == "min" else "gt", y, x).expr
    both = a.pybool and b.pybool
    return Rt(IfExp(test, frame.cast(y.expr, t, node), frame.cast(x.expr, t, node), t), both and t == BOOL)


def _nonneg(value: Rt) -> bool:
    return value.nonneg or (static_int(value) or -1) >= 0


RULES[min] = _extreme("min", "min")
RULES[max] = _extreme("max", "max")


@typing_rule(len)
def _len(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    return length(frame, node, args[0])


@typing_rule(range, least=1, most=3)
def _range(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    return make_range(frame, node, args)


@typing_rule(enumerate, most=2, names=("iterable", "start"))
def _enumerate(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    start = operators.scalar(frame, args[1], node, "enumerate") if len(args) > 1 else Rt(Const(0, PYINT), False, True)
    t = start.expr.type
    if not isinstance(t, Scalar) or t.kind not in "iu":
        frame.fail(node, f"enumerate starts with an integer, this is {t}")
    start = Rt(frame.cast(start.expr, PYINT, node), False, start.nonneg or _nonneg(start))
    return IterValue("enumerate", (args[0],), start)


@typing_rule(zip, least=1, most=many())
def _zip(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    return IterValue("zip", tuple(args))


@typing_rule(reversed)
def _reversed(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    if isinstance(args[0], IterValue):
        frame.fail(node, f"{args[0].kind} cannot be reversed", "reverse what it walks")
    return IterValue("reversed", (args[0],))


@typing_rule(tuple, least=0, most=1)
def _tuple(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    if not args:
        return TupleValue(())
    from sterna.compiler.frontend.iteration import static_items

    items = static_items(frame, node, args[0])
    if items is None:
        frame.unsupported(node, f"tuple() of {describe(args[0])} has no length known at compile time")
    return TupleValue(items)


@typing_rule(divmod, least=2)
def _divmod(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    a, b = frame.stable(args[0]), frame.stable(args[1])
    quotient = frame.stable(operators.binary(frame, node, "floordiv", a, b))
    return TupleValue((quotient, operators.binary(frame, node, "mod", a, b)))


@typing_rule(np.divmod, least=2)
def _np_divmod(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    return _divmod(frame, node, args)


@typing_rule(pow, least=2, most=3)
def _pow(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    if len(args) == 3:
        frame.unsupported(node, "pow() with a modulus cannot be used in device code", "write the loop")
    return operators.binary(frame, node, "pow", args[0], args[1])


@typing_rule(np.round, most=2, names=("a", "decimals"))
def _numpy_round(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    return _round(frame, node, args if len(args) > 1 else [*args, Rt(Const(0, PYINT))])


@typing_rule(round, most=2, names=("number", "ndigits"))
def _round(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    """Half to even; with digits, NumPy's way: scaled, rounded, scaled back."""
    number = operators.scalar(frame, args[0], node, "round")
    t = number.expr.type
    assert isinstance(t, Scalar)
    if t.kind == "c":
        frame.fail(node, "round() of a complex number")
    digits = args[1] if len(args) > 1 and not is_none(args[1]) else None
    if t.kind in "biu":
        if digits is not None and (static_int(digits) or 0) < 0:
            frame.unsupported(
                node, "round() of an integer to tens cannot be used in device code", "write (x + 5) // 10 * 10"
            )
        if t.kind == "b" and not number.pybool:
            frame.fail(node, "numpy.bool_ cannot be rounded (NumPy raises TypeError)", "use int(x)")
        kept = t if digits is not None else PYINT  # of an element too, round() makes a Python int
        return Rt(frame.cast(number.expr, PYINT if number.pybool else kept, node), False, number.nonneg)
    t = float_type(t)
    x = frame.cast(number.expr, t, node)
    if digits is None:
        return Rt(to_int(frame, Intrinsic("math.rint", (x,), t), "cannot convert float {} to integer"))
    n = static_int(digits)
    if n is None or not -22 <= n <= 22:
        frame.unsupported(node, "round() needs a constant number of digits", "round(x, 3)")
    if t.weak:
        frame.unsupported(
            node, "round() of a Python float to digits is decimal and cannot be used in device code",
            "round(np.float64(x), n) rounds as NumPy does",
        )  # fmt: skip
    scale = Const(float(10 ** abs(n)), t)
    up, down = ("mul", "truediv") if n >= 0 else ("truediv", "mul")
    return Rt(Binary(down, Intrinsic("math.rint", (Binary(up, x, scale, t),), t), scale, t))


@typing_rule(sum, most=2, names=("iterable", "start"))
def _sum(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    items = _items(frame, node, args[0], "sum")
    total: Value = args[1] if len(args) > 1 else Rt(Const(0, PYINT))
    for item in items:
        total = operators.binary(frame, node, "add", total, item)
    return total


def _items(frame: Frame, node: ast.AST, value: Value, shown: str) -> tuple[Value, ...]:
    items = tuple_items(frame, value, node)
    if items is None:
        frame.unsupported(node, f"{shown}() of {describe(value)} cannot be used in device code", "write a for loop")
    return items


def _quantifier(shown: str, is_all: bool) -> Rule:
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        result: Expr = Const(is_all, BOOL)
        kept = [frame.stable(item) for item in _items(frame, node, args[0], shown)]
        for item in reversed(kept):
            test = operators.truth(frame, item, node)
            if isinstance(test, Const):
                result = result if bool(test.value) is is_all else Const(not is_all, BOOL)
            elif is_all:
                result = IfExp(test, result, Const(False, BOOL), BOOL)
            else:
                result = IfExp(test, Const(True, BOOL), result, BOOL)
        return Rt(result, True)

    return Rule(shown, typing, 1, 1)


RULES[all] = _quantifier("all", True)
RULES[any] = _quantifier("any", False)


# ---- types ----


@typing_rule(isinstance, least=2)
def _isinstance(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    classes = tuple_items(frame, args[1], node) or (args[1],)
    found = False
    for cls in classes:
        if not isinstance(cls, Static) or not isinstance(cls.value, type):
            frame.fail(node, f"isinstance needs classes, this is {describe(cls)}")
        found = found or _is_instance(frame, node, args[0], cls.value)
    return Rt(Const(found, BOOL), True)


def _is_instance(frame: Frame, node: ast.AST, value: Value, cls: type[Any]) -> bool:
    own = _class_of(value)
    if own is None:
        frame.fail(
            node, f"isinstance of {describe(value)} is not known at compile time",
            "compare classes: type(x) is Cls",
        )  # fmt: skip
    if isinstance(own, str):  # a struct is known by its class's name only
        return own == cls.__name__ or cls is object or (cls is tuple and _is_tuple(value))
    return issubclass(own, cls)


def _is_tuple(value: Value) -> bool:
    if isinstance(value, TupleValue):
        return value.struct is None or value.struct[2]
    return isinstance(value, Rt) and isinstance(value.expr.type, StructType) and value.expr.type.is_tuple


def _class_of(value: Value) -> type[Any] | str | None:
    """The class of a value, as far as types say; a struct's by name; None for an opaque object."""
    if isinstance(value, TupleValue):
        return value.struct[0] if value.struct is not None else tuple
    if isinstance(value, Static):
        return type(value.value)
    if not isinstance(value, Rt):
        return None
    t = value.expr.type
    if isinstance(t, Scalar):
        if value.pybool:
            return bool
        if t.weak:
            return {"i": int, "f": float, "c": complex}[t.kind]
        return to_dtype(t).type if t.kind != "e" else np.float32
    if isinstance(t, ArrayType):
        return np.ndarray
    if isinstance(t, StructType):
        return t.name
    if isinstance(t, TupleType):
        return tuple
    if t == NONE:
        return type(None)
    return type if t == TYPE_TAG else None


@typing_rule(type)
def _type(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    value = args[0]
    if isinstance(value, Rt) and value.expr.type == OPAQUE:
        return Rt(TypeOf(value.expr, TYPE_TAG))
    found = _class_of(value)
    if found is None or isinstance(found, str):
        frame.unsupported(node, f"type() of {describe(value)} cannot be used in device code")
    return Static(found)


# ---- output ----


def _print(frame: Frame, node: ast.AST, args: list[Value], sep: str, end: str) -> Value:
    parts: list[str | Expr] = []
    for k, arg in enumerate(args):
        if k:
            parts.append(sep)
        _print_part(frame, node, arg, parts)
    merged: list[str | Expr] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    frame.out.append(Print(tuple(merged), end, frame.line))
    return Rt(Const(None, NONE))


def _print_part(frame: Frame, node: ast.AST, value: Value, parts: list[str | Expr]) -> None:
    value = plain_number(value)
    if isinstance(value, Static) and isinstance(value.value, str):
        parts.append(value.value)
    elif (
        isinstance(value, Rt)
        and isinstance(value.expr, Const)
        and (value.expr.type in (NONE, BOOL) or value.expr.type == PYINT)
    ):
        parts.append(str(value.expr.value))
    elif isinstance(value, Rt) and isinstance(value.expr.type, Scalar):
        t = value.expr.type
        parts.append(frame.cast(value.expr, float_type(t), node) if t.kind == "e" else value.expr)
    elif (items := tuple_items(frame, value, node)) is not None and not (
        isinstance(value, TupleValue) and value.struct
    ):
        parts.append("(")
        for k, item in enumerate(items):
            parts.append(", " if k else "")
            _print_part(frame, node, item, parts)
        parts.append(",)" if len(items) == 1 else ")")
    else:
        frame.unsupported(node, f"print() of {describe(value)} cannot be used in device code", "print its numbers")


class _PrintRule(Rule):
    """``print`` takes `sep` and `end` as constant strings."""

    def apply(self, frame: Frame, node: ast.AST, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Type a call of print."""
        texts = {"sep": " ", "end": "\n"}
        for name, value in keywords.items():
            if name not in texts or not isinstance(value, Static) or not isinstance(value.value, str):
                frame.fail(node, f"print() takes sep and end as constant strings, this is {name}")
            texts[name] = value.value
        return _print(frame, node, args, texts["sep"], texts["end"])


RULES[print] = _PrintRule("print", lambda frame, node, args: _print(frame, node, args, " ", "\n"), 0, many())


_REFUSED: dict[Any, str] = {
    hash: "", id: "compare objects with `is`", repr: "", str: "give print() the parts", list: "use a tuple",
    dict: "use a named tuple", set: "use a tuple", sorted: "write the loop", map: "write a for loop",
    filter: "write a for loop", iter: "write a for loop", next: "write a for loop", getattr: "name the attribute",
    hasattr: "", open: "", input: "", slice: "slice an array: a[1:3]", frozenset: "use a tuple",
    bytes: "", object: "capture one made on the host", super: "", callable: "", vars: "", eval: "", exec: "",
}  # fmt: skip


def _refuse(function: Any, hint: str) -> Rule:
    shown = f"{function.__name__}()"

    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        frame.unsupported(node, f"{shown} cannot be used in device code", hint)

    return Rule(shown, typing, 0, many())


for _function, _hint in _REFUSED.items():
    RULES[_function] = _refuse(_function, _hint)
