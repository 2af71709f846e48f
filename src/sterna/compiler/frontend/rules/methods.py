"""Methods of arrays and numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable

from sterna.compiler.frontend import operators
from sterna.compiler.frontend.attributes import _transposed
from sterna.compiler.frontend.frame import Frame, tuple_items
from sterna.compiler.frontend.rules.dtypes import convert_number, scalar_type_of
from sterna.compiler.frontend.subscripts import index_values
from sterna.compiler.frontend.values import BoundMethod, Rt, Static, Value, describe, static_int
from sterna.compiler.ir.nodes import Const, Intrinsic
from sterna.types import BOOL, ArrayType, Scalar

__all__ = ["call_method"]


ArrayMethod = Callable[[Frame, ast.AST, Rt, ArrayType, list[Value]], Value]
ScalarMethod = Callable[[Frame, ast.AST, Rt, Scalar, list[Value]], Value | None]


def call_method(
    frame: Frame, node: ast.AST, method: BoundMethod, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """``receiver.name(args)``."""
    if keywords:
        frame.fail(node, f"{method.name} takes no keywords in device code")
    receiver, name = method.receiver, method.name
    assert isinstance(receiver, Rt)
    t = receiver.expr.type
    if isinstance(t, ArrayType):
        of_array = _ARRAY_METHODS.get(name)
        if of_array is None:
            frame.unsupported(
                node, f"array.{name}() cannot be used in device code",
                "reshape on the host and pass the view" if name in ("reshape", "ravel") else "convert elements",
            )  # fmt: skip
        return of_array(frame, node, receiver, t, args)
    assert isinstance(t, Scalar)
    of_number = _NUMBER_METHODS.get(name)
    found = None if of_number is None else of_number(frame, node, receiver, t, args)
    if found is None:
        shown = f"{'Python ' if t.weak else ''}{t}"
        frame.fail(node, f"a {shown} has no method {name} with these arguments in device code")
    return found


# ---- of arrays ----


def _transpose(frame: Frame, node: ast.AST, array: Rt, t: ArrayType, args: list[Value]) -> Value:
    flat = _flat(frame, node, args)
    axes = tuple(reversed(range(t.ndim))) if not flat else tuple(static_int(a) for a in flat)
    if None in axes or sorted(a % t.ndim for a in axes if a is not None) != list(range(t.ndim)):
        frame.fail(node, f"transpose needs a permutation of the {t.ndim} axes as constants")
    return Rt(_transposed(array.expr, t, tuple(a % t.ndim for a in axes if a is not None)))


def _item_of_array(frame: Frame, node: ast.AST, array: Rt, t: ArrayType, args: list[Value]) -> Value:
    parts = _flat(frame, node, args)
    if len(parts) != t.ndim:
        frame.fail(node, f"item() needs {t.ndim} indices", "index the array: a[i]")
    return index_values(frame, node, array, list(parts))


def _flat(frame: Frame, node: ast.AST, args: list[Value]) -> list[Value]:
    if len(args) == 1:
        items = tuple_items(frame, args[0], node)
        if items is not None:
            return list(items)
    return args


_ARRAY_METHODS: dict[str, ArrayMethod] = {"transpose": _transpose, "item": _item_of_array}


# ---- of numbers; None where the arguments do not fit ----


def _conjugate(frame: Frame, node: ast.AST, number: Rt, t: Scalar, args: list[Value]) -> Value | None:
    if args:
        return None
    return Rt(Intrinsic("complex.conj", (number.expr,), t)) if t.kind == "c" else number


def _item(frame: Frame, node: ast.AST, number: Rt, t: Scalar, args: list[Value]) -> Value | None:
    if args or t.weak:
        return None
    if t.kind == "b":
        return Rt(number.expr, True)
    weak = Scalar({"u": "i", "e": "f"}.get(t.kind, t.kind), 128 if t.kind == "c" else 64, True)  # type: ignore[arg-type]
    return Rt(frame.cast(number.expr, weak, node), False, number.nonneg)


def _dtype(frame: Frame, node: ast.AST, args: list[Value], name: str) -> Scalar:
    target = scalar_type_of(args[0].value) if isinstance(args[0], Static) else None
    if target is None:
        frame.fail(node, f"{name} needs a dtype, this is {describe(args[0])}", f"x.{name}(np.int32)")
    return target


def _astype(frame: Frame, node: ast.AST, number: Rt, t: Scalar, args: list[Value]) -> Value | None:
    if len(args) != 1 or t.weak:
        return None
    return convert_number(frame, node, number, _dtype(frame, node, args, "astype"))


def _view(frame: Frame, node: ast.AST, number: Rt, t: Scalar, args: list[Value]) -> Value | None:
    if len(args) != 1 or t.weak:
        return None
    target = _dtype(frame, node, args, "view")
    if target.bits != t.bits or "c" in (target.kind, t.kind) or "b" in (target.kind, t.kind):
        frame.fail(node, f"view of {t} as {target}: the sizes differ or it is no number")
    return Rt(Intrinsic("bitcast", (number.expr,), target))


def _is_integer(frame: Frame, node: ast.AST, number: Rt, t: Scalar, args: list[Value]) -> Value | None:
    if args or t.kind not in "iuf":
        return None
    if t.kind in "iu":
        return Rt(Const(True, BOOL), True)
    x = frame.temp(number.expr)
    return operators.compare(frame, node, "eq", Rt(Intrinsic("math.trunc", (x,), t)), Rt(x))


_NUMBER_METHODS: dict[str, ScalarMethod] = {
    "conjugate": _conjugate, "item": _item, "view": _view, "astype": _astype, "is_integer": _is_integer,
}  # fmt: skip
