"""Functions of complex numbers, from real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.builder import float_text
from sterna.compiler.codegen.llvm.complexes import complex_binary
from sterna.compiler.codegen.llvm.floats import copysign, fabs, suffix
from sterna.compiler.codegen.llvm.layout import Value, real_type, register_type
from sterna.errors import UnsupportedError
from sterna.types import Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
    from sterna.compiler.ir.nodes import Intrinsic

__all__ = ["complex_power", "emit_complex"]


def _real(e: FunctionEmitter, f: str, name: str, x: str) -> str:
    return e.b.op(f"call {f} @llvm.{name}.{suffix(f)}({f} {x})")


def _modulus(e: FunctionEmitter, f: str, z: Value) -> str:
    return e.library(f, "hypot", ((f, z[0]), (f, z[1])))


def _argument(e: FunctionEmitter, f: str, z: Value) -> str:
    return e.library(f, "atan2", ((f, z[1]), (f, z[0])))


def _exp(e: FunctionEmitter, f: str, z: Value) -> Value:
    size = _real(e, f, "exp", z[0])
    flat = e.b.op(f"fcmp oeq {f} {z[1]}, {float_text(0.0, f)}")
    sine = e.b.op(f"fmul {f} {size}, {_real(e, f, 'sin', z[1])}")
    return e.b.op(f"fmul {f} {size}, {_real(e, f, 'cos', z[1])}"), e.b.select(flat, f, z[1], sine)


def _log(e: FunctionEmitter, f: str, z: Value) -> Value:
    return _real(e, f, "log", _modulus(e, f, z)), _argument(e, f, z)


def _sqrt(e: FunctionEmitter, f: str, z: Value) -> Value:
    """``t = sqrt((|re| + |z|) / 2)``; the other part is ``im / 2t``; parts swap for a negative real part."""
    b, zero, half = e.b, float_text(0.0, f), float_text(0.5, f)
    size = b.op(f"fadd {f} {fabs(b, f, z[0])}, {_modulus(e, f, z)}")
    root = _real(e, f, "sqrt", b.op(f"fmul {f} {size}, {half}"))
    other = b.op(f"fdiv {f} {z[1]}, {b.op(f'fadd {f} {root}, {root}')}")
    positive = b.op(f"fcmp oge {f} {z[0]}, {zero}")
    real = b.select(positive, f, root, fabs(b, f, other))
    imag = b.select(positive, f, other, copysign(b, f, root, z[1]))
    nothing = b.both(b.op(f"fcmp oeq {f} {z[0]}, {zero}"), b.op(f"fcmp oeq {f} {z[1]}, {zero}"))
    return b.select(nothing, f, zero, real), b.select(nothing, f, z[1], imag)


def complex_power(e: FunctionEmitter, t: Scalar, x: Value, y: Value) -> Value:
    """``exp(y * log(x))``; 1 for a zero exponent, 0 for a zero base."""
    b, f = e.b, register_type(real_type(t))
    zero, one = float_text(0.0, f), float_text(1.0, f)
    general = _exp(e, f, complex_binary(b, "mul", t, y, _log(e, f, x)))
    no_power, no_base = (
        b.both(*(b.op(f"fcmp oeq {f} {part}, {zero}") for part in v)) for v in (y, x)
    )
    real = b.select(no_power, f, one, b.select(no_base, f, zero, general[0]))
    imag = b.select(b.either(no_power, no_base), f, zero, general[1])
    return real, imag


def emit_complex(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    """Emit a function of one complex number."""
    t, name, z = node.args[0].type, node.name.rpartition(".")[2], args[0]
    assert isinstance(t, Scalar)
    f = register_type(real_type(t))
    if name in ("abs", "absolute", "fabs"):
        return (_modulus(e, f, z),)
    if name in ("phase", "angle"):
        return (_argument(e, f, z),)
    if name in ("real", "imag"):
        return (z[("real", "imag").index(name)],)
    if name in ("conj", "conjugate"):
        return z[0], e.b.op(f"fneg {f} {z[1]}")
    if name in ("isnan", "isinf", "isfinite"):
        return (_predicate(e, f, name, z),)
    if name in ("square",):
        return complex_binary(e.b, "mul", t, z, z)
    functions = {"exp": _exp, "log": _log, "sqrt": _sqrt}
    if name not in functions:
        raise UnsupportedError(f"operation {node.name!r} on {t}")
    return functions[name](e, f, z)


def _predicate(e: FunctionEmitter, f: str, name: str, z: Value) -> str:
    b, infinity = e.b, float_text(float("inf"), f)
    if name == "isnan":
        return b.either(*(b.op(f"fcmp uno {f} {x}, {x}") for x in z))
    tests = [b.op(f"fcmp {'oeq' if name == 'isinf' else 'olt'} {f} {fabs(b, f, x)}, {infinity}") for x in z]
    return b.either(*tests) if name == "isinf" else b.both(*tests)
