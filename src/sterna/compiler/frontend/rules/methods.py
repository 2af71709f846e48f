"""Methods of arrays and numbers."""

from __future__ import annotations

import ast

from sterna.compiler.frontend import operators
from sterna.compiler.frontend.attributes import _transposed
from sterna.compiler.frontend.frame import Frame, tuple_items
from sterna.compiler.frontend.rules.dtypes import convert_number, scalar_type_of
from sterna.compiler.frontend.subscripts import index_values
from sterna.compiler.frontend.values import BoundMethod, Rt, Static, Value, describe, static_int
from sterna.compiler.ir.nodes import Const, Intrinsic
from sterna.types import PYINT, ArrayType, Scalar

__all__ = ["call_method"]


def call_method(
    frame: Frame, node: ast.AST, method: BoundMethod, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """``receiver.name(args)``."""
    if keywords:
        frame.fail(node, f"{method.name} takes no keywords in device code")
    receiver = method.receiver
    assert isinstance(receiver, Rt)
    t = receiver.expr.type
    if isinstance(t, ArrayType):
        return _array_method(frame, node, receiver, t, method.name, args)
    assert isinstance(t, Scalar)
    return _scalar_method(frame, node, receiver, t, method.name, args)


def _array_method(frame: Frame, node: ast.AST, array: Rt, t: ArrayType, name: str, args: list[Value]) -> Value:
    if name == "transpose":
        flat = _flat(frame, node, args)
        axes = tuple(reversed(range(t.ndim))) if not flat else tuple(static_int(a) for a in flat)
        if None in axes or sorted(a % t.ndim for a in axes if a is not None) != list(range(t.ndim)):
            frame.fail(node, f"transpose needs a permutation of the {t.ndim} axes as constants")
        return Rt(_transposed(array.expr, t, tuple(a % t.ndim for a in axes if a is not None)))
    if name == "item":
        parts = _flat(frame, node, args)
        if len(parts) != t.ndim:
            frame.fail(node, f"item() needs {t.ndim} indices", "index the array: a[i]")
        return index_values(frame, node, array, list(parts))
    frame.unsupported(
        node, f"array.{name}() cannot be used in device code",
        "reshape on the host and pass the view" if name in ("reshape", "ravel") else "convert elements",
    )  # fmt: skip


def _flat(frame: Frame, node: ast.AST, args: list[Value]) -> list[Value]:
    if len(args) == 1:
        items = tuple_items(frame, args[0], node)
        if items is not None:
            return list(items)
    return args


def _scalar_method(frame: Frame, node: ast.AST, number: Rt, t: Scalar, name: str, args: list[Value]) -> Value:
    if name == "conjugate" and not args:
        return Rt(Intrinsic("complex.conj", (number.expr,), t)) if t.kind == "c" else number
    if name == "item" and not args and not t.weak:
        weak = Scalar({"u": "i", "e": "f"}.get(t.kind, t.kind), 128 if t.kind == "c" else 64, True)  # type: ignore[arg-type]
        if t.kind == "b":
            return Rt(number.expr, True)
        return Rt(frame.cast(number.expr, weak, node), False, number.nonneg)
    if name in ("view", "astype") and len(args) == 1 and not t.weak:
        target = scalar_type_of(args[0].value) if isinstance(args[0], Static) else None
        if target is None:
            frame.fail(node, f"{name} needs a dtype, this is {describe(args[0])}", f"x.{name}(np.int32)")
        if name == "astype":
            return convert_number(frame, node, number, target)
        if target.bits != t.bits or "c" in (target.kind, t.kind) or "b" in (target.kind, t.kind):
            frame.fail(node, f"view of {t} as {target}: the sizes differ or it is no number")
        return Rt(Intrinsic("bitcast", (number.expr,), target))
    if name == "is_integer" and not args and t.kind in "iuf":
        if t.kind in "iu":
            return Rt(Const(True, scalar_type_of("bool") or PYINT), True)
        x = frame.temp(number.expr)
        return operators.compare(frame, node, "eq", Rt(Intrinsic("math.trunc", (x,), t)), Rt(x))
    frame.fail(node, f"a {'Python ' if t.weak else ''}{t} has no method {name} with these arguments in device code")
