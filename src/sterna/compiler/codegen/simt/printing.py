"""``print`` on a GPU: a record of raw values in the launch's print buffer; the host makes the text.

The record is described where it is read (`sterna.runtime.printing`); its format goes to the image's launch facts.
A line for which the buffer has no room left is dropped.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.casts import widen
from sterna.compiler.codegen.llvm.layout import Value, real_type, register_type
from sterna.compiler.codegen.printing import RECORD_HEAD, Operand, lay_out
from sterna.compiler.ir import nodes as ir
from sterna.types import Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
    from sterna.compiler.codegen.simt.entry import SimtContext

__all__ = ["emit_print"]

_HEAD = 16


def emit_print(context: SimtContext, e: FunctionEmitter, node: ir.Print) -> None:
    """Reserve room for one line and write its values."""
    b, space = e.b, context.profile.record_space
    template, values = lay_out(e, node, str, partial(_stores, e))
    number = len(context.prints)
    context.prints.append(template)
    size = RECORD_HEAD + 8 * len(values)
    buffer = b.op(f"addrspacecast ptr {e.frame.words['print']} to ptr {space}")  # type: ignore[attr-defined]
    scope = context.profile.atomic_scope
    at = b.op(f"atomicrmw add ptr {space}{buffer}, i64 {size} {scope}monotonic")
    end = b.op(f"add i64 {at}, {size}")
    limit = b.op(f"load i64, ptr {space}{_at(e, space, buffer, '8')}")
    write, done = b.label("print"), b.label("printed")
    b.branch(b.icmp("ule", 64, end, limit), write, done)
    b.place(write)
    record = _at(e, space, buffer, b.op(f"add i64 {at}, {_HEAD}"))
    b.emit(f"store i32 {number}, ptr {space}{_at(e, space, record, '4')}")
    owner = b.op(f"ptrtoint ptr {e.frame.words['record']} to i64")  # type: ignore[attr-defined]
    b.emit(f"store i64 {owner}, ptr {space}{_at(e, space, record, '8')}")
    for position, (kind, value) in enumerate(values):
        b.emit(f"store {kind} {value}, ptr {space}{_at(e, space, record, str(RECORD_HEAD + 8 * position))}")
    b.emit(f"store atomic i32 {size}, ptr {space}{record} release, align 4")
    b.place(done)


def _at(e: FunctionEmitter, space: str, base: str, offset: str) -> str:
    return e.b.op(f"getelementptr inbounds i8, ptr {space}{base}, i64 {offset}")


def _stores(e: FunctionEmitter, t: Scalar, value: Value) -> list[Operand]:
    if t.kind == "c":
        return [(register_type(real_type(t)), x) for x in value]
    if t.kind == "e":
        return [("float", widen(e.b, t, value[0], e.profile.native_half)[0])]
    if t.kind == "f":
        return [(register_type(t), value[0])]
    if t.kind == "b" or t.bits < 64:
        bits = 1 if t.kind == "b" else t.bits
        return [("i64", e.b.op(f"{'sext' if t.kind == 'i' else 'zext'} i{bits} {value[0]} to i64"))]
    return [("i64", value[0])]
