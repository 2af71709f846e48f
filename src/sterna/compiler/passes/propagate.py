"""Replace locals that only stand for something simpler: an array allocated in the kernel, a parameter, a constant.

A local assigned once, to a `SharedArray`, a `LocalArray`, a constant or a parameter that never changes, is that value
wherever it is read.  Tests whether an extent of the launch is zero are gone too: none is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import map_statements, rewrite_statements, walk
from sterna.types import PYINT

__all__ = ["propagate"]


def propagate(function: ir.Function) -> ir.Function:
    """A function with such locals replaced and their assignments gone."""
    assigned: dict[str, list[Any]] = {}
    for node in walk(function.body):
        if isinstance(node, ir.Assign | ir.ForRange):
            assigned.setdefault(node.target, []).append(node)
    params = {name for name, _ in function.params}
    known: dict[str, ir.Expr] = {}
    for name, found in assigned.items():
        if len(found) != 1 or not isinstance(found[0], ir.Assign) or name in params:
            continue
        value = _resolved(found[0].value, known)
        stable = isinstance(value, ir.Local) and value.name in params and value.name not in assigned
        if stable or isinstance(value, ir.SharedArray | ir.LocalArray | ir.Const):
            known[name] = value
    never_zero = {name for name, found in assigned.items() if len(found) == 1 and _is_extent(found[0])}
    if not known and not never_zero:
        return function

    def change(node: Any) -> Any:
        return _resolved(node, known)

    body = rewrite_statements(_without(function.body, known), change)
    body = map_statements(body, lambda node: () if _is_never(node, never_zero) else (node,))
    kept = {name: t for name, t in function.locals.items() if name not in known}
    return replace(function, body=body, locals=kept)


def _is_extent(node: Any) -> bool:
    value = getattr(node, "value", None)
    return isinstance(value, ir.Intrinsic) and value.name.startswith(("block_dim.", "grid_dim.", "grid_size."))


def _is_never(node: ir.Stmt, never_zero: set[str]) -> bool:
    """Whether a statement is ``if extent == 0`` without an else."""
    test = node.test if isinstance(node, ir.If) and not node.orelse else None
    if not isinstance(test, ir.Compare) or test.op != "eq" or test.right != ir.Const(0, PYINT):
        return False
    return isinstance(test.left, ir.Local) and test.left.name in never_zero


def _resolved(node: Any, known: dict[str, ir.Expr]) -> Any:
    while isinstance(node, ir.Local) and node.name in known:
        node = known[node.name]
    return node


def _without(body: tuple[ir.Stmt, ...], known: dict[str, ir.Expr]) -> tuple[ir.Stmt, ...]:
    result: list[ir.Stmt] = []
    for node in body:
        if isinstance(node, ir.Assign) and node.target in known:
            continue
        if isinstance(node, ir.If):
            node = replace(node, then=_without(node.then, known), orelse=_without(node.orelse, known))
        elif isinstance(node, ir.While | ir.ForRange):
            node = replace(node, body=_without(node.body, known))
        result.append(node)
    return tuple(result)
