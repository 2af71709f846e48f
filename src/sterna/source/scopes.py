"""Free names of a function: which host names its device code, nested functions included, can read.

A name is free when no scope of the function binds it, by Python's own rules: nested functions and
lambdas, comprehensions, class bodies, ``global`` and ``nonlocal``, walrus, ``except … as``, patterns and imports.
The result lists dotted chains (``math.sin``), so that a capture goes no further than the code does.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, Literal

from sterna.source.canonical import FunctionNode, function_body

__all__ = ["free_names"]

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(eq=False, slots=True)
class _Scope:
    kind: Literal["function", "class", "comprehension"]
    parent: _Scope | None
    bound: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)


def free_names(node: FunctionNode) -> tuple[str, ...]:
    """Longest dotted chains in load context rooted at a free name, in order of first appearance.

    Defaults, annotations and decorators of the function itself are not device code and do not count; those
    defaults and decorators of nested functions do.
    """
    top = _Scope("function", None)
    _bind_parameters(node.args, top)
    loads: list[tuple[_Scope, tuple[str, ...]]] = []
    stack: list[tuple[Any, _Scope]] = [(part, top) for part in reversed(function_body(node))]
    while stack:
        item, scope = stack.pop()
        children = _visit(item, scope, loads)
        stack.extend(reversed(children))
    chains = {".".join(chain): None for scope, chain in loads if _is_free(chain[0], scope)}
    return tuple(chains)


def _is_free(name: str, start: _Scope) -> bool:
    scope: _Scope | None = start
    while scope is not None:
        if name in scope.global_names:
            return True
        visible = scope.kind != "class" or scope is start
        if visible and name in scope.bound and name not in scope.nonlocal_names:
            return False
        scope = scope.parent
    return True


def _bind(name: str, scope: _Scope) -> None:
    scope.bound.add(name)


def _bind_parameters(args: ast.arguments, scope: _Scope) -> None:
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            _bind(arg.arg, scope)


def _visit(node: Any, scope: _Scope, loads: list[tuple[_Scope, tuple[str, ...]]]) -> list[tuple[Any, _Scope]]:
    """Note what one node binds and reads; give the nodes below it with their scopes."""
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load):
            loads.append((scope, (node.id,)))
        else:
            _bind(node.id, scope)
        return []
    if isinstance(node, ast.Attribute):
        return _visit_attribute(node, scope, loads)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        return _visit_nested(node, scope)
    if isinstance(node, _COMPREHENSIONS):
        return _visit_comprehension(node, scope)
    if isinstance(node, ast.NamedExpr):
        owner = scope
        while owner.kind == "comprehension" and owner.parent is not None:
            owner = owner.parent
        _bind(node.target.id, owner)
        return [(node.value, scope)]
    if isinstance(node, ast.AnnAssign):
        return [(part, scope) for part in (node.target, node.value) if part is not None]
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        loads.append((scope, (node.target.id,)))
    _bind_statement(node, scope)
    return [(child, scope) for child in ast.iter_child_nodes(node)]


def _bind_statement(node: Any, scope: _Scope) -> None:
    if isinstance(node, ast.Global):
        scope.global_names.update(node.names)
    elif isinstance(node, ast.Nonlocal):
        scope.nonlocal_names.update(node.names)
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        _bind(node.name, scope)
    elif isinstance(node, ast.MatchMapping) and node.rest:
        _bind(node.rest, scope)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            _bind(alias.asname or alias.name.split(".")[0], scope)


def _visit_attribute(
    node: ast.Attribute, scope: _Scope, loads: list[tuple[_Scope, tuple[str, ...]]]
) -> list[tuple[Any, _Scope]]:
    names: list[str] = []
    base: ast.expr = node
    while isinstance(base, ast.Attribute):
        if isinstance(base.ctx, ast.Load):
            names.append(base.attr)
        base = base.value
    if not isinstance(base, ast.Name):
        return [(base, scope)]
    loads.append((scope, (base.id, *reversed(names))))
    return []


def _visit_nested(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef, scope: _Scope
) -> list[tuple[Any, _Scope]]:
    here: list[Any] = []
    if not isinstance(node, ast.Lambda):
        _bind(node.name, scope)
        here.extend(node.decorator_list)
    if isinstance(node, ast.ClassDef):
        here.extend([*node.bases, *node.keywords])
        inner = _Scope("class", scope)
    else:
        here.extend(d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None)
        inner = _Scope("function", scope)
        _bind_parameters(node.args, inner)
    return [(part, scope) for part in here] + [(part, inner) for part in function_body(node)]


def _visit_comprehension(
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, scope: _Scope
) -> list[tuple[Any, _Scope]]:
    inner = _Scope("comprehension", scope)
    # the first iterable is evaluated outside, everything else inside
    children: list[tuple[Any, _Scope]] = [(node.generators[0].iter, scope)]
    for number, generator in enumerate(node.generators):
        children.append((generator.target, inner))
        if number:
            children.append((generator.iter, inner))
        children.extend((test, inner) for test in generator.ifs)
    if isinstance(node, ast.DictComp):
        children.extend([(node.key, inner), (node.value, inner)])
    else:
        children.append((node.elt, inner))
    return children
