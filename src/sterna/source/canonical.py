"""The normal form of a function's syntax tree: what its digest and its statement numbers are made of.

Two texts with the same normal form mean the same device code.  Positions, comments, docstrings,
annotations, the spelling of strings and the decorators of the function itself are not part of it, and it is the
same on every supported Python version.  All traversals use an explicit stack: a function with thousands of
branches must not meet Python's recursion limit.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import Any

from sterna.digest import sha256_hex
from sterna.source.code import encode_constant

__all__ = ["FunctionNode", "digest", "function_body", "ordered_statements", "prepare"]

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_SKIPPED = {
    "FunctionDef": frozenset({"returns", "type_comment", "type_params"}),
    "AsyncFunctionDef": frozenset({"returns", "type_comment", "type_params"}),
    "ClassDef": frozenset({"type_params"}),
    "arg": frozenset({"annotation", "type_comment"}),
    "Assign": frozenset({"type_comment"}),
    "For": frozenset({"type_comment"}),
    "AsyncFor": frozenset({"type_comment"}),
    "With": frozenset({"type_comment"}),
    "AsyncWith": frozenset({"type_comment"}),
    "Constant": frozenset({"kind"}),
    "AnnAssign": frozenset({"annotation", "simple"}),
}
_NO_FIELDS: frozenset[str] = frozenset()


def digest(node: FunctionNode) -> str:
    """Hex digest of a function's normal form.

    The function's own name, its decorators and the expressions of its defaults are left out: decorators
    have already acted on the live function, and defaults are captured by value.
    """
    out: list[bytes] = []
    arguments = ast.arguments(
        posonlyargs=node.args.posonlyargs, args=node.args.args, vararg=node.args.vararg,
        kwonlyargs=node.args.kwonlyargs, kw_defaults=[], kwarg=node.args.kwarg, defaults=[],
    )  # fmt: skip
    with_default = [len(node.args.defaults), *(i for i, d in enumerate(node.args.kw_defaults) if d is not None)]
    kind = type(node).__name__.encode()
    out.append(b"%s(defaults %s;" % (kind, ",".join(map(str, with_default)).encode()))
    _dump(out, arguments)
    for part in function_body(node):
        _dump(out, part)
    out.append(b")")
    return sha256_hex(b"".join(out))


def function_body(node: FunctionNode | ast.ClassDef) -> list[Any]:
    """Statements of a function without its docstring; of a lambda, its expression."""
    if isinstance(node, ast.Lambda):
        return [node.body]
    return node.body[1:] if _has_docstring(node.body) else node.body


def ordered_statements(node: FunctionNode) -> list[ast.stmt | ast.expr]:
    """All statements of a function in source order; position in the list is the statement's ordinal.

    Statements of nested blocks and nested functions are included, docstrings (its own and nested ones) are
    not.  A lambda has one: its expression.  Error sites store these ordinals, so that an image stays right when
    comments or formatting change.
    """
    found: list[ast.stmt | ast.expr] = []
    stack: list[Any] = list(reversed(function_body(node)))
    if isinstance(node, ast.Lambda):
        return stack
    while stack:
        item = stack.pop()
        if isinstance(item, ast.stmt):
            found.append(item)
        elif not isinstance(item, ast.excepthandler | ast.match_case):
            continue
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            children: list[Any] = function_body(item)
        else:
            children = list(ast.iter_child_nodes(item))
        stack.extend(reversed(children))
    return found


def prepare(node: FunctionNode, class_name: str = "") -> None:
    """Bring a freshly parsed function into the form Python itself would run, in place.

    Under ``-O`` an ``assert`` becomes ``pass``; private names of a class (``__x``) are mangled; a local's
    annotation without a value goes, unless it alone makes the name local.  Doing it twice changes nothing.
    """
    if class_name:
        _mangle(node, class_name)
    bound = _assigned_names(node)
    for parent in ast.walk(node):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list):
                kept = [_prepared(s) for s in block if not _is_idle(s, bound)]
                # a block must not become empty
                block[:] = kept or [ast.copy_location(ast.Pass(), s) for s in block[:1]]


def _prepared(statement: Any) -> Any:
    if isinstance(statement, ast.Assert) and sys.flags.optimize:
        return ast.copy_location(ast.Pass(), statement)
    return statement


def _is_idle(statement: Any, bound: set[str]) -> bool:
    return (
        isinstance(statement, ast.AnnAssign)
        and statement.value is None
        and isinstance(statement.target, ast.Name)
        and statement.target.id in bound
    )


def _assigned_names(node: FunctionNode) -> set[str]:
    names = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
    idle = {id(s.target) for s in ast.walk(node) if isinstance(s, ast.AnnAssign) and s.value is None}
    for item in ast.walk(node):
        if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store) and id(item) not in idle:
            names.add(item.id)
    return names


def _mangle(node: FunctionNode, class_name: str) -> None:
    prefix = f"_{class_name.lstrip('_')}" if class_name.strip("_") else ""
    for item in ast.walk(node):
        for name in ("id", "attr", "arg"):
            value = getattr(item, name, None)
            if prefix and isinstance(value, str) and value.startswith("__") and not value.endswith("__"):
                setattr(item, name, prefix + value)


def _has_docstring(body: list[ast.stmt]) -> bool:
    first = body[0] if body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def _dump(out: list[bytes], root: ast.AST) -> None:
    stack: list[Any] = [root]
    while stack:
        item = stack.pop()
        if type(item) is bytes:
            out.append(item)
        elif isinstance(item, ast.AST):
            parts = list(_parts(item))
            stack.extend(reversed(parts))
        elif isinstance(item, list):
            stack.append(b"]")
            stack.extend(reversed(item))
            out.append(b"[")
        else:
            out.append(encode_constant(item))


def _parts(node: ast.AST) -> Iterator[Any]:
    """What the normal form of a node consists of: bytes, child nodes, lists of nodes, constants."""
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        yield from (b"(Assign targets=", [node.target], b"value=", node.value, b")")
        return
    kind = type(node).__name__
    yield b"(%s " % kind.encode()
    skipped = _SKIPPED.get(kind, _NO_FIELDS)
    always = kind in ("Constant", "MatchSingleton")
    for name in sorted(node._fields):
        value = getattr(node, name, None)
        if name == "ctx" or name in skipped or (not always and (value is None or value == [])):
            continue
        if name == "body" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            value = function_body(node)
        elif name == "values" and isinstance(node, ast.JoinedStr):
            value = _joined(node.values)
        yield b"%s=" % name.encode()
        yield value
    yield b")"


def _joined(values: list[ast.expr]) -> list[ast.expr]:
    """Parts of an f-string with neighbouring literals joined, as Python versions split them differently."""
    joined: list[ast.expr] = []
    for value in values:
        text = value.value if isinstance(value, ast.Constant) else None
        last = joined[-1] if joined else None
        if isinstance(text, str) and isinstance(last, ast.Constant) and isinstance(last.value, str):
            joined[-1] = ast.Constant(last.value + text)
        elif text != "":
            joined.append(value)
    return joined
