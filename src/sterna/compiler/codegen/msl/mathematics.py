"""Mathematical functions: Metal's library in float32, or the prelude for what it lacks.

Two tables, function → emitter, of real numbers and of complex ones; `intrinsics` names the operations.
float16 and bfloat16 are computed in float32.
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

__all__ = ["COMPLEX_FUNCTIONS", "REAL_FUNCTIONS"]

_PRECISE = (
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "exp2",
    "log", "log2", "log10", "sqrt", "rsqrt", "atan2", "pow",
)  # fmt: skip
"""Functions that Metal has in two precisions."""
_EXACT = ("floor", "ceil", "trunc", "rint", "fabs", "fmin", "fmax", "fma", "copysign")
_SYNONYMS = {
    "absolute": "fabs", "abs": "fabs", "fix": "trunc", "round": "rint", "round_even": "rint", "power": "pow",
    "float_power": "pow", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh",
}  # fmt: skip
_HELPERS = {
    "hypot": "float_hypot", "fmod": "float_fmod", "log1p": "float_log1p", "expm1": "float_expm1", "cbrt": "float_cbrt",
    "remainder": "float_remainder", "minimum": "float_minimum", "maximum": "float_maximum",
    "sign": "float_sign", "ldexp": "float_ldexp", "frexp.mantissa": "float_mantissa",
    "floor_divide": "float_floor_divide", "mod": "float_modulo", "erf": "float_erf", "erfc": "float_erfc",
}  # fmt: skip
_COMPLEX_FUNCTIONS = (
    "exp", "log", "log10", "sqrt", "sinh", "cosh", "tanh", "sin", "cos", "tan", "asin", "acos", "acosh", "asinh",
    "atanh", "atan",
)  # fmt: skip


Emit = Callable[["FunctionEmitter", "Intrinsic", tuple[str, ...]], str]
Texts = Callable[["FunctionEmitter", list[str]], str]


def _wide(texts: Texts) -> Emit:
    """A function of float32; small floats are widened, and its text is the result."""

    def emit(e: FunctionEmitter, node: Intrinsic, args: tuple[str, ...]) -> str:
        pairs = zip(node.args, args, strict=True)
        return texts(
            e, [widen(e, a.type, x) if isinstance(a.type, Scalar) and a.type.kind in "fe" else x for a, x in pairs]
        )

    return emit


def _number(texts: Texts) -> Emit:
    """A function from float32 to float32; its result is converted to the type of the operation."""
    compute = _wide(texts)

    def emit(e: FunctionEmitter, node: Intrinsic, args: tuple[str, ...]) -> str:
        text = compute(e, node, args)
        assert isinstance(node.type, Scalar)
        return narrow(e, node.type, text) if node.type.kind in "fe" else cast(e, FLOAT32, node.type, text)

    return emit


def _precise(name: str) -> Emit:
    return _number(lambda e, wide: call(e.function(name), *wide))


def _exact(name: str) -> Texts:
    return lambda e, wide: call(f"metal::{name}", *wide)


def _of_prelude(name: str) -> Texts:
    return lambda e, wide: e.helper(name, *wide)


def _exponent(e: FunctionEmitter, node: Intrinsic, args: tuple[str, ...]) -> str:
    assert isinstance(node.type, Scalar)
    return cast(e, PYINT, node.type, _wide(_of_prelude("float_exponent"))(e, node, args))


def _signbit(e: FunctionEmitter, node: Intrinsic, args: tuple[str, ...]) -> str:
    source = node.args[0].type
    assert isinstance(source, Scalar)
    return f"(as_type<int>({widen(e, source, args[0])}) < 0)"


def _nextafter(e: FunctionEmitter, node: Intrinsic, args: tuple[str, ...]) -> str:
    source = node.args[0].type
    assert isinstance(source, Scalar)
    if native(source) == Scalar("f", 16):
        return e.helper("half_next", *args)
    return _number(_of_prelude("float_next"))(e, node, args)


def _missing(e: FunctionEmitter, node: Intrinsic, args: tuple[str, ...]) -> str:
    raise UnsupportedError(
        f"{node.name} is not available on target metal, whose library does not have it",
        hint="compute it in a device function of your own (device_override), or on the host",
    )


_NAMED: dict[str, Emit] = {
    **{name: _precise(name) for name in _PRECISE},
    **{name: _number(_exact(name)) for name in _EXACT},
    **{name: _wide(_exact(name)) for name in ("isnan", "isinf", "isfinite")},
    **{name: _number(_of_prelude(helper)) for name, helper in _HELPERS.items()},
    "frexp.exponent": _exponent, "signbit": _signbit, "nextafter": _nextafter, "gamma": _missing, "lgamma": _missing,
}  # fmt: skip
REAL_FUNCTIONS: dict[str, Emit] = {**_NAMED, **{name: _NAMED[known] for name, known in _SYNONYMS.items()}}
"""Function of real numbers, without the module's name → how it is computed."""


ComplexEmit = Callable[["FunctionEmitter", str], str]


def _helper(name: str) -> ComplexEmit:
    return lambda e, z: e.helper(name, z)


def _function(name: str) -> ComplexEmit:
    return lambda e, z: e.helper(name, e.code.atom("float2", z))


def _parts(template: str) -> ComplexEmit:
    """Text made of the number's parts, which are read more than once."""
    return lambda e, z: template.format(z=e.code.atom("float2", z))


_CONJUGATE = _parts("float2({z}.x, -{z}.y)")
COMPLEX_FUNCTIONS: dict[str, ComplexEmit] = {
    **{name: _function(f"complex_{name}") for name in _COMPLEX_FUNCTIONS},
    **dict.fromkeys(("abs", "absolute", "fabs"), _helper("complex_abs")),
    **dict.fromkeys(("phase", "angle"), _helper("complex_phase")),
    "real": _parts("{z}.x"), "imag": _parts("{z}.y"), "conj": _CONJUGATE, "conjugate": _CONJUGATE,
    "isnan": _parts("(metal::isnan({z}.x) || metal::isnan({z}.y))"),
    "isinf": _parts("(metal::isinf({z}.x) || metal::isinf({z}.y))"),
    "isfinite": _parts("(metal::isfinite({z}.x) && metal::isfinite({z}.y))"),
}  # fmt: skip
"""Function of one complex number → how it is computed."""
