"""Functions of `math`, `cmath` and NumPy in kernels, within stated ulps of NumPy in higher precision."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest

import sterna
from helpers.compare import assert_same, ulps_apart
from helpers.launching import Place
from helpers.values import edges

UNARY = {
    # name: (domain, numpy name, ulps)
    "sin": (-10, 10, "sin", 4), "cos": (-10, 10, "cos", 4), "tan": (-1.5, 1.5, "tan", 4),
    "asin": (-1, 1, "arcsin", 4), "acos": (-1, 1, "arccos", 4), "atan": (-50, 50, "arctan", 4),
    "sinh": (-5, 5, "sinh", 4), "cosh": (-5, 5, "cosh", 4), "tanh": (-5, 5, "tanh", 4),
    "asinh": (-50, 50, "arcsinh", 4), "acosh": (1, 50, "arccosh", 4), "atanh": (-0.99, 0.99, "arctanh", 4),
    "exp": (-20, 20, "exp", 4), "exp2": (-20, 20, "exp2", 4), "expm1": (-3, 3, "expm1", 4),
    "log": (1e-6, 1e6, "log", 4), "log2": (1e-6, 1e6, "log2", 4), "log10": (1e-6, 1e6, "log10", 4),
    "log1p": (-0.9, 1e3, "log1p", 4), "sqrt": (0, 1e6, "sqrt", 0), "fabs": (-9, 9, "fabs", 0),
    "degrees": (-9, 9, "degrees", 2), "radians": (-900, 900, "radians", 2), "cbrt": (-90, 90, "cbrt", 4),
}  # fmt: skip
_SOURCE = """
import math
import sterna

@sterna.kernel
def k(x, out):
    i = sterna.grid(1)
    out[i] = math.{name}(x[i])
