"""The last step of the frontend: the module of the functions really called, with the error sites really used.

Attempts that were given up leave specialisations and error sites behind; they are dropped here, so that the
module depends on the program alone.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from sterna.compiler.frontend.recursion import MESSAGE, count_depth, depth_limit, recursive_functions
from sterna.compiler.ir.nodes import Atomic, Element, ErrorSite, Function, Module, Raise, SiteRef, Store, View
from sterna.compiler.ir.rewrite import Node, rewrite_function, walk_function

if TYPE_CHECKING:
    from sterna.compiler.frontend.build import Build, Specialisation

__all__ = ["finish_module"]


def finish_module(build: Build, entry: Specialisation) -> Module:
    """Put the module together."""
    by_name = {s.name: s for s in build.specialisations.values() if s.function is not None}
    reached: dict[str, Specialisation] = {}
    stack = [entry.name]
    while stack:
        name = stack.pop()
        if name not in reached:
            reached[name] = by_name[name]
            stack.extend(reversed(by_name[name].callees))
    recursive = recursive_functions({name: spec.callees for name, spec in reached.items()})
    raising = _raising(reached, recursive)
    functions = {}
    for name, spec in reached.items():
        assert spec.function is not None
        functions[name] = replace(spec.function, may_raise=name in raising)
    if recursive:
        limit = depth_limit((functions[name] for name in recursive), build.target.limits.stack_bytes)
        functions = {name: _limited(build, reached[name], f, recursive, limit) for name, f in functions.items()}
    functions, errors = _renumber(functions, tuple(build.sites))
    sources = tuple((reached.path, reached.function.__qualname__) for reached in build.scan.functions)
    return Module(entry.name, functions, errors, sources)


def _limited(build: Build, spec: Specialisation, function: Function, recursive: set[str], limit: int) -> Function:
    """`function`, counting the depth of recursion; the error is at its first statement."""
    first = spec.node.body if isinstance(spec.node, ast.Lambda) else spec.node.body[0]
    line, site = first.lineno - build.first_line(spec.owner), None
    if function.name in recursive:
        ordinal = build.statement_ordinal(spec.owner, first)
        site = build.error_site("RecursionError", MESSAGE, SiteRef(spec.owner, ordinal, line))
    return count_depth(function, recursive, limit, site, line)


def _raising(reached: dict[str, Specialisation], recursive: set[str]) -> set[str]:
    """Functions that can fail themselves or through a call."""
    raising = recursive | {name for name, spec in reached.items() if spec.raises}
    changed = True
    while changed:
        changed = False
        for name, spec in reached.items():
            if name not in raising and raising.intersection(spec.callees):
                raising.add(name)
                changed = True
    return raising


def _renumber(
    functions: dict[str, Function], sites: tuple[ErrorSite, ...]
) -> tuple[dict[str, Function], tuple[ErrorSite, ...]]:
    """Error indices in order of first use; sites nobody uses are dropped."""
    used: dict[int, int] = {}
    for function in functions.values():
        for node in walk_function(function):
            index = _error_of(node)
            if index is not None:
                used.setdefault(index, len(used))
    if all(old == new for old, new in used.items()):
        return functions, tuple(sites[old] for old in used)

    def renumbered(node: Node) -> Node:
        index = _error_of(node)
        if index is None:
            return node
        if isinstance(node, Raise):
            return replace(node, error=used[index])
        return replace(node, check=used[index])  # type: ignore[arg-type]

    return (
        {name: rewrite_function(function, renumbered) for name, function in functions.items()},
        tuple(sites[old] for old in used),
    )


def _error_of(node: Node) -> int | None:
    if isinstance(node, Raise):
        return node.error
    if isinstance(node, Element | Store | View | Atomic):
        return node.check
    return None
