"""What the runtime library asks of the launch and of the running thread (`sterna.language.state`)."""

from __future__ import annotations

import ast

from sterna.compiler.frontend.frame import Frame
from sterna.compiler.frontend.functions import specialisation_of
from sterna.compiler.frontend.rules import language_rule
from sterna.compiler.frontend.values import Rt, Value, describe, runtime_expr, static_text
from sterna.compiler.ir.nodes import Binary, Cast, Const, Expr, Intrinsic
from sterna.compiler.passes.start_generator import GENERATOR, GENERATOR_TYPE
from sterna.types import NONE, PYINT, UINT64, Scalar


@language_rule("state.seed", 0)
def _seed(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    return Rt(Intrinsic("state.seed", (), UINT64))


@language_rule("state.thread", 0)
def _thread(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    """The components of ``grid(ndim)``, the slowest first, made one number."""
    over = frame.build.options.over
    axes = range(over) if over else range(2, -1, -1)
    number: Expr = Const(0, UINT64)
    for position, axis in enumerate(axes):
        index, size = (
            Cast(Intrinsic(f"{kind}.{axis}", (), PYINT, (over or 3,)), UINT64) for kind in ("grid_index", "grid_size")
        )
        row = Binary("mul", number, size, UINT64) if position else None
        number = index if row is None else Binary("add", row, index, UINT64)
    return Rt(number, False, True)


@language_rule("state.generator", 1)
def _generator(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    """A marker until the generator is made (`sterna.compiler.passes.start_generator`); it names what starts it."""
    parameter = Rt(Intrinsic(GENERATOR, (), GENERATOR_TYPE))
    start = specialisation_of(frame, node, args[0], [parameter])
    return Rt(Intrinsic(GENERATOR, (), GENERATOR_TYPE, (start,)))


@language_rule("state.refuse", 2)
def _refuse(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    frame.fail(node, f"{static_text(args[0])}, given {describe(args[1])}")


@language_rule("state.need_integer", 2)
def _need_integer(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    expr = runtime_expr(args[1])
    kind = expr.type.kind if expr is not None and isinstance(expr.type, Scalar) else ""
    if kind not in ("b", "i", "u"):
        hint = "write int(…) to drop a fraction" if kind == "f" else ""
        frame.fail(node, f"{static_text(args[0])}, given {describe(args[1])}", hint)
    return Rt(Const(None, NONE))
