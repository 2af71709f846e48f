"""Integer and boolean arithmetic, equal to NumPy's in every case.

Division floors; by zero it gives 0, and the most negative integer divided by -1 gives itself.  Shift counts
are taken as unsigned: at or past the width a left shift gives 0, a right shift 0 or -1.  Everything wraps.
"""

from __future__ import annotations

from sterna.compiler.codegen.llvm.builder import Builder, int_text
from sterna.compiler.codegen.llvm.layout import int_bits
from sterna.errors import UnsupportedError
from sterna.types import Scalar

__all__ = ["int_binary", "int_compare", "int_constant", "int_minimum", "int_power", "range_count"]

_PLAIN = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_BOOL = {"add": "or", "mul": "and", "and": "and", "or": "or", "xor": "xor", "min": "and", "max": "or"}
_PREDICATES = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


def int_constant(operand: str) -> int | None:
    """The value of an operand that is an integer constant."""
    if operand.lstrip("-").isdigit():
        return int(operand)
    return {"true": 1, "false": 0}.get(operand)


def int_compare(b: Builder, op: str, left_type: Scalar, right_type: Scalar, left: str, right: str) -> str:
    """Compare two integers of one width; one signed and one unsigned compare by value."""
    bits = int_bits(left_type)
    if op in ("eq", "ne") and left_type.kind == right_type.kind:
        return b.icmp(op, bits, left, right)
    signed = left_type.kind == "i", right_type.kind == "i"
    if signed[0] == signed[1]:
        return b.icmp(("s" if signed[0] else "u") + _PREDICATES[op], bits, left, right)
    negative = b.icmp("slt", bits, left if signed[0] else right, "0")
    plain = b.icmp(op if op in ("eq", "ne") else "u" + _PREDICATES[op], bits, left, right)
    below = op in ("lt", "le") if signed[0] else op in ("gt", "ge")
    return b.select(negative, "i1", "true" if below or op == "ne" else "false", plain)


def int_binary(b: Builder, op: str, t: Scalar, x: str, y: str) -> str:
    """``x op y`` on integers or bools of type `t`."""
    if t.kind == "b":
        if op not in _BOOL:
            hint = "convert one of them to an integer first"
            raise UnsupportedError(f"operation {op!r} on two bool operands", hint=hint)
        return b.op(f"{_BOOL[op]} i1 {x}, {y}")
    if op in _PLAIN:
        return b.op(f"{_PLAIN[op]} i{t.bits} {x}, {y}")
    if op in ("min", "max"):
        return int_minimum(b, op, t, x, y)
    if op in ("shl", "shr"):
        return _shift(b, op, t, x, y)
    if op == "floordiv":
        return _signed_division(b, t.bits, x, y)[0] if t.kind == "i" else _unsigned_division(b, "udiv", t.bits, x, y)
    if op == "mod":
        return _signed_division(b, t.bits, x, y)[1] if t.kind == "i" else _unsigned_division(b, "urem", t.bits, x, y)
    if op == "pow":
        return int_power(b, t, x, y)
    raise UnsupportedError(f"operation {op!r} on {t}")


def int_minimum(b: Builder, op: str, t: Scalar, x: str, y: str) -> str:
    """``min`` or ``max``."""
    sign = "s" if t.kind == "i" else "u"
    return b.call(f"i{t.bits}", f"llvm.{sign}{op}.i{t.bits}", f"i{t.bits} {x}, i{t.bits} {y}")


def _shift(b: Builder, op: str, t: Scalar, x: str, y: str) -> str:
    n = t.bits
    ins = "shl" if op == "shl" else "ashr" if t.kind == "i" else "lshr"
    count = int_constant(y)
    if count is not None and 0 <= count < n:
        return b.op(f"{ins} i{n} {x}, {y}")
    inside = b.icmp("ult", n, y, str(n))
    if ins == "ashr":
        return b.op(f"ashr i{n} {x}, {b.select(inside, f'i{n}', y, str(n - 1))}")
    shifted = b.op(f"{ins} i{n} {x}, {b.select(inside, f'i{n}', y, '0')}")
    return b.select(inside, f"i{n}", shifted, "0")


def _unsigned_division(b: Builder, ins: str, n: int, x: str, y: str) -> str:
    value = int_constant(y)
    if value:
        return b.op(f"{ins} i{n} {x}, {y}")
    zero = b.icmp("eq", n, y, "0")
    quotient = b.op(f"{ins} i{n} {x}, {b.select(zero, f'i{n}', '1', y)}")
    return b.select(zero, f"i{n}", "0", quotient)


