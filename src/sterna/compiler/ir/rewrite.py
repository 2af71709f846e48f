"""Walking and rebuilding IR trees, for passes.

`walk` gives every node below some nodes; `rewrite` rebuilds bottom-up with a function of one node; unchanged
subtrees are kept as they are.  Both know the fields of each node class once, from its dataclass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sterna.compiler.deep import with_deep_stack
from sterna.compiler.ir.nodes import Expr, Function, Module, NewAxis, SliceAxis, Stmt

__all__ = [
    "Node", "children", "map_expr", "map_statements", "replace_functions", "rewrite_function", "rewrite_statements",
    "walk", "walk_function",
]  # fmt: skip

Node = Expr | Stmt | SliceAxis | NewAxis
Mapper = Callable[[Any], Any]

_CHILDREN = {
    "Unary": ("operand",), "Binary": ("left", "right"), "Compare": ("left", "right"),
    "IfExp": ("test", "then", "orelse"), "Cast": ("operand",), "Call": ("args",), "Intrinsic": ("args",),
    "RefWord": ("words",), "ArrayOf": ("address", "shape", "strides"), "Element": ("array", "indices"),
    "FieldRef": ("value",), "SliceAxis": ("start", "stop", "step"), "View": ("array", "items"),
    "Extent": ("array",), "Stride": ("array",), "MakeTuple": ("items",), "GetItem": ("value",),
    "TypeOf": ("value",), "Atomic": ("array", "indices", "values"), "Assign": ("value",),
    "Store": ("array", "indices", "value"), "StoreField": ("record", "value"), "ExprStatement": ("value",),
    "If": ("test", "then", "orelse"), "While": ("test", "body"), "ForRange": ("start", "stop", "step", "body"),
    "Return": ("value",), "Raise": ("details",), "Print": ("parts",),
}  # fmt: skip
"""Fields of each node class that hold nodes or tuples of nodes, in order of evaluation."""


def children(cls: type) -> tuple[str, ...]:
    """Fields of a node class that hold nodes or tuples of nodes, in order of evaluation."""
    return _CHILDREN.get(cls.__name__, ())


def walk(nodes: Iterable[Any]) -> Iterator[Any]:
    """Every node below and including `nodes`, parents before children, in order of evaluation."""
    stack = list(nodes)
    stack.reverse()
    while stack:
        node = stack.pop()
        yield node
        for name in reversed(_CHILDREN.get(type(node).__name__, ())):
            child = getattr(node, name)
            if isinstance(child, tuple):
                stack.extend(item for item in reversed(child) if not isinstance(item, str))
            elif child is not None:
                stack.append(child)


def walk_function(function: Function) -> Iterator[Any]:
    """Every node of a function's body."""
    return walk(function.body)


def map_expr(node: Any, change: Mapper) -> Any:
    """`node` (expression, slice or statement) rebuilt bottom-up: `change` of each node with its new children."""
    values: dict[str, Any] = {}
    for name in _CHILDREN.get(type(node).__name__, ()):
        child = getattr(node, name)
        if isinstance(child, tuple):
            new: Any = [item if isinstance(item, str) else map_expr(item, change) for item in child]
            if any(a is not b for a, b in zip(new, child, strict=True)):
                values[name] = tuple(new)
        elif child is not None:
            new = map_expr(child, change)
            if new is not child:
                values[name] = new
    return change(dataclasses.replace(node, **values) if values else node)


def rewrite_statements(statements: Iterable[Stmt], change: Mapper) -> tuple[Stmt, ...]:
    """Statements with every node rebuilt by `change`."""
    return tuple([map_expr(s, change) for s in statements])


def map_statements(statements: Iterable[Stmt], change: Callable[[Stmt], Iterable[Stmt]]) -> tuple[Stmt, ...]:
    """Each statement replaced by several, innermost first; expressions are left alone."""
    result: list[Stmt] = []
    for s in statements:
        changed: dict[str, Any] = {}
        for name in ("then", "orelse", "body"):
            before = getattr(s, name, None)
            if before is not None:
                after = map_statements(before, change)
                if len(after) != len(before) or any(a is not b for a, b in zip(after, before, strict=True)):
                    changed[name] = after
        node: Any = s
        result.extend(change(dataclasses.replace(node, **changed) if changed else node))
    return tuple(result)


def rewrite_function(function: Function, change: Mapper) -> Function:
    """A function with every node of its body rebuilt by `change`."""
    body = with_deep_stack(rewrite_statements, function.body, change)
    return dataclasses.replace(function, body=body)


def replace_functions(module: Module, change: Callable[[Function], Function]) -> Module:
    """A module with every function replaced."""
    return dataclasses.replace(module, functions={name: change(f) for name, f in module.functions.items()})
