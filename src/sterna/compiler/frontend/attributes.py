"""Attributes: of arrays, records, structs, numbers and the language's index vectors."""

from __future__ import annotations

import ast
from collections.abc import Callable

from sterna.compiler.frontend.frame import Frame
from sterna.compiler.frontend.promotion import float_type
from sterna.compiler.frontend.values import BoundMethod, Rt, Static, TupleValue, Value, describe, from_expr
from sterna.compiler.ir.nodes import (
    Binary,
    Const,
    Expr,
    Extent,
    FieldRef,
    GetItem,
    HostRef,
    Intrinsic,
    MakeTuple,
    Stride,
    View,
)  # fmt: skip
from sterna.overlays import stub_name
from sterna.types import (
    PYINT,
    ArrayType,
    Field,
    RecordRefType,
    RecordType,
    Scalar,
    StructType,
    TupleType,
    Type,
    field_align,
    itemsize,
    to_dtype,
)  # fmt: skip

__all__ = ["array_field", "attribute", "field_type", "record_field"]

_ARRAY_METHODS = ("reshape", "ravel", "transpose", "view", "item")
_SCALAR_METHODS = ("conjugate", "view", "astype", "item", "is_integer")
_REFUSED_ARRAY = {
    "sum": "write the loop, or use atomics", "copy": "write the loop that copies", "fill": "write the loop",
    "astype": "convert elements: np.float32(a[i])", "min": "write the loop", "max": "write the loop",
    "mean": "write the loop", "flat": "use a.ravel()", "flatten": "use a.ravel()",
}  # fmt: skip


def attribute(frame: Frame, node: ast.AST, value: Value, name: str) -> Value:
    """``value.name``."""
    if isinstance(value, TupleValue) and value.struct is not None and name in value.struct[1]:
        return value.items[value.struct[1].index(name)]
    if isinstance(value, Static):
        found = _static_attribute(frame, node, value, name)
        if found is not None:
            return found
    if isinstance(value, Rt):
        t = value.expr.type
        if isinstance(t, ArrayType):
            return _array_attribute(frame, node, value, t, name)
        if isinstance(t, RecordRefType):
            return record_field(frame, node, value.expr, t, name)
        if isinstance(t, StructType) and name in t.names:
            k = t.names.index(name)
            if isinstance(value.expr, MakeTuple):
                return from_expr(value.expr.items[k])
            return from_expr(GetItem(value.expr, k, t.items[k]))
        if isinstance(t, Scalar):
            return _scalar_attribute(frame, node, value, t, name)
        if isinstance(t, TupleType):
            frame.fail(node, f"a tuple has no attribute {name!r} in device code", "index it")
    frame.fail(node, f"{describe(value)} has no attribute {name!r} in device code", _attribute_hint(value))


def _attribute_hint(value: Value) -> str:
    if isinstance(value, Rt) and str(value.expr.type) == "object":
        return "attributes of host objects are unknown on the device; pass the number itself as an argument"
    return ""


def _static_attribute(frame: Frame, node: ast.AST, value: Static, name: str) -> Value | None:
    from sterna.compiler.frontend.hostcode import is_leak, leak
    from sterna.compiler.frontend.rules import operation_of
    from sterna.compiler.frontend.rules.dtypes import static_attribute
    from sterna.compiler.frontend.rules.language import component

    part = component(operation_of(frame, value) or stub_name(value.value), name)
    if part is not None and is_leak(frame, value):
        known = part
        return leak(frame, node, value, lambda: known, f".{name}")
    if part is not None:
        return part
    found = static_attribute(value.value, name)
    if found is not None:
        return found
    shown = getattr(value.value, "__name__", type(value.value).__name__)
    if isinstance(value.value, type):
        frame.unsupported(
            node, f"attribute {name!r} of class {shown} cannot be used in device code",
            "bind it to a global name first: NAME = Class.attribute",
        )  # fmt: skip
    if isinstance(value.value, type(ast)):
        frame.fail(node, f"module {shown} has no attribute {name!r}, or it is not known to device code")
    return None


# ---- arrays ----


