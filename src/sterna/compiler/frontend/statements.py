"""Statements: one translator per syntax node, in a table; what is refused, with what to write instead."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sterna.compiler.frontend import operators
from sterna.compiler.frontend.diagnostics import Unresolved
from sterna.compiler.frontend.environment import merge
from sterna.compiler.frontend.expressions import branch, closure, condition, expression, operands
from sterna.compiler.frontend.frame import Frame, Loop, tuple_items
from sterna.compiler.frontend.loops import for_loop, while_loop
from sterna.compiler.frontend.promotion import Unfit, convert
from sterna.compiler.frontend.scopes import walk_own
from sterna.compiler.frontend.subscripts import (
    ElementTarget,
    FieldTarget,
    Target,
    _index_parts,
    load_target,
    store,
    store_target,
)  # fmt: skip
from sterna.compiler.frontend.values import Rt, Static, TupleValue, Value, describe, is_constant, runtime_expr
from sterna.compiler.ir.nodes import (
    Atomic,
    Call,
    Const,
    Element,
    Expr,
    ExprStatement,
    FieldRef,
    If,
    Local,
    Raise,
    Return,
    Unary,
)  # fmt: skip
from sterna.compiler.ir.rewrite import walk
from sterna.overlays import stub_name
from sterna.source.captures import CaptureKind
from sterna.types import BOOL, NONE, PYINT, Scalar

__all__ = ["block", "function_body"]

Translator = Callable[[Frame, Any], None]
_TRANSLATORS: dict[type[ast.AST], Translator] = {}


def _translates(kind: type[ast.AST]) -> Callable[[Translator], Translator]:
    def register(function: Translator) -> Translator:
        _TRANSLATORS[kind] = function
        return function

    return register


_REFUSED: dict[str, tuple[str, str]] = {
    "Try": ("try", "errors leave the kernel; test the condition with if"),
    "TryStar": ("try", "errors leave the kernel; test the condition with if"),
    "AsyncFunctionDef": ("async def", "device code has no coroutines"),
    "AsyncFor": ("async for", "device code has no coroutines"),
    "AsyncWith": ("async with", "device code has no coroutines"),
    "ClassDef": ("a class definition", "define a named tuple or frozen dataclass outside the kernel"),
    "Delete": ("del", "leave the name, or give the new meaning another name"),
    "Import": ("import", "import at the top of the file"),
    "ImportFrom": ("import", "import at the top of the file"),
    "Global": ("global", "return the value, store it in an array, or use sterna.Global"),
    "Nonlocal": ("nonlocal", "return the value and assign it where the function is called"),
    "Match": ("match", "use if and elif"),
    "TypeAlias": ("a type alias", "define it outside the kernel"),
}


def block(frame: Frame, statements: Sequence[ast.stmt]) -> None:
    """Translate statements in order, up to one that control cannot pass."""
    for node in statements:
        if not frame.alive:
            return
        frame.at(node)
        translator = _TRANSLATORS.get(type(node))
        if translator is None:
            name, hint = _REFUSED.get(type(node).__name__, (type(node).__name__, ""))
            frame.unsupported(node, f"{name} cannot be used in device code", hint)
        try:
            translator(frame, node)
        except Unfit as error:
            frame.fail(node, str(error), error.hint)


def function_body(frame: Frame, node: ast.FunctionDef | ast.Lambda) -> bool:
    """Translate a whole function; whether its return type stayed what earlier returns were converted to."""
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    for part in walk_own(body):
        if isinstance(part, ast.Yield | ast.YieldFrom | ast.Await):
            frame.unsupported(part, "device code has no generators or coroutines", "store the values in an array")
    try:
        if isinstance(node, ast.Lambda):
            _lambda_body(frame, node)
        else:
            block(frame, node.body)
    except Unresolved:
        frame.alive = False
    if frame.alive:
        if frame.returns not in (None, NONE) or frame.static_return is not None:
            what = describe(frame.static_return) if frame.static_return else describe(Rt(Local("", frame.returns)))  # type: ignore[arg-type]
            frame.fail(
                node, f"{frame.place.function} returns {what} on one path and ends without a return on another",
                "return a value at the end",
            )  # fmt: skip
        frame.returns = frame.returns if frame.static_return is not None else NONE
    return frame.returned <= {frame.returns}


def _lambda_body(frame: Frame, node: ast.Lambda) -> None:
    frame.line = node.lineno - frame.build.first_line(frame.spec.owner)
    frame.statement = frame.build.statement_ordinal(frame.spec.owner, node.body)
    try:
        _return_value(frame, node.body, expression(frame, node.body))
    except Unfit as error:
        frame.fail(node.body, str(error), error.hint)


# ---- assignment ----


@_translates(ast.Assign)
def _assign(frame: Frame, node: ast.Assign) -> None:
    value = expression(frame, node.value)
    if len(node.targets) > 1:
        value = frame.stable(value)
    for target in node.targets:
        assign_target(frame, target, value)


@_translates(ast.AnnAssign)
def _annotated(frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is not None:
        assign_target(frame, node.target, expression(frame, node.value))


def assign_target(frame: Frame, target: ast.expr, value: Value) -> None:
    """Bind or store `value` to a name, tuple of targets, element or field."""
    if isinstance(target, ast.Name):
        frame.assign(target.id, value, target)
    elif isinstance(target, ast.Tuple | ast.List):
        _assign_tuple(frame, target, value)
    elif isinstance(target, ast.Subscript | ast.Attribute):
        mark, walrus = len(frame.out), frame.walrus
        place = _place(frame, target)
        if len(frame.out) > mark:
            value = frame.spill([value], mark, walrus)[0]
        elif _interfere(value, place):
            value = frame.stable(value)  # Python evaluates the value before the target
        store(frame, target, place, value)
    else:
        frame.unsupported(target, "a starred target cannot be used in device code", "name every item")


def _assign_tuple(frame: Frame, target: ast.Tuple | ast.List, value: Value) -> None:
    for part in target.elts:
        if isinstance(part, ast.Starred):
            frame.unsupported(part, "a starred target cannot be used in device code", "name every item")
    items = tuple_items(frame, value, target)
    if items is None:
        frame.fail(target, f"{describe(value)} cannot be unpacked", "only tuples can: a, b = x[0], x[1]")
    if len(items) != len(target.elts):
        frame.fail(target, f"{len(target.elts)} names for a tuple of {len(items)} items")
    items = _untouched(frame, target, items)
    for part, item in zip(target.elts, items, strict=True):
        assign_target(frame, part, item)


def _interfere(value: Value, place: Target) -> bool:
    """Whether it matters if a value or the parts of the place it goes to are evaluated first."""
    expr = runtime_expr(value)
    if expr is None:
        return False
    parts = [place.record] if isinstance(place, FieldTarget) else [place.array, *place.indices]
    target_acts, target_reads = _acts_and_reads(parts)
    value_acts, value_reads = _acts_and_reads([expr])
    return (target_acts and (value_acts or value_reads)) or (value_acts and target_reads)


def _acts_and_reads(exprs: list[Expr]) -> tuple[bool, bool]:
    """Whether expressions have effects, and whether they read memory."""
    acts = reads = False
    for node in walk(exprs):
        acts = acts or isinstance(node, Call | Atomic)
        reads = reads or isinstance(node, Element | FieldRef)
    return acts, reads


def _untouched(frame: Frame, target: ast.Tuple | ast.List, items: tuple[Value, ...]) -> tuple[Value, ...]:
    """Items that stay what they are while the targets are assigned from left to right."""
    if not all(isinstance(part, ast.Name) for part in target.elts):
        return tuple(frame.hold(item) for item in items)
    names = frozenset(part.id for part in target.elts if isinstance(part, ast.Name))
    for item in items[1:]:
        expr = runtime_expr(item)
        read = [node.name for node in walk([expr]) if isinstance(node, Local)] if expr is not None else []
        if expr is None or any(frame.is_home_of(name, names) for name in read):
            return tuple(frame.hold(value, names) for value in items)
    return items


def _place(frame: Frame, target: ast.Subscript | ast.Attribute) -> Target:
    base = expression(frame, target.value)
    if isinstance(target, ast.Attribute):
        return store_target(frame, target, base, [])
    mark, walrus = len(frame.out), frame.walrus
    parts = _index_parts(frame, target.slice)
    if len(frame.out) > mark:
        base = frame.spill([base], mark, walrus)[0]
    return store_target(frame, target, base, parts)


@_translates(ast.AugAssign)
def _augmented(frame: Frame, node: ast.AugAssign) -> None:
    op = operators.BINARY_NAMES.get(type(node.op))
    if op is None:
        frame.unsupported(node, "operator @= cannot be used in device code", "write the loops of the product")
    target = node.target
    if isinstance(target, ast.Name):
        load = ast.copy_location(ast.Name(target.id, ast.Load()), target)
        left, right = operands(frame, [load, node.value])
        frame.assign(target.id, operators.binary(frame, node, op, left, right), target)
        return
    place = _stable_place(frame, _place(frame, target))
    mark, walrus = len(frame.out), frame.walrus
    left = load_target(place)
    right = expression(frame, node.value)
    if len(frame.out) > mark:
        left = frame.spill([left], mark, walrus)[0]
    store(frame, node, place, operators.binary(frame, node, op, left, right))


def _stable_place(frame: Frame, place: Target) -> Target:
    def keep(expr: Expr) -> Expr:
        return expr if is_constant(expr) or isinstance(expr, Local) else frame.temp(expr)

    if isinstance(place, FieldTarget):
        return replace(place, record=keep(place.record))
    assert isinstance(place, ElementTarget)
    return replace(place, array=keep(place.array), indices=tuple(keep(i) for i in place.indices))


# ---- control flow ----


@_translates(ast.If)
def _if(frame: Frame, node: ast.If) -> None:
    test = condition(frame, node.test)
    if isinstance(test, Const):
        block(frame, node.body if test.value else node.orelse)
        return
    line = frame.line
    (_, then), then_edge = branch(frame, lambda: block(frame, node.body))
    (_, orelse), else_edge = branch(frame, lambda: block(frame, node.orelse))
    frame.out.append(If(test, then, orelse, line))
    edges = [edge for edge in (then_edge, else_edge) if edge is not None]
    if edges:
        frame.env = merge(frame, edges)
    else:
        frame.alive = False


@_translates(ast.While)
def _while(frame: Frame, node: ast.While) -> None:
    while_loop(frame, node, lambda: block(frame, node.body), lambda: block(frame, node.orelse))


@_translates(ast.For)
def _for(frame: Frame, node: ast.For) -> None:
    for_loop(frame, node, lambda: block(frame, node.body), lambda: block(frame, node.orelse), assign_target)


def _loop(frame: Frame, node: ast.AST, word: str) -> Loop:
    if not frame.loops:
        frame.fail(node, f"{word} outside a loop")
    return frame.loops[-1]


@_translates(ast.Break)
def _break(frame: Frame, node: ast.Break) -> None:
    loop = _loop(frame, node, "break")
    loop.leave(frame, loop.breaks)


@_translates(ast.Continue)
def _continue(frame: Frame, node: ast.Continue) -> None:
    loop = _loop(frame, node, "continue")
    loop.leave(frame, loop.continues)


@_translates(ast.Pass)
def _pass(frame: Frame, node: ast.Pass) -> None:
    return


@_translates(ast.Return)
def _return(frame: Frame, node: ast.Return) -> None:
    value: Value = Rt(Const(None, NONE)) if node.value is None else expression(frame, node.value)
    _return_value(frame, node, value)


def _return_value(frame: Frame, node: ast.AST, value: Value) -> None:
    expr = frame.note_return(value, node)
    if expr is not None and frame.spec.name == frame.build.entry:
        frame.fail(node, f"a kernel returns nothing, this returns {describe(value)}", "store the value in an array")
    if expr is None:
        frame.out.append(Return(None, frame.line))
    else:
        assert frame.returns is not None
        if expr.type != frame.returns and not isinstance(expr.type, Scalar):
            expr = frame.stable(Rt(expr)).expr  # type: ignore[union-attr]
        if isinstance(frame.returns, Scalar):
            expr = frame.cast(expr, frame.returns, node)
        frame.out.append(Return(convert(expr, frame.returns), frame.line))
        frame.returned.add(frame.returns)
    frame.alive = False


@_translates(ast.With)
def _with(frame: Frame, node: ast.With) -> None:
    from sterna.compiler.frontend.hostcode import is_leak, leak
    from sterna.compiler.frontend.rules import operation_of

    for item in node.items:
        call = item.context_expr
        function = expression(frame, call.func) if isinstance(call, ast.Call) else None
        name = ""
        if isinstance(function, Static):
            name = operation_of(frame, function) or stub_name(function.value)
        if name != "inbounds" or item.optional_vars is not None or not isinstance(call, ast.Call) or call.args:
            frame.unsupported(node, "with cannot be used in device code", "only `with inbounds():` can")
        assert isinstance(function, Static)
        if is_leak(frame, function):
            leak(frame, node, function, lambda: Rt(Const(None, NONE)))
    frame.inbounds += len(node.items)
    try:
        block(frame, node.body)
    finally:
        frame.inbounds -= len(node.items)


# ---- effects and errors ----


@_translates(ast.Expr)
def _expr(frame: Frame, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):
        return
    value = expression(frame, node.value)
    _discard(frame, value)


def _discard(frame: Frame, value: Value) -> None:
    if isinstance(value, TupleValue):
        for item in value.items:
            _discard(frame, item)
        return
    expr = runtime_expr(value)
    if expr is not None and not is_constant(expr) and not isinstance(expr, Local):
        frame.out.append(ExprStatement(expr, frame.line))


@_translates(ast.Assert)
def _assert(frame: Frame, node: ast.Assert) -> None:
    test = condition(frame, node.test)
    if isinstance(test, Const) and test.value:
        return

    def failing() -> None:
        message, details = _message(frame, node.msg) if node.msg is not None else ("", ())
        site = frame.error_site("AssertionError", message)
        frame.out.append(Raise(site, details, frame.line))
        frame.alive = False

    if isinstance(test, Const):
        failing()
        return
    (_, out), _edge = branch(frame, failing)
    frame.out.append(If(Unary("not", test, BOOL), out, [], frame.line))  # type: ignore[arg-type]


@_translates(ast.Raise)
def _raise(frame: Frame, node: ast.Raise) -> None:
    if node.exc is None:
        frame.unsupported(node, "a bare raise cannot be used in device code", "raise ValueError('…')")
    if node.cause is not None and not (isinstance(node.cause, ast.Constant) and node.cause.value is None):
        frame.unsupported(node.cause, "raise … from a cause cannot be used in device code", "raise the error alone")
    exc, args = node.exc, []
    if isinstance(exc, ast.Call):
        args = list(exc.args)
        if exc.keywords or len(args) > 1:
            frame.unsupported(
                exc, "an exception with several arguments cannot be raised in device code", "give one message"
            )
        exc = exc.func
    cls = expression(frame, exc)
    if not (isinstance(cls, Static) and isinstance(cls.value, type) and issubclass(cls.value, BaseException)):
        frame.fail(node, f"{describe(cls)} cannot be raised", "raise an exception class with a constant message")
    message, details = _message(frame, args[0]) if args else ("", ())
    name = cls.value.__name__
    if getattr(builtins, name, None) is not cls.value:
        if cls.capture is None or cls.capture.kind is not CaptureKind.TYPE:
            frame.fail(node, f"exception class {name} cannot be named again on the host", "bind it to a global name")
        name = cls.capture.path
    frame.out.append(Raise(frame.error_site(name, message), details, frame.line))
    frame.alive = False


_MAX_DETAILS = 3


def _message(frame: Frame, node: ast.expr) -> tuple[str, tuple[Expr, ...]]:
    """A message of constant text and up to three integers: its template and the integers."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    text = ""
    details: list[Expr] = []
    for part in parts:
        plain = isinstance(part, ast.FormattedValue) and part.conversion == -1 and part.format_spec is None
        value = expression(frame, part.value if isinstance(part, ast.FormattedValue) else part)
        if isinstance(value, Static) and isinstance(value.value, str):
            text += value.value.replace("{", "{{").replace("}", "}}")
            continue
        if isinstance(value, Rt) and isinstance(value.expr, Const) and (plain or len(parts) == 1):
            shown = value.expr.value
            if isinstance(shown, int | bool | None) or (isinstance(shown, float) and value.expr.type.weak):  # type: ignore[union-attr]
                text += str(shown)
                continue
        if not plain or not isinstance(value, Rt) or getattr(value.expr.type, "kind", "") not in ("i", "u"):
            frame.unsupported(
                part, f"a message holds constant text and integers, this is {describe(value)}",
                "use an f-string with integers: f'bad value {i}'",
            )  # fmt: skip
        if len(details) == _MAX_DETAILS:
            frame.unsupported(part, f"a message holds at most {_MAX_DETAILS} integers")
        text += f"{{{len(details)}}}"
        details.append(frame.cast(value.expr, PYINT, part))
    return text, tuple(details)


# ---- nested functions ----


@_translates(ast.FunctionDef)
def _nested(frame: Frame, node: ast.FunctionDef) -> None:
    if node.decorator_list:
        frame.unsupported(node, f"nested function {node.name} has a decorator", "define it outside the kernel")
    frame.assign(node.name, closure(frame, node, node.name), node)
