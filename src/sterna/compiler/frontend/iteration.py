"""What a ``for`` can walk: ranges, arrays, tuples, and enumerate, zip and reversed over them.

A sequence is either counted at run time (`item` gives the value for a counter) or a tuple of values, whose
loop is unrolled.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from sterna.compiler.frontend import operators
from sterna.compiler.frontend.attributes import extent
from sterna.compiler.frontend.frame import Frame, tuple_items
from sterna.compiler.frontend.subscripts import index_values
from sterna.compiler.frontend.values import IterValue, RangeValue, Rt, Static, TupleValue, Value, describe, static_int
from sterna.compiler.ir.nodes import Binary, Compare, Const, Expr, IfExp, Local
from sterna.frozen import frozen
from sterna.types import BOOL, PYINT, ArrayType, Scalar

__all__ = ["Sequence", "length", "make_range", "range_item", "sequence_of"]


_ZERO, _ONE = Const(0, PYINT), Const(1, PYINT)


@frozen
class Sequence:
    """``for`` over ``range(start, stop, step)``, with `item` of the counter; or over `items`, unrolled."""

    start: Expr = _ZERO
    stop: Expr = _ZERO
    step: Expr = _ONE
    nonneg: bool = True
    item: Callable[[Rt], Value] | None = None
    items: tuple[Value, ...] | None = None


def make_range(frame: Frame, node: ast.AST, args: list[Value]) -> RangeValue:
    """``range(…)`` of one to three integers; a step of zero raises ValueError."""
    if not 1 <= len(args) <= 3:
        frame.fail(node, f"range takes 1 to 3 arguments, {len(args)} were given")
    values = []
    for arg in args:
        value = operators.scalar(frame, arg, node, "range")
        t = value.expr.type
        assert isinstance(t, Scalar)
        if t.kind not in "iu" and not value.pybool:
            frame.fail(node, f"range needs integers, this is {t}", "convert with int(…)")
        known = static_int(value)
        expr = frame.cast(value.expr, PYINT, node)
        values.append(Rt(expr, False, value.nonneg or t.kind == "u" or (known is not None and known >= 0)))
    start = values[0] if len(values) > 1 else Rt(Const(0, PYINT), False, True)
    stop = values[1] if len(values) > 1 else values[0]
    step = values[2] if len(values) > 2 else Rt(Const(1, PYINT), False, True)
    if static_int(step) == 0:
        frame.fail(node, "range() arg 3 must not be zero")
    if not isinstance(step.expr, Const):
        start, stop, step = (_stable(frame, v) for v in (start, stop, step))
        frame.check(Compare("eq", step.expr, Const(0, PYINT)), "ValueError", "range() arg 3 must not be zero")
    return RangeValue(start, stop, step)


def _stable(frame: Frame, value: Rt) -> Rt:
    kept = frame.stable(value)
    assert isinstance(kept, Rt)
    return kept


def _kept(frame: Frame, value: Rt) -> Rt:
    """`value` for the whole of the loop that is being set up."""
    kept = frame.hold(value, frame.loop_assigns)
    assert isinstance(kept, Rt)
    return kept


def _counts_nonneg(value: RangeValue) -> bool:
    """Whether every number of the range is known not to be negative."""
    step, stop = static_int(value.step), static_int(value.stop)
    if step is None:
        return value.start.nonneg and value.step.nonneg
    if step > 0:
        return value.start.nonneg
    return (stop is not None and stop >= -1) or value.stop.nonneg


def range_length(frame: Frame, value: RangeValue) -> Rt:
    """Number of items of a (stable) range."""
    start, stop, step = value.start.expr, value.stop.expr, value.step.expr
    if isinstance(start, Const) and isinstance(stop, Const) and isinstance(step, Const):
        return Rt(Const(len(range(start.value, stop.value, step.value)), PYINT), False, True)
    one, zero = Const(1, PYINT), Const(0, PYINT)

    def count(low: Expr, high: Expr, by: Expr) -> Expr:
        """``max(0, (high - low - 1) // by + 1)`` for positive `by`."""
        if low == zero and by == one:
            return Binary("max", high, zero, PYINT)
        span = Binary("sub", Binary("sub", high, low, PYINT), one, PYINT)
        turns = Binary("add", Binary("floordiv", span, by, PYINT), one, PYINT)
        return IfExp(Compare("lt", low, high), turns, zero, PYINT)

    if isinstance(step, Const):
        up = step.value > 0
        expr = count(start, stop, step) if up else count(stop, start, Const(-step.value, PYINT))
    else:
        down = Binary("sub", zero, step, PYINT)
        expr = IfExp(Compare("gt", step, zero), count(start, stop, step), count(stop, start, down), PYINT)
    return Rt(expr, False, True)


def _stable_range(frame: Frame, value: RangeValue) -> RangeValue:
    return RangeValue(_stable(frame, value.start), _stable(frame, value.stop), _stable(frame, value.step))


def _at(value: RangeValue, k: Expr) -> Rt:
    scaled = k if value.step.expr == Const(1, PYINT) else Binary("mul", k, value.step.expr, PYINT)
    start = value.start.expr
    expr = scaled if start == Const(0, PYINT) else Binary("add", start, scaled, PYINT)
    return Rt(expr, False, _counts_nonneg(value))


def range_item(frame: Frame, node: ast.AST, value: RangeValue, index: Value) -> Value:
    """``range(…)[k]``, checked."""
    value = _stable_range(frame, value)
    n = frame.stable(range_length(frame, value))
    k = operators.scalar(frame, index, node, "an index")
    assert isinstance(n, Rt)
    k = _stable(frame, Rt(frame.cast(k.expr, PYINT, node), False, k.nonneg))
    wrapped: Expr = k.expr
    if not k.nonneg:
        negative = Compare("lt", k.expr, Const(0, PYINT))
        wrapped = frame.temp(IfExp(negative, Binary("add", k.expr, n.expr, PYINT), k.expr, PYINT))
    outside = Binary("or", Compare("lt", wrapped, Const(0, PYINT)), Compare("ge", wrapped, n.expr), BOOL)
    frame.check(outside, "IndexError", "range object index out of range")
    return _at(value, wrapped)


def length(frame: Frame, node: ast.AST, value: Value) -> Rt:
    """``len(value)``."""
    items = tuple_items(frame, value, node)
    if items is not None and not (isinstance(value, TupleValue) and value.struct and not value.struct[2]):
        return Rt(Const(len(items), PYINT), False, True)
    if isinstance(value, RangeValue):
        return range_length(frame, _stable_range(frame, value))
    if isinstance(value, Static) and isinstance(value.value, str):
        return Rt(Const(len(value.value), PYINT), False, True)
    if isinstance(value, Rt) and isinstance(value.expr.type, ArrayType):
        if value.expr.type.ndim == 0:
            frame.fail(node, "len() of a 0-D array")
        stable = frame.stable(value)
        assert isinstance(stable, Rt)
        return extent(stable.expr, 0)
    frame.fail(node, f"{describe(value)} has no len()")


def sequence_of(frame: Frame, node: ast.AST, value: Value, assigned: frozenset[str]) -> Sequence:
    """How to walk `value` in a loop that assigns the names `assigned`."""
    frame.loop_assigns = assigned
    if isinstance(value, RangeValue):
        return Sequence(value.start.expr, value.stop.expr, value.step.expr, _counts_nonneg(value))
    items = static_items(frame, node, value)
    if items is not None:
        return Sequence(items=items)
    count, item = counted(frame, node, value)
    return Sequence(stop=count.expr, item=item)


def static_items(frame: Frame, node: ast.AST, value: Value) -> tuple[Value, ...] | None:
    """The items of something whose length is known and that is walked by unrolling, else None."""
    if isinstance(value, TupleValue) and value.struct is not None and not value.struct[2]:
        frame.fail(node, f"dataclass {value.struct[0]} cannot be iterated", "read its fields by name")
    if isinstance(value, Static) and isinstance(value.value, str):
        return tuple(Static(c) for c in value.value)
    items = tuple_items(frame, value, node)
    if items is not None or not isinstance(value, IterValue):
        return items
    parts = [static_items(frame, node, part) for part in value.parts]
    if all(part is None for part in parts):
        return None
    if value.kind == "zip":
        return _zip_items(frame, node, value, parts)
    assert parts[0] is not None
    if value.kind == "reversed":
        return parts[0][::-1]
    assert value.start is not None
    numbers = [operators.binary(frame, node, "add", value.start, Rt(Const(k, PYINT))) for k in range(len(parts[0]))]
    return tuple(TupleValue((number, item)) for number, item in zip(numbers, parts[0], strict=True))


def _zip_items(
    frame: Frame, node: ast.AST, value: IterValue, parts: list[tuple[Value, ...] | None]
) -> tuple[Value, ...]:
    columns: list[tuple[Value, ...]] = []
    shortest = min(len(part) for part in parts if part is not None)
    for part, source in zip(parts, value.parts, strict=True):
        if part is None and isinstance(source, RangeValue):
            n = static_int(range_length(frame, source))
            if n is not None:
                part = tuple(_at(source, Const(k, PYINT)) for k in range(min(n, shortest)))
        if part is None:
            frame.unsupported(
                node, f"zip of a tuple and {describe(source)} cannot be used in device code",
                "loop over range(n) and index both",
            )  # fmt: skip
        columns.append(part)
    return tuple(TupleValue(row) for row in zip(*columns, strict=False))


def counted(frame: Frame, node: ast.AST, value: Value) -> tuple[Rt, Callable[[Rt], Value]]:
    """Length of something walked by a counter, and its item for a counter."""
    if isinstance(value, RangeValue):
        kept = RangeValue(_kept(frame, value.start), _kept(frame, value.stop), _kept(frame, value.step))
        return range_length(frame, kept), lambda k: _at(kept, k.expr)
    if isinstance(value, Rt) and isinstance(value.expr.type, ArrayType):
        if value.expr.type.ndim == 0:
            frame.fail(node, "a 0-D array cannot be iterated")
        array = frame.hold(value, frame.loop_assigns)
        assert isinstance(array, Rt)
        return extent(array.expr, 0), lambda k: _unchecked(frame, node, array, k)
    if isinstance(value, IterValue):
        return _counted_iter(frame, node, value)
    frame.fail(node, f"{describe(value)} cannot be iterated", "loop over range(n), an array or a tuple")


def _unchecked(frame: Frame, node: ast.AST, array: Rt, k: Rt) -> Value:
    frame.inbounds += 1
    try:
        return index_values(frame, node, array, [k])
    finally:
        frame.inbounds -= 1


def _counted_iter(frame: Frame, node: ast.AST, value: IterValue) -> tuple[Rt, Callable[[Rt], Value]]:
    parts = [counted(frame, node, part) for part in value.parts]
    n, first = parts[0]
    if value.kind == "reversed":
        last = _kept(frame, Rt(Binary("sub", n.expr, Const(1, PYINT), PYINT)))
        return Rt(last_plus_one(last), False, True), lambda k: first(
            Rt(Binary("sub", last.expr, k.expr, PYINT), False, True)
        )
    if value.kind == "enumerate":
        start = value.start
        assert start is not None
        kept = _kept(frame, start)

        def numbered(k: Rt) -> Value:
            if kept.expr == Const(0, PYINT):
                return TupleValue((k, first(k)))
            return TupleValue((operators.binary(frame, node, "add", kept, k), first(k)))

        return n, numbered
    for other, _ in parts[1:]:
        n = Rt(Binary("min", n.expr, other.expr, PYINT), False, True)
    items = [item for _, item in parts]
    return n, lambda k: TupleValue(tuple(item(k) for item in items))


def last_plus_one(last: Rt) -> Expr:
    """The length again, from its last index."""
    assert isinstance(last.expr, Const | Local)
    return Binary("add", last.expr, Const(1, PYINT), PYINT)
