"""Names of a function, read off its syntax tree: which are its own, which a loop assigns, which it only reads."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

__all__ = ["assigned_in", "own_names", "parameters", "read_names", "walk_own"]

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def walk_own(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes below `nodes` that belong to the same scope (nested functions are given, not entered)."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _SCOPES):
            stack.extend(ast.iter_child_nodes(node))


def assigned_in(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Names that the statements bind."""
    found = set()
    for node in walk_own(nodes):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return frozenset(found)


def parameters(node: ast.FunctionDef | ast.Lambda) -> list[str]:
    """Names of all parameters."""
    a = node.args
    every = [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs, *([a.kwarg] if a.kwarg else [])]
    return [arg.arg for arg in every]


def own_names(node: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """Parameters and names that the function binds."""
    body = node.body if isinstance(node, ast.FunctionDef) else [node.body]
    return assigned_in(body) | frozenset(parameters(node))


def read_names(node: ast.FunctionDef | ast.Lambda) -> list[str]:
    """Names read anywhere in a function and what is nested in it, not its own, in order of appearance."""
    own = own_names(node)
    body = node.body if isinstance(node, ast.FunctionDef) else [node.body]
    found: dict[str, None] = {}
    stack: list[tuple[ast.AST, frozenset[str]]] = [(part, own) for part in reversed(body)]
    while stack:
        item, bound = stack.pop()
        if isinstance(item, ast.Name) and item.id not in bound:
            found[item.id] = None
        if isinstance(item, ast.FunctionDef | ast.Lambda):
            inner = bound | own_names(item)
            parts = item.body if isinstance(item, ast.FunctionDef) else [item.body]
            stack.extend((part, inner) for part in reversed(parts))
            defaults = [d for d in (*item.args.defaults, *item.args.kw_defaults) if d is not None]
            stack.extend((part, bound) for part in defaults)
        else:
            stack.extend((child, bound) for child in reversed(list(ast.iter_child_nodes(item))))
    return list(found)
