"""Replace locals that only stand for something simpler: an array allocated in the kernel, a parameter, a constant.

A local assigned once, to a `SharedArray`, a `LocalArray`, a constant or a parameter that never changes, is that value
wherever it is read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import rewrite_statements, walk

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
    if not known:
        return function

    def change(node: Any) -> Any:
        return _resolved(node, known)

    body = rewrite_statements(_without(function.body, known), change)
    kept = {name: t for name, t in function.locals.items() if name not in known}
    return replace(function, body=body, locals=kept)


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
