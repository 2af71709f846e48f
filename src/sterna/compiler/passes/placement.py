"""Where the locals of a split kernel live, and which are computed again instead of kept.

========== ==========================================================================
uniform    one stack slot for the block
kept       one element for each thread: the local's value crosses from one region to another
region     a stack slot, used again by the next thread: every use follows an assignment in its region
========== ==========================================================================

A local that is assigned once from indices, parameters and arithmetic (``i = grid(1)``) is computed again in every
region that reads it: that is cheaper than a load, and LLVM sees how addresses depend on the thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk
from sterna.compiler.passes import split_regions as S
from sterna.compiler.passes.uniformity import Uniformity
from sterna.frozen import frozen
from sterna.types import Type

__all__ = ["Placement", "Program", "all_steps", "exposed", "place", "regions_of"]

_MOST_NODES = 16
_CHEAP = (
    ir.Const, ir.Unary, ir.Binary, ir.Compare, ir.Cast, ir.Extent, ir.MakeTuple, ir.GetItem, ir.Local, ir.Intrinsic,
)  # fmt: skip
_INDICES = ("thread_idx.", "block_idx.", "block_dim.", "grid_dim.", "grid_index.", "grid_size.", "laneid", "warpsize")


@frozen
class Placement:
    """Locals by where they live."""

    uniform: frozenset[str]
    kept: tuple[str, ...]
    can_leave: bool


@frozen
class Program:
    """A kernel ready for block-at-a-time code."""

    steps: tuple[S.Step, ...]
    placement: Placement
    types: dict[str, Type]
    divided: bool


def regions_of(steps: Sequence[S.Step]) -> Iterator[S.Region]:
    """All regions, in order."""
    for step in steps:
        if isinstance(step, S.Region):
            yield step
        for name in ("head", "then", "orelse", "body"):
            inner = getattr(step, name, ())
            if not isinstance(step, S.Region):
                yield from regions_of(inner)


def all_steps(steps: Sequence[S.Step]) -> Iterator[S.Step]:
    """All steps at any depth."""
    for step in steps:
        yield step
        if not isinstance(step, S.Region):
            for name in ("head", "then", "orelse", "body"):
                yield from all_steps(getattr(step, name, ()))


def place(steps: tuple[S.Step, ...], uniformity: Uniformity, function: ir.Function, types: dict[str, Type]) -> Program:
    """Decide where every local lives."""
    again = _recomputed(function, uniformity)
    needed = {step.test for step in all_steps(steps) if isinstance(step, S.MaskedIf | S.MaskedLoop)}
    for step in all_steps(steps):
        if isinstance(step, S.Collective):
            needed |= {a.name for a in step.operation.args if isinstance(a, ir.Local)}
            if step.target is not None:
                needed.add(step.target)
    again = {name: value for name, value in again.items() if name not in needed}
    steps = tuple(_with_recomputed(steps, again))
    counts: dict[str, int] = {}
    kept = set(needed)
    for region in regions_of(steps):
        for name in _mentioned(region.body):
            counts[name] = counts.get(name, 0) + 1
        kept |= exposed(region.body)
    kept |= {name for name, count in counts.items() if count > 1 and name not in again}
    params = {name for name, _ in function.params}
    changed = {n.target for n in walk(function.body) if isinstance(n, ir.Assign | ir.ForRange)}
    candidates = [name for name in types if name not in params or name in changed]
    uniform = {n for n in candidates if uniformity.is_uniform_local(n)}
    order = tuple(name for name in candidates if name in kept and name not in uniform and name not in again)
    can_leave = any(_leaves(n) for region in regions_of(steps) for n in walk(region.body))
    can_leave = can_leave or any(isinstance(s, S.Jump) and s.kind == "return" for s in all_steps(steps))
    return Program(steps, Placement(frozenset(uniform), order, can_leave), types, True)


def _leaves(node: Any) -> bool:
    if isinstance(node, ir.Return | ir.Raise | ir.Call):
        return True
    return isinstance(node, ir.Element | ir.Store | ir.View | ir.Atomic) and node.check is not None


def _mentioned(body: Sequence[ir.Stmt]) -> set[str]:
    names = set()
    for node in walk(body):
        if isinstance(node, ir.Local):
            names.add(node.name)
        elif isinstance(node, ir.Assign | ir.ForRange):
            names.add(node.target)
    return names


def exposed(body: Sequence[ir.Stmt]) -> set[str]:
    """Locals that may be read in `body` before it assigns them."""
    found: set[str] = set()
    _scan(body, frozenset(), found)
    return found


def _scan(body: Sequence[ir.Stmt], known: frozenset[str], found: set[str]) -> frozenset[str]:
    for node in body:
        for name in ("test", "start", "stop", "step", "value", "record", "array", "indices", "parts", "details"):
            part = getattr(node, name, None)
            if part is not None:
                items = part if isinstance(part, tuple) else (part,)
                reads = {n.name for n in walk([i for i in items if not isinstance(i, str)]) if isinstance(n, ir.Local)}
                found |= reads - known
        if isinstance(node, ir.Assign):
            known |= {node.target}
        elif isinstance(node, ir.If):
            known |= _scan(node.then, known, found) & _scan(node.orelse, known, found)
        elif isinstance(node, ir.ForRange):
            _scan(node.body, known | {node.target}, found)
        elif isinstance(node, ir.While):
            _scan(node.body, known, found)
        elif isinstance(node, ir.Break | ir.Continue | ir.Return | ir.Raise):
            return _Everything()
    return known


class _Everything(frozenset[str]):
    """After a jump: nothing runs, so everything counts as assigned."""

    def __and__(self, other: Any) -> Any:
        return other

    def __rand__(self, other: Any) -> Any:
        return other

    def __contains__(self, item: object) -> bool:
        return True


def _recomputed(function: ir.Function, uniformity: Uniformity) -> dict[str, ir.Expr]:
    """Locals to compute again, in order of their dependence."""
    assigned: dict[str, list[Any]] = {}
    for node in walk(function.body):
        if isinstance(node, ir.Assign | ir.ForRange):
            assigned.setdefault(node.target, []).append(node)
    stable = {name for name, _ in function.params if name not in assigned}
    for node in function.body:
        if isinstance(node, ir.Assign) and len(assigned[node.target]) == 1 and uniformity.is_uniform_local(node.target):
            stable.add(node.target)
    again: dict[str, ir.Expr] = {}
    for name, found in assigned.items():
        if len(found) == 1 and isinstance(found[0], ir.Assign) and not uniformity.is_uniform_local(name):
            value = found[0].value
            if _is_cheap(value, stable | again.keys()):
                again[name] = value
    return again


def _is_cheap(value: ir.Expr, known: set[str]) -> bool:
    for count, node in enumerate(walk([value])):
        if count >= _MOST_NODES or not isinstance(node, _CHEAP):
            return False
        if isinstance(node, ir.Local) and node.name not in known:
            return False
        if isinstance(node, ir.Intrinsic) and not node.name.startswith(_INDICES):
            return False
        if isinstance(node, ir.Binary) and node.op in ("pow", "truediv"):
            return False
    return True


def _with_recomputed(steps: Sequence[S.Step], again: dict[str, ir.Expr]) -> Iterator[S.Step]:
    for step in steps:
        if isinstance(step, S.Region):
            yield _completed(step, again)
            continue
        values = {
            name: tuple(_with_recomputed(getattr(step, name), again))
            for name in ("head", "then", "orelse", "body")
            if hasattr(step, name)
        }
        yield replace(step, **values)  # type: ignore[arg-type]


def _completed(region: S.Region, again: dict[str, ir.Expr]) -> S.Region:
    wanted = {name for name in exposed(region.body) if name in again}
    todo = list(wanted)
    while todo:
        for node in walk([again[todo.pop()]]):
            if isinstance(node, ir.Local) and node.name in again and node.name not in wanted:
                wanted.add(node.name)
                todo.append(node.name)
    before = [ir.Assign(name, value) for name, value in again.items() if name in wanted]
    return S.Region((*before, *region.body))