def _array_attribute(frame: Frame, node: ast.AST, value: Rt, t: ArrayType, name: str) -> Value:
    fact = _ARRAY_FACTS.get(name)
    if fact is not None:
        return fact(t)
    part = _ARRAY_PARTS.get(name)
    if part is not None or name in _ARRAY_METHODS:
        stable = frame.stable(value)
        assert isinstance(stable, Rt)
        return part(stable.expr, t) if part is not None else BoundMethod(stable, name)
    if name in ("real", "imag"):
        return _complex_part(frame, node, value.expr, t, name)
    if isinstance(t.dtype, RecordType):
        frame.fail(node, f"a structured array has no attribute {name!r}", f"use a[{name!r}] or a[i].{name}")
    if name in _REFUSED_ARRAY:
        frame.unsupported(node, f"array.{name} cannot be used in device code", _REFUSED_ARRAY[name])
    frame.fail(node, f"arrays have no attribute {name!r} in device code", "known: shape, size, ndim, strides, dtype, T")


def _size(expr: Expr, t: ArrayType, factor: int = 1) -> Value:
    parts: list[Expr] = [extent(expr, axis).expr for axis in range(t.ndim)]
    return Rt(_product([*parts, *([Const(factor, PYINT)] if factor != 1 else [])]), False, True)


_ARRAY_FACTS: dict[str, Callable[[ArrayType], Value]] = {
    "ndim": lambda t: Rt(Const(t.ndim, PYINT), False, True),
    "dtype": lambda t: Static(to_dtype(t.dtype)),
    "itemsize": lambda t: Rt(Const(itemsize(t.dtype), PYINT), False, True),
}
"""Attributes that the type says."""
_ARRAY_PARTS: dict[str, Callable[[Expr, ArrayType], Value]] = {
    "shape": lambda expr, t: TupleValue(tuple(extent(expr, axis) for axis in range(t.ndim))),
    "strides": lambda expr, t: TupleValue(tuple(Rt(Stride(expr, axis)) for axis in range(t.ndim))),
    "T": lambda expr, t: Rt(_transposed(expr, t, tuple(reversed(range(t.ndim))))),
    "size": _size,
    "nbytes": lambda expr, t: _size(expr, t, itemsize(t.dtype)),
}
"""Attributes that are read from the array."""


def extent(expr: Expr, axis: int) -> Rt:
    """Extent of an axis; a constant for shared and local arrays."""
    shape = getattr(expr, "shape", None)
    if isinstance(shape, tuple) and shape and all(isinstance(n, int) for n in shape):
        return Rt(Const(shape[axis], PYINT), False, True)
    return Rt(Extent(expr, axis), False, True)


def _product(parts: list[Expr]) -> Expr:
    constant, result = 1, None
    for part in parts:
        if isinstance(part, Const):
            constant *= part.value
        else:
            result = part if result is None else Binary("mul", result, part, PYINT)
    if result is None:
        return Const(constant, PYINT)
    return result if constant == 1 else Binary("mul", result, Const(constant, PYINT), PYINT)


def _transposed(expr: Expr, t: ArrayType, axes: tuple[int, ...]) -> Expr:
    if axes == tuple(range(t.ndim)):
        return expr
    layout = t.layout
    if axes == tuple(reversed(range(t.ndim))):
        layout = {"C": "F", "F": "C", "A": "A"}[t.layout]  # type: ignore[assignment]
    else:
        layout = "A"
    return View(expr, (), ArrayType(t.dtype, t.ndim, layout, t.readonly, t.space, t.align), None, transpose=axes)


