"""Sterna's own intrinsics, by table name (`sterna.language.names`)."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from sterna.compiler.frontend import operators
from sterna.compiler.frontend.attributes import find_field
from sterna.compiler.frontend.frame import Frame, tuple_items
from sterna.compiler.frontend.promotion import float_type, result_type
from sterna.compiler.frontend.rules import language_rule
from sterna.compiler.frontend.rules.dtypes import element_type
from sterna.compiler.frontend.subscripts import ElementTarget, refuse_readonly, store_target, stored
from sterna.compiler.frontend.values import Rt, Static, TupleValue, Value, describe, static_int
from sterna.compiler.ir.nodes import Atomic, Const, ExprStatement, Intrinsic, LocalArray, SharedArray
from sterna.language.names import VECTORS
from sterna.language.sync import grid_sync
from sterna.types import BFLOAT16, BOOL, NONE, PYINT, UINT32, VOID, ArrayType, RecordRefType, RecordType, Scalar

__all__ = ["component", "plain_value"]


def _component(operation: str) -> Value:
    return Rt(Intrinsic(operation, (), PYINT), False, True)


_VALUES: dict[str, Callable[[], Value]] = {name: partial(_component, name) for name in ("laneid", "warpsize")}
"""Operation → what its plain name is when it is read."""
_COMPONENTS: dict[str, Callable[[], Value]] = {
    **{f"{name}.{axis}": partial(_component, f"{name}.{axis}") for name in VECTORS for axis in "xyz"},
    "grid.sync": lambda: Static(grid_sync),
}
"""Operation and attribute → what the attribute is."""


def component(operation: str, name: str) -> Value | None:
    """``threadIdx.x`` and its like."""
    found = _COMPONENTS.get(f"{operation}.{name}")
    return None if found is None else found()


def plain_value(operation: str) -> Value | None:
    """``laneid`` and ``warpsize``, read by their plain names."""
    found = _VALUES.get(operation)
    return None if found is None else found()


def _static_count(frame: Frame, node: ast.AST, value: Value, shown: str) -> int:
    ndim = static_int(value)
    if ndim not in (1, 2, 3):
        frame.fail(node, f"{shown} needs a constant 1, 2 or 3, this is {describe(value)}")
    assert ndim is not None
    if frame.build.options.over and ndim != frame.build.options.over:
        frame.fail(
            node, f"{shown}({ndim}) in a launch over {frame.build.options.over} axes",
            f"{shown}({frame.build.options.over})",
        )  # fmt: skip
    return ndim


def _components(frame: Frame, node: ast.AST, args: list[Value], name: str, shown: str) -> Value:
    ndim = _static_count(frame, node, args[0], shown)
    items = tuple(Rt(Intrinsic(f"{name}.{k}", (), PYINT, (ndim,)), False, True) for k in range(ndim))
    return items[0] if ndim == 1 else TupleValue(items)


@language_rule("grid", 1)
def _grid(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    return _components(frame, node, args, "grid_index", "grid")


@language_rule("gridsize", 1)
def _gridsize(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    return _components(frame, node, args, "grid_size", "gridsize")


# ---- synchronisation ----


def _effect(frame: Frame, name: str, args: tuple[Any, ...] = ()) -> Value:
    frame.out.append(ExprStatement(Intrinsic(name, args, VOID), frame.line))
    return Rt(Const(None, NONE))


def _register_plain(name: str) -> None:
    @language_rule(name, 0)
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        return _effect(frame, name)


for _name in ("syncthreads", "threadfence", "threadfence_block", "threadfence_system"):
    _register_plain(_name)


def _register_vote(name: str) -> None:
    @language_rule(name, 1)
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        predicate = operators.truth(frame, args[0], node)
        return Rt(frame.temp(Intrinsic(name, (predicate,), PYINT)), False, True)


for _name in ("syncthreads_count", "syncthreads_and", "syncthreads_or"):
    _register_vote(_name)


@language_rule("grid_sync", 0)
def _grid_sync(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    if not frame.build.options.cooperative:
        frame.fail(node, "grid.sync() needs a cooperative launch", "@sterna.kernel(cooperative=True)")
    frame.raises = True  # it leaves when a thread of the grid has failed
    return _effect(frame, "grid_sync")


@language_rule("syncwarp", 0, 1)
def _syncwarp(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    mask = _mask(frame, node, args[0]) if args else Const(0xFFFFFFFF, UINT32)
    return _effect(frame, "syncwarp", (mask,))


# ---- warp ----


def _mask(frame: Frame, node: ast.AST, value: Value) -> Any:
    number = operators.scalar(frame, value, node, "the mask")
    if number.expr == Const(-1, PYINT):
        return Const(0xFFFFFFFF, UINT32)
    t = number.expr.type
    if not isinstance(t, Scalar) or t.kind not in "iu":
        frame.fail(node, f"the mask must be an integer, this is {describe(value)}", "0xffffffff names all lanes")
    return frame.cast(number.expr, UINT32, node)


def _lane_value(frame: Frame, node: ast.AST, value: Value) -> tuple[Any, Scalar]:
    number = operators.scalar(frame, value, node, "a warp operation")
    t = number.expr.type
    assert isinstance(t, Scalar)
    expr = number.expr
    if number.pybool:
        return frame.cast(expr, PYINT, node), PYINT
    if t == BFLOAT16:
        t = float_type(t)
    return frame.cast(expr, t, node), t


def _int_arg(frame: Frame, node: ast.AST, value: Value) -> Any:
    number = operators.scalar(frame, value, node, "a lane")
    t = number.expr.type
    if not isinstance(t, Scalar) or t.kind not in "iu":
        frame.fail(node, f"a lane must be an integer, this is {describe(value)}")
    return frame.cast(number.expr, PYINT, node)


def _register_shuffle(name: str) -> None:
    @language_rule(name, 3)
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        expr, t = _lane_value(frame, node, args[1])
        lane = _int_arg(frame, node, args[2])
        return Rt(frame.temp(Intrinsic(name, (_mask(frame, node, args[0]), expr, lane), t)))


for _name in ("shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync"):
    _register_shuffle(_name)


def _register_ballot(name: str, t: Scalar) -> None:
    @language_rule(name, 2)
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        predicate = operators.truth(frame, args[1], node)
        return Rt(frame.temp(Intrinsic(name, (_mask(frame, node, args[0]), predicate), t)))


for _name, _t in (("ballot_sync", UINT32), ("any_sync", BOOL), ("all_sync", BOOL), ("eq_sync", BOOL)):
    _register_ballot(_name, _t)


@language_rule("match_any_sync", 2)
def _match_any(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    expr, _ = _lane_value(frame, node, args[1])
    return Rt(frame.temp(Intrinsic("match_any_sync", (_mask(frame, node, args[0]), expr), UINT32)))


@language_rule("match_all_sync", 2)
def _match_all(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    expr, _ = _lane_value(frame, node, args[1])
    operand = (_mask(frame, node, args[0]), frame.temp(expr))
    mask = frame.temp(Intrinsic("match_all_sync.mask", operand, UINT32))
    return TupleValue((Rt(mask), Rt(frame.temp(Intrinsic("match_all_sync.pred", operand, BOOL)))))


def _register_lanes(name: str) -> None:
    @language_rule(name, 0)
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        expr = Intrinsic(name, (), UINT32)
        return Rt(frame.temp(expr) if name == "activemask" else expr)


for _name in ("activemask", "lanemask_lt"):
    _register_lanes(_name)


def _register_reduction(name: str) -> None:
    @language_rule(name, 2)
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        expr, t = _lane_value(frame, node, args[1])
        if t.kind not in "iu":
            frame.fail(node, f"{name} needs an integer, this is {t}", "reduce floats with shfl_down_sync")
        return Rt(frame.temp(Intrinsic(name, (_mask(frame, node, args[0]), expr), t)))


for _name in ("add", "min", "max", "and", "or", "xor"):
    _register_reduction(f"reduce_{_name}_sync")


# ---- memory ----


def _shape(frame: Frame, node: ast.AST, value: Value, shown: str) -> tuple[int, ...]:
    items = tuple_items(frame, value, node)
    parts = (value,) if items is None else items
    extents = [static_int(part) for part in parts]
    if any(n is None for n in extents):
        frame.fail(
            node, f"{shown} needs a constant shape, this is {describe(value)}",
            "use a literal or a captured constant; shared.array(0, dtype) is the launch's dynamic shared memory",
        )  # fmt: skip
    if any(n is not None and n < 0 for n in extents) or not extents:
        frame.fail(node, f"{shown} needs positive extents, given {tuple(extents)}")
    return tuple(n for n in extents if n is not None)


def _dtype(frame: Frame, node: ast.AST, value: Value, shown: str) -> Scalar | RecordType:
    found = element_type(value.value) if isinstance(value, Static) else None
    if found is None:
        frame.fail(node, f"{shown} needs a dtype, this is {describe(value)}", "np.float32, sterna.int32, …")
    frame.build.allow(found, frame.place, node, shown)
    return found


@language_rule("shared.array", 2)
def _shared(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    shape = _shape(frame, node, args[0], "shared.array")
    dtype = _dtype(frame, node, args[1], "shared.array")
    if shape == (0,):
        return Rt(SharedArray("dynamic", (), ArrayType(dtype, 1, "C", False, "shared")))
    if 0 in shape:
        frame.fail(node, f"shared.array of shape {shape} has no elements", "0 alone is the dynamic shared memory")
    name = frame.array_name(node, "shared")
    return Rt(SharedArray(name, shape, ArrayType(dtype, len(shape), "C", False, "shared")))


@language_rule("local.array", 2)
def _local(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    shape = _shape(frame, node, args[0], "local.array")
    dtype = _dtype(frame, node, args[1], "local.array")
    if 0 in shape:
        frame.fail(node, f"local.array of shape {shape} has no elements")
    name = frame.array_name(node, "local")
    return Rt(LocalArray(name, shape, ArrayType(dtype, len(shape), "C", False, "local")))


_ATOMIC = {"add": "add", "sub": "sub", "max": "max", "min": "min", "and_": "and", "or_": "or", "xor": "xor",
           "inc": "inc", "dec": "dec", "exch": "exch", "cas": "cas"}  # fmt: skip
_INTEGER_ATOMICS = {"and", "or", "xor", "inc", "dec"}


def _register_atomic(table: str, op: str) -> None:
    shown = f"atomic.{table}"
    most = 4 if op == "cas" else 3

    @language_rule(shown, most)
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        array = args[0]
        if not (isinstance(array, Rt) and isinstance(array.expr.type, ArrayType | RecordRefType)):
            frame.fail(node, f"{shown} needs an array, this is {describe(array)}", f"{shown}(a, i, value)")
        if isinstance(array.expr.type, RecordRefType):
            return _field_atomic(frame, node, shown, op, array, args)
        items = tuple_items(frame, args[1], node)
        parts: list[Any] = [args[1]] if items is None else list(items)
        target = _target(frame, node, array, parts)
        t = _check_atomic(frame, node, shown, op, target.type)
        values = tuple(stored(frame, node, value, t) for value in args[2:])
        return Rt(Atomic(op, target.array, target.indices, values, t, target.check))


def _target(frame: Frame, node: ast.AST, array: Rt, parts: list[Any]) -> ElementTarget:
    place = ast.copy_location(ast.Subscript(ast.Constant(None), ast.Constant(None), ast.Store()), node)
    target = store_target(frame, place, array, parts)
    assert isinstance(target, ElementTarget)
    return target


def _field_atomic(frame: Frame, node: ast.AST, shown: str, op: str, record: Rt, args: list[Value]) -> Value:
    """``atomic.add(records[i], 'x', value)``: on a field of one record."""
    t, name = record.expr.type, args[1]
    assert isinstance(t, RecordRefType)
    if not (isinstance(name, Static) and isinstance(name.value, str)):
        fields = ", ".join(f.name for f in t.record.fields)
        frame.fail(node, f"{shown} on a record needs the name of a field", f"its fields are {fields}")
    field = find_field(frame, node, t.record, name.value)
    if not isinstance(field.type, Scalar) or field.shape:
        frame.fail(node, f"{shown} needs a field that holds one number, {field.name} does not")
    if t.readonly:
        refuse_readonly(frame, node, "record")
    _check_atomic(frame, node, shown, op, field.type)
    values = tuple(stored(frame, node, value, field.type) for value in args[2:])
    return Rt(Atomic(op, record.expr, (), values, field.type, None, field.name))


def _check_atomic(frame: Frame, node: ast.AST, shown: str, op: str, t: Any) -> Scalar:
    if not isinstance(t, Scalar) or t.bits not in (32, 64) or t.kind not in "iuf":
        frame.fail(node, f"{shown} works on (u)int32, (u)int64, float32 and float64, this array holds {t}")
    if op in _INTEGER_ATOMICS and t.kind == "f":
        frame.fail(node, f"{shown} needs integers, this array holds {t}")
    return t


for _table, _op in _ATOMIC.items():
    _register_atomic(_table, _op)


# ---- bits and numbers ----


def _integer(frame: Frame, node: ast.AST, value: Value, shown: str) -> tuple[Any, Scalar]:
    number = operators.scalar(frame, value, node, shown)
    t = number.expr.type
    assert isinstance(t, Scalar)
    if number.pybool:
        return frame.cast(number.expr, PYINT, node), PYINT
    if t.kind not in "iu":
        frame.fail(node, f"{shown} needs an integer, this is {t}")
    return frame.cast(number.expr, t, node), t


def _register_bits(name: str, same: bool) -> None:
    @language_rule(name, 1)
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        expr, t = _integer(frame, node, args[0], name)
        return Rt(Intrinsic(name, (expr,), t if same else PYINT), False, not same or t.kind == "u")


for _name, _same in (("popc", False), ("clz", False), ("ffs", False), ("brev", True)):
    _register_bits(_name, _same)


@language_rule("mul_hi", 2)
def _mul_hi(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    (x, tx), (y, ty) = (_integer(frame, node, arg, "mul_hi") for arg in args)
    t = result_type(tx, ty)
    if t.kind not in "iu":
        frame.fail(node, f"mul_hi has no common integer type for {tx} and {ty}", "convert one of them")
    return Rt(Intrinsic("mul_hi", (frame.cast(x, t, node), frame.cast(y, t, node)), t))


def _register_floating(name: str, count: int) -> None:
    @language_rule(name, count)
    def typing(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
        numbers = [operators.scalar(frame, arg, node, name) for arg in args]
        types = [n.expr.type for n in numbers]
        t = types[0]
        assert isinstance(t, Scalar)
        for other in types[1:]:
            assert isinstance(other, Scalar)
            t = result_type(t, other)
        t = float_type(t) if t.kind != "b" else Scalar("f", 64)
        if t.kind == "c":
            frame.fail(node, f"{name} needs real numbers")
        return Rt(Intrinsic(f"math.{name}", tuple(frame.cast(n.expr, t, node) for n in numbers), t))


for _name, _count in (("fma", 3), ("rsqrt", 1), ("cbrt", 1)):
    _register_floating(_name, _count)


@language_rule("selp", 3)
def _selp(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    from sterna.compiler.frontend.expressions import conditional

    test, a, b = frame.stable(args[0]), frame.stable(args[1]), frame.stable(args[2])
    numbers = [operators.scalar(frame, value, node, "selp") for value in (a, b)]
    types = [n.expr.type for n in numbers]
    t = types[0] if types[0] == types[1] else result_type(types[0], types[1])
    assert isinstance(t, Scalar)
    sides = [Rt(frame.cast(n.expr, t, node), n.pybool) for n in numbers]
    return conditional(frame, operators.truth(frame, test, node), lambda: sides[0], lambda: sides[1], node)


@language_rule("inbounds", 0)
def _inbounds(frame: Frame, node: ast.AST, args: list[Value]) -> Value:
    frame.fail(node, "inbounds() is for `with inbounds():` only")
