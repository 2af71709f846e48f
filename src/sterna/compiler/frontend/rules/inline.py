"""LLVM intrinsics by name and inline assembly; what the target says of them is an error at the user's line."""

from __future__ import annotations

import ast

from sterna.compiler.frontend import operators
from sterna.compiler.frontend.frame import Frame
from sterna.compiler.frontend.rules import language_rule, many
from sterna.compiler.frontend.rules.dtypes import scalar_type_of
from sterna.compiler.frontend.values import Rt, Static, Value, describe, is_none, static_int, static_text
from sterna.compiler.ir.nodes import Const, Expr, ExprStatement, Intrinsic
from sterna.types import NONE, VOID, Scalar, Type

__all__: list[str] = []

_KINDS = "bools, integers, float32 and float64"


def _text(frame: Frame, node: ast.AST, value: Value, what: str) -> str:
    found = static_text(value)
    if found is None:
        frame.fail(node, f"{what} must be a constant string, this is {describe(value)}")
    return found


def _can_pass(t: Type) -> bool:
    return isinstance(t, Scalar) and (t.kind in "biu" or (t.kind == "f" and t.bits in (32, 64)))


def _result(frame: Frame, node: ast.AST, value: Value, shown: str) -> Type:
    if is_none(value):
        return VOID
    t = scalar_type_of(value.value) if isinstance(value, Static) else None
    if t is None or not _can_pass(t):
        frame.fail(node, f"{shown} gives {_KINDS}, or nothing (None); its result type is {describe(value)}")
    return t


def _operands(frame: Frame, node: ast.AST, values: list[Value], shown: str) -> tuple[Expr, ...]:
    found = []
    for value in values:
        number = operators.scalar(frame, value, node, shown)
        t = number.expr.type
        if not isinstance(t, Scalar) or not _can_pass(t):
            frame.fail(node, f"operands of {shown} are {_KINDS}, this is {describe(value)}")
        found.append(frame.cast(number.expr, t, node))
    return tuple(found)


def _emit(frame: Frame, node: ast.AST, call: Intrinsic, shown: str) -> Value:
    if not frame.build.for_host:  # where it is a leak whatever it says
        _require(frame, node, call, shown)
    if call.type == VOID:
        frame.out.append(ExprStatement(call, frame.line))
        return Rt(Const(None, NONE))
    return Rt(frame.temp(call))


def _require(frame: Frame, node: ast.AST, call: Intrinsic, shown: str) -> None:
    """An error if the target cannot do it."""
    target = frame.build.target
    check = getattr(target.compiler(), "inline_problem", None)
    if check is None:
        frame.unsupported(
            node, f"{shown} needs a target whose code LLVM makes; {target} is none",
            "give this target another definition with sterna.device_override",
        )  # fmt: skip
    problem = check(call, target)
    if problem:
        frame.fail(node, f"{shown}: {problem}", f"this kernel is compiled for {target}")


@language_rule("intrinsic", 2, many())
def _intrinsic(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    name = _text(frame, node, args[0], "the intrinsic's name")
    result = _result(frame, node, args[1], "sterna.intrinsic")
    operands = _operands(frame, node, args[2:], "sterna.intrinsic")
    return _emit(frame, node, Intrinsic("inline.llvm", operands, result, (name,)), "sterna.intrinsic")


@language_rule("inline_asm", 3, many(), only_keyword=("side_effects",))
def _inline_asm(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    effects, text, constraints, result_type, *rest = args
    side_effects = 1 if effects is None else static_int(effects)
    if side_effects is None:
        frame.fail(node, f"side_effects must be a constant, this is {describe(effects)}")
    attrs = (
        _text(frame, node, text, "the assembly"),
        _text(frame, node, constraints, "the constraints"),
        bool(side_effects),
    )
    result = _result(frame, node, result_type, "sterna.inline_asm")
    operands = _operands(frame, node, rest, "sterna.inline_asm")
    return _emit(frame, node, Intrinsic("inline.asm", operands, result, attrs), "sterna.inline_asm")
