"""Take collectives, and calls that must be inlined, out of expressions: each becomes a statement of its own.

What was evaluated before a lifted operation and could change (a load, a call) is kept in a temporary, so the order
of evaluation stays Python's.  A conditional expression with a lifted operation in an arm becomes an `If`; a `While`
whose test has one becomes an endless loop that tests inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import children, walk
from sterna.types import BOOL, NONE, VOID, Type

__all__ = ["Lifter", "as_statement"]

Expand = Callable[["Lifter", Any], "tuple[list[ir.Stmt], ir.Expr | None]"]


class Lifter:
    """Lifts the nodes that `wanted` picks and hands each to `expand`.

    Parameters
    ----------
    types : dict
        Types of the function's locals; temporaries are added.
    wanted : callable
        Whether a node must be lifted.
    expand : callable
        Gives the statements that replace a lifted node, and the expression that stands for its value (None for
        no value).
    """

    def __init__(self, types: dict[str, Type], wanted: Callable[[Any], bool], expand: Expand) -> None:
        self.types, self.wanted, self.expand = types, wanted, expand
        self._count = 0

    def temporary(self, t: Type, hint: str = "lift") -> str:
        """A new local."""
        while True:
            self._count += 1
            name = f".{hint}{self._count}"
            if name not in self.types:
                self.types[name] = t
                return name

    def statements(self, body: Iterable[ir.Stmt]) -> tuple[ir.Stmt, ...]:
        """Statements with every wanted node lifted."""
        result: list[ir.Stmt] = []
        for statement in body:
            result.extend(self._statement(statement))
        return tuple(result)

    def _has(self, node: Any) -> bool:
        return any(self.wanted(n) for n in walk([node]))

    def _statement(self, node: ir.Stmt) -> list[ir.Stmt]:
        if not self._has(node):
            return [node]
        if isinstance(node, ir.If):
            before, test = self._expression(node.test)
            then, orelse = self.statements(node.then), self.statements(node.orelse)
            return [*before, replace(node, test=test, then=then, orelse=orelse)]
        if isinstance(node, ir.While):
            body = self.statements(node.body)
            if not self._has(node.test):
                return [replace(node, body=body)]
            before, test = self._expression(node.test)
            leave = ir.If(ir.Unary("not", test, BOOL), (ir.Break(),))
            return [replace(node, test=ir.Const(True, BOOL), body=(*before, leave, *body))]
        if isinstance(node, ir.ForRange):
            before, bounds = self._several([node.start, node.stop, node.step])
            start, stop, step = bounds
            return [*before, replace(node, start=start, stop=stop, step=step, body=self.statements(node.body))]
        if isinstance(node, ir.ExprStatement) and self.wanted(node.value):
            before, value = self._operands(node.value)
            after, _ = self.expand(self, value)
            return [*before, *after]
        before, changed = self._operands(node)
        return [*before, changed]

    def _expression(self, node: Any) -> tuple[list[ir.Stmt], Any]:
        if not self._has(node):
            return [], node
        if isinstance(node, ir.IfExp) and (self._has(node.then) or self._has(node.orelse)):
            return self._choice(node)
        before, changed = self._operands(node)
        if not self.wanted(node):
            return before, changed
        after, value = self.expand(self, changed)
        return [*before, *after], value if value is not None else ir.Const(None, NONE)

    def _choice(self, node: ir.IfExp) -> tuple[list[ir.Stmt], ir.Expr]:
        before, test = self._expression(node.test)
        target = self.temporary(node.type)
        arms = []
        for arm in (node.then, node.orelse):
            inside, value = self._expression(arm)
            arms.append((*inside, ir.Assign(target, value)))
        return [*before, ir.If(test, arms[0], arms[1])], ir.Local(target, node.type)

    def _operands(self, node: Any) -> tuple[list[ir.Stmt], Any]:
        """Lift what is inside a node's children."""
        names = children(type(node))
        if isinstance(node, ir.Store | ir.StoreField):  # Python evaluates the value, then where it goes
            names = ("value", *(name for name in names if name != "value"))
        flat: list[Any] = []
        shapes: list[tuple[str, int | None]] = []
        for name in names:
            child = getattr(node, name)
            if isinstance(child, tuple):
                shapes.append((name, len(child)))
                flat.extend(child)
            else:
                shapes.append((name, None))
                flat.append(child)
        before, changed = self._several(flat)
        values: dict[str, Any] = {}
        position = 0
        for name, count in shapes:
            if count is None:
                values[name] = changed[position]
                position += 1
            else:
                values[name] = tuple(changed[position : position + count])
                position += count
        return before, replace(node, **values)

    def _several(self, nodes: list[Any]) -> tuple[list[ir.Stmt], list[Any]]:
        last = max((n for n, child in enumerate(nodes) if _is_node(child) and self._has(child)), default=-1)
        before: list[ir.Stmt] = []
        result = []
        for number, child in enumerate(nodes):
            if not _is_node(child) or number > last:
                result.append(child)
                continue
            inside, value = self._expression(child)
            before += inside
            if number < last and not _is_stable(value):
                name = self.temporary(value.type)
                before.append(ir.Assign(name, value))
                value = ir.Local(name, value.type)
            result.append(value)
        return before, result


def _is_node(child: Any) -> bool:
    return child is not None and not isinstance(child, str)


_STABLE = (
    ir.Const, ir.Local, ir.Unary, ir.Binary, ir.Compare, ir.Cast, ir.IfExp, ir.SlotWord, ir.TableWord, ir.RefWord,
    ir.ArrayOf, ir.Extent, ir.Stride, ir.MakeTuple, ir.GetItem, ir.SharedArray, ir.LocalArray, ir.NewAxis, ir.SliceAxis,
)  # fmt: skip


def _is_stable(node: Any) -> bool:
    """Whether an expression gives the same value later: it reads no memory and has no effect."""
    return all(isinstance(n, _STABLE) for n in walk([node])) or getattr(node, "type", VOID) in (VOID, NONE)


def as_statement(argument: str, result: str) -> Expand:
    """How to make an operation a statement whose arguments are locals or constants.

    Parameters
    ----------
    argument, result : str
        Hints for the names of the temporaries.
    """

    def expand(lifter: Lifter, node: Any) -> tuple[list[ir.Stmt], ir.Expr | None]:
        before: list[ir.Stmt] = []
        args = []
        for arg in node.args:
            if not isinstance(arg, ir.Const):
                name = lifter.temporary(arg.type, argument)
                before.append(ir.Assign(name, arg))
                arg = ir.Local(name, arg.type)
            args.append(arg)
        operation = replace(node, args=tuple(args))
        if node.type in (VOID, NONE):
            return [*before, ir.ExprStatement(operation)], None
        target = lifter.temporary(node.type, result)
        return [*before, ir.Assign(target, operation)], ir.Local(target, node.type)

    return expand
