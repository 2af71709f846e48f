"""Mathematical functions: Metal's library in float32, or the prelude for what it lacks.

An operation ``math.f``, ``cmath.f``, ``numpy.f`` or plain ``f`` is looked up by its last part.  float16 and bfloat16
are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sterna.compiler.codegen.msl.code import call
from sterna.compiler.codegen.msl.layout import native
from sterna.compiler.codegen.msl.scalars import cast, narrow, widen
from sterna.errors import UnsupportedError
from sterna.types import FLOAT32, PYINT, Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.msl.emitter import FunctionEmitter
    from sterna.compiler.ir.nodes import Intrinsic

__all__ = ["emit_complex", "emit_math", "is_math"]

_PRECISE = (
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "exp2",
    "log", "log2", "log10", "sqrt", "rsqrt", "atan2", "pow",
)  # fmt: skip
"""Functions that Metal has in two precisions."""
_EXACT = ("floor", "ceil", "trunc", "rint", "fabs", "fmin", "fmax", "fma", "copysign", "isnan", "isinf", "isfinite")
_SYNONYMS = {
    "absolute": "fabs", "abs": "fabs", "fix": "trunc", "round": "rint", "round_even": "rint", "power": "pow",
    "float_power": "pow", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh",
}  # fmt: skip
_HELPERS = {
    "hypot": "float_hypot", "fmod": "float_fmod", "log1p": "float_log1p", "expm1": "float_expm1", "cbrt": "float_cbrt",
    "remainder": "float_remainder", "nextafter": "float_next", "minimum": "float_minimum", "maximum": "float_maximum",
    "sign": "float_sign", "ldexp": "float_ldexp", "mantissa": "float_mantissa", "exponent": "float_exponent",
    "floor_divide": "float_floor_divide", "mod": "float_modulo", "erf": "float_erf", "erfc": "float_erfc",
}  # fmt: skip
_MISSING = ("gamma", "lgamma")
_COMPLEX_FUNCTIONS = (
    "exp", "log", "log10", "sqrt", "sinh", "cosh", "tanh", "sin", "cos", "tan", "asin", "acos", "acosh", "asinh",
    "atanh", "atan",
)  # fmt: skip


def is_math(name: str) -> bool:
    """Whether the last part of `name` is a function known here."""
    last = name.rpartition(".")[2]
    return last in _SYNONYMS or last in _PRECISE or last in _EXACT or last in _HELPERS or last in _MISSING


def emit_math(e: FunctionEmitter, node: Intrinsic, args: tuple[str, ...]) -> str:
    """Compute a mathematical function of real arguments."""
    name = node.name.rpartition(".")[2]
    name = _SYNONYMS.get(name, name)
    source = node.args[0].type
    assert isinstance(source, Scalar)
    if name in _MISSING:
        raise UnsupportedError(
            f"{node.name} is not available on target metal, whose library does not have it",
            hint="compute it in a device function of your own (device_override), or on the host",
        )
    if name == "nextafter" and native(source) == Scalar("f", 16):
        return e.helper("half_next", *args)
    if name == "signbit":
        return f"(as_type<int>({widen(e, source, args[0])}) < 0)"
    wide = [
        widen(e, a.type, x) if isinstance(a.type, Scalar) and a.type.kind in "fe" else x
        for a, x in zip(node.args, args, strict=True)
    ]
    if name in _PRECISE:
        text = call(e.function(name), *wide)
    elif name in _EXACT:
        text = call(f"metal::{name}", *wide)
    else:
        text = e.helper(_HELPERS[name], *wide)
    if name.startswith("is"):
        return text
    assert isinstance(node.type, Scalar)
    if name == "exponent":
        return cast(e, PYINT, node.type, text)
    return narrow(e, node.type, text) if node.type.kind in "fe" else cast(e, FLOAT32, node.type, text)


def emit_complex(e: FunctionEmitter, node: Intrinsic, z: str) -> str:
    """Emit a function of one complex number."""
    emit = _COMPLEX.get(node.name.rpartition(".")[2])
    if emit is None:
        raise UnsupportedError(f"operation {node.name!r} on complex64")
    return emit(e, z)


ComplexEmit = Callable[["FunctionEmitter", str], str]


def _helper(name: str) -> ComplexEmit:
    return lambda e, z: e.helper(name, z)


def _function(name: str) -> ComplexEmit:
    return lambda e, z: e.helper(name, e.code.atom("float2", z))


def _parts(template: str) -> ComplexEmit:
    """Text made of the number's parts, which are read more than once."""
    return lambda e, z: template.format(z=e.code.atom("float2", z))


_CONJUGATE = _parts("float2({z}.x, -{z}.y)")
_COMPLEX: dict[str, ComplexEmit] = {
    **{name: _function(f"complex_{name}") for name in _COMPLEX_FUNCTIONS},
    **dict.fromkeys(("abs", "absolute", "fabs"), _helper("complex_abs")),
    **dict.fromkeys(("phase", "angle"), _helper("complex_phase")),
    "real": _parts("{z}.x"), "imag": _parts("{z}.y"), "conj": _CONJUGATE, "conjugate": _CONJUGATE,
    "isnan": _parts("(metal::isnan({z}.x) || metal::isnan({z}.y))"),
    "isinf": _parts("(metal::isinf({z}.x) || metal::isinf({z}.y))"),
    "isfinite": _parts("(metal::isfinite({z}.x) && metal::isfinite({z}.y))"),
}  # fmt: skip
"""Function of one complex number → how it is computed."""
