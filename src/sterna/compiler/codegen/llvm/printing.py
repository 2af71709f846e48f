"""``print``: a line is formatted into a buffer on the stack and handed to the launch's print function at once.

Numbers are written by the C library's ``snprintf``; floats by the shortest decimal that no other number of their
type is nearer to, with an exponent where Python (from 1e16, below 1e-4) or NumPy (float32 from 1e6, float16 from
1e3) writes one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.abi import LAUNCH_FIELDS
from sterna.compiler.codegen.llvm.builder import float_text
from sterna.compiler.codegen.llvm.casts import widen
from sterna.compiler.codegen.llvm.layout import real_type, register_type
from sterna.compiler.ir import nodes as ir
from sterna.errors import UnsupportedError
from sterna.types import Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter

__all__ = ["emit_print"]

_PART = 64
"""Most bytes a number takes."""

# Below a power of two numbers are nearer: where its own decimal would be read as another, the one above is tried.
_FORMAT_FLOAT = """define internal i64 @sterna_format_float(ptr %to, double %x, double %half_step, double %least,
  double %limit, i1 %bare) noinline {
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
  %bits = bitcast double %size to i64
  %power.bits = and i64 %bits, 9218868437227405312
  %power = bitcast i64 %power.bits to double
  %is_power = icmp eq i64 %bits, %power.bits
  %scaled = fmul double %power, %half_step
  %above = call double @llvm.maxnum.f64(double %scaled, double %least)
  %halved = fmul double %above, 0.5
  %narrow = call double @llvm.maxnum.f64(double %halved, double %least)
  %below = select i1 %is_power, double %narrow, double %above
  %step = fmul double %above, 2.0
  %mantissa = fdiv double %size, %step
  %whole = call i64 @llvm.fptoui.sat.i64.f64(double %mantissa)
  %odd = trunc i64 %whole to i1
  %zero = fcmp oeq double %size, 0.0
  %not_zero = xor i1 %zero, true
  %uneven = and i1 %is_power, %not_zero
  %stride = select i1 %uneven, i32 1, i32 2
  %x.bits = bitcast double %x to i64
  %next.bits = add i64 %x.bits, 1
  %next = bitcast i64 %next.bits to double
  br label %try
try:
  %attempt = phi i32 [ 0, %finite ], [ %more, %again ]
  %digits = lshr i32 %attempt, 1
  %away = trunc i32 %attempt to i1
  %shown = select i1 %away, double %next, double %x
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %to, i64 64, ptr @text_e, i32 %digits, double %shown)
  %read = call double @strtod(ptr %to, ptr null)
  %back = call double @llvm.fabs.f64(double %read)
  %up = fsub double %back, %size
  %down = fsub double %size, %back
  %under = fcmp olt double %up, %above
  %over = fcmp olt double %down, %below
  %inside = and i1 %under, %over
  %tie_up = fcmp oeq double %up, %above
  %tie_down = fcmp oeq double %down, %below
  %tie = or i1 %tie_up, %tie_down
  %even_tie = select i1 %odd, i1 false, i1 %tie
  %near = or i1 %inside, %even_tie
  %equal = fcmp oeq double %back, %size
  %same = or i1 %equal, %near
  %last = icmp sge i32 %digits, 17
  %stop = or i1 %same, %last
  br i1 %stop, label %found, label %again
again:
  %more = add i32 %attempt, %stride
  br label %try
found:
  %small = fcmp olt double %size, 0x3F1A36E2EB1C432D
  %low = and i1 %small, %not_zero
  %high = fcmp oge double %size, %limit
  %scientific = or i1 %low, %high
  br i1 %scientific, label %done, label %fixed
done:
  %n64 = sext i32 %n to i64
  ret i64 %n64
fixed:
  %mark = call ptr @strchr(ptr %to, i32 101)
  %after = getelementptr i8, ptr %mark, i64 1
  %exponent = call i64 @strtol(ptr %after, ptr null, i32 10)
  %exponent32 = trunc i64 %exponent to i32
  %places = sub i32 %digits, %exponent32
  %least_places = select i1 %bare, i32 0, i32 1
  %decimals = call i32 @llvm.smax.i32(i32 %places, i32 %least_places)
  %m = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %to, i64 64, ptr @text_f, i32 %decimals, double %shown)
  %m64 = sext i32 %m to i64
  ret i64 %m64
}
@text_e = private unnamed_addr constant [5 x i8] c"%.*e\\00"
@text_f = private unnamed_addr constant [5 x i8] c"%.*f\\00\""""

_STEPS: dict[tuple[str, int], tuple[float, float, float]] = {
    ("f", 64): (2.0**-53, 0.0, 1e16), ("f", 32): (2.0**-24, 2.0**-150, 1e6), ("f", 16): (2.0**-11, 2.0**-25, 1e3),
    ("e", 16): (2.0**-8, 2.0**-134, 1e6),
}  # fmt: skip
"""Per float type: half a step of its numbers relative to the power of two below, the least half step, and from
where NumPy writes an exponent."""


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
        return _complex(e, buffer, length, real_type(t), value)
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


def _complex(e: FunctionEmitter, buffer: str, length: str, part: Scalar, value: tuple[str, ...]) -> str:
    """``(1+2j)``, or ``2j`` with a real part of +0."""
    b, kind, n = e.b, register_type(part), part.bits
    real = b.op(f"bitcast {kind} {value[0]} to i{n}")
    go, done, slot = b.label("complex"), b.label("imaginary"), b.slot("i64")
    b.emit(f"store i64 {length}, ptr {slot}")
    plain = b.icmp("eq", n, real, "0")
    b.branch(plain, done, go)
    b.place(go)
    length = _float(e, buffer, _text(e, buffer, length, "("), part, value[0], "true")
    minus = b.icmp("slt", n, b.op(f"bitcast {kind} {value[1]} to i{n}"), "0")
    signed = b.both(minus, b.op(f"fcmp oeq {kind} {value[1]}, {value[1]}"))
    b.emit(f"store i8 43, ptr {_at(e, buffer, length)}")
    b.emit(f"store i64 {b.select(signed, 'i64', length, _add(e, length, '1'))}, ptr {slot}")
    b.jump(done)
    b.place(done)
    length = _text(e, buffer, _float(e, buffer, b.op(f"load i64, ptr {slot}"), part, value[1], "true"), "j")
    b.emit(f"store i8 41, ptr {_at(e, buffer, length)}")
    return b.select(plain, "i64", length, _add(e, length, "1"))


def _float(e: FunctionEmitter, buffer: str, length: str, t: Scalar, x: str, bare: str) -> str:
    x, wide = widen(e.b, t, x, e.profile.native_half)
    if wide.bits == 32:
        x = e.b.op(f"fpext float {x} to double")
    e.context.declare("declare i32 @snprintf(ptr, i64, ptr, ...)")
    e.context.declare("declare double @strtod(ptr, ptr)")
    e.context.declare("declare i64 @strtol(ptr, ptr, i32)")
    e.context.declare("declare ptr @strchr(ptr, i32)")
    e.context.helper("sterna_format_float", _FORMAT_FLOAT)
    half_step, least, limit = (float_text(v, "double") for v in _STEPS[t.kind, t.bits])
    arguments = (
        f"ptr {_at(e, buffer, length)}, double {x}, double {half_step}, double {least}, double {limit}, i1 {bare}"
    )
    return _add(e, length, e.b.call("i64", "sterna_format_float", arguments))
