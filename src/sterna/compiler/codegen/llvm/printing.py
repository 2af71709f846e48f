"""``print``: a line is formatted into a buffer on the stack and handed to the launch's print function at once.

Numbers are written by the C library's ``snprintf``; floats by the shortest decimal that reads back the same, in
Python's form (exponent from 1e16 and below 1e-4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.casts import widen
from sterna.compiler.codegen.llvm.frame import LAUNCH_FIELDS
from sterna.compiler.codegen.llvm.layout import real_type, register_type
from sterna.compiler.ir import nodes as ir
from sterna.errors import UnsupportedError
from sterna.types import Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter

__all__ = ["emit_print"]

_PART = 64
"""Most bytes a number takes."""

_FORMAT_FLOAT = """define internal i64 @sterna_format_float(ptr %to, double %x, i1 %single, i1 %bare) noinline {
entry:
  %size = call double @llvm.fabs.f64(double %x)
  %nan = fcmp uno double %x, %x
  br i1 %nan, label %is_nan, label %number
is_nan:
  store i32 7233902, ptr %to, align 1
  ret i64 3
number:
  %infinite = fcmp oeq double %size, 0x7FF0000000000000
  br i1 %infinite, label %is_infinite, label %finite
is_infinite:
  %minus = fcmp olt double %x, 0.0
  %name = select i1 %minus, i64 1718511917, i64 6712937
  store i64 %name, ptr %to, align 1
  %length = select i1 %minus, i64 4, i64 3
  ret i64 %length
finite:
  %single32 = fptrunc double %x to float
  br label %try
try:
  %digits = phi i32 [ 0, %finite ], [ %more, %again ]
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %to, i64 64, ptr @text_e, i32 %digits, double %x)
  %back = call double @strtod(ptr %to, ptr null)
  %back32 = fptrunc double %back to float
  %same64 = fcmp oeq double %back, %x
  %same32 = fcmp oeq float %back32, %single32
  %same = select i1 %single, i1 %same32, i1 %same64
  %last = icmp sge i32 %digits, 17
  %stop = or i1 %same, %last
  br i1 %stop, label %found, label %again
again:
  %more = add i32 %digits, 1
  br label %try
found:
  %mark = call ptr @strchr(ptr %to, i32 101)
  %after = getelementptr i8, ptr %mark, i64 1
  %exponent = call i64 @strtol(ptr %after, ptr null, i32 10)
  %low = icmp slt i64 %exponent, -4
  %high = icmp sge i64 %exponent, 16
  %scientific = or i1 %low, %high
  br i1 %scientific, label %done, label %fixed
done:
  %n64 = sext i32 %n to i64
  ret i64 %n64
fixed:
  %exponent32 = trunc i64 %exponent to i32
  %places = sub i32 %digits, %exponent32
  %least = select i1 %bare, i32 0, i32 1
  %decimals = call i32 @llvm.smax.i32(i32 %places, i32 %least)
  %m = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %to, i64 64, ptr @text_f, i32 %decimals, double %x)
  %m64 = sext i32 %m to i64
  ret i64 %m64
}
@text_e = private unnamed_addr constant [5 x i8] c"%.*e\\00"
@text_f = private unnamed_addr constant [5 x i8] c"%.*f\\00\""""


def emit_print(e: FunctionEmitter, node: ir.Print) -> None:
    """Format one line and pass it on, if the launch has a print function."""
    b = e.b
    function = e.frame.field(e, LAUNCH_FIELDS["print"], "ptr")
    go, done = b.label("print"), b.label("printed")
    values = [part if isinstance(part, str) else e.value(part) for part in node.parts]
    b.branch(b.op(f"icmp ne ptr {function}, null"), go, done)
    b.place(go)
    sizes = [len(p.encode()) if isinstance(p, str) else 2 * _PART + 4 for p in node.parts]
    room = sum(sizes) + len(node.end.encode()) + 1
    buffer = b.slot("i8", 16, room)
    length = "0"
    for part, value in zip(node.parts, values, strict=True):
        if isinstance(part, str):
            length = _text(e, buffer, length, part)
        else:
            assert isinstance(value, tuple)
            length = _number(e, buffer, length, part.type, value)
    length = _text(e, buffer, length, node.end)
    b.emit(f"call void {function}(ptr {buffer}, i64 {length})")
    b.jump(done)
    b.place(done)


