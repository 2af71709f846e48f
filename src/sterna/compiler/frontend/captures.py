"""Captured names: what a free name or dotted chain of device code is, by the kernel's scan.

Kinds are the scan's (`sterna.source.captures`), so the key and the code cannot disagree about a name.
"""

from __future__ import annotations

import ast
import builtins
import enum
from typing import TYPE_CHECKING, Any

import numpy as np

from sterna.compiler.frontend.values import Rt, Static, TupleValue, Value
from sterna.compiler.ir.nodes import Const, HostRef
from sterna.relocation.record import RefKind
from sterna.source.captures import Capture, CaptureKind, Scan
from sterna.typeof import is_struct_class, struct_fields, type_of
from sterna.types import NONE, OPAQUE, TYPE_TAG, Scalar

if TYPE_CHECKING:
    from sterna.compiler.frontend.build import Build
    from sterna.compiler.frontend.frame import Frame

__all__ = ["Names", "constant_value"]


def constant_value(value: Any) -> Value | None:
    """A compile-time constant as a value of the frontend; None if it is none."""
    if value is None:
        return Rt(Const(None, NONE))
    if isinstance(value, str) and not isinstance(value, np.generic):
        return Static(str(value))
    if isinstance(value, np.dtype):
        return Static(value)
    if isinstance(value, tuple) or is_struct_class(type(value)):
        struct = None
        parts = list(value) if isinstance(value, tuple) else []
        if is_struct_class(type(value)):
            names = struct_fields(type(value))
            struct = (type(value).__name__, names, isinstance(value, tuple))
            parts = [getattr(value, name) for name in names]
        items = [constant_value(part) for part in parts]
        return None if None in items else TupleValue(tuple(items), struct)  # type: ignore[arg-type]
    if isinstance(value, bool | int | float | complex | np.generic):
        t = type_of(value)
        if not isinstance(t, Scalar):
            return None
        plain = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[t.kind](value)
        return Rt(Const(plain, t), pybool=type(value) is bool)
    return None


class Names:
    """Looks up what device code reads by name."""

    def __init__(self, build: Build, scan: Scan) -> None:
        self._build, self._scan = build, scan

    def lookup(self, frame: Frame, node: ast.expr, chain: list[str]) -> tuple[Value, list[str]]:
        """The value a free dotted chain begins with, and the attributes of it that remain."""
        found = self._scan.lookup(frame.spec.owner, ".".join(chain))
        if found is None:
            return self._builtin(frame, node, chain)
        capture, rest = found
        left = [part for part in rest.split(".") if part]
        if (
            left
            and isinstance(capture.value, enum.Enum)
            and left[0] == "value"
            and capture.kind is CaptureKind.CONSTANT
        ):
            left = left[1:]
        return self.value(frame, node, capture), left

    def value(self, frame: Frame, node: ast.AST, capture: Capture) -> Value:
        """A capture as a value."""
        kind = capture.kind
        if kind is CaptureKind.CONSTANT:
            value = constant_value(capture.value)
            if value is None:
                frame.fail(node, f"{capture.chain} is a constant of a kind device code cannot use")
            if isinstance(value, Static):
                return Static(value.value, capture)
            return value
        if kind is CaptureKind.TUPLE:
            items = tuple(self.value(frame, node, item) for item in capture.items)
            struct = None
            if is_struct_class(type(capture.value)):
                cls = type(capture.value)
                struct = (cls.__name__, struct_fields(cls), isinstance(capture.value, tuple))
            return TupleValue(items, struct)
        if kind is CaptureKind.BUFFER:
            assert capture.type is not None
            frame.build.allow(capture.type, frame.place, node, capture.chain)
            return Rt(HostRef(RefKind.BUFFER, capture.path, capture.type))
        if kind is CaptureKind.GLOBAL:
            assert capture.type is not None
            return Rt(HostRef(RefKind.GLOBAL, capture.path, capture.type))
        if kind is CaptureKind.OBJECT:
            return Rt(HostRef(RefKind.OBJECT, capture.path, OPAQUE))
        if kind is CaptureKind.SYMBOL:
            return Rt(HostRef(RefKind.SYMBOL, capture.path, TYPE_TAG))
        return Static(capture.value, capture)

    def _builtin(self, frame: Frame, node: ast.expr, chain: list[str]) -> tuple[Value, list[str]]:
        if hasattr(builtins, chain[0]):
            return Static(getattr(builtins, chain[0])), chain[1:]
        frame.fail(node, f"name {chain[0]!r} is not defined", "define it before the kernel is launched")

    def default(self, frame: Frame, node: ast.AST, owner: int, name: str) -> Value:
        """Default of parameter `name` of a captured function."""
        found = self._scan.lookup(owner, f"default:{name}")
        if found is None:
            frame.fail(node, f"the default of parameter {name} cannot be had")
        return self.value(frame, node, found[0])
