"""Typing rules of the functions that device code knows by name, in tables keyed by the function.

`builtins`: Python's built-ins; `mathematics`: `math`, `cmath` and NumPy's scalar functions; `dtypes`: conversions
and dtype facts; `language`: Sterna's own intrinsics, by table name; `methods`: methods of values.
A rule gets the translated arguments and gives a value.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from sterna.compiler.frontend.frame import Frame
from sterna.compiler.frontend.values import Rt, Static, Value
from sterna.frozen import frozen
from sterna.types import Scalar

__all__ = ["LANGUAGE", "RULES", "Rule", "find_rule", "language_rule", "operation_of", "typing_rule"]

Typing = Callable[[Frame, ast.AST, list[Value]], Value]


@frozen
class Rule:
    """How a call is typed.

    Attributes
    ----------
    shown : str
        The function's name, for messages.
    typing : callable
        ``(frame, node, args) -> value``.
    least, most : int
        Allowed number of arguments.
    names : tuple of str
        Names of the arguments, where they may be given by keyword; none may be left out before one that is given.
    only_keyword : tuple of str
        Names of arguments given by keyword only; the rule gets them before the others, None for one left out.
    """

    shown: str
    typing: Typing
    least: int
    most: int
    names: tuple[str, ...] = ()
    only_keyword: tuple[str, ...] = ()

    def apply(self, frame: Frame, node: ast.AST, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Type a call."""
        args = list(args)
        named: list[Any] = [keywords.pop(name, None) for name in self.only_keyword]
        if keywords:
            args = self._bind(frame, node, args, keywords)
        if not self.least <= len(args) <= self.most:
            allowed = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
            allowed = f"at least {self.least}" if self.most >= _MANY else allowed
            frame.fail(node, f"{self.shown} takes {allowed} arguments, {len(args)} were given")
        return self.typing(frame, node, [*named, *args])

    def _bind(self, frame: Frame, node: ast.AST, args: list[Value], keywords: dict[str, Value]) -> list[Value]:
        for name in keywords:
            if name not in self.names:
                frame.fail(node, f"{self.shown} has no keyword {name!r} in device code")
        for name in self.names[len(args) :]:
            if name not in keywords:
                break
            args.append(keywords.pop(name))
        if keywords:
            frame.fail(node, f"{self.shown}: {next(iter(keywords))} cannot be given like this", "give it by position")
        return args


_MANY = 1000
RULES: dict[Any, Rule] = {}
"""Function or class → rule."""
LANGUAGE: dict[str, Rule] = {}
"""Table name of the kernel language → rule."""


def typing_rule(
    *functions: Any, least: int = 1, most: int | None = None, names: tuple[str, ...] = ()
) -> Callable[[Typing], Typing]:
    """Register a rule for functions or classes."""

    def register(typing: Typing) -> Typing:
        for function in functions:
            RULES[function] = Rule(function.__name__, typing, least, least if most is None else most, names)
        return typing

    return register


def language_rule(
    name: str, least: int, most: int | None = None, names: tuple[str, ...] = (), only_keyword: tuple[str, ...] = ()
) -> Callable[[Typing], Typing]:
    """Register a rule for an intrinsic of the kernel language."""

    def register(typing: Typing) -> Typing:
        LANGUAGE[name] = Rule(name, typing, least, least if most is None else most, names, only_keyword)
        return typing

    return register


def many() -> int:
    """A number of arguments that stands for any."""
    return _MANY


def operation_of(frame: Frame, value: Static) -> str:
    """The operation of the language that a value stands for in the job's method tables; empty if it is none."""
    capture = value.capture
    overlay = frame.build.scan.tables.find(value.value) if capture is None else capture.overlay
    return "" if overlay is None else overlay.operation


def find_rule(function: Any, operation: str = "") -> Rule | None:
    """The rule of a function or class, if device code knows it.

    Parameters
    ----------
    function : object
        The function or class itself.
    operation : str
        The operation of the language that it stands for in the job's method tables.
    """
    if operation:
        rule = LANGUAGE.get(operation)
        if rule is not None and not rule.names:
            names = _parameter_names(function)
            return Rule(rule.shown, rule.typing, rule.least, rule.most, names, rule.only_keyword)
        return rule
    try:
        rule = RULES.get(function) if isinstance(function, Hashable) else None
    except TypeError:
        return None
    return _of_numpy(function, rule) if rule is not None and _is_numpy(function) else rule


def _is_numpy(function: Any) -> bool:
    """Whether `function` is one of NumPy's, not a class."""
    if isinstance(function, type):
        return False
    return isinstance(function, np.ufunc) or str(getattr(function, "__module__", "")).partition(".")[0] == "numpy"


def _of_numpy(function: Any, rule: Rule) -> Rule:
    """The rule with NumPy's way of taking Python numbers: weak beside an array's element, else int64, float64…"""
    first = 1 if function is np.where else 0

    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        numbers = [arg for arg in args[first:] if isinstance(arg, Rt) and isinstance(arg.expr.type, Scalar)]
        if all(arg.pybool or arg.expr.type.weak for arg in numbers):  # type: ignore[union-attr]
            args = [*args[:first], *(_strengthened(frame, node, arg) for arg in args[first:])]
        return rule.typing(frame, node, args)

    return Rule(rule.shown, typing, rule.least, rule.most, rule.names, rule.only_keyword)


def _strengthened(frame: Frame, node: ast.AST, value: Value) -> Value:
    if not isinstance(value, Rt) or not isinstance(value.expr.type, Scalar):
        return value
    t = value.expr.type
    return Rt(frame.cast(value.expr, Scalar(t.kind, t.bits), node) if t.weak else value.expr, False, value.nonneg)


def _parameter_names(function: Any) -> tuple[str, ...]:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


from sterna.compiler.frontend.rules import (  # noqa: E402  (they fill the tables)
    builtin,  # noqa: F401
    dtypes,  # noqa: F401
    inline,  # noqa: F401
    language,  # noqa: F401
    mathematics,  # noqa: F401
    near,  # noqa: F401
    numeric,  # noqa: F401
    state,  # noqa: F401
)
