"""What an expression of device code is to the frontend: a run-time value or something known at compile time.

`Rt` wraps a typed IR expression.  Everything else exists only while compiling: `Static` (a function, class,
module, string…), `TupleValue` (a tuple whose items are values of any of these), `Closure` (a nested function
or lambda with the names it reads), `RangeValue` and `IterValue` (what a ``for`` can walk), `BoundMethod`.

A value is *stable* when reading it twice means the same and costs nothing; other values are used once.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sterna.compiler.ir.nodes import Const, Element, Expr, GetItem, HostRef, LocalArray, MakeTuple, SharedArray
from sterna.frozen import frozen
from sterna.types import (
    NONE,
    ArrayType,
    LiteralType,
    RecordRefType,
    Scalar,
    SimpleType,
    StructType,
    TupleType,
    Type,
)

if TYPE_CHECKING:
    from sterna.compiler.frontend.environment import Env
    from sterna.compiler.frontend.frame import Frame
    from sterna.source.captures import Capture

__all__ = [
    "BoundMethod", "Closure", "IterValue", "RangeValue", "Rt", "Static", "TupleValue", "Value", "describe",
    "describe_type", "from_expr", "is_constant", "is_none", "items_of", "plain_number", "runtime_expr", "shape_key",
    "static_int", "static_text", "struct_value",
]  # fmt: skip


@frozen
class Rt:
    """A run-time value.

    Attributes
    ----------
    expr : Expr
        The typed expression.
    pybool : bool
        A Python ``bool`` rather than a ``numpy.bool_``: arithmetic takes it as an int.
    nonneg : bool
        Proved not to be negative, so that an index needs no wrap-around.
    """

    expr: Expr
    pybool: bool = False
    nonneg: bool = False

    @property
    def type(self) -> Type:
        return self.expr.type


@frozen
class Static:
    """A host object that code may name but not hold: a function, class, module, dtype, string."""

    value: Any
    capture: Capture | None = None


@frozen
class TupleValue:
    """A tuple, named tuple or frozen dataclass (`struct` gives name, field names, is_tuple) by its items."""

    items: tuple[Value, ...]
    struct: tuple[str, tuple[str, ...], bool] | None = None


@dataclass(slots=True, eq=False)
class Closure:
    """A nested function or lambda.

    The names of the enclosing function are read when it is called: from `frame` as long as that one is being
    translated, from `scope` after it was passed to another function.
    """

    node: ast.FunctionDef | ast.Lambda
    owner: int
    name: str
    frame: Frame | None
    scope: Env
    outer_names: frozenset[str]
    defaults: tuple[tuple[str, Value], ...] = ()


@frozen
class RangeValue:
    """``range(start, stop, step)``, all int."""

    start: Rt
    stop: Rt
    step: Rt


@frozen
class IterValue:
    """``enumerate`` (with its first number), ``zip`` or ``reversed`` over other iterables."""

    kind: str
    parts: tuple[Value, ...]
    start: Rt | None = None


@frozen
class BoundMethod:
    """``value.name`` where it can only be called."""

    receiver: Value
    name: str


Value = Rt | Static | TupleValue | Closure | RangeValue | IterValue | BoundMethod


def is_constant(expr: Expr) -> bool:
    """Whether `expr` means the same wherever it is evaluated, at no cost."""
    if isinstance(expr, MakeTuple):
        return all(is_constant(item) for item in expr.items)
    return isinstance(expr, Const | HostRef | SharedArray | LocalArray)


def is_none(value: Value) -> bool:
    """Whether `value` is None, decided by its type."""
    return isinstance(value, Rt) and value.expr.type == NONE


def plain_number(value: Value) -> Value:
    """A 0-D array of numbers as its element, as NumPy takes it in arithmetic; other values as they are."""
    if not isinstance(value, Rt):
        return value
    t = value.expr.type
    if isinstance(t, ArrayType) and t.ndim == 0 and isinstance(t.dtype, Scalar):
        return Rt(Element(value.expr, (), t.dtype, None, True))
    return value


def static_int(value: Value) -> int | None:
    """The value of an integer (or bool) known at compile time, else None."""
    if not (isinstance(value, Rt) and isinstance(value.expr, Const) and isinstance(value.expr.type, Scalar)):
        return None
    return int(value.expr.value) if value.expr.type.kind in "biu" else None


def static_text(value: Value) -> str | None:
    """The value of a string known at compile time, else None."""
    return value.value if isinstance(value, Static) and isinstance(value.value, str) else None


def struct_value(t: StructType, items: tuple[Value, ...]) -> TupleValue:
    """A struct of type `t` by its items."""
    return TupleValue(items, (t.name, t.names, t.is_tuple))


def runtime_expr(value: Value) -> Expr | None:
    """The expression of a value that can exist at run time (tuples are put together), else None."""
    if isinstance(value, Rt):
        return value.expr
    if not isinstance(value, TupleValue):
        return None
    exprs = []
    for item in value.items:
        expr = runtime_expr(item)
        if expr is None:
            return None
        exprs.append(expr)
    types = tuple(e.type for e in exprs)
    if value.struct is None:
        return MakeTuple(tuple(exprs), TupleType(types))
    name, names, is_tuple = value.struct
    return MakeTuple(tuple(exprs), StructType(name, names, types, is_tuple))


def items_of(value: Value) -> tuple[Value, ...] | None:
    """Items of a tuple or struct (a run-time one must be stable), else None."""
    if isinstance(value, TupleValue):
        return value.items
    if isinstance(value, Rt) and isinstance(value.expr.type, TupleType | StructType):
        if isinstance(value.expr, MakeTuple):
            return tuple(from_expr(item) for item in value.expr.items)
        types = value.expr.type.items
        return tuple(from_expr(GetItem(value.expr, k, t)) for k, t in enumerate(types))
    return None


def from_expr(expr: Expr) -> Value:
    """The value of an expression: one of type None or literal is known from its type."""
    if expr.type == NONE:
        return Rt(Const(None, NONE))
    if isinstance(expr.type, LiteralType):
        return Static(expr.type.value)
    return Rt(expr)


def shape_key(value: Value) -> Any:
    """What a specialisation depends on: types of run-time parts, identity of compile-time parts."""
    expr = runtime_expr(value)
    if expr is not None:
        if isinstance(value, Rt) and value.pybool:
            return ("rt", expr.type, "pybool")
        return ("rt", expr.type)
    if isinstance(value, Static):
        if isinstance(value.value, str):
            return ("str", value.value)
        if value.capture is not None and value.capture.function is not None:
            return ("function", value.capture.function)
        return ("static", id(value.value))
    if isinstance(value, TupleValue):
        return ("tuple", value.struct, tuple(shape_key(item) for item in value.items))
    if isinstance(value, RangeValue):
        return ("range",)
    if isinstance(value, IterValue):
        return ("iter", value.kind, tuple(shape_key(part) for part in value.parts), value.start is None)
    if isinstance(value, BoundMethod):
        return ("method", value.name, shape_key(value.receiver))
    raise TypeError("a closure's key depends on the frame that calls it")


def describe_type(t: Type) -> str:
    """A type in the words of the language, for messages."""
    if isinstance(t, ArrayType):
        space = "" if t.space == "global" else f"{t.space} "
        return f"{space}{t.ndim}-D array of {t.dtype if isinstance(t.dtype, Scalar) else 'records'}"
    if isinstance(t, Scalar):
        return f"Python {t}" if t.weak else str(t)
    if isinstance(t, TupleType):
        return f"tuple ({', '.join(describe_type(item) for item in t.items)})"
    if isinstance(t, StructType):
        return f"{'named tuple' if t.is_tuple else 'dataclass'} {t.name}"
    if isinstance(t, RecordRefType):
        return f"record with fields {', '.join(f.name for f in t.record.fields)}"
    if isinstance(t, LiteralType):
        return f"str {t.value!r}"
    names = {"none": "None", "object": "host object", "type": "class", "void": "nothing"}
    return names.get(t.name, t.name) if isinstance(t, SimpleType) else str(t)


def describe(value: Value) -> str:
    """What a value is, for messages."""
    expr = runtime_expr(value)
    if expr is not None:
        return describe_type(expr.type)
    if isinstance(value, Static):
        v = value.value
        if isinstance(v, str):
            return f"str {v!r}"
        name = getattr(v, "__name__", None)
        kind = "class" if isinstance(v, type) else type(v).__name__
        return f"{kind} {name}" if name else kind
    if isinstance(value, TupleValue):
        return f"tuple ({', '.join(describe(item) for item in value.items)})"
    if isinstance(value, Closure):
        return f"function {value.name}"
    if isinstance(value, RangeValue):
        return "range"
    if isinstance(value, BoundMethod):
        return f"method {value.name} of {describe(value.receiver)}"
    return value.kind if isinstance(value, IterValue) else "a value"
