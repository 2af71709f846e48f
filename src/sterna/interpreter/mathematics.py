"""`math` and `cmath` with NumPy's meaning, as device code has them.

Kernels may call ``math.sin(x)`` on anything; on a float32 the result is a float32, on a strong integer a
float64, on a Python number a Python float.  Nothing raises: a domain error is NaN, an overflow infinity.
What has whole numbers for its result (``math.floor``, ``math.gcd``) is Python's own function.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["SHIMS", "shim_module"]

_UFUNCS: dict[str, str] = {
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
    "atan2": "arctan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "sqrt": "sqrt", "cbrt": "cbrt", "fabs": "fabs", "copysign": "copysign", "fmod": "fmod",
    "pow": "power", "degrees": "degrees", "radians": "radians", "nextafter": "nextafter",
}  # fmt: skip
_SPECIAL = ("erf", "erfc", "gamma", "lgamma", "remainder")
_PREDICATES = ("isnan", "isinf", "isfinite")
_COMPLEX = (
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "log10",
    "sqrt",
)  # fmt: skip


def _is_strong(x: Any) -> bool:
    return isinstance(x, np.generic | np.ndarray)


def floating(*args: Any, least: type = float) -> tuple[tuple[Any, ...], Callable[[Any], Any]]:
    """Arguments promoted to one floating type, and what turns a result into that type.

    Parameters
    ----------
    *args : number
        Python numbers are weak.
    least : type
        ``float``, or ``complex`` to promote real numbers to complex ones.

    Returns
    -------
    converted : tuple
        NumPy scalars of one type.
    finish : callable
        Python's `float` or `complex` when all arguments are weak, else the NumPy type.
    """
    strong = [np.asarray(x).dtype for x in args if _is_strong(x)]
    if not strong:
        is_complex = least is complex or any(isinstance(x, complex) for x in args)
        wide: Any = np.complex128 if is_complex else np.float64
        return tuple(wide(x) for x in args), complex if is_complex else float
    dtype = np.result_type(*strong)
    weak_float = any(isinstance(x, float | complex) and not _is_strong(x) for x in args)
    if dtype.kind in "biu" or (weak_float and dtype.kind not in "fc"):
        dtype = np.dtype(np.float64)
    if (least is complex or any(isinstance(x, complex) and not _is_strong(x) for x in args)) and dtype.kind != "c":
        dtype = np.result_type(dtype, np.complex64)
    return tuple(dtype.type(x) for x in args), dtype.type


def _through_numpy(ufunc: Any, least: type) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            converted, finish = floating(*args, least=least)
            return finish(ufunc(*converted))

    return call


def _through_python(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        converted, finish = floating(*args)
        try:
            return finish(function(*(float(x) for x in converted)))
        except ValueError:
            return finish(math.nan)
        except OverflowError:
            return finish(math.inf)

    return call


def _predicate(ufunc: Any) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        found = ufunc(x)
        return found if _is_strong(x) else bool(found)

    return call


def _log(x: Any, base: Any = None) -> Any:
    with np.errstate(all="ignore"):
        if base is None:
            (value,), finish = floating(x)
            return finish(np.log(value))
        (value, radix), finish = floating(x, base)
        return finish(np.log(value) / np.log(radix))


def _complex_log(x: Any, base: Any = None) -> Any:
    with np.errstate(all="ignore"):
        if base is None:
            (value,), finish = floating(x, least=complex)
            return finish(np.log(value))
        (value, radix), finish = floating(x, base, least=complex)
        return finish(np.log(value) / np.log(radix))


def _hypot(*args: Any) -> Any:
    with np.errstate(all="ignore"):
        converted, finish = floating(*args)
        size = np.abs(converted[0])
        for part in converted[1:]:
            size = np.hypot(size, part)
        return finish(size)


def _ldexp(x: Any, exponent: Any) -> Any:
    (value,), finish = floating(x)
    with np.errstate(all="ignore"):
        return finish(np.ldexp(value, int(np.clip(int(exponent), -(2**30), 2**30))))


def _modf(x: Any) -> Any:
    (value,), finish = floating(x)
    fraction, whole = np.modf(value)
    return finish(fraction), finish(whole)


def _frexp(x: Any) -> Any:
    (value,), finish = floating(x)
    mantissa, exponent = np.frexp(value)
    return finish(mantissa), int(exponent)


def _trunc(x: Any) -> int:
    whole: int = math.trunc(x.item() if _is_strong(x) else x)  # NumPy's scalars but float64 have no __trunc__
    return whole


def _ulp(x: Any) -> Any:
    (value,), finish = floating(x)
    size = np.abs(value)
    with np.errstate(all="ignore"):
        step = np.spacing(size)
        last = size - np.nextafter(size, type(size)(0))  # of the largest number: the step below it
    return finish(size if np.isinf(size) else step if np.isfinite(step) or np.isnan(size) else last)


def _real_of(dtype_type: Any) -> Any:
    return float if dtype_type is complex else np.zeros(0, dtype_type).real.dtype.type


def _phase(x: Any) -> Any:
    (value,), finish = floating(x, least=complex)
    return _real_of(finish)(np.arctan2(value.imag, value.real))


def _polar(x: Any) -> Any:
    (value,), finish = floating(x, least=complex)
    return _real_of(finish)(np.abs(value)), _phase(x)


def _rect(r: Any, phi: Any) -> Any:
    (radius, angle), finish = floating(r, phi)
    value = complex(radius * np.cos(angle), radius * np.sin(angle))
    return value if finish is float else np.result_type(radius.dtype, np.complex64).type(value)


def _table() -> tuple[dict[str, Any], dict[str, Any]]:
    real: dict[str, Any] = {name: _through_numpy(getattr(np, ufunc), float) for name, ufunc in _UFUNCS.items()}
    real |= {name: _through_python(getattr(math, name)) for name in _SPECIAL}
    real |= {name: _predicate(getattr(np, name)) for name in _PREDICATES}
    real |= {
        "log": _log,
        "hypot": _hypot,
        "ldexp": _ldexp,
        "modf": _modf,
        "frexp": _frexp,
        "ulp": _ulp,
        "trunc": _trunc,
    }
    imaginary: dict[str, Any] = {
        name: _through_numpy(getattr(np, _UFUNCS[name]), complex) for name in _COMPLEX if hasattr(cmath, name)
    }
    imaginary |= {name: _predicate(getattr(np, name)) for name in _PREDICATES}
    imaginary |= {"log": _complex_log, "phase": _phase, "polar": _polar, "rect": _rect}
    return real, imaginary


def _where(condition: Any, x: Any, y: Any) -> Any:
    """Of scalars, a scalar: NumPy gives an array without axes, which ``+=`` would change for all that share it."""
    return np.where(condition, x, y)[()]


_REAL, _IMAGINARY = _table()

SHIMS: dict[Any, Any] = {
    getattr(module, name): shim
    for module, table in ((math, _REAL), (cmath, _IMAGINARY))
    for name, shim in table.items()
    if hasattr(module, name)
} | {np.where: _where}
"""Function of `math` or `cmath` → the same with NumPy's meaning; of `numpy` → the same on scalars alone."""


def shim_module(module: ModuleType) -> ModuleType:
    """A stand-in for `math` or `cmath`: same names, NumPy's meaning."""
    stand_in = ModuleType(module.__name__, module.__doc__)
    vars(stand_in).update(vars(module))
    vars(stand_in).update(_REAL if module is math else _IMAGINARY)
    return stand_in
