"""Atomic read-modify-write of one array element: Metal has them for 32 bits.

The order is relaxed.  Floats, ``inc`` and ``dec`` are loops of compare and swap.  A thread's own memory needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.compiler.codegen.msl import memory
from sterna.compiler.codegen.msl.code import bare
from sterna.compiler.codegen.msl.layout import SPACES, Value, long_literal, register_type
from sterna.compiler.codegen.msl.scalars import binary
from sterna.compiler.ir import nodes as ir
from sterna.errors import UnsupportedError
from sterna.types import ArrayType, RecordRefType, RecordType, Scalar, field_align

if TYPE_CHECKING:
    from sterna.compiler.codegen.msl.emitter import FunctionEmitter

__all__ = ["emit_atomic"]

_FETCH = ("add", "sub", "min", "max", "and", "or", "xor")
_FLOATS = ("add", "sub", "min", "max")


def emit_atomic(e: FunctionEmitter, node: ir.Atomic) -> Value:
    """Emit one atomic operation; gives the old value."""
    t, op = node.type, node.op.rstrip("_")
    array = node.array.type
    assert isinstance(array, ArrayType | RecordRefType)
    if t.bits != 32 or t.kind not in "iuf":
        wanted = "float32" if t.kind == "f" else f"{'u' if t.kind == 'u' else ''}int32"
        raise UnsupportedError(
            f"atomic.{op} on {t}: target metal has atomic operations of 32 bits only", hint=f"an array of {wanted}"
        )
    values = tuple(e.atom(v) for v in node.values)
    if isinstance(array, RecordRefType):
        place = e.one(node.array)
    else:
        place = memory.element_place(e, node)
    if node.field is not None:
        place = _field_place(node, array, place)
    if array.space == "local":
        return (_plain(e, t, op, place, values),)
    where = SPACES[array.space]
    word = f"({where} atomic_uint *){place}"
    if op == "cas":
        expected, new = (_as_word(t, v) for v in values)
        return (_result(e, t, e.helper("atomic_swap_if", word, expected, new)),)
    if op == "exch":
        text = f"atomic_exchange_explicit({word}, {_as_word(t, values[0])}, memory_order_relaxed)"
        return (_result(e, t, text),)
    if t.kind == "f":
        if op not in _FLOATS:
            raise UnsupportedError(f"atomic operation {op!r} on {t}", hint="it needs an integer array")
        return (e.code.temp("float", e.helper(f"atomic_float_{op}", word, values[0])),)
    if op in ("inc", "dec"):
        text = e.helper(f"atomic_{op}rement", word, _as_word(t, values[0]))
        return (_result(e, t, text),)
    if op not in _FETCH:
        raise UnsupportedError(f"atomic operation {op!r} on {t}")
    typed = f"({where} {'atomic_int' if t.kind == 'i' else 'atomic_uint'} *){place}"
    text = f"atomic_fetch_{op}_explicit({typed}, {bare(values[0])}, memory_order_relaxed)"
    return (e.code.temp(register_type(t), text),)


def _field_place(node: ir.Atomic, array: ArrayType | RecordRefType, place: str) -> str:
    record = array.dtype if isinstance(array, ArrayType) else array.record
    assert isinstance(record, RecordType)
    field = next(f for f in record.fields if f.name == node.field)
    if 0 < field_align(record, array.align, field) < 4:
        raise UnsupportedError(
            f"atomic.{node.op} on field {node.field!r}, which may lie at any address",
            hint="a structured dtype with align=True",
        )
    return memory.offset(place, long_literal(field.offset))


def _as_word(t: Scalar, text: str) -> str:
    return text if t.kind == "u" else f"as_type<uint>({text})" if t.kind == "f" else f"uint({bare(text)})"


def _result(e: FunctionEmitter, t: Scalar, word: str) -> str:
    """The old value, from its bits."""
    kind = register_type(t)
    return e.code.temp(kind, word if t.kind == "u" else f"as_type<{kind}>({word})")


def _plain(e: FunctionEmitter, t: Scalar, op: str, place: str, values: tuple[str, ...]) -> str:
    """In memory of the thread's own."""
    place = e.code.atom("thread uchar *", place)
    old = memory.load(e, t, place, "local")
    value = values[0]
    if op == "cas":
        new = f"({_as_word(t, old)} == {_as_word(t, value)} ? {values[1]} : {old})"
    elif op == "exch":
        new = value
    elif op in ("inc", "dec"):
        x, y = _as_word(t, old), _as_word(t, value)
        word = f"{x} >= {y} ? 0u : {x} + 1u" if op == "inc" else f"{x} == 0u || {x} > {y} ? {y} : {x} - 1u"
        new = f"{register_type(t)}({word})"
    elif t.kind == "f" and op in ("min", "max"):
        new = f"metal::f{op}({old}, {value})"
    else:
        new = binary(e, op, t, old, value)
    memory.store(e, t, place, new, "local")
    return old
