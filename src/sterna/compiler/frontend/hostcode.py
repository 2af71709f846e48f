"""Code of the host that names functions of devices: what `sterna.host_leaks` looks for.

A job whose method tables hold nothing is code of the host.  Where it uses a function that exists on devices only, the
IR gets a ``device_only`` operation with the function's name, which becomes a call of a symbol that no host defines; and
a value of the type that the device's own definition would have given, so that the code after it is compiled too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from sterna.compiler.frontend.frame import Frame
from sterna.compiler.frontend.overloads import argument
from sterna.compiler.frontend.values import (
    Rt,
    Static,
    TupleValue,
    Value,
    describe,
    is_none,
    runtime_expr,
)  # fmt: skip
from sterna.compiler.ir.nodes import Const, ExprStatement, Intrinsic, LocalArray, SharedArray
from sterna.language.overloads import fitting_members
from sterna.overlays import DEVICE_TABLES, Overlay, overlays_of, stub_name
from sterna.source.captures import CaptureKind, scan
from sterna.types import NONE, VOID, ArrayType, Scalar

__all__ = ["is_leak", "leak", "leaking_call"]


def is_leak(frame: Frame, value: Static) -> bool:
    """Whether a value is a function of devices that code of the host names."""
    capture = value.capture
    known = stub_name(value.value) if capture is None else capture.kind is CaptureKind.STUB
    return frame.build.for_host and bool(known)


def leak(frame: Frame, node: ast.AST, value: Static, found: Callable[[], Value], part: str = "") -> Value:
    """Note the use of a function of devices; `found` gives what it is there, whose type the result has."""
    name = stub_name(value.value) + part
    frame.out.append(ExprStatement(Intrinsic("device_only", (), VOID, (name,)), frame.line))
    mark = len(frame.out)
    there = found()
    del frame.out[mark:]
    return _opaque(frame, node, there)


def _opaque(frame: Frame, node: ast.AST, value: Value) -> Value:
    """A value of the type of `value` that nothing is known of."""
    if isinstance(value, TupleValue):
        return TupleValue(tuple(_opaque(frame, node, item) for item in value.items), value.struct)
    expr = runtime_expr(value)
    if expr is None or is_none(value):
        return value
    if isinstance(expr.type, Scalar):
        opaque = frame.temp(Intrinsic("device_only.value", (), expr.type))
        return Rt(opaque, isinstance(value, Rt) and value.pybool, isinstance(value, Rt) and value.nonneg)
    if isinstance(expr, SharedArray | LocalArray):
        t = expr.type
        shape = expr.shape or (1,)
        return Rt(LocalArray(frame.array_name(node, "local"), shape, ArrayType(t.dtype, t.ndim, "C", False, "local")))
    frame.fail(node, f"{describe(value)} of a device function cannot be followed in code of the host")


def leaking_call(frame: Frame, node: ast.AST, value: Static, args: list[Value], keywords: dict[str, Value]) -> Value:
    """A call of a function of devices in code of the host."""
    from sterna.compiler.frontend.rules import find_rule

    overlay = DEVICE_TABLES.find(value.value) or next(iter(overlays_of(value.value)), None)
    if overlay is None:
        return leak(frame, node, value, lambda: Rt(Const(None, NONE)))
    rule = find_rule(value.value, overlay.operation) if overlay.operation else None
    if rule is not None:
        given = rule
        return leak(frame, node, value, lambda: given.apply(frame, node, args, keywords))
    return leak(frame, node, value, lambda: _returned(frame, node, overlay, args, keywords))


def _returned(frame: Frame, node: ast.AST, overlay: Overlay, args: list[Value], keywords: dict[str, Value]) -> Value:
    """What a device function gives for these arguments, by translating it apart, for no target in particular."""
    from sterna.compiler.frontend.build import Build
    from sterna.compiler.frontend.functions import call_function

    given = [*map(argument, args)], {name: argument(item) for name, item in keywords.items()}
    fitting = fitting_members(overlay.definitions, *given)
    if len(fitting) != 1:
        frame.fail(node, f"{overlay.stub} has no definition for these arguments")
    captures = scan(overlay.definitions[fitting[0]], tables=DEVICE_TABLES)
    apart = Frame(Build(captures, frame.build.options, frame.build.target), frame.spec, frame.place)
    return call_function(apart, node, 0, args, keywords)
