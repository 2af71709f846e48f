"""Calls of Python functions: arguments bound to parameters, then one specialisation per argument types.

The run-time parts of arguments become IR parameters; compile-time parts (functions, classes, strings) are part
of the specialisation.  A nested function gets the enclosing function's names that it reads as hidden arguments,
with the values they have when it is called.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from sterna.compiler.frontend.diagnostics import Unresolved
from sterna.compiler.frontend.environment import Env, Slot
from sterna.compiler.frontend.frame import Frame
from sterna.compiler.frontend.scopes import own_names, read_names
from sterna.compiler.frontend.values import (
    BoundMethod,
    Closure,
    IterValue,
    RangeValue,
    Rt,
    Static,
    TupleValue,
    Value,
    describe,
    is_none,
    runtime_expr,
    shape_key,
)  # fmt: skip
from sterna.compiler.ir.nodes import Call, Const, Expr, ExprStatement, Local
from sterna.types import BOOL, NONE, VOID, Scalar, Type

__all__ = ["bind", "call_closure", "call_function", "specialisation_of"]


def call_function(frame: Frame, node: ast.AST, owner: int, args: list[Value], keywords: dict[str, Value]) -> Value:
    """Call of a captured function, by its ordinal."""
    build = frame.build
    function = build.scan.functions[owner].function
    tree = build.located(owner).node
    if isinstance(tree, ast.AsyncFunctionDef):
        frame.unsupported(node, f"{function.__name__} is a coroutine", "device code has no async")
    shown = function.__name__
    bound = bind(
        frame, node, tree.args, shown, args, keywords, lambda name: build.names.default(frame, node, owner, name)
    )
    return _specialised(frame, node, owner, tree, shown, "", bound, frozenset(), None)


def specialisation_of(frame: Frame, node: ast.AST, function: Value, args: list[Value]) -> str:
    """Name of the IR function of a captured function that returns nothing, for code that a pass adds calls to."""
    capture = function.capture if isinstance(function, Static) else None
    if capture is None or capture.function is None:
        frame.fail(node, f"a captured function is needed here, this is {describe(function)}")
    call_function(frame, node, capture.function, args, {})
    made = frame.out.pop()
    assert isinstance(made, ExprStatement) and isinstance(made.value, Call)
    return made.value.function


def call_closure(frame: Frame, node: ast.AST, closure: Closure, args: list[Value], keywords: dict[str, Value]) -> Value:
    """Call of a nested function or lambda."""
    defaults = dict(closure.defaults)
    bound = bind(frame, node, closure.node.args, closure.name, args, keywords, lambda name: defaults[name])
    return _specialised(
        frame, node, closure.owner, closure.node, closure.name, closure.name, bound, closure.outer_names, closure
    )


def bind(
    frame: Frame, node: ast.AST, a: ast.arguments, shown: str, args: list[Value], keywords: dict[str, Value],
    default: Callable[[str], Value],
) -> dict[str, Value]:  # fmt: skip
    """Parameters with their values, as Python binds them."""
    if a.kwarg is not None:
        frame.unsupported(node, f"{shown} takes **{a.kwarg.arg}", "name its parameters")
    positional = [arg.arg for arg in (*a.posonlyargs, *a.args)]
    only_positional = {arg.arg for arg in a.posonlyargs}
    only_keyword = [arg.arg for arg in a.kwonlyargs]
    if keywords:  # parameters may come in another order than the arguments were written in
        args = [frame.stable(value) for value in args]
        keywords = {name: frame.stable(value) for name, value in keywords.items()}
    bound: dict[str, Value] = dict(zip(positional, args, strict=False))
    extra = args[len(positional) :]
    if extra and a.vararg is None:
        frame.fail(node, f"{shown} takes {len(positional)} positional arguments, {len(args)} were given")
    for name, value in keywords.items():
        if name in bound:
            frame.fail(node, f"{shown} is given argument {name} twice")
        if name in only_positional or name not in (*positional, *only_keyword):
            frame.fail(
                node,
                f"{shown} has no parameter {name}",
                f"its parameters are {', '.join([*positional, *only_keyword])}",
            )
        bound[name] = value
    with_default = set(positional[len(positional) - len(a.defaults) :]) if a.defaults else set()
    with_default |= {arg.arg for arg, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d is not None}
    ordered: dict[str, Value] = {}
    for name in (*positional, *only_keyword):
        if name not in bound:
            if name not in with_default:
                frame.fail(node, f"{shown} is missing argument {name}")
            bound[name] = default(name)
        ordered[name] = bound[name]
    if a.vararg is not None:
        ordered[a.vararg.arg] = TupleValue(tuple(extra))
    return ordered


# ---- specialisation ----


class _Flattened:
    """Arguments taken apart: a key, the run-time expressions, and the callee's view of each value."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.exprs: list[Expr] = []
        self.params: list[tuple[str, Type]] = []
        self._open: dict[int, Closure] = {}

    def take(self, value: Value, name: str) -> tuple[Any, Value]:
        """Key and callee-side value of one argument."""
        if is_none(value):
            return ("none",), Rt(Const(None, NONE))
        expr = runtime_expr(value)
        if expr is not None:
            if isinstance(expr, Const) and isinstance(expr.type, Scalar):
                expr = self.frame.cast(expr, expr.type, self.frame.node)
            self.exprs.append(expr)
            self.params.append((name, expr.type))
            local = Local(name, expr.type)
            if isinstance(value, Rt):
                key = (*shape_key(value), value.nonneg)
                return key, Rt(local, value.pybool, value.nonneg)
            return shape_key(Rt(expr)), Rt(local)
        if isinstance(value, TupleValue):
            parts = [self.take(item, f"{name}[{k}]") for k, item in enumerate(value.items)]
            return ("tuple", value.struct, tuple(k for k, _ in parts)), TupleValue(
                tuple(v for _, v in parts), value.struct
            )
        if isinstance(value, RangeValue):
            pieces = [
                self.take(v, f"{name}.{p}")
                for v, p in ((value.start, "start"), (value.stop, "stop"), (value.step, "step"))
            ]
            return ("range", tuple(k for k, _ in pieces)), RangeValue(*(v for _, v in pieces))  # type: ignore[arg-type]
        if isinstance(value, IterValue):
            self.frame.unsupported(
                self.frame.node, f"{value.kind} is an iterator and cannot be passed to a device function",
                "pass what it walks",
            )  # fmt: skip
        if isinstance(value, BoundMethod):
            key, receiver = self.take(value.receiver, name)
            return ("method", value.name, key), BoundMethod(receiver, value.name)
        if isinstance(value, Closure):
            return self._closure(value, name)
        return shape_key(value), value

    def _closure(self, closure: Closure, name: str) -> tuple[Any, Value]:
        scope: Env = {}
        made = Closure(closure.node, closure.owner, closure.name, None, scope, closure.outer_names, ())
        keys = self.hidden(closure, scope, name, made)
        if not made.defaults:
            keys.append(self._defaults(closure, made, name))
        return ("closure", id(closure.node), tuple(keys)), made

    def _defaults(self, closure: Closure, made: Closure, name: str) -> Any:
        taken = [(n, *self.take(v, f"{name}={n}")) for n, v in closure.defaults]
        made.defaults = tuple((n, v) for n, _, v in taken)
        return tuple((n, k) for n, k, _ in taken)

    def hidden(self, closure: Closure, scope: Env, name: str, made: Closure) -> list[Any]:
        """Take the enclosing names that `closure` reads into `scope`; their keys."""
        keys: list[Any] = []
        env = self.frame.env if closure.frame is self.frame else closure.scope
        self._open[id(closure.node)] = made
        for read in read_names(closure.node):
            slot = env.get(read)
            load = ast.copy_location(ast.Name(read, ast.Load()), closure.node)
            if slot is None:
                if closure.frame is self.frame and self.frame.is_carried(read):
                    self.frame.read(load, free=True)
                continue
            value = slot.value
            if isinstance(value, Closure) and id(value.node) in self._open:
                again = self._open[id(value.node)]
                scope[read] = Slot(again)
                keys.append((read, "itself", id(value.node)))
                if value.defaults and not again.defaults:
                    keys.append(self._defaults(value, again, name))
                continue
            if slot.maybe or value is None:
                value = self.frame.read(load, free=True)
                assert value is not None
            key, inner = self.take(value, f"{name}:{read}")
            keys.append((read, key))
            home = inner.expr.name if isinstance(inner, Rt) and isinstance(inner.expr, Local) else None
            scope[read] = Slot(inner, home)
        del self._open[id(closure.node)]
        return keys


