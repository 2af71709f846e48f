"""What each name means at a point of a function, and how meanings merge where control flow joins.

A name's `Slot` holds its value.  A run-time value lives in an IR local, its *home*; a name whose type changes
gets another home.  Where paths join, every `Edge` (environment and the statements that end there) is made
to agree: values move into a common home by assignments at the end of the edge.  A name bound on some paths
only is `maybe`: a flag local, false at function entry and never reset, says whether it was bound.
A name with no common meaning is in *conflict*, which is an error only if it is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sterna.compiler.frontend.promotion import Unfit, convert, join_types
from sterna.compiler.frontend.values import (
    Rt,
    Static,
    TupleValue,
    Value,
    describe,
    is_constant,
    items_of,
    runtime_expr,
)  # fmt: skip
from sterna.compiler.ir.nodes import Assign, Const, Expr, Local, Stmt
from sterna.frozen import frozen
from sterna.types import BOOL, Type

if TYPE_CHECKING:
    from sterna.compiler.frontend.frame import Frame

__all__ = ["Edge", "Env", "Slot", "conform", "flag_of", "merge", "merge_slots", "settled"]


@frozen
class Slot:
    """Meaning of a name: its value (None: in conflict), its home, whether it may be unbound."""

    value: Value | None
    home: str | None = None
    maybe: bool = False
    conflict: str = ""


Env = dict[str, Slot]


@dataclass(slots=True)
class Edge:
    """A path that reaches a join: the environment at its end, and where its last statements go."""

    env: Env
    out: list[Stmt]


def flag_of(name: str) -> str:
    """The local that says whether `name` was bound."""
    return f"{name}?"


def merge(frame: Frame, edges: list[Edge]) -> Env:
    """The environment after `edges` join; appends the moves they need to their statements."""
    if len(edges) == 1:
        return edges[0].env
    names: dict[str, None] = {}
    for edge in edges:
        names.update(dict.fromkeys(edge.env))
    merged: Env = {}
    for name in names:
        slots = [edge.env.get(name) for edge in edges]
        first = slots[0]
        if first is not None and all(slot is first for slot in slots):
            merged[name] = first
            continue
        present = [(slot, edge) for slot, edge in zip(slots, edges, strict=True) if slot is not None]
        slot = merge_slots(frame, name, [s for s, _ in present], missing=len(present) < len(edges))
        for given, edge in present:
            conform(frame, name, given, slot, edge.out)
        merged[name] = slot
    return merged


def merge_slots(frame: Frame, name: str, slots: Iterable[Slot], missing: bool) -> Slot:
    """The common meaning of `slots` of one name."""
    given = list(slots)
    maybe = missing or any(slot.maybe for slot in given)
    for slot in given:
        if slot.conflict:
            return Slot(None, None, maybe, slot.conflict)
    values = [slot.value for slot in given if slot.value is not None]
    homes = {slot.home for slot in given}
    if all(_same(value, values[0]) for value in values[1:]):
        return Slot(values[0], given[0].home if len(homes) == 1 else None, maybe)
    joined = _join(frame, name, values)
    if joined is None:
        shown = list(dict.fromkeys(describe(value) for value in values))
        if len(shown) == 1:
            return Slot(None, None, maybe, f"{name} is a different {shown[0]} on different paths")
        return Slot(None, None, maybe, f"{name} is {shown[0]} on one path and {shown[1]} on another")
    home = joined.expr.name if isinstance(joined, Rt) and isinstance(joined.expr, Local) else None
    return Slot(joined, home, maybe)


def _same(a: Value, b: Value) -> bool:
    if isinstance(a, Static) and isinstance(b, Static):
        if a.value is b.value:
            return True
        return isinstance(a.value, str) and isinstance(b.value, str) and a.value == b.value
    if isinstance(a, Rt) and isinstance(b, Rt) and isinstance(a.expr, Const) and isinstance(b.expr, Const):
        same = a.expr.type == b.expr.type and repr(a.expr.value) == repr(b.expr.value)
        return same and a.pybool == b.pybool
    if isinstance(a, Rt) and isinstance(b, Rt):
        return a == b
    if isinstance(a, TupleValue) and isinstance(b, TupleValue):
        return a.struct == b.struct and len(a.items) == len(b.items) and all(map(_same, a.items, b.items))
    return a is b


def _join(frame: Frame, name: str, values: list[Value]) -> Value | None:
    """A value in homes of `name` that all of `values` can be moved into."""
    exprs = [runtime_expr(value) for value in values]
    if all(expr is not None for expr in exprs):
        t: Type | None = exprs[0].type  # type: ignore[union-attr]
        for expr in exprs[1:]:
            t = None if t is None else join_types(t, expr.type)  # type: ignore[union-attr]
        if t is None:
            return None
        rts = [value for value in values if isinstance(value, Rt)]
        pybool = len(rts) == len(values) and all(rt.pybool for rt in rts)
        nonneg = len(rts) == len(values) and all(rt.nonneg for rt in rts)
        return Rt(Local(frame.home(name, t), t), pybool and t == BOOL, nonneg)
    parts = [items_of(value) for value in values]
    first = values[0]
    if not isinstance(first, TupleValue) or any(p is None or len(p) != len(first.items) for p in parts):
        return None
    if any(not isinstance(value, TupleValue) or value.struct != first.struct for value in values):
        return None
    items = []
    for k in range(len(first.items)):
        column = [p[k] for p in parts if p is not None]
        same = all(_same(item, column[0]) for item in column)
        item = column[0] if same else _join(frame, f"{name}[{k}]", column)
        if item is None:
            return None
        items.append(item)
    return TupleValue(tuple(items), first.struct)


def conform(frame: Frame, name: str, given: Slot, target: Slot, out: list[Stmt]) -> None:
    """Append the moves that make `given` mean `target` at the end of `out`."""
    if target.maybe and not given.maybe:
        frame.use_flag(name)
        out.append(Assign(flag_of(name), Const(True, BOOL)))
    if target.value is None or given.value is None:
        return
    if target.home is not None and given.home == target.home and _at_home(given.value):
        return
    try:
        _move(given.value, target.value, out)
    except Unfit as error:
        raise error.of_variable(name) from None


def _at_home(value: Value) -> bool:
    """Whether the home holds the value (always so for values assigned to it)."""
    return isinstance(value, Rt)


def _move(given: Value, target: Value, out: list[Stmt]) -> None:
    if isinstance(target, Rt):
        expr = runtime_expr(given)
        if isinstance(target.expr, Local) and expr is not None and expr != target.expr:
            out.append(Assign(target.expr.name, convert(expr, target.expr.type)))
        return
    if isinstance(target, TupleValue) and isinstance(given, TupleValue):
        for a, b in zip(given.items, target.items, strict=True):
            _move(a, b, out)


def settled(frame: Frame, name: str, slot: Slot) -> Slot:
    """`slot` as a loop's head sees it when the body assigns `name`: in a home, no constant any more."""
    if slot.value is None:
        return slot
    expr: Expr | None = runtime_expr(slot.value)
    if expr is None:
        return slot
    if not is_constant(expr) and slot.home is not None:
        return slot
    nonneg = isinstance(slot.value, Rt) and (slot.value.nonneg or _is_nonneg_const(expr))
    pybool = isinstance(slot.value, Rt) and slot.value.pybool
    home = frame.home(name, expr.type)
    return Slot(Rt(Local(home, expr.type), pybool, nonneg), home, slot.maybe)


def _is_nonneg_const(expr: Expr) -> bool:
    return isinstance(expr, Const) and isinstance(expr.value, int) and expr.value >= 0