"""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_unary(place: Place, make_module, name, dtype):
    low, high, numpy_name, ulps = UNARY[name]
    x = np.linspace(low, high, 301).astype(dtype)
    x = x[(x >= low) & (x <= high)]
    wide = getattr(np, numpy_name)(x.astype(np.longdouble))
    out = np.zeros(x.size, dtype)
    place.over(make_module(_SOURCE.format(name=name)).k, x.size, x, out)
    # Near a zero of sin and cos the reference is exact and the relative error of any library is larger.
    near_zero = np.abs(wide) < np.finfo(dtype).eps * 8
    apart = ulps_apart(out, wide.astype(dtype))
    assert apart[~near_zero].max() <= ulps, f"{name}: {apart[~near_zero].max()} ulps"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_unary_at_the_edges(place: Place, make_module, name, dtype):
    x = edges(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, UNARY[name][2])(x.astype(np.longdouble)).astype(dtype)
    out = np.zeros(x.size, dtype)
    place.over(make_module(_SOURCE.format(name=name)).k, x.size, x, out)
    assert_same(out, expected, ulps=4, label=name)


@sterna.kernel
def result_types(f32, i32, out):
    out[0] = math.sqrt(f32[0])  # float32: NumPy's meaning
    out[1] = math.sqrt(i32[0])  # float64
    out[2] = math.sqrt(2)  # a Python float: float64
    out[3] = math.exp(f32[0]) * 1.1
    out[4] = np.sqrt(f32[0])
    out[5] = math.pi * f32[0]


def test_result_types(place: Place):
    f32, i32, out = np.array([2], np.float32), np.array([2], np.int32), np.zeros(6)
    place.launch(result_types, 1, 1, f32, i32, out)
    root32, root64 = float(np.sqrt(np.float32(2))), math.sqrt(2)
    assert out[[0, 1, 2, 4]].tolist() == [root32, root64, root64, root32]
    assert out[3] == pytest.approx(float(np.exp(np.float32(2)) * np.float32(1.1)), rel=1e-6)
    assert out[3] == float(np.float32(out[3]))
    assert out[5] == float(np.float32(math.pi) * np.float32(2))


@sterna.kernel
def binary(x, y, out):
    i = sterna.grid(1)
    out[0, i] = math.atan2(x[i], y[i])
    out[1, i] = math.hypot(x[i], y[i])
    out[2, i] = math.copysign(x[i], y[i])
    out[3, i] = math.fmod(x[i], y[i])
    out[4, i] = math.pow(x[i], 3.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_binary(place: Place, dtype):
    x, y = (v.ravel() for v in np.meshgrid(np.array([-7.5, -1, -0.0, 0.0, 2, 9.25], dtype), [-2.0, -0.5, 1, 3.5]))
    x, y = x.astype(dtype), y.astype(dtype)
    out = np.zeros((5, x.size), dtype)
    place.over(binary, x.size, x, y, out)
    assert_same(out[0], np.arctan2(x, y), ulps=4)
    assert_same(out[1], np.hypot(x, y), ulps=2)
    assert_same(out[2], np.copysign(x, y))
    assert_same(out[3], np.fmod(x, y))
    assert_same(out[4], (x.astype(np.longdouble) ** 3).astype(dtype), ulps=4)


@sterna.kernel
def wholes(x, out, flags):
    i = sterna.grid(1)
    out[0, i] = math.floor(x[i])
    out[1, i] = math.ceil(x[i])
    out[2, i] = math.trunc(x[i])
    out[3, i] = round(x[i])


@sterna.kernel
def predicates(x, flags):
    i = sterna.grid(1)
    flags[0, i] = math.isnan(x[i])
    flags[1, i] = math.isinf(x[i])
    flags[2, i] = math.isfinite(x[i])


def test_rounding_and_predicates(place: Place):
    x = np.array([-2.5, -1.5, -0.4, 0.5, 1.5, 2.7])
    out, flags = np.zeros((4, 6), np.int64), np.zeros((3, 6), bool)
    place.over(wholes, 6, x, out, flags)
    assert_same(out, np.stack([np.floor(x), np.ceil(x), np.trunc(x), np.round(x)]).astype(np.int64))
    x[:3] = [np.nan, np.inf, -np.inf]
    place.over(predicates, 6, x, flags)
    assert_same(flags, np.stack([np.isnan(x), np.isinf(x), np.isfinite(x)]))


@sterna.kernel
def wholes_of_one(x, out):
    out[0], out[1], out[2] = math.floor(x[0]), math.ceil(x[0]), math.trunc(x[0])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8", "bool"])
def test_wholes_of_every_type(place: Place, dtype):
    value, out = np.array([1.75]).astype(dtype), np.zeros(3, np.int64)
    place.launch(wholes_of_one, 1, 1, value, out)
    assert out.tolist() == [1, 2 if value.dtype.kind == "f" else 1, 1]


@sterna.kernel
def parts(x, mantissas, exponents):
    i = sterna.grid(1)
    mantissas[i], exponents[i] = math.frexp(x[i])


@sterna.kernel
def mantissa_of_one(x, out):
    out[0] = math.frexp(x[0])[0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_frexp(place: Place, dtype):
    x = np.concatenate([edges(dtype), np.array([1, -1, 0.5, 2, 3.75, -100], dtype)])
    mantissas, exponents = np.zeros(x.size, dtype), np.zeros(x.size, np.int64)
    place.over(parts, x.size, x, mantissas, exponents)
    expected, powers = np.frexp(x)
    assert_same(mantissas, expected)
    assert exponents.tolist() == np.where(np.isfinite(x), powers, 0).tolist()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_frexp_of_one_value_in_many_threads(place: Place, dtype):
    out = np.zeros(1, dtype)
    place.launch(mantissa_of_one, 2, 64, np.array([-3], dtype), out)
    assert out[0] == -0.75


@sterna.kernel
def special(x, out):
    i = sterna.grid(1)
    out[0, i] = math.erf(x[i])
    out[1, i] = math.erfc(x[i])
    out[2, i] = math.gamma(x[i])
    out[3, i] = math.lgamma(x[i])


def test_special_functions(place: Place):
    x = np.linspace(0.1, 5, 40)
    out = np.zeros((4, 40))
    place.over(special, 40, x, out)
    for row, f in zip(out, (math.erf, math.erfc, math.gamma, math.lgamma), strict=True):
        np.testing.assert_allclose(row, [f(v) for v in x], rtol=1e-13, atol=1e-15)


@sterna.kernel
def no_exceptions(x, out):
    out[0] = math.sqrt(x[0])
    out[1] = math.log(x[1])
    out[2] = math.exp(x[2])
    out[3] = math.log(x[0])


def test_domain_errors_give_nan_and_infinity(place: Place):
    out = np.zeros(4)
    place.launch(no_exceptions, 1, 1, np.array([-1.0, 0.0, 1e4]), out)
    assert_same(out, np.array([np.nan, -np.inf, np.inf, np.nan]))


@sterna.kernel
def complex_functions(z, out):
    i = sterna.grid(1)
    out[0, i] = cmath.exp(z[i])
    out[1, i] = cmath.sqrt(z[i])
    out[2, i] = cmath.log(z[i])
    out[3, i] = cmath.sin(z[i])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_functions(place: Place, dtype):
    z = np.array([1 + 2j, -0.5 + 0.25j, 2 - 1j, -1 - 1j], dtype)
    out = np.zeros((4, 4), dtype)
    place.over(complex_functions, 4, z, out)
    expected = np.stack([np.exp(z), np.sqrt(z), np.log(z), np.sin(z)])
    np.testing.assert_allclose(out, expected, rtol=1e-5 if dtype == "complex64" else 1e-13)


NUMPY_NAMES = ("sin", "exp", "log", "sqrt", "floor", "ceil", "trunc", "rint", "absolute", "square", "sign", "tanh")
_NUMPY_SOURCE = """
import numpy as np
import sterna

@sterna.kernel
def k(x, out):
    i = sterna.grid(1)
    out[i] = np.{name}(x[i])
"""


@pytest.mark.parametrize("name", NUMPY_NAMES)
def test_numpy_names(place: Place, make_module, name):
    x = np.array([0.25, 1.0, 2.5, 3.5, 7.75], np.float32)
    out = np.zeros(5, np.float32)
    place.over(make_module(_NUMPY_SOURCE.format(name=name)).k, 5, x, out)
    assert_same(out, getattr(np, name)(x), ulps=4)
