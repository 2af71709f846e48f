"""Calls: what is called decides who types it: a rule, a specialisation of a Python function, a constructor."""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

import numpy as np

from sterna.compiler.frontend.captures import constant_value
from sterna.compiler.frontend.frame import Frame, tuple_items
from sterna.compiler.frontend.functions import call_closure, call_function
from sterna.compiler.frontend.hostcode import is_leak, leaking_call
from sterna.compiler.frontend.overloads import call_overloaded, refuse_stub
from sterna.compiler.frontend.values import BoundMethod, Closure, Rt, Static, Value, describe, struct_value
from sterna.compiler.ir.nodes import HostRef
from sterna.source.captures import CaptureKind
from sterna.typeof import is_struct_class, struct_fields
from sterna.types import OPAQUE, StructType

__all__ = ["call", "call_value"]


def call(frame: Frame, node: ast.Call) -> Value:
    """Translate a call."""
    from sterna.compiler.frontend.expressions import expression

    mark = len(frame.out)
    function = expression(frame, node.func)
    args, keywords = _arguments(frame, node)
    if isinstance(function, BoundMethod) and len(frame.out) > mark:
        function = BoundMethod(frame.stable(function.receiver), function.name)
    return call_value(frame, node, function, args, keywords)


def _arguments(frame: Frame, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
    from sterna.compiler.frontend.expressions import operands

    for keyword in node.keywords:
        if keyword.arg is None:
            frame.unsupported(keyword.value, "**keywords cannot be used in device code", "name each argument")
    nodes = [a.value if isinstance(a, ast.Starred) else a for a in node.args]
    values = operands(frame, [*nodes, *(k.value for k in node.keywords)])
    args: list[Value] = []
    for part, value in zip(node.args, values[: len(nodes)], strict=True):
        if not isinstance(part, ast.Starred):
            args.append(value)
            continue
        items = tuple_items(frame, value, part)
        if items is None:
            frame.fail(part, f"* needs a tuple, this is {describe(value)}", "its length must be known at compile time")
        args.extend(items)
    keywords = {str(k.arg): v for k, v in zip(node.keywords, values[len(nodes) :], strict=True)}
    return args, keywords


def call_value(frame: Frame, node: ast.AST, function: Value, args: list[Value], keywords: dict[str, Value]) -> Value:
    """The value of calling `function`."""
    if isinstance(function, Closure):
        return call_closure(frame, node, function, args, keywords)
    if isinstance(function, BoundMethod):
        from sterna.compiler.frontend.rules.methods import call_method

        return call_method(frame, node, function, args, keywords)
    if isinstance(function, Static):
        return _call_static(frame, node, function, args, keywords)
    frame.fail(node, f"{_shown(function)} cannot be called in device code", _hint(function))


def _call_static(frame: Frame, node: ast.AST, function: Static, args: list[Value], keywords: dict[str, Value]) -> Value:
    """The value of calling a function of the host or the language, as the job's method tables have it."""
    from sterna.compiler.frontend.rules import find_rule, operation_of

    capture = function.capture
    if capture is not None and capture.overloads:
        return call_overloaded(frame, node, capture, args, keywords)
    if capture is not None and capture.function is not None:
        return call_function(frame, node, capture.function, args, keywords)
    rule = find_rule(function.value, operation_of(frame, function))
    if rule is not None:
        return rule.apply(frame, node, args, keywords)
    if is_leak(frame, function):
        return leaking_call(frame, node, function, args, keywords)
    if capture is not None and capture.kind is CaptureKind.STUB:
        refuse_stub(frame, node, function.value)
    if isinstance(function.value, type):
        return construct(frame, node, function.value, args, keywords)
    frame.fail(node, f"{_shown(function)} cannot be called in device code", _hint(function))


def _shown(function: Value) -> str:
    if isinstance(function, Rt) and isinstance(function.expr, HostRef):
        return f"the captured object {function.expr.path.rsplit(':', 1)[-1]}"
    if isinstance(function, Static):
        name = getattr(function.value, "__qualname__", None) or getattr(function.value, "__name__", "")
        module = getattr(function.value, "__module__", "") or ""
        if name:
            return f"{module}.{name}" if module not in ("builtins", "__main__", "") else str(name)
    return describe(function)


def _hint(function: Value) -> str:
    if isinstance(function, Rt) and function.type == OPAQUE and not isinstance(function.expr, HostRef):
        return "an object given at a launch is an identity only: a kernel calls the functions that it captures"
    if isinstance(function, Rt) and function.type == OPAQUE:
        return "only Python functions with source, and built-ins that device code knows, can be called"
    if isinstance(function, Static):
        module = str(getattr(function.value, "__module__", ""))
        if module.startswith("numpy"):
            return "only NumPy's scalar functions can be called: np.sin(x), np.float32(x), …"
        if callable(function.value):
            return "only Python functions with source, and built-ins that device code knows, can be called"
    return ""


def construct(frame: Frame, node: ast.AST, cls: type[Any], args: list[Value], keywords: dict[str, Value]) -> Value:
    """A named tuple or frozen dataclass from its fields."""
    if not is_struct_class(cls):
        if issubclass(cls, BaseException):
            frame.fail(node, f"{cls.__name__} is an exception: raise it", f"raise {cls.__name__}('…')")
        frame.unsupported(
            node, f"objects of class {cls.__name__} cannot be made in device code",
            "use a named tuple or a frozen dataclass",
        )  # fmt: skip
    _check_constructor(frame, node, cls)
    names = struct_fields(cls)
    if len(args) > len(names):
        frame.fail(node, f"{cls.__name__} takes {len(names)} arguments, {len(args)} were given")
    given = dict(zip(names, args, strict=False))
    for name, value in keywords.items():
        if name not in names or name in given:
            what = "twice" if name in given else "but has no such field"
            frame.fail(node, f"{cls.__name__} is given {name} {what}", f"its fields are {', '.join(names)}")
        given[name] = value
    for name in names:
        if name not in given:
            given[name] = _field_default(frame, node, cls, name)
    is_tuple = issubclass(cls, tuple)
    return struct_value(StructType(cls.__name__, names, (), is_tuple), tuple(given[name] for name in names))


def _check_constructor(frame: Frame, node: ast.AST, cls: type[Any]) -> None:
    if issubclass(cls, tuple):
        generated = str(cls.__new__.__module__).startswith("namedtuple_")  # what collections.namedtuple made
        if not generated or cls.__init__ is not tuple.__init__:
            frame.unsupported(node, f"{cls.__name__} has its own constructor", "make it on the host")
        return
    if hasattr(cls, "__post_init__"):
        frame.unsupported(
            node, f"{cls.__name__} has __post_init__, which device code cannot run", "make it on the host"
        )
    for field in dataclasses.fields(cls):
        if not field.init:
            frame.unsupported(node, f"field {field.name} of {cls.__name__} has init=False", "make it on the host")


def _field_default(frame: Frame, node: ast.AST, cls: type[Any], name: str) -> Value:
    missing = object()
    if issubclass(cls, tuple):
        default = cls._field_defaults.get(name, missing)  # type: ignore[attr-defined]
    else:
        default = next(f.default for f in dataclasses.fields(cls) if f.name == name)
    if default is missing or default is dataclasses.MISSING:
        frame.fail(node, f"{cls.__name__} is missing field {name}")
    value = constant_value(default) if not isinstance(default, np.ndarray) else None
    if value is None:
        frame.unsupported(node, f"the default of field {name} of {cls.__name__} is no constant", "give the field")
    return value