def _complex_part(frame: Frame, node: ast.AST, expr: Expr, t: ArrayType, name: str) -> Value:
    if not isinstance(t.dtype, Scalar):
        frame.fail(node, f"a structured array has no attribute {name!r}")
    if t.dtype.kind != "c":
        if name == "real":
            return Rt(expr)
        frame.unsupported(node, "imag of a real array cannot be used in device code", "it is zero")
    part = Scalar("f", t.dtype.bits // 2)
    return Rt(View(expr, (), ArrayType(part, t.ndim, "A", t.readonly, t.space, t.align), None, field=name))


# ---- records ----


def field_type(field: Field, t: RecordRefType) -> Type:
    """What reading a field gives: a scalar, a reference to a sub-record, or an array on a sub-array."""
    align = field_align(t.record, t.align, field)
    if field.shape:
        assert isinstance(field.type, Scalar | RecordType)
        return ArrayType(field.type, len(field.shape), "C", t.readonly, t.space, align)
    if isinstance(field.type, RecordType):
        return RecordRefType(field.type, t.space, t.readonly, align)
    return field.type


def find_field(frame: Frame, node: ast.AST, record: RecordType, name: str) -> Field:
    """The field called `name`, or an error that lists the fields."""
    for field in record.fields:
        if field.name == name:
            return field
    frame.fail(node, f"the record has no field {name!r}", f"its fields are {', '.join(f.name for f in record.fields)}")


def record_field(frame: Frame, node: ast.AST, expr: Expr, t: RecordRefType, name: str) -> Value:
    """``record.name`` or ``record['name']``."""
    field = find_field(frame, node, t.record, name)
    found = field_type(field, t)
    if isinstance(expr, HostRef) and expr.addend + field.offset:  # at the start the whole record is named
        size = itemsize(field.type) if isinstance(field.type, Scalar | RecordType) else 0
        if isinstance(found, RecordRefType):
            return Rt(HostRef(expr.kind, expr.path, found, expr.addend + field.offset, size))
        if isinstance(found, Scalar):
            # the record reference keeps its own type; addend and extent name the interior place of the field
            inner = RecordType((Field(field.name, field.type, 0),), size)
            place = RecordRefType(inner, t.space, t.readonly, field_align(t.record, t.align, field))
            ref = HostRef(expr.kind, expr.path, place, expr.addend + field.offset, size)
            return Rt(FieldRef(ref, name, found))
    return Rt(FieldRef(expr, name, found))


def array_field(frame: Frame, node: ast.AST, expr: Expr, t: ArrayType, name: str) -> Value:
    """``array['name']``: a view on one field of every record, with the axes of a sub-array field behind its own."""
    assert isinstance(t.dtype, RecordType)
    field = find_field(frame, node, t.dtype, name)
    assert isinstance(field.type, Scalar | RecordType)
    ndim = t.ndim + len(field.shape)
    align = field_align(t.dtype, t.align, field)
    return Rt(View(expr, (), ArrayType(field.type, ndim, "A", t.readonly, t.space, align), None, field=name))


# ---- numbers ----


def _scalar_attribute(frame: Frame, node: ast.AST, value: Rt, t: Scalar, name: str) -> Value:
    part = _SCALAR_PARTS.get(name)
    found = None if part is None else part(frame, node, value, t)
    if found is not None:
        return found
    if name in _SCALAR_METHODS:
        return BoundMethod(frame.stable(value), name)
    frame.fail(node, f"a number ({float_type(t) if t.kind == 'e' else t}) has no attribute {name!r} in device code")


def _real(frame: Frame, node: ast.AST, value: Rt, t: Scalar) -> Value:
    if t.kind == "c":
        return Rt(Intrinsic("complex.real", (value.expr,), Scalar("f", t.bits // 2, t.weak)))
    return Rt(value.expr, value.pybool, value.nonneg)


def _imag(frame: Frame, node: ast.AST, value: Rt, t: Scalar) -> Value:
    if t.kind == "c":
        return Rt(Intrinsic("complex.imag", (value.expr,), Scalar("f", t.bits // 2, t.weak)))
    return Rt(frame.cast(Const(0, PYINT), t, node))


def _dtype(frame: Frame, node: ast.AST, value: Rt, t: Scalar) -> Value | None:
    return None if t.weak else Static(to_dtype(t))


def _value(frame: Frame, node: ast.AST, value: Rt, t: Scalar) -> Value | None:
    """Of a `sterna.Global`."""
    return value if isinstance(value.expr, HostRef) else None


def _itself(frame: Frame, node: ast.AST, value: Rt, t: Scalar) -> Value:
    return value


_SCALAR_PARTS: dict[str, Callable[[Frame, ast.AST, Rt, Scalar], Value | None]] = {
    "real": _real, "imag": _imag, "dtype": _dtype, "value": _value, "T": _itself,
}  # fmt: skip
"""Attribute of a number → its value, or None where this number has none."""
