"""Atomic read-modify-write of one array element.

The order is relaxed, as CUDA's.  Floats use ``atomicrmw`` where the target has it, else a compare-and-swap
loop.  Where one hardware thread runs a whole block, shared and local memory need no atomics at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.integers import int_binary
from sterna.compiler.codegen.llvm.layout import Value, register_type
from sterna.compiler.ir import nodes as ir
from sterna.errors import UnsupportedError
from sterna.types import ArrayType, Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter

__all__ = ["emit_atomic"]

_INTEGER = {
    "add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor", "exch": "xchg", "inc": "uinc_wrap",
    "dec": "udec_wrap",
}  # fmt: skip
_FLOAT = {"add": "fadd", "sub": "fsub", "exch": "xchg", "max": "fmax", "min": "fmin"}


def emit_atomic(e: FunctionEmitter, node: ir.Atomic) -> Value:
    """Emit one atomic operation; gives the old value."""
    t, op = node.type, node.op.rstrip("_")
    array_type = node.array.type
    assert isinstance(array_type, ArrayType)
    if t.kind not in "iuf" or t.bits < 8 or (t.kind == "f" and t.bits == 16):
        raise UnsupportedError(f"atomic operation {op!r} on {t}")
    values = tuple(e.one(v) for v in node.values)
    address = e.address(node)
    if node.field is not None:
        address = _field_address(e, node, address)
    private = (e.profile.shared_is_private() and array_type.space != "global") or array_type.space == "local"
    if private:
        return _plain(e, t, op, address, values)
    if op == "cas":
        return _swap(e, t, address, *values)
    kind = register_type(t)
    if t.kind == "f":
        if op not in _FLOAT:
            raise UnsupportedError(f"atomic operation {op!r} on {t}", hint="it needs an integer array")
        if e.profile.atomic_float_in_hardware(op, t):
            scope = e.profile.atomic_scope
            return (e.b.op(f"atomicrmw {_FLOAT[op]} ptr {address}, {kind} {values[0]} {scope}monotonic"),)
        return _loop(e, t, op, address, values[0])
    if not e.profile.atomic_integer_in_hardware(op, t):
        return _loop(e, t, op, address, values[0])
    name = _INTEGER.get(op) or {"min": "min", "max": "max"}[op]
    if op in ("min", "max") and t.kind == "u":
        name = "u" + name
    return (e.b.op(f"atomicrmw {name} ptr {address}, {kind} {values[0]} {e.profile.atomic_scope}monotonic"),)


def _field_address(e: FunctionEmitter, node: ir.Atomic, address: str) -> str:
    assert isinstance(node.array.type, ArrayType)
    record = node.array.type.dtype
    field = next(f for f in record.fields if f.name == node.field)  # type: ignore[union-attr]
    return e.b.op(f"getelementptr inbounds i8, ptr {address}, i64 {field.offset}")


def _combine(e: FunctionEmitter, t: Scalar, op: str, old: str, value: str) -> str:
    """The new value."""
    b, kind = e.b, register_type(t)
    if op == "exch":
        return value
    if t.kind == "f":
        if op in ("min", "max"):
            return b.call(kind, f"llvm.{op}num.f{t.bits}", f"{kind} {old}, {kind} {value}")
        return b.op(f"f{op} {kind} {old}, {value}")
    if op == "inc":
        return b.select(b.icmp("uge", t.bits, old, value), kind, "0", b.op(f"add {kind} {old}, 1"))
    if op == "dec":
        wrap = b.either(b.icmp("eq", t.bits, old, "0"), b.icmp("ugt", t.bits, old, value))
        return b.select(wrap, kind, value, b.op(f"sub {kind} {old}, 1"))
    return int_binary(b, op, t, old, value)


def _plain(e: FunctionEmitter, t: Scalar, op: str, address: str, values: tuple[str, ...]) -> Value:
    """Without atomics; "local" keeps it out of the parallel accesses of the loop over threads, which it is not."""
    (old,) = e.load(t, address, "local")
    if op == "cas":
        n, kind = f"i{t.bits}", register_type(t)
        pair = old, values[0]
        left, right = (e.b.op(f"bitcast {kind} {x} to {n}") for x in pair) if t.kind == "f" else pair
        new = e.b.select(e.b.icmp("eq", t.bits, left, right), register_type(t), values[1], old)
    else:
        new = _combine(e, t, op, old, values[0])
    e.store(t, address, (new,), "local")
    return (old,)


def _swap(e: FunctionEmitter, t: Scalar, address: str, expected: str, new: str) -> Value:
    """Compare and swap, bit for bit."""
    b, kind, n = e.b, register_type(t), f"i{t.bits}"
    if t.kind == "f":
        expected, new = (b.op(f"bitcast {kind} {x} to {n}") for x in (expected, new))
    pair = b.op(f"cmpxchg ptr {address}, {n} {expected}, {n} {new} {e.profile.atomic_scope}monotonic monotonic")
    old = b.op(f"extractvalue {{ {n}, i1 }} {pair}, 0")
    return (b.op(f"bitcast {n} {old} to {kind}") if t.kind == "f" else old,)


def _loop(e: FunctionEmitter, t: Scalar, op: str, address: str, value: str) -> Value:
    b, kind, n = e.b, register_type(t), f"i{t.bits}"
    slot, again, done = b.slot(n), b.label("atomic"), b.label("atomic.done")
    order = f"{e.profile.atomic_scope}monotonic"
    b.emit(f"store {n} {b.op(f'load atomic {n}, ptr {address} {order}, align {t.bits // 8}')}, ptr {slot}")
    b.place(again)
    bits = b.op(f"load {n}, ptr {slot}")
    old = b.op(f"bitcast {n} {bits} to {kind}")
    new = b.op(f"bitcast {kind} {_combine(e, t, op, old, value)} to {n}")
    pair = b.op(f"cmpxchg ptr {address}, {n} {bits}, {n} {new} {e.profile.atomic_scope}monotonic monotonic")
    b.emit(f"store {n} {b.op(f'extractvalue {{ {n}, i1 }} {pair}, 0')}, ptr {slot}")
    b.branch(b.op(f"extractvalue {{ {n}, i1 }} {pair}, 1"), done, again)
    b.place(done)
    return (old,)