def _signed_division(b: Builder, n: int, x: str, y: str) -> tuple[str, str]:
    """Floored quotient and remainder."""
    value = int_constant(y)
    if value is not None and value > 0:
        if value & (value - 1) == 0:
            return b.op(f"ashr i{n} {x}, {value.bit_length() - 1}"), b.op(f"and i{n} {x}, {value - 1}")
        quotient, remainder = b.op(f"sdiv i{n} {x}, {y}"), b.op(f"srem i{n} {x}, {y}")
        below = b.icmp("slt", n, remainder, "0")
        down = b.op(f"sext i1 {below} to i{n}")
        return b.op(f"add i{n} {quotient}, {down}"), b.op(f"add i{n} {remainder}, {b.select(below, f'i{n}', y, '0')}")
    zero, minus = b.icmp("eq", n, y, "0"), b.icmp("eq", n, y, "-1")
    safe = b.select(b.either(zero, minus), f"i{n}", "1", y)
    quotient, remainder = b.op(f"sdiv i{n} {x}, {safe}"), b.op(f"srem i{n} {x}, {safe}")
    inexact = b.icmp("ne", n, remainder, "0")
    opposite = b.icmp("slt", n, b.op(f"xor i{n} {remainder}, {safe}"), "0")
    below = b.both(inexact, opposite)
    quotient = b.op(f"add i{n} {quotient}, {b.op(f'sext i1 {below} to i{n}')}")
    remainder = b.op(f"add i{n} {remainder}, {b.select(below, f'i{n}', safe, '0')}")
    quotient = b.select(minus, f"i{n}", b.op(f"sub i{n} 0, {x}"), quotient)
    return b.select(zero, f"i{n}", "0", quotient), remainder


def int_power(b: Builder, t: Scalar, x: str, y: str) -> str:
    """``x ** y`` by squaring; a negative exponent (which the frontend refuses) gives 0."""
    n, value = t.bits, int_constant(y)
    if value is not None and 0 <= value <= 8:
        return _small_power(b, n, x, value)
    start, turn, body, done = (b.label(h) for h in ("pow", "pow.turn", "pow.body", "pow.done"))
    b.place(start)
    begin = b.select(b.icmp("slt", n, y, "0"), f"i{n}", "0", "1") if t.kind == "i" else "1"
    result, base, power = (b.slot(f"i{n}") for _ in range(3))
    for slot, first in ((result, begin), (base, x), (power, y if t.kind == "u" else _nonnegative(b, n, y))):
        b.emit(f"store i{n} {first}, ptr {slot}")
    b.place(turn)
    left = b.op(f"load i{n}, ptr {power}")
    b.branch(b.icmp("ne", n, left, "0"), body, done)
    b.place(body)
    value_now, base_now = b.op(f"load i{n}, ptr {result}"), b.op(f"load i{n}, ptr {base}")
    odd = b.op(f"trunc i{n} {left} to i1")
    b.emit(f"store i{n} {b.select(odd, f'i{n}', b.op(f'mul i{n} {value_now}, {base_now}'), value_now)}, ptr {result}")
    b.emit(f"store i{n} {b.op(f'mul i{n} {base_now}, {base_now}')}, ptr {base}")
    b.emit(f"store i{n} {b.op(f'lshr i{n} {left}, 1')}, ptr {power}")
    b.jump(turn)
    b.place(done)
    return b.op(f"load i{n}, ptr {result}")


def _nonnegative(b: Builder, n: int, y: str) -> str:
    return b.call(f"i{n}", f"llvm.smax.i{n}", f"i{n} {y}, i{n} 0")


def _small_power(b: Builder, n: int, x: str, power: int) -> str:
    result, base = int_text(1, n), x
    while power:
        if power & 1:
            result = base if result == "1" else b.op(f"mul i{n} {result}, {base}")
        power >>= 1
        if power:
            base = b.op(f"mul i{n} {base}, {base}")
    return result


def range_count(b: Builder, start: str, stop: str, step: str) -> str:
    """Number of turns of ``range(start, stop, step)`` as an unsigned int64; exact for all int64 bounds."""
    known = int_constant(step)
    if known is None:
        up = b.icmp("sgt", 64, step, "0")
        low, high = b.select(up, "i64", start, stop), b.select(up, "i64", stop, start)
        size = b.select(up, "i64", step, b.op(f"sub i64 0, {step}"))
        size = b.call("i64", "llvm.umax.i64", f"i64 {size}, i64 1")
    else:
        low, high = (start, stop) if known > 0 else (stop, start)
        size = str(abs(known))
    some = b.icmp("slt", 64, low, high)
    span = b.op(f"sub i64 {high}, {low}")
    if size != "1":
        turns = b.op(f"udiv i64 {b.op(f'sub i64 {span}, 1')}, {size}")
        span = b.op(f"add i64 {turns}, 1")
    return b.select(some, "i64", span, "0")
