"""Arithmetic, comparisons and conversions of scalars, with NumPy's meaning (the same as `codegen.llvm`'s).

Signed integers wrap, which C++ leaves open: helpers of the prelude compute them unsigned.  float16 and bfloat16 are
computed in float32, rounding each result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.compiler.codegen.msl.code import call
from sterna.compiler.codegen.msl.layout import literal, native, register_type
from sterna.errors import UnsupportedError
from sterna.types import FLOAT32, Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.msl.emitter import FunctionEmitter

__all__ = ["binary", "cast", "compare", "narrow", "unary", "widen"]

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "and": "&", "or": "|", "xor": "^", "eq": "==", "ne": "!=",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_BOOL = {"add": "||", "mul": "&&", "and": "&&", "or": "||", "xor": "!=", "min": "&&", "max": "||"}
_WRAPPING = {"add": "add", "sub": "subtract", "mul": "multiply"}
_HELPERS = {"floordiv": "floor_divide", "mod": "floor_modulo", "shl": "shift_left", "shr": "shift_right",
            "pow": "integer_power"}  # fmt: skip
_COMPLEX = {"mul": "complex_multiply", "truediv": "complex_divide", "pow": "complex_power"}


# ---- float16 and bfloat16 ------------------------------------------------------------------------


def widen(e: FunctionEmitter, t: Scalar, x: str) -> str:
    """A float of type `t` as float32."""
    if t.kind == "e":
        return e.helper("bfloat_to_float", x)
    return call("float", x) if t.kind == "f" and t.bits == 16 else x


def narrow(e: FunctionEmitter, t: Scalar, x: str) -> str:
    """The float32 `x` as a float of type `t`."""
    if t.kind == "e":
        return e.helper("float_to_bfloat", x)
    return call("half", x) if t.kind == "f" and t.bits == 16 else x


# ---- operations ----------------------------------------------------------------------------------


def unary(e: FunctionEmitter, op: str, t: Scalar, x: str) -> str:
    """``neg``, ``invert``, ``not``."""
    t = native(t)
    if op == "not" or (op == "invert" and t.kind == "b"):
        return f"(!{x})"
    if op == "invert":
        return call(register_type(t), f"~{x}")
    if t.kind == "c":
        z = e.code.atom("float2", x)
        return f"float2(-{z}.x, -{z}.y)"
    if t.kind == "e":
        return call("ushort", f"{x} ^ 0x8000u")
    if t.kind == "f":
        negative = f"-({widen(e, t, x)})" if x.startswith("-") else f"-{widen(e, t, x)}"
        return f"({negative})" if t.bits != 16 else call("half", negative)
    return e.helper("negate", x)


def binary(e: FunctionEmitter, op: str, t: Scalar, x: str, y: str) -> str:
    """``x op y``, both of type `t`."""
    python, t = t.weak, native(t)
    if t.kind == "c":
        return _complex_binary(e, op, x, y, python)
    if t.kind in "fe":
        wide = [widen(e, t, v) for v in (x, y)]
        return narrow(e, t, _float_binary(e, op, wide[0], wide[1]))
    if t.kind == "b":
        if op not in _BOOL:
            raise UnsupportedError(
                f"operation {op!r} on two bool operands", hint="convert one of them to an integer first"
            )
        return f"({x} {_BOOL[op]} {y})"
    return _integer_binary(e, op, t, x, y)


def _integer_binary(e: FunctionEmitter, op: str, t: Scalar, x: str, y: str) -> str:
    kind = register_type(t)
    if op in ("min", "max"):
        x, y = e.code.atom(kind, x), e.code.atom(kind, y)
        return f"({y} {'<' if op == 'min' else '>'} {x} ? {y} : {x})"
    if op in ("and", "or", "xor"):
        text = f"{x} {_SIGNS[op]} {y}"
        return f"({text})" if t.bits >= 32 else call(kind, text)
    if op in _WRAPPING:
        if t.kind == "u" and t.bits >= 32:
            return f"({x} {_SIGNS[op]} {y})"
        return e.helper(_WRAPPING[op], x, y)
    if op in _HELPERS:
        return e.helper(_HELPERS[op], x, y)
    raise UnsupportedError(f"operation {op!r} on {t}")


def _float_binary(e: FunctionEmitter, op: str, x: str, y: str) -> str:
    if op in ("add", "sub", "mul", "truediv"):
        return f"({x} {_SIGNS[op]} {y})"
    if op in ("min", "max"):
        x, y = e.code.atom("float", x), e.code.atom("float", y)
        return f"({y} {'<' if op == 'min' else '>'} {x} ? {y} : {x})"
    if op == "pow":
        if y == literal(2.0, FLOAT32):  # exact, as NumPy and C libraries have it
            x = e.code.atom("float", x)
            return f"({x} * {x})"
        return call(e.function("pow"), x, y)
    if op in ("floordiv", "mod"):
        return e.helper("float_floor_divide" if op == "floordiv" else "float_modulo", x, y)
    raise UnsupportedError(f"operation {op!r} on float32")


def _complex_binary(e: FunctionEmitter, op: str, x: str, y: str, python: bool) -> str:
    if op in ("add", "sub"):
        x, y = e.code.atom("float2", x), e.code.atom("float2", y)
        return f"float2({x}.x {_SIGNS[op]} {y}.x, {x}.y {_SIGNS[op]} {y}.y)"
    if op not in _COMPLEX:
        raise UnsupportedError(f"operation {op!r} on complex64")
    name = "complex_quotient" if op == "truediv" and python else _COMPLEX[op]
    return e.helper(name, x, y)


def compare(e: FunctionEmitter, op: str, left: Scalar, right: Scalar, x: str, y: str) -> str:
    """``x op y`` of scalars; one signed and one unsigned integer of 64 bits compare by value."""
    left, right = native(left), native(right)
    if left.kind == "c":
        x, y = e.code.atom("float2", x), e.code.atom("float2", y)
        return _complex_compare(op, x, y)
    if left.kind in "fe":
        return f"({widen(e, left, x)} {_SIGNS[op]} {widen(e, right, y)})"
    if {left.kind, right.kind} != {"i", "u"}:
        return f"({x} {_SIGNS[op]} {y})"
    x, y = e.code.atom(register_type(left), x), e.code.atom(register_type(right), y)
    signed = left.kind == "i"
    below = op in ("lt", "le") if signed else op in ("gt", "ge")
    negative, answer = f"{x if signed else y} < 0", "true" if below or op == "ne" else "false"
    return f"({negative} ? {answer} : ulong({x}) {_SIGNS[op]} ulong({y}))"


def _complex_compare(op: str, x: str, y: str) -> str:
    if op in ("eq", "ne"):
        equal = f"{x}.x == {y}.x && {x}.y == {y}.y"
        return f"({equal})" if op == "eq" else f"(!({equal}))"
    strict = _SIGNS[op][0]
    return f"({x}.x {strict} {y}.x || ({x}.x == {y}.x && {x}.y {_SIGNS[op]} {y}.y))"


# ---- conversions ---------------------------------------------------------------------------------


def cast(e: FunctionEmitter, source: Scalar, target: Scalar, x: str) -> str:
    """Convert a scalar as NumPy's ``astype`` does; floats out of an integer's range as `codegen.llvm.casts` says."""
    source, target = native(source), native(target)
    if source == target:
        return x
    if source.kind == "c":
        z = e.code.atom("float2", x)
        if target.kind == "b":
            return f"({z}.x != 0.0f || {z}.y != 0.0f)"
        return cast(e, FLOAT32, target, f"{z}.x")
    if target.kind == "c":
        return call("float2", cast(e, source, FLOAT32, x), "0.0f")
    if source.kind in "fe":
        return _from_float(e, target, widen(e, source, x))
    if target.kind in "fe":
        return narrow(e, target, call("float", x))
    if target.kind == "b":
        return f"({x} != 0)"
    return call(register_type(target), x)


def _from_float(e: FunctionEmitter, target: Scalar, x: str) -> str:
    if target.kind in "fe":
        return narrow(e, target, x)
    if target.kind == "b":
        return f"({x} != 0.0f)"
    if target.kind == "u" and target.bits == 64:
        return e.helper("float_to_ulong", x)
    is_long = target.bits == 64 or (target.kind == "u" and target.bits == 32)
    whole = e.helper("float_to_long" if is_long else "float_to_int", x)
    return whole if target.kind == "i" and target.bits >= 32 else call(register_type(target), whole)