def _specialised(
    frame: Frame, node: ast.AST, owner: int, tree: Any, shown: str, nested: str, bound: dict[str, Value],
    outer: frozenset[str], closure: Closure | None,
) -> Value:  # fmt: skip
    from sterna.compiler.frontend.build import Specialisation

    build = frame.build
    frame.node = node
    flat = _Flattened(frame)
    taken = {name: flat.take(value, name) for name, value in bound.items()}
    scope: Env = {}
    hidden: list[Any] = []
    if closure is not None:
        made = Closure(closure.node, closure.owner, closure.name, None, scope, closure.outer_names, ())
        hidden = flat.hidden(closure, scope, "", made)
    site = frame.site_of_call(owner, tree)
    key = (id(tree), owner, tuple((name, k) for name, (k, _) in taken.items()), tuple(hidden), site)
    spec = build.specialisations.get(key)
    if spec is None:
        arguments = {name: value for name, (_, value) in taken.items()}
        own = own_names(tree)
        spec = Specialisation(
            owner, tree, build.unique(nested, owner), shown, arguments, tuple(flat.params), own | outer, site=site
        )
        spec.hidden = {name: slot for name, slot in scope.items() if name not in own}
        build.specialisations[key] = spec
        build.keep.append(tree)
    return _call(frame, node, spec, tuple(flat.exprs))


def _call(frame: Frame, node: ast.AST, spec: Any, exprs: tuple[Expr, ...]) -> Value:
    if spec.function is None and not spec.in_progress:
        try:
            frame.build.translate(spec)
        except Unresolved:
            frame.spec.relies_on |= spec.relies_on
            frame.incomplete = node
            raise
    pybool = spec.returns_pybool
    if spec.in_progress:
        frame.spec.relies_on.add(spec)
        if spec.current is not None:
            spec.returns, spec.static_return = spec.current.returns, spec.current.static_return
            pybool = spec.current.return_pybool
        if spec.returns is None and spec.static_return is None:
            frame.incomplete = node
            frame.build.note_cycle(spec)
            raise Unresolved
    frame.spec.relies_on |= {s for s in spec.relies_on if s.in_progress}
    frame.callees[spec.name] = None
    returns = spec.returns if spec.returns is not None else NONE
    if spec.static_return is not None or returns == NONE:
        frame.out.append(ExprStatement(Call(spec.name, exprs, VOID), frame.line))
        return spec.static_return if spec.static_return is not None else Rt(Const(None, NONE))
    return Rt(Call(spec.name, exprs, returns), pybool and returns == BOOL)
