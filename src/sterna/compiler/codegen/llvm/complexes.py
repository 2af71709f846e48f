"""Complex arithmetic on (real, imaginary) pairs: NumPy's formulas, and Python's division for weak numbers."""

from __future__ import annotations

from sterna.compiler.codegen.llvm.builder import Builder, float_text
from sterna.compiler.codegen.llvm.floats import fabs
from sterna.compiler.codegen.llvm.layout import Value, real_type, register_type
from sterna.errors import UnsupportedError
from sterna.types import Scalar

__all__ = ["complex_binary", "complex_compare"]


def complex_binary(b: Builder, op: str, t: Scalar, x: Value, y: Value, flags: str = "") -> Value:
    """``x op y`` of type `t`."""
    f = register_type(real_type(t))
    if op in ("add", "sub"):
        return tuple(b.op(f"f{op}{flags} {f} {p}, {q}") for p, q in zip(x, y, strict=True))
    if op == "mul":
        real = b.op(f"fsub{flags} {f} {_mul(b, f, x[0], y[0])}, {_mul(b, f, x[1], y[1])}")
        imag = b.op(f"fadd{flags} {f} {_mul(b, f, x[0], y[1])}, {_mul(b, f, x[1], y[0])}")
        return real, imag
    if op == "truediv":
        return _divide(b, f, x, y, t.weak)
    raise UnsupportedError(f"operation {op!r} on {t}")


def complex_compare(b: Builder, op: str, t: Scalar, x: Value, y: Value) -> str:
    """``eq`` and ``ne``; an order as NumPy has it: by real part, then imaginary part."""
    f = register_type(real_type(t))
    equal = b.both(*(b.op(f"fcmp oeq {f} {p}, {q}") for p, q in zip(x, y, strict=True)))
    if op == "eq":
        return equal
    if op == "ne":
        return b.op(f"xor i1 {equal}, true")
    strict = {"lt": "olt", "le": "olt", "gt": "ogt", "ge": "ogt"}[op]
    last = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}[op]
    first = b.op(f"fcmp {strict} {f} {x[0]}, {y[0]}")
    tie = b.op(f"fcmp oeq {f} {x[0]}, {y[0]}")
    return b.either(first, b.both(tie, b.op(f"fcmp {last} {f} {x[1]}, {y[1]}")))


def _mul(b: Builder, f: str, x: str, y: str) -> str:
    return b.op(f"fmul {f} {x}, {y}")


def _divide(b: Builder, f: str, x: Value, y: Value, weak: bool) -> Value:
    """Smith's method: R. L. Smith, "Algorithm 116: Complex division", CACM 5 (1962), as NumPy and CPython have it."""
    size = fabs(b, f, y[0]), fabs(b, f, y[1])
    by_real = b.op(f"fcmp oge {f} {size[0]}, {size[1]}")
    big, small = b.select(by_real, f, y[0], y[1]), b.select(by_real, f, y[1], y[0])
    ratio = b.op(f"fdiv {f} {small}, {big}")
    scale = b.op(f"fadd {f} {big}, {_mul(b, f, small, ratio)}")
    crossed = _mul(b, f, x[1], ratio), _mul(b, f, x[0], ratio)
    real = b.select(by_real, f, b.op(f"fadd {f} {x[0]}, {crossed[0]}"), b.op(f"fadd {f} {crossed[1]}, {x[1]}"))
    imag = b.select(by_real, f, b.op(f"fsub {f} {x[1]}, {crossed[1]}"), b.op(f"fsub {f} {crossed[0]}, {x[0]}"))
    if weak:
        return b.op(f"fdiv {f} {real}, {scale}"), b.op(f"fdiv {f} {imag}, {scale}")
    inverse = b.op(f"fdiv {f} {float_text(1.0, f)}, {scale}")
    zero = b.op(f"fcmp oeq {f} {b.op(f'fadd {f} {size[0]}, {size[1]}')}, {float_text(0.0, f)}")
    result = []
    for part, whole in ((real, x[0]), (imag, x[1])):
        result.append(b.select(zero, f, b.op(f"fdiv {f} {whole}, {size[0]}"), _mul(b, f, part, inverse)))
    return result[0], result[1]
