"""Repairs of PTX: what LLVM and NVIDIA's assembler get wrong, each with the way around.

*Narrow stores.*  LLVM writes an unaligned store of a float as stores of its bytes, of which the lowest is
``st.global.b8 [a], %r8``.  PTX defines that as the low byte of the register.  The assembler (seen in nvJitLink 13.0)
takes the register's type from the instruction that computed it, and where that is a float it converts the value to an
integer.  A ``mov.b32`` in between, which costs nothing, gives the register no type.

*Signed zeros.*  LLVM makes ``min.f32 d, x, 0.0`` of "x if x < 0.0 else 0.0".  That differs for -0.0, which is not less
than 0.0 but which ``min`` puts before it.
"""

from __future__ import annotations

import re

__all__ = ["guard_narrow_stores", "keep_signed_zeros"]

_FLOAT_RESULT = re.compile(r"^\t[\w.]*\.b?f(?:16|32|64)\w*[\w.]* \t(%\w+),", re.MULTILINE)
_STORE = re.compile(r"^\t(st\.[\w.]*?b(8|16|32)) \t(\[[^\]]*\]), (%\w+|\{[^}]*\});$", re.MULTILINE)
_REGISTER = re.compile(r"%(rs|rd|r)\d+")
_BITS = {"rs": 16, "r": 32, "rd": 64}


def guard_narrow_stores(ptx: str) -> str:
    """PTX in which no register that a float instruction wrote is stored by a narrower store."""
    floats = set(_FLOAT_RESULT.findall(ptx))
    if not floats:
        return ptx

    def guard(match: re.Match[str]) -> str:
        store, bits, address, stored = match.groups()
        found = [r for r in _REGISTER.finditer(stored) if _BITS[r[1]] > int(bits) and r[0] in floats]
        if not found:
            return match[0]
        lines = ["\t{"]
        for number, register in enumerate(found):
            kind = f"b{_BITS[register[1]]}"
            lines += [f"\t.reg .{kind} \t%bits{number};", f"\tmov.{kind} \t%bits{number}, {register[0]};"]
            stored = re.sub(rf"{register[0]}\b", f"%bits{number}", stored)
        return "\n".join([*lines, f"\t{store} \t{address}, {stored};", "\t}"])

    return _STORE.sub(guard, ptx)


_MIN_OF_ZERO = re.compile(r"^\t(min|max)\.(f32|f64) \t(%\w+), (%\w+), (0f[08]0{7}|0d[08]0{15});$", re.MULTILINE)


def keep_signed_zeros(ptx: str) -> str:
    """PTX in which the lesser or greater of a value and a constant zero is the constant when the value is a zero."""

    def choose(match: re.Match[str]) -> str:
        how, kind, result, value, zero = match.groups()
        order = "lt" if how == "min" else "gt"
        return (
            f"\t{{\n\t.reg .pred \t%beyond;\n\tsetp.{order}.{kind} \t%beyond, {value}, {zero};\n"
            f"\tselp.{kind} \t{result}, {value}, {zero}, %beyond;\n\t}}"
        )

    return _MIN_OF_ZERO.sub(choose, ptx)