def _at(e: FunctionEmitter, buffer: str, length: str) -> str:
    return e.b.op(f"getelementptr inbounds i8, ptr {buffer}, i64 {length}")


def _add(e: FunctionEmitter, length: str, more: str) -> str:
    return e.b.op(f"add i64 {length}, {more}")


def _text(e: FunctionEmitter, buffer: str, length: str, text: str) -> str:
    data = text.encode()
    if not data:
        return length
    source = e.context.string(data)
    e.b.emit(f"call void @llvm.memcpy.p0.p0.i64(ptr {_at(e, buffer, length)}, ptr {source}, i64 {len(data)}, i1 false)")
    return _add(e, length, str(len(data)))


def _number(e: FunctionEmitter, buffer: str, length: str, t: object, value: tuple[str, ...]) -> str:
    b = e.b
    if not isinstance(t, Scalar):
        if not value:
            return _text(e, buffer, length, "None")
        raise UnsupportedError(f"print of a value of type {t}")
    e.context.declare("declare i32 @snprintf(ptr, i64, ptr, ...)")
    if t.kind == "c":
        length = _text(e, buffer, length, "(")
        length = _float(e, buffer, length, real_type(t), value[0], "true")
        negative = b.op(f"fcmp olt {register_type(real_type(t))} {value[1]}, 0.0")
        sign = b.select(negative, "i8", "45", "43")
        b.emit(f"store i8 {sign}, ptr {_at(e, buffer, length)}")
        length = b.select(negative, "i64", length, _add(e, length, "1"))
        length = _float(e, buffer, length, real_type(t), value[1], "true")
        return _text(e, buffer, length, "j)")
    if t.kind in "fe":
        return _float(e, buffer, length, t, value[0], "false")
    if t.kind == "b":
        yes, no = e.context.string(b"True"), e.context.string(b"False")
        count = b.select(value[0], "i64", "4", "5")
        source = b.select(value[0], "ptr", yes, no)
        b.emit(f"call void @llvm.memcpy.p0.p0.i64(ptr {_at(e, buffer, length)}, ptr {source}, i64 {count}, i1 false)")
        return _add(e, length, count)
    form = e.context.string(b"%lld\0" if t.kind == "i" else b"%llu\0")
    wide = value[0] if t.bits == 64 else b.op(f"{'sext' if t.kind == 'i' else 'zext'} i{t.bits} {value[0]} to i64")
    place = _at(e, buffer, length)
    count = b.op(f"call i32 (ptr, i64, ptr, ...) @snprintf(ptr {place}, i64 {_PART}, ptr {form}, i64 {wide})")
    return _add(e, length, b.op(f"sext i32 {count} to i64"))


def _float(e: FunctionEmitter, buffer: str, length: str, t: Scalar, x: str, bare: str) -> str:
    x, wide = widen(e.b, t, x, e.profile.native_half)
    if wide.bits == 32:
        x = e.b.op(f"fpext float {x} to double")
    e.context.declare("declare i32 @snprintf(ptr, i64, ptr, ...)")
    e.context.declare("declare double @strtod(ptr, ptr)")
    e.context.declare("declare i64 @strtol(ptr, ptr, i32)")
    e.context.declare("declare ptr @strchr(ptr, i32)")
    e.context.helper("sterna_format_float", _FORMAT_FLOAT)
    single = "true" if wide.bits == 32 else "false"
    count = e.b.call("i64", "sterna_format_float", f"ptr {_at(e, buffer, length)}, double {x}, i1 {single}, i1 {bare}")
    return _add(e, length, count)
