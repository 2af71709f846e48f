"""Indexing: elements, views by slicing, fields, items of tuples; reading, and the targets of stores.

Indices may be negative (counted from the end) and are checked unless checks are off.  A slice gives a view with
Python's clamping; no array is ever copied.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import NoReturn

from sterna.compiler.frontend.attributes import array_field, extent, field_type, find_field, record_field
from sterna.compiler.frontend.frame import Frame, tuple_items
from sterna.compiler.frontend.values import (
    RangeValue,
    Rt,
    Static,
    TupleValue,
    Value,
    describe,
    is_none,
    items_of,
    plain_number,
    static_int,
)  # fmt: skip
from sterna.compiler.ir.nodes import (
    Binary,
    Cast,
    Compare,
    Const,
    Element,
    Expr,
    FieldRef,
    HostRef,
    NewAxis,
    SliceAxis,
    Store,
    StoreField,
    View,
)  # fmt: skip
from sterna.frozen import frozen
from sterna.types import (
    OPAQUE,
    PYINT,
    TYPE_TAG,
    UINT64,
    ArrayType,
    Layout,
    RecordRefType,
    RecordType,
    Scalar,
    Type,
    itemsize,
)  # fmt: skip

__all__ = [
    "ElementTarget", "FieldTarget", "element", "index_values", "refuse_readonly", "store_target", "subscript",
]  # fmt: skip

Index = Rt | SliceAxis | NewAxis


@frozen
class ElementTarget:
    """``array[indices]`` as the target of a store."""

    array: Expr
    indices: tuple[Expr, ...]
    type: Type
    check: int | None
    nonnegative: bool


@frozen
class FieldTarget:
    """``record.name`` as the target of a store."""

    record: Expr
    name: str
    type: Type


Target = ElementTarget | FieldTarget


def subscript(frame: Frame, node: ast.Subscript) -> Value:
    """``value[index]`` being read."""
    from sterna.compiler.frontend.expressions import expression

    value = expression(frame, node.value)
    if isinstance(value, Rt) and isinstance(value.expr.type, ArrayType | RecordRefType):
        mark, walrus = len(frame.out), frame.walrus
        parts = _index_parts(frame, node.slice)
        if len(frame.out) > mark:
            value = frame.spill([value], mark, walrus)[0]
            assert isinstance(value, Rt)
        return index_values(frame, node, value, parts)
    return _item(frame, node, value)


def _item(frame: Frame, node: ast.Subscript, value: Value) -> Value:
    """An item or slice of a tuple, range or string, by a constant index."""
    from sterna.compiler.frontend.expressions import expression

    items = tuple_items(frame, value, node)
    if isinstance(value, TupleValue) and value.struct is not None and not value.struct[2]:
        frame.fail(node, f"dataclass {value.struct[0]} cannot be indexed", "read its fields by name")
    if isinstance(node.slice, ast.Slice):
        bounds = [
            None if b is None else expression(frame, b) for b in (node.slice.lower, node.slice.upper, node.slice.step)
        ]
        known = [None if b is None else static_int(b) for b in bounds]
        if items is not None and all(b is None or k is not None for b, k in zip(bounds, known, strict=True)):
            return TupleValue(items[slice(*known)])
        frame.unsupported(node, f"a slice of {describe(value)} needs constant bounds")
    index = expression(frame, node.slice)
    if isinstance(value, RangeValue):
        from sterna.compiler.frontend.iteration import range_item

        return range_item(frame, node, value, index)
    k = static_int(index)
    if isinstance(value, Static) and isinstance(value.value, str) and k is not None:
        if -len(value.value) <= k < len(value.value):
            return Static(value.value[k])
        frame.fail(node, "string index out of range")
    if items is None:
        frame.fail(node, f"{describe(value)} cannot be indexed")
    if k is None:
        return _dynamic_item(frame, node, items, index)
    if not -len(items) <= k < len(items):
        frame.fail(node, f"index {k} is out of range: the tuple has {len(items)} items")
    return items[k]


def _dynamic_item(frame: Frame, node: ast.AST, items: tuple[Value, ...], index: Value) -> Value:
    """``tuple[i]`` for an index known at run time only: all items of one type, chosen by comparing."""
    from sterna.compiler.frontend import operators
    from sterna.compiler.frontend.expressions import conditional

    i = frame.stable(_as_index(frame, node, index))
    assert isinstance(i, Rt)
    n = len(items)
    kept = [frame.stable(item) for item in items]
    low, high = Const(-n, PYINT), Const(n, PYINT)
    below = operators.compare(frame, node, "lt", i, Rt(low)).expr
    above = operators.compare(frame, node, "ge", i, Rt(high)).expr
    frame.check(Binary("or", below, above, below.type), "IndexError", "tuple index out of range")
    wrapped = i if i.nonneg else frame.stable(operators.binary(frame, node, "mod", i, Rt(high)))

    def choose(k: int) -> Value:
        if k == n - 1:
            return kept[k]
        test = operators.compare(frame, node, "eq", wrapped, Rt(Const(k, PYINT))).expr
        return conditional(frame, test, lambda: kept[k], lambda: choose(k + 1), node)

    if not items:
        frame.fail(node, "the tuple is empty")
    return choose(0)


# ---- arrays ----


def _index_parts(frame: Frame, node: ast.expr) -> list[Value | SliceAxis | None]:
    """The parts of an index, in order: values, slices, None for an ellipsis."""
    nodes = node.elts if isinstance(node, ast.Tuple) else [node]
    parts: list[Value | SliceAxis | None] = []
    flat: list[ast.expr] = []
    for part in nodes:
        if isinstance(part, ast.Slice):
            flat.extend(b for b in (part.lower, part.upper, part.step) if b is not None)
        elif not _is_ellipsis(part):
            flat.append(part.value if isinstance(part, ast.Starred) else part)
    from sterna.compiler.frontend.expressions import operands

    values = iter(operands(frame, flat))
    for part in nodes:
        if isinstance(part, ast.Slice):
            bounds = [
                None if b is None else _bound(frame, b, next(values)) for b in (part.lower, part.upper, part.step)
            ]
            parts.append(SliceAxis(*bounds))
        elif _is_ellipsis(part):
            parts.append(None)
        else:
            value = next(values)
            items = tuple_items(frame, value, part)
            if items is not None:
                parts.extend(items)
            else:
                parts.append(value)
    return parts


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _bound(frame: Frame, node: ast.expr, value: Value) -> Expr | None:
    return None if is_none(value) else _as_index(frame, node, value).expr


_MOST = 2**63 - 1


def _as_index(frame: Frame, node: ast.AST, value: Value) -> Rt:
    """An index as int."""
    if isinstance(value, Rt) and isinstance(value.expr.type, Scalar):
        t = value.expr.type
        if t.kind in "iu":
            nonneg = value.nonneg or t.kind == "u"
            expr = frame.cast(_saturated(value.expr, t), PYINT, node)
            return Rt(expr, False, nonneg or (isinstance(expr, Const) and expr.value >= 0))
        if t.kind == "b" and value.pybool:
            frame.fail(node, "a bool is no index", "write int(x)")
        frame.fail(node, f"an index must be an integer, this is {describe(value)}", "convert with int(…)")
    frame.fail(node, f"an index must be an integer, this is {describe(value)}")


def _saturated(expr: Expr, t: Scalar) -> Expr:
    """A uint64 as far as an int goes: what lies above is out of every range, and no negative index."""
    if t.kind != "u" or t.bits < 64:
        return expr
    if isinstance(expr, Const):
        return Const(min(expr.value, _MOST), t)
    return Binary("min", expr, Const(_MOST, t), t)


def index_values(frame: Frame, node: ast.AST, value: Rt, parts: list[Value | SliceAxis | None]) -> Value:
    """``array[parts]``: an element, a view, a field."""
    t = value.expr.type
    if len(parts) == 1 and isinstance(parts[0], Static) and isinstance(parts[0].value, str):
        if isinstance(t, RecordRefType):
            return record_field(frame, node, value.expr, t, parts[0].value)
        assert isinstance(t, ArrayType)
        if not isinstance(t.dtype, RecordType):
            frame.fail(node, "only structured arrays are indexed by a field's name")
        if t.ndim == 0 and isinstance(value.expr, HostRef):  # a captured record: its field is a place inside it
            whole = RecordRefType(t.dtype, t.space, t.readonly, t.align)
            record = replace(value.expr, type=whole, extent=t.dtype.itemsize)
            return record_field(frame, node, record, whole, parts[0].value)
        return array_field(frame, node, value.expr, t, parts[0].value)
    if isinstance(t, RecordRefType):
        return _record_item(frame, node, value, t, parts)
    assert isinstance(t, ArrayType)
    full = _complete(frame, node, t, parts)
    if all(isinstance(part, Rt) for part in full):
        return element(frame, node, value.expr, t, [part for part in full if isinstance(part, Rt)])
    return _view(frame, node, value.expr, t, full)


def _record_item(
    frame: Frame, node: ast.AST, value: Rt, t: RecordRefType, parts: list[Value | SliceAxis | None]
) -> Value:
    k = static_int(parts[0]) if len(parts) == 1 and isinstance(parts[0], Rt) else None
    if k is None or not -len(t.record.fields) <= k < len(t.record.fields):
        frame.fail(node, "a record is indexed by the name of a field", "use r.x or r['x']")
    return record_field(frame, node, value.expr, t, t.record.fields[k].name)


def _complete(frame: Frame, node: ast.AST, t: ArrayType, parts: list[Value | SliceAxis | None]) -> list[Index]:
    """Every axis accounted for: the ellipsis and missing axes as full slices."""
    given = sum(1 for p in parts if p is not None and not is_none_part(p))
    if given > t.ndim:
        frame.fail(node, f"{given} indices for a {t.ndim}-D array", "give one index per axis")
    if sum(1 for p in parts if p is None) > 1:
        frame.fail(node, "an index can only have a single ellipsis ('...')")
    fill: list[Index] = [SliceAxis(None, None, None)] * (t.ndim - given)
    full: list[Index] = []
    seen = False
    for part in parts:
        if part is None:
            full.extend(fill)
            seen = True
        elif isinstance(part, SliceAxis):
            full.append(part)
        elif is_none_part(part):
            full.append(NewAxis())
        else:
            full.append(_as_index(frame, node, _not_array(frame, node, part)))
    return full if seen else full + fill


def is_none_part(part: Value | SliceAxis) -> bool:
    """Whether an index part is None (a new axis)."""
    return not isinstance(part, SliceAxis) and is_none(part)


def _not_array(frame: Frame, node: ast.AST, value: Value) -> Value:
    if isinstance(value, Rt) and isinstance(value.expr.type, ArrayType):
        frame.unsupported(node, "an array cannot be indexed by an array in device code", "loop over the indices")
    return value


def element(frame: Frame, node: ast.AST, array: Expr, t: ArrayType, indices: list[Rt]) -> Value:
    """``array[i, j]`` of all axes."""
    interior = _interior_record(frame, node, array, t, indices)
    if interior is not None:
        return Rt(interior)
    check, exprs, nonneg = _access(frame, node, array, t, indices)
    found: Type = t.dtype if isinstance(t.dtype, Scalar) else RecordRefType(t.dtype, t.space, t.readonly, t.align)
    return Rt(Element(array, exprs, found, check, nonneg))


def _access(
    frame: Frame, node: ast.AST, array: Expr, t: ArrayType, indices: list[Rt]
) -> tuple[int | None, tuple[Expr, ...], bool]:
    """Error index, index expressions, and whether none can be negative; constants are checked here if possible."""
    exprs = tuple(index.expr for index in indices)
    nonneg = all(index.nonneg for index in indices)
    known = True
    for axis, index in enumerate(exprs):
        n = extent(array, axis).expr
        if isinstance(index, Const) and isinstance(n, Const):
            if not -n.value <= index.value < n.value:
                frame.fail(node, f"index {index.value} is out of bounds for axis {axis} with size {n.value}")
        else:
            known = False
    return (None if known else frame.index_check()), exprs, nonneg


def _interior_record(frame: Frame, node: ast.AST, array: Expr, t: ArrayType, indices: list[Rt]) -> HostRef | None:
    """``TABLE[3]`` of a captured C-ordered array of records with constant indices: a host reference inside it."""
    if not (isinstance(array, HostRef) and isinstance(t.dtype, RecordType) and t.layout == "C"):
        return None
    if t.ndim > 1 or any(not isinstance(i.expr, Const) or i.expr.value < 0 for i in indices):
        return None
    size = itemsize(t.dtype)
    k = sum(i.expr.value for i in indices if isinstance(i.expr, Const))
    if array.addend + k * size == 0 and t.ndim:
        return None  # the start of the array is no place inside it
    record = RecordRefType(t.dtype, t.space, t.readonly, t.align)
    return replace(array, type=record, addend=array.addend + k * size, extent=size)


def _view(frame: Frame, node: ast.AST, array: Expr, t: ArrayType, parts: list[Index]) -> Value:
    parts = [_checked_step(frame, node, part) if isinstance(part, SliceAxis) else part for part in parts]
    array, parts = _interior_slice(array, t, parts)
    if parts == [_FULL]:
        return Rt(array)
    items = [part.expr if isinstance(part, Rt) else part for part in parts]
    ndim = sum(not isinstance(part, Rt) for part in parts)
    view = ArrayType(t.dtype, ndim, _view_layout(t, parts), t.readonly, t.space, t.align)
    check = frame.index_check() if any(isinstance(part, Rt) for part in parts) else None
    return Rt(View(array, tuple(items), view, check))


def _checked_step(frame: Frame, node: ast.AST, part: SliceAxis) -> SliceAxis:
    """A slice whose step is not zero."""
    if part.step is None:
        return part
    if isinstance(part.step, Const):
        if part.step.value == 0:
            frame.fail(node, "slice step cannot be zero")
        return part
    step = frame.temp(part.step)
    frame.check(Compare("eq", step, Const(0, PYINT)), "ValueError", "slice step cannot be zero")
    return replace(part, step=step)


_FULL = SliceAxis(None, None, None)


def _is_full(part: Index) -> bool:
    return isinstance(part, SliceAxis) and part.start is None and part.stop is None and part.step is None


def _view_layout(t: ArrayType, parts: list[Index]) -> Layout:
    """``C`` where the view certainly stays contiguous: leading integers, one slice with step 1, full slices."""
    if t.layout != "C" or any(isinstance(part, NewAxis) for part in parts):
        return "A"
    k = 0
    while k < len(parts) and isinstance(parts[k], Rt):
        k += 1
    if k < len(parts):
        part = parts[k]
        step = part.step if isinstance(part, SliceAxis) else None
        if not (step is None or (isinstance(step, Const) and step.value == 1)):
            return "A"
    return "C" if all(_is_full(part) for part in parts[k + 1 :]) else "A"


def _interior_slice(array: Expr, t: ArrayType, parts: list[Index]) -> tuple[Expr, list[Index]]:
    """``TABLE[4:]`` and ``TABLE[4:9]`` of a captured 1-D C-ordered array: a host reference with an addend,
    and what is left of the slice."""
    part = parts[0] if len(parts) == 1 else None
    if not (isinstance(array, HostRef) and t.ndim == 1 and t.layout == "C" and isinstance(part, SliceAxis)):
        return array, parts
    start, stop = part.start, part.stop
    if part.step not in (None, Const(1, PYINT)) or not (isinstance(start, Const) and start.value > 0):
        return array, parts
    if stop is not None and not (isinstance(stop, Const) and stop.value >= 0):
        return array, parts
    inside = replace(array, addend=array.addend + start.value * itemsize(t.dtype), extent=0)
    if stop is None:
        return inside, [_FULL]
    return inside, [SliceAxis(None, Const(max(stop.value - start.value, 0), PYINT), None)]


# ---- targets ----


def store_target(
    frame: Frame, node: ast.Subscript | ast.Attribute, base: Value, parts: list[Value | SliceAxis | None]
) -> Target:
    """What ``base[parts] = …`` or ``base.name = …`` writes to."""
    if isinstance(base, Rt) and isinstance(base.expr.type, RecordRefType):
        name = node.attr if isinstance(node, ast.Attribute) else _field_name(frame, node, base.expr.type, parts)
        return _field_target(frame, node, base.expr, base.expr.type, name)
    if isinstance(node, ast.Attribute):
        what = describe(base)
        frame.fail(
            node,
            f"attribute {node.attr!r} of {what} cannot be assigned in device code",
            "tuples and structs are values: build a new one",
        )
    if not (isinstance(base, Rt) and isinstance(base.expr.type, ArrayType)):
        hint = "build a new tuple" if items_of(base) is not None else ""
        frame.fail(node, f"items of {describe(base)} cannot be assigned", hint)
    t = base.expr.type
    if t.readonly:
        refuse_readonly(frame, node, "array")
    full = _complete(frame, node, t, parts)
    if not all(isinstance(part, Rt) for part in full):
        frame.unsupported(
            node, "a slice of an array cannot be assigned in device code", "write the loop over its elements"
        )
    if isinstance(t.dtype, RecordType):
        frame.unsupported(node, "a whole record cannot be assigned in device code", "assign its fields: a[i].x = …")
    check, exprs, nonneg = _access(frame, node, base.expr, t, [p for p in full if isinstance(p, Rt)])
    return ElementTarget(base.expr, exprs, t.dtype, check, nonneg)


def refuse_readonly(frame: Frame, node: ast.AST, what: str) -> NoReturn:
    """The error of a write to an array, or a record of one, that may not be written."""
    frame.fail(
        node,
        f"this {what} is read-only",
        "capture a sterna.Array, or pass a writeable array as an argument (captured NumPy arrays are read-only, "
        "and arguments whose flags.writeable is False)",
    )


def _field_name(frame: Frame, node: ast.AST, t: RecordRefType, parts: list[Value | SliceAxis | None]) -> str:
    part = parts[0] if len(parts) == 1 else None
    if isinstance(part, Static) and isinstance(part.value, str):
        return part.value
    frame.fail(
        node,
        "a record is indexed by the name of a field",
        f"its fields are {', '.join(f.name for f in t.record.fields)}",
    )


def _field_target(frame: Frame, node: ast.AST, record: Expr, t: RecordRefType, name: str) -> FieldTarget:
    found = field_type(find_field(frame, node, t.record, name), t)
    if t.readonly:
        refuse_readonly(frame, node, "record")
    if not isinstance(found, Scalar):
        frame.unsupported(
            node, f"field {name!r} holds several values and cannot be assigned at once", "assign its parts"
        )
    return FieldTarget(record, name, found)


def load_target(target: Target) -> Value:
    """The value that a store's target holds now (its parts must be stable)."""
    if isinstance(target, FieldTarget):
        return Rt(FieldRef(target.record, target.name, target.type))
    return Rt(Element(target.array, target.indices, target.type, target.check, target.nonnegative))


