"""Expressions: one translator per syntax node, in a table.

Python's order of evaluation holds: when an operand needs statements of its own (a check, a temporary), the
operands before it are evaluated into temporaries first (`operands`); the parts of ``and``, ``or`` and a
conditional expression that may not run are translated as branches (`conditional`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from sterna.compiler.frontend import operators
from sterna.compiler.frontend.attributes import attribute
from sterna.compiler.frontend.calls import call
from sterna.compiler.frontend.captures import constant_value
from sterna.compiler.frontend.diagnostics import Unresolved
from sterna.compiler.frontend.environment import Edge, merge
from sterna.compiler.frontend.frame import Frame, tuple_items
from sterna.compiler.frontend.promotion import convert, join_types
from sterna.compiler.frontend.subscripts import subscript
from sterna.compiler.frontend.values import Closure, Rt, Static, TupleValue, Value, describe, runtime_expr, static_text
from sterna.compiler.ir.nodes import Assign, Const, Expr, If, IfExp, Local, Unary
from sterna.overlays import stub_name
from sterna.types import BOOL, NONE

__all__ = ["branch", "closure", "condition", "conditional", "expression", "operands"]

Translator = Callable[[Frame, Any], Value]
_TRANSLATORS: dict[type[ast.AST], Translator] = {}
_SPINE = 40


def _translates(kind: type[ast.AST]) -> Callable[[Translator], Translator]:
    def register(function: Translator) -> Translator:
        _TRANSLATORS[kind] = function
        return function

    return register


def expression(frame: Frame, node: ast.expr) -> Value:
    """Translate one expression."""
    translator = _TRANSLATORS.get(type(node))
    if translator is None:
        name, hint = _REFUSED.get(type(node), (type(node).__name__, ""))
        frame.unsupported(node, f"{name} cannot be used in device code", hint)
    return translator(frame, node)


def operands(frame: Frame, nodes: Sequence[ast.expr]) -> list[Value]:
    """Translate expressions that are evaluated one after the other."""
    values: list[Value] = []
    for node in nodes:
        mark, out, walrus = len(frame.out), frame.out, frame.walrus
        value = expression(frame, node)
        if values and len(frame.out) > mark and frame.out is out:
            values = frame.spill(values, mark, walrus)
        values.append(value)
    return values


_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.List: ("a list", "use a tuple (1, 2), or local.array(shape, dtype)"),
    ast.Dict: ("a dict", "use a named tuple or frozen dataclass"),
    ast.Set: ("a set", "use a tuple: `x in (1, 2)`"),
    ast.ListComp: ("a list comprehension", "write a for loop"),
    ast.SetComp: ("a set comprehension", "write a for loop"),
    ast.DictComp: ("a dict comprehension", "write a for loop"),
    ast.GeneratorExp: ("a generator expression", "write a for loop"),
    ast.Await: ("await", "device code has no coroutines"),
    ast.Yield: ("yield", "device code has no generators; store the values in an array"),
    ast.YieldFrom: ("yield from", "device code has no generators; store the values in an array"),
    ast.JoinedStr: ("an f-string", "give print() the parts: print('x', x)"),
    ast.Starred: ("a starred expression", "name the items"),
    ast.Slice: ("a slice", "slice an array: a[1:3]"),
}


@_translates(ast.Constant)
def _constant(frame: Frame, node: ast.Constant) -> Value:
    value = None if node.value is Ellipsis else constant_value(node.value)
    if value is None:
        frame.unsupported(node, f"{type(node.value).__name__} constants cannot be used in device code")
    return value


@_translates(ast.Name)
def _name(frame: Frame, node: ast.Name) -> Value:
    value = frame.read(node)
    if value is not None:
        return value
    value, left = frame.build.names.lookup(frame, node, [node.id])
    assert not left
    return _plain(frame, node, value)


def _plain(frame: Frame, node: ast.AST, value: Value) -> Value:
    """A language value read by its plain name (``laneid``, ``warpsize``) is its number."""
    if isinstance(value, Static):
        from sterna.compiler.frontend.hostcode import is_leak, leak
        from sterna.compiler.frontend.rules import operation_of
        from sterna.compiler.frontend.rules.language import plain_value

        found = plain_value(operation_of(frame, value) or stub_name(value.value))
        if found is not None:
            known = found
            return leak(frame, node, value, lambda: known) if is_leak(frame, value) else found
    return value


@_translates(ast.Attribute)
def _attribute(frame: Frame, node: ast.Attribute) -> Value:
    chain, base = [node.attr], node.value
    while isinstance(base, ast.Attribute):
        chain.append(base.attr)
        base = base.value
    if isinstance(base, ast.Name):
        value = frame.read(base)
        if value is None:
            chain.append(base.id)
            value, left = frame.build.names.lookup(frame, node, chain[::-1])
            value = _plain(frame, node, value)
            for name in left:
                value = attribute(frame, node, value, name)
            return value
    return attribute(frame, node, expression(frame, node.value), node.attr)


@_translates(ast.Tuple)
def _tuple(frame: Frame, node: ast.Tuple) -> Value:
    items: list[Value] = []
    starred = any(isinstance(item, ast.Starred) for item in node.elts)
    if not starred:
        return TupleValue(tuple(operands(frame, node.elts)))
    values = operands(frame, [item.value if isinstance(item, ast.Starred) else item for item in node.elts])
    for item, value in zip(node.elts, values, strict=True):
        if isinstance(item, ast.Starred):
            parts = tuple_items(frame, value, item)
            if parts is None:
                frame.fail(item, f"* needs a tuple, this is {describe(value)}")
            items.extend(parts)
        else:
            items.append(value)
    return TupleValue(tuple(items))


@_translates(ast.BinOp)
def _binop(frame: Frame, node: ast.BinOp) -> Value:
    spine: list[ast.BinOp] = []
    base: ast.expr = node
    while isinstance(base, ast.BinOp):
        spine.append(base)
        base = base.left
    value = expression(frame, base)
    for depth, step in enumerate(reversed(spine), 1):
        mark, walrus = len(frame.out), frame.walrus
        right = expression(frame, step.right)
        if len(frame.out) > mark:
            value = frame.spill([value], mark, walrus)[0]
        op = operators.BINARY_NAMES.get(type(step.op))
        if op is None:
            frame.unsupported(step, "operator @ cannot be used in device code", "write the loops of the product")
        value = operators.binary(frame, step, op, value, right)
        if depth % _SPINE == 0:
            value = frame.stable(value)
    return value


@_translates(ast.UnaryOp)
def _unaryop(frame: Frame, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        return Rt(_negated(condition(frame, node.operand)), True)
    symbol = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}[type(node.op)]
    return operators.unary(frame, node, symbol, expression(frame, node.operand))


def _negated(test: Expr) -> Expr:
    if isinstance(test, Const):
        return Const(not test.value, BOOL)
    if isinstance(test, Unary) and test.op == "not":
        return test.operand
    return Unary("not", test, BOOL)


def condition(frame: Frame, node: ast.expr) -> Expr:
    """Truth of an expression, as BOOL; constant when decided at compile time."""
    if isinstance(node, ast.BoolOp):
        return _condition_chain(frame, node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _negated(condition(frame, node.operand))
    return operators.truth(frame, expression(frame, node), node)


def _condition_chain(frame: Frame, node: ast.BoolOp) -> Expr:
    """``and``/``or`` where only truth matters, so that operands of any types may mix."""
    is_and = isinstance(node.op, ast.And)

    def from_index(k: int) -> Expr:
        test = condition(frame, node.values[k])
        if k + 1 == len(node.values):
            return test
        if isinstance(test, Const):
            return from_index(k + 1) if bool(test.value) is is_and else test
        decided = Const(not is_and, BOOL)
        if is_and:
            return _choose(frame, test, lambda: from_index(k + 1), lambda: decided)
        return _choose(frame, test, lambda: decided, lambda: from_index(k + 1))

    return from_index(0)


def _choose(frame: Frame, test: Expr, then: Callable[[], Expr], orelse: Callable[[], Expr]) -> Expr:
    value = conditional(frame, test, lambda: Rt(then()), lambda: Rt(orelse()), None)
    assert isinstance(value, Rt)
    return value.expr


def branch(frame: Frame, make: Callable[[], Any]) -> tuple[Any, Edge | None]:
    """Translate something that may not run: its result, and the edge at its end (None if none is reached)."""
    saved = frame.env, frame.out, frame.alive
    frame.env, frame.out, frame.alive = dict(frame.env), [], True
    result = None
    try:
        result = make()
    except Unresolved:
        frame.alive = False
    edge = Edge(frame.env, frame.out) if frame.alive else None
    out = frame.out
    frame.env, frame.out, frame.alive = saved
    return (result, out), edge


def conditional(
    frame: Frame, test: Expr, then: Callable[[], Value], orelse: Callable[[], Value], node: ast.AST | None
) -> Value:
    """A value chosen by `test`; only the chosen side is evaluated."""
    if isinstance(test, Const):
        return then() if test.value else orelse()
    env, mark = frame.env, len(frame.out)
    (a, a_out), a_edge = branch(frame, then)
    (b, b_out), b_edge = branch(frame, orelse)
    if a_edge is None or b_edge is None:
        if a_edge is None and b_edge is None:
            raise Unresolved
        value, edge = (b, b_edge) if a_edge is None else (a, a_edge)
        assert edge is not None and len(frame.out) == mark
        frame.env = edge.env
        frame.out.append(If(test, a_out, b_out, frame.line))
        return frame.stable(value) if value.__class__ is not Rt else _carried(frame, value, edge)
    same_env = a_edge.env == env and b_edge.env == env
    joined = _join_values(frame, a, b, node)
    if not a_out and not b_out and same_env and isinstance(joined, tuple):
        x, y = (convert(v, joined[0]) for v in joined[1])
        return Rt(IfExp(test, x, y, x.type), joined[2], _nonneg(a) and _nonneg(b))
    if not isinstance(joined, tuple):
        frame.out.append(If(test, a_out, b_out, frame.line))
        frame.env = merge(frame, [a_edge, b_edge])
        static: Value = joined
        return static
    t, exprs, pybool = joined
    home = frame.fresh(t)
    a_out.append(Assign(home, convert(exprs[0], t), frame.line))
    b_out.append(Assign(home, convert(exprs[1], t), frame.line))
    frame.env = merge(frame, [a_edge, b_edge])
    frame.out.append(If(test, a_out, b_out, frame.line))
    return Rt(Local(home, t), pybool, _nonneg(a) and _nonneg(b))


def _carried(frame: Frame, value: Value, edge: Edge) -> Value:
    """A value of the only branch that goes on, as a local that outlives it."""
    assert isinstance(value, Rt)
    if isinstance(value.expr, Const | Local):
        return value
    home = frame.fresh(value.expr.type)
    edge.out.append(Assign(home, value.expr, frame.line))
    return Rt(Local(home, value.expr.type), value.pybool, value.nonneg)


def _nonneg(value: Value) -> bool:
    if not isinstance(value, Rt):
        return False
    return value.nonneg or (
        isinstance(value.expr, Const) and isinstance(value.expr.value, int) and value.expr.value >= 0
    )


def _join_values(frame: Frame, a: Value, b: Value, node: ast.AST | None) -> Any:
    """(type, expressions, pybool) of two values, or one static value both are."""
    x, y = _word(frame, a), _word(frame, b)
    if x is not None and y is not None:
        t = join_types(x.type, y.type)
        if t == NONE:
            return a
        if t is not None:
            pybool = isinstance(a, Rt) and isinstance(b, Rt) and a.pybool and b.pybool
            return t, (x, y), pybool
    if isinstance(a, Static) and isinstance(b, Static) and (a.value is b.value or a.value == b.value):
        return a
    shown = node if node is not None else ast.Pass()
    frame.fail(shown, f"the value is {describe(a)} on one side and {describe(b)} on the other", "use an if statement")


def _word(frame: Frame, value: Value) -> Expr | None:
    if isinstance(value, Static) and not isinstance(value.value, str):
        return frame.build.static_expr(frame, value) if isinstance(value.value, type) else None
    return runtime_expr(value)


@_translates(ast.IfExp)
def _ifexp(frame: Frame, node: ast.IfExp) -> Value:
    test = condition(frame, node.test)
    return conditional(frame, test, lambda: expression(frame, node.body), lambda: expression(frame, node.orelse), node)


@_translates(ast.BoolOp)
def _boolop(frame: Frame, node: ast.BoolOp) -> Value:
    """The value of the operand that decides, as Python has it."""
    is_and = isinstance(node.op, ast.And)

    def from_index(k: int) -> Value:
        value = expression(frame, node.values[k])
        if k + 1 == len(node.values):
            return value
        # a truth value is read once, as the test itself; anything else is also the result
        is_test = isinstance(value, Rt) and value.type == BOOL
        kept = value if is_test else frame.stable(value)
        test = operators.truth(frame, kept, node.values[k])
        if isinstance(test, Const):
            return from_index(k + 1) if bool(test.value) is is_and else kept
        decided: Value = kept
        if isinstance(kept, Rt) and kept.type == BOOL:
            decided = Rt(Const(not is_and, BOOL), kept.pybool)
        if is_and:
            return conditional(frame, test, lambda: from_index(k + 1), lambda: decided, node)
        return conditional(frame, test, lambda: decided, lambda: from_index(k + 1), node)

    return from_index(0)


@_translates(ast.Compare)
def _compare(frame: Frame, node: ast.Compare) -> Value:
    if len(node.ops) == 1:
        left, right = operands(frame, [node.left, node.comparators[0]])
        return _compare_one(frame, node, node.ops[0], left, right)
    left = frame.stable(expression(frame, node.left))

    def from_index(k: int, left: Value) -> Value:
        mark, walrus = len(frame.out), frame.walrus
        right = expression(frame, node.comparators[k])
        if k + 1 < len(node.ops):
            right = frame.stable(right)
        if len(frame.out) > mark:
            left = frame.spill([left], mark, walrus)[0]
        test = _compare_one(frame, node, node.ops[k], left, right)
        if k + 1 == len(node.ops):
            return test
        if isinstance(test.expr, Const):
            return from_index(k + 1, right) if test.expr.value else test
        stop = Rt(Const(False, BOOL), test.pybool)
        return conditional(frame, test.expr, lambda: from_index(k + 1, right), lambda: stop, node)

    return from_index(0, left)


_COMPARE_NAMES: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip


def _compare_one(frame: Frame, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Rt:
    name = _COMPARE_NAMES.get(type(op))
    if name is not None:
        return operators.compare(frame, node, name, left, right)
    if isinstance(op, ast.Is | ast.IsNot):
        test = operators.identity(frame, node, left, right)
    else:
        test = _contains(frame, node, left, right)
    if isinstance(op, ast.IsNot | ast.NotIn):
        return Rt(_negated(test.expr), True)
    return test


def _contains(frame: Frame, node: ast.AST, item: Value, container: Value) -> Rt:
    """``item in tuple``: identity or equality with one of its items."""
    texts = static_text(item), static_text(container)
    if texts[0] is not None and texts[1] is not None:
        return Rt(Const(texts[0] in texts[1], BOOL), True)
    items = tuple_items(frame, container, node)
    if items is None:
        hint = "write a loop that compares" if isinstance(container, Rt) else ""
        frame.unsupported(node, f"`in` works on tuples, this is {describe(container)}", hint)
    kept = frame.stable(item)
    result: Expr = Const(False, BOOL)
    for other in reversed(items):
        test = operators.compare(frame, node, "eq", kept, other).expr
        if isinstance(test, Const):
            result = test if test.value else result
        elif not (isinstance(result, Const) and not result.value):
            result = IfExp(test, Const(True, BOOL), result, BOOL)
        else:
            result = test
    return Rt(result, True)


@_translates(ast.NamedExpr)
def _walrus(frame: Frame, node: ast.NamedExpr) -> Value:
    value = expression(frame, node.value)
    frame.assign(node.target.id, value, node)
    frame.walrus += 1
    slot = frame.env[node.target.id]
    assert slot.value is not None
    return slot.value


@_translates(ast.Lambda)
def _lambda(frame: Frame, node: ast.Lambda) -> Value:
    return closure(frame, node, "<lambda>")


def closure(frame: Frame, node: ast.FunctionDef | ast.Lambda, name: str) -> Closure:
    """A nested function; its defaults are evaluated here and now."""
    a = node.args
    positional = [*a.posonlyargs, *a.args]
    pairs = [(arg.arg, d) for arg, d in zip(positional[len(positional) - len(a.defaults) :], a.defaults, strict=True)]
    pairs += [(arg.arg, d) for arg, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d is not None]
    values = [frame.hold(v) for v in operands(frame, [d for _, d in pairs])]
    defaults = tuple((arg, v) for (arg, _), v in zip(pairs, values, strict=True))
    return Closure(node, frame.spec.owner, name, frame, {}, frame.spec.local_names, defaults)


@_translates(ast.Subscript)
def _subscript(frame: Frame, node: ast.Subscript) -> Value:
    return subscript(frame, node)


@_translates(ast.Call)
def _call(frame: Frame, node: ast.Call) -> Value:
    return call(frame, node)
