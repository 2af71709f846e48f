"""NumPy's scalar functions by name, on arrays' elements and on Python numbers, against NumPy itself."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest

from helpers.compare import assert_same
from helpers.launching import Place
from helpers.values import edge_pairs, edges

HEAD = "import cmath\nimport math\nimport numpy as np\nimport sterna\n\n\n@sterna.kernel\n"
WHOLE = {  # exact: name → dtypes
    "gcd": ("int8", "int32", "uint16", "int64", "uint64"), "lcm": ("int32", "uint8", "int64"),
    "fmod": ("int8", "uint32", "int64", "float32", "float64"), "heaviside": ("float32", "float64"),
    "float_power": ("int8", "float32"), "copysign": ("float16", "float64"),
    "nextafter": ("float16", "float32", "float64"),
}  # fmt: skip
SINGLE = {
    "positive": ("int8", "uint64", "float16", "float64"), "spacing": ("float16", "float32", "float64"),
    "bitwise_count": ("int8", "uint8", "int32", "int64", "uint64"),
    "round": ("float32", "float64", "int16"), "sign": ("int8", "uint8", "float32", "float64"),
    "square": ("int16", "float32"), "signbit": ("float16", "float32", "float64"), "rint": ("float32", "float64"),
}  # fmt: skip


def launch(place: Place, make_module, body: str, parameters: str, n: int, *arrays: np.ndarray) -> None:
    place.over(make_module(f"{HEAD}def k({parameters}):\n    i = sterna.grid(1)\n{body}").k, n, *arrays)


@pytest.mark.parametrize("name", WHOLE)
def test_two_arguments(place: Place, make_module, name):
    for dtype in WHOLE[name]:
        a, b = edge_pairs(dtype, dtype)
        if dtype == "int8" and name == "gcd":
            a, b = np.append(a, a[:1]), np.append(b, a[:1])  # the most negative one with itself
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(a, b)
        if name == "nextafter":  # of equal numbers it is the second, says C; NumPy before 2.5 differs for float16 zeros
            expected = np.where(a == b, b, expected)
        if place.is_interpreter and name == "nextafter" and dtype == "float16":
            expected = np.nextafter(a, b)
        out = np.zeros_like(expected)
        launch(place, make_module, f"    o[i] = np.{name}(a[i], b[i])\n", "a, b, o", a.size, a, b, out)
        assert_same(out, expected, ulps=2 if name == "float_power" else 0, label=f"{name} of {dtype}")


@pytest.mark.parametrize("name", SINGLE)
def test_one_argument(place: Place, make_module, name):
    for dtype in SINGLE[name]:
        a = edges(dtype)
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(a)
        out = np.zeros_like(expected)
        launch(place, make_module, f"    o[i] = np.{name}(a[i])\n", "a, o", a.size, a, out)
        assert_same(out, expected, label=f"{name} of {dtype}")


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithms_of_sums(place: Place, make_module, name, dtype):
    a, b = (v.ravel() for v in np.meshgrid(np.linspace(-20, 20, 15), np.linspace(-19, 21, 14)))
    a, b = (
        np.append(a, [np.inf, -np.inf, np.nan, 1]).astype(dtype),
        np.append(b, [np.inf, -np.inf, 1, np.inf]).astype(dtype),
    )
    out = np.zeros_like(a)
    launch(place, make_module, f"    o[i] = np.{name}(a[i], b[i])\n", "a, b, o", a.size, a, b, out)
    with np.errstate(all="ignore"):
        wide = getattr(np, name)(a.astype(np.longdouble), b.astype(np.longdouble))
    np.testing.assert_allclose(out, wide.astype(dtype), rtol=4 * np.finfo(dtype).eps, atol=4 * np.finfo(dtype).eps)


def test_parts_of_floats(place: Place, make_module):
    x = edges("float64")
    parts, exponents = np.zeros((3, x.size)), np.zeros(x.size, np.int32)
    body = (
        "    parts[0, i], parts[1, i] = np.modf(x[i])\n    parts[2, i], e = np.frexp(x[i])\n"
        "    exponents[i] = e if math.isfinite(x[i]) else 0\n"
    )
    launch(place, make_module, body, "x, parts, exponents", x.size, x, parts, exponents)
    with np.errstate(all="ignore"):
        fraction, whole = np.modf(x)
        mantissa, exponent = np.frexp(x)
    assert_same(parts, np.stack([fraction, whole, mantissa]))
    assert_same(exponents, np.where(np.isfinite(x), exponent, 0).astype(np.int32))


def test_python_s_own_functions_of_whole_numbers(place: Place, make_module):
    body = (
        "    o[0] = math.gcd(n, 18, -12)\n    o[1] = math.lcm(4, n)\n    o[2] = math.gcd(x[0], x[1])\n"
        "    o[3] = math.gcd(0, 0) + math.lcm(0, 3) + math.gcd(n)\n    o[4] = math.prod((n, 2.5, x[0]))\n"
        "    o[5] = math.ulp(1.0)\n    o[6] = math.ulp(f[0])\n    o[7] = math.ulp(f[1])\n"
    )
    o, x, f = np.zeros(8), np.array([-128, 96], np.int8), np.array([1.5, np.finfo(np.float32).max], np.float32)
    launch(place, make_module, body, "o, x, f, n=30", 1, o, x, f)
    top = f[1] - np.nextafter(f[1], np.float32(0))
    assert o.tolist() == [6, 60, 32, 30, 30 * 2.5 * -128, math.ulp(1.0), 2.0**-23, top]


def test_polar_and_rectangular(place: Place, make_module):
    z = np.array([1 + 2j, -3 + 0.5j, -0.0 - 1j, 2])
    o, back = np.zeros((2, 4)), np.zeros(4, complex)
    body = "    o[0, i], o[1, i] = cmath.polar(z[i])\n    back[i] = cmath.rect(o[0, i], o[1, i])\n"
    launch(place, make_module, body, "z, o, back", 4, z, o, back)
    np.testing.assert_allclose(o.T, [cmath.polar(v) for v in z], rtol=1e-15)
    np.testing.assert_allclose(back, z, rtol=1e-14, atol=1e-15)


OF_PYTHON_NUMBERS = (
    "np.sin(0.5)", "np.sqrt(2.0)", "np.sqrt(n)", "np.maximum(n, 2.5)", "np.add(0.1, 0.2)", "np.where(n > 1, 0.1, 0.3)",
    "np.where(x[0] > 0, 0.1, 0.3)", "np.square(0.1)", "np.hypot(0.1, n)", "np.degrees(0.1)", "np.arctan2(n, 3)",
    "np.round(0.15, 1)", "np.round(2.5)", "np.clip(0.7, 0.1, 0.3)", "np.true_divide(n, 0)", "np.floor_divide(n, 0)",
    "np.negative(0.1)", "np.minimum(x[0], 0.1)", "np.where(n > 1, x[0], 0.1)", "np.clip(x[0], 0.1, 0.2)",
    "np.power(0.1, 3)", "np.fmod(-7, 3)", "np.heaviside(0.0, 0.1)", "np.float_power(n, 0.5)", "np.abs(-0.1)",
    "(np.less(0.1, 0.2) + np.less(0.1, 0.3))", "np.multiply(2**62, 4)", "np.sign(-0.1)", "np.reciprocal(0.3)",
)  # fmt: skip


def test_numpy_functions_of_python_numbers_give_numpy_numbers(place: Place, make_module):
    """``np.sin(0.5)`` is a float64, not a Python float: it does not take the type of a float32 beside it."""
    lines = "".join(f"    o[{k}] = {text} * x[0]\n" for k, text in enumerate(OF_PYTHON_NUMBERS))
    x, o = np.array([0.3], np.float32), np.zeros(len(OF_PYTHON_NUMBERS))
    launch(place, make_module, lines, "x, o, n=5", 1, x, o)
    with np.errstate(all="ignore"):
        right = [eval(text, {"np": np, "n": 5, "x": x}) * x[0] for text in OF_PYTHON_NUMBERS]
    assert_same(o, np.array(right, np.float64), ulps=2 if place.name.startswith("cuda") else 0)  # NVIDIA's pow


NEAR = [
    (1.0, 1.0 + 1e-10), (1.0, 1.0 + 1e-8), (0.0, 1e-12), (0.0, 0.0), (-3.0, -3.00002), (math.inf, math.inf),
    (math.inf, -math.inf), (math.inf, 1e308), (1e308, -1e308), (math.nan, math.nan), (math.nan, 1.0), (5.0, 5.5),
]  # fmt: skip


def test_isclose(place: Place, make_module):
    """Python's definitions and NumPy's, with their own defaults and with tolerances."""
    f = np.array(NEAR)
    z = f.astype(np.complex128) * (1 + 1j)
    z[np.isnan(z)] = complex(math.nan, 0)
    body = (
        "    a, b = f[i, 0], f[i, 1]\n    o[i, 0] = math.isclose(a, b)\n"
        "    o[i, 1] = math.isclose(a, b, rel_tol=0.2)\n    o[i, 2] = math.isclose(a, b, abs_tol=1e-9, rel_tol=0.0)\n"
        "    o[i, 3] = np.isclose(a, b)\n    o[i, 4] = np.isclose(a, b, 0.2, 1e-3)\n"
        "    o[i, 5] = np.isclose(a, b, atol=0.0, equal_nan=True)\n"
        "    o[i, 6] = cmath.isclose(z[i, 0], z[i, 1])\n    o[i, 7] = cmath.isclose(z[i, 0], z[i, 1], rel_tol=0.2)\n"
    )
    out = np.zeros((len(NEAR), 8), np.bool_)
    launch(place, make_module, body, "f, z, o", len(NEAR), f, z, out)
    for row, (a, b), (c, d) in zip(out.tolist(), NEAR, z.tolist(), strict=True):
        with np.errstate(all="ignore"):
            expected = [
                math.isclose(a, b), math.isclose(a, b, rel_tol=0.2), math.isclose(a, b, abs_tol=1e-9, rel_tol=0.0),
                bool(np.isclose(a, b)), bool(np.isclose(a, b, 0.2, 1e-3)),
                bool(np.isclose(a, b, atol=0.0, equal_nan=True)),
                cmath.isclose(c, d), cmath.isclose(c, d, rel_tol=0.2),
            ]  # fmt: skip
        assert row == expected, (a, b)