def store(frame: Frame, node: ast.AST, target: Target, value: Value) -> None:
    """Store `value`, converted to the target's type."""
    assert isinstance(target.type, Scalar)
    expr = stored(frame, node, value, target.type)
    if isinstance(target, FieldTarget):
        frame.out.append(StoreField(target.record, target.name, expr, frame.line))
    else:
        frame.out.append(Store(target.array, target.indices, expr, target.check, target.nonnegative, frame.line))


def stored(frame: Frame, node: ast.AST, value: Value, t: Scalar) -> Expr:
    """`value` as an element of type `t`: numbers are converted, an object or class gives its word."""
    if isinstance(value, Static):
        word = frame.build.static_expr(frame, value)
        if word is not None:
            value = Rt(word)
    value = plain_number(value)
    if isinstance(value, Rt):
        s = value.expr.type
        if isinstance(s, Scalar):
            if s.kind == "c" and t.kind != "c":
                frame.fail(node, f"a complex number cannot be stored as {t}", "store z.real or abs(z)")
            return frame.cast(value.expr, t, node)
        if s in (OPAQUE, TYPE_TAG):
            if t.kind not in "iu" or t.bits != 64:
                frame.fail(node, f"{describe(value)} is stored as a 64-bit word, not as {t}", "use a uint64 array")
            from sterna.compiler.frontend.operators import word_of

            word = word_of(value.expr)
            return word if t == UINT64 else Cast(word, t)
    frame.fail(node, f"{describe(value)} cannot be stored in an array of {t}")
