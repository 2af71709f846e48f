"""Functions of devices: calls of overload sets, and of functions that the job's target does not have."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from sterna.compiler.frontend.frame import Frame
from sterna.compiler.frontend.functions import call_function
from sterna.compiler.frontend.values import Rt, Value, describe, runtime_expr
from sterna.language.overloads import Argument, describe_set, fitting_members
from sterna.overlays import name_of, overlays_of, shown_table
from sterna.source.captures import Capture

__all__ = ["argument", "call_overloaded", "refuse_stub"]


def call_overloaded(
    frame: Frame, node: ast.AST, capture: Capture, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """Call of the member of an overload set that fits the arguments best."""
    members = [frame.build.scan.functions[ordinal].function for ordinal in capture.overloads]
    fitting = fitting_members(members, [*map(argument, args)], {name: argument(v) for name, v in keywords.items()})
    if len(fitting) == 1:
        return call_function(frame, node, capture.overloads[fitting[0]], args, keywords)
    given = ", ".join([*map(describe, args), *(f"{name}: {describe(value)}" for name, value in keywords.items())])
    what = "several definitions that fit" if fitting else "no definition for"
    frame.fail(node, f"{name_of(capture.value)} has {what} ({given})", f"its definitions are {describe_set(members)}")


def argument(value: Value) -> Argument:
    """A value of the frontend as far as the choice of a member goes."""
    expr = runtime_expr(value)
    return Argument(None if expr is None else expr.type, isinstance(value, Rt) and value.pybool)


def refuse_stub(frame: Frame, node: ast.AST, function: Any) -> NoReturn:
    """The error that a function of devices has no definition for this job's target."""
    there = ", ".join(shown_table(found.table) for found in overlays_of(function))
    frame.fail(
        node, f"{name_of(function)} has no definition for {frame.build.target}",
        f"it is defined for {there or 'no target'}; add one with sterna.device_override",
    )  # fmt: skip
