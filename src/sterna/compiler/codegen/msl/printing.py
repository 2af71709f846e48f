"""``print``: a record of raw values in the launch's print buffer, of which the host makes the text.

The record is what `sterna.compiler.codegen.simt.printing` writes.  Metal has no atomics of 64 bits, so the low half of
the buffer's first word counts the bytes reserved, never past the capacity, and its high half says that a line was
dropped.  A Python float is float32 on Metal, and printed as one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sterna.compiler.codegen.msl.code import bare, call
from sterna.compiler.codegen.msl.layout import Value, components, native, register_type
from sterna.compiler.codegen.msl.scalars import widen
from sterna.compiler.codegen.printing import RECORD_HEAD, Operand, lay_out
from sterna.compiler.ir import nodes as ir
from sterna.types import Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.msl.emitter import FunctionEmitter

__all__ = ["emit_print"]


def emit_print(e: FunctionEmitter, node: ir.Print) -> None:
    """Reserve room for one line and write its values."""
    template, stores = lay_out(e, node, lambda t: str(native(t)) if t.kind in "fc" else str(t), partial(_stores, e))
    number = len(e.context.prints)
    e.context.prints.append(template)
    size = RECORD_HEAD + 8 * len(stores)
    code = e.code
    record = code.fresh()
    code.emit(f"device uchar *{record} = {e.helper('print_record', 'f', f'{size}u', f'{number}u')};")
    with code.block(f"if ({record})"):
        for position, (kind, text) in enumerate(stores):
            code.emit(f"*(device {kind} *)({record} + {RECORD_HEAD + 8 * position}) = {bare(text)};")
        code.emit(f"{e.helper('print_done', record, f'{size}u')};")


def _stores(e: FunctionEmitter, t: Scalar, value: Value) -> list[Operand]:
    text = e.code.atom(components(t)[0], value[0])
    if native(t).kind == "c":
        return [("float", f"{text}.x"), ("float", f"{text}.y")]
    if t.kind == "e":
        return [("float", widen(e, t, text))]
    if t.kind == "f":
        return [(register_type(t), text)]
    return [("ulong" if t.kind == "u" else "long", call("ulong" if t.kind == "u" else "long", text))]
