"""Metal's own ways, by simulation: Python floats in float32, mathematics that its library lacks, strategies."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import sterna
from helpers.compare import assert_same
from helpers.launching import Place
from helpers.metal.api import simulated
from helpers.metal.marks import SIMULATED
from helpers.modules import write_module

pytestmark = SIMULATED
METAL = Place("metal:0")
GAIN = sterna.Global(2.5, "float32")
TABLE = np.arange(5, dtype=np.float32) * np.float32(1.5)


@pytest.fixture(autouse=True)
def device(tmp_path_factory, monkeypatch) -> Iterator[Any]:
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "store"))
    with simulated(1) as metal:
        yield metal.devices[0]


class Pair(NamedTuple):
    scale: float
    shift: complex


EDGES = [
    0.0, -0.0, 1.0, 1.0 + 2.0**-24, 1.0 + 3 * 2.0**-24, 1.0 + 2.0**-24 + 2.0**-50, 3.4028235677973366e38,
    3.4028234663852886e38, 1e300, -1e300, 2.0**-126, 2.0**-149, 2.0**-150, 2.0**-150 * 1.001, -(2.0**-151), 5e-324,
    1.1754942807573643e-38, math.inf, -math.inf, math.nan, 0.1, -1 / 3, 123456789.123,
]  # fmt: skip


@sterna.kernel
def given(out, k, x, pair):
    out[k, 0] = x
    out[k, 1] = pair.scale
    out[k, 2] = pair.shift.real
    out[k, 3] = pair.shift.imag


def test_python_floats_arrive_rounded_once():
    out = np.zeros((len(EDGES), 4), np.float32)
    with sterna.on("metal:0"):
        there = sterna.to_device(out)
        for k, x in enumerate(EDGES):
            given[1, 1](there, k, x, Pair(-x, complex(x, 0.5)))
        sterna.synchronize()
        out = there.copy_to_host()
    with np.errstate(over="ignore"):
        right = np.array(EDGES).astype(np.float32)
    assert_same(out[:, 0], right)
    assert_same(out[:, 1], -right)
    assert_same(out[:, 2], right)
    assert np.all(out[:, 3] == 0.5)


def test_python_floats_are_computed_in_float32():
    @sterna.kernel
    def k(out, x, n):
        out[0] = (x + 0.1) * 3.0
        out[1] = n / 3
        out[2] = float(n) ** 0.5
        out[3] = 1e-3 if x > 0.2 else 2.0

    out = np.zeros(4, np.float32)
    METAL.launch(k, 1, 1, out, 0.25, 7)
    f = np.float32
    assert_same(out, np.array([(f(0.25) + f(0.1)) * f(3.0), f(7) / f(3), np.sqrt(f(7)), f(1e-3)], f), ulps=1)


def test_python_floats_are_printed_as_float32(capfd):
    @sterna.kernel
    def k(x):
        print("x", x, x * 2j, 2**40, True)

    METAL.launch(k, 1, 1, 0.1)
    assert capfd.readouterr().out == "x 0.1 0.2j 1099511627776 True\n"


REAL = {
    math.log1p: [1e-8, -0.5, 3.0, 1e30, math.inf, -1.0], math.expm1: [1e-8, -1e-4, 0.5, 20.0, -50.0, math.inf],
    math.cbrt: [8.0, -27.0, 1e-40, 1e30, 0.0, -0.0, math.inf], math.asinh: [0.5, -3.0], math.tanh: [0.1, -9.0],
}  # fmt: skip


@pytest.mark.parametrize("function", REAL, ids=lambda f: f.__name__)
def test_functions_of_one_number(function):
    @sterna.kernel
    def k(x, out):
        i = sterna.grid(1)
        out[i] = function(x[i])

    x = np.array(REAL[function], np.float32)
    out = np.zeros_like(x)
    METAL.over(k, x.size, x, out)
    numpy = {"log1p": np.log1p, "expm1": np.expm1, "cbrt": np.cbrt, "asinh": np.arcsinh, "tanh": np.tanh}
    with np.errstate(all="ignore"):
        right = numpy[function.__name__](x.astype(np.float64)).astype(np.float32)
    assert_same(out, right, ulps=4)


def test_error_functions():
    @sterna.kernel
    def k(x, out):
        i = sterna.grid(1)
        out[i, 0], out[i, 1] = math.erf(x[i]), math.erfc(x[i])

    x = np.concatenate([np.linspace(-4, 10, 701), [0.0, -0.0, 1e-30, math.inf, -math.inf, math.nan]]).astype(np.float32)
    out = np.zeros((x.size, 2), np.float32)
    METAL.over(k, x.size, x, out)
    right = np.array([(math.erf(v), math.erfc(v)) for v in map(float, x)]).astype(np.float32)
    big = right > 1.2e-38  # below, the units are those of subnormal numbers
    assert_same(np.where(big[:, 1], out[:, 1], 0), np.where(big[:, 1], right[:, 1], 0), ulps=8)
    assert_same(out[:, 0], right[:, 0], ulps=6)


PAIRS = [(3.0, 4.0), (-1e30, 1e30), (1e-30, 1e-31), (math.inf, math.nan), (0.0, -0.0), (7.5, -2.0), (5.0, 3.0),
         (-5.0, 3.0), (2.5, 1.0), (3.5, 1.0), (1.0, math.inf), (1e30, 7.0), (1.0, 0.0)]  # fmt: skip


def test_functions_of_two_numbers():
    @sterna.kernel
    def k(x, y, out):
        i = sterna.grid(1)
        out[i, 0] = math.hypot(x[i], y[i])
        out[i, 1] = math.remainder(x[i], y[i])
        out[i, 2] = np.nextafter(x[i], y[i])
        out[i, 3] = math.ldexp(x[i], -3)

    x, y = np.array(PAIRS, np.float32).T.copy()
    out = np.zeros((x.size, 4), np.float32)
    METAL.over(k, x.size, x, y, out)
    with np.errstate(all="ignore"):
        assert_same(out[:, 0], np.hypot(x, y), ulps=2)
        assert_same(out[:, 2], np.nextafter(x, y))
        assert_same(out[:, 3], np.ldexp(x, -3))
    for a, b, found in zip(x, y, out[:, 1], strict=True):
        right = np.nan if b == 0 or not math.isfinite(a) or math.isnan(b) else math.remainder(float(a), float(b))
        assert_same(found, np.float32(right))


COMPLEX = [
    cmath.exp, cmath.log, cmath.sqrt, cmath.sin, cmath.cos, cmath.tan, cmath.asin, cmath.acos, cmath.atan, cmath.sinh,
    cmath.cosh, cmath.tanh, cmath.asinh, cmath.acosh, cmath.atanh, cmath.log10,
]  # fmt: skip
POINTS = np.array([0.5 + 0.25j, -1.5 + 2j, 2 - 0.5j, -0.75 - 1.25j, 1.5j, -3 + 0.125j], np.complex64)


def test_functions_of_complex_numbers():
    (exp, log, sqrt, sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, asinh, acosh, atanh, log10) = COMPLEX

    @sterna.kernel
    def k(z, out):
        i = sterna.grid(1)
        w = z[i]
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = exp(w), log(w), sqrt(w), sin(w)
        out[i, 4], out[i, 5], out[i, 6], out[i, 7] = cos(w), tan(w), asin(w), acos(w)
        out[i, 8], out[i, 9], out[i, 10], out[i, 11] = atan(w), sinh(w), cosh(w), tanh(w)
        out[i, 12], out[i, 13], out[i, 14], out[i, 15] = asinh(w), acosh(w), atanh(w), log10(w)
        out[i, 16], out[i, 17], out[i, 18], out[i, 19] = w**2, w**-3, w ** (0.5 - 1j), w / (2 - 3j)
        out[i, 20], out[i, 21], out[i, 22] = abs(w), cmath.phase(w), w.conjugate() * w

    out = np.zeros((POINTS.size, 23), np.complex64)
    METAL.over(k, POINTS.size, POINTS, out)
    for z, row in zip(POINTS, out, strict=True):
        w = complex(z)
        right = [f(w) for f in COMPLEX]
        right += [w**2, w**-3, w ** (0.5 - 1j), w / (2 - 3j), abs(w), cmath.phase(w), w.conjugate() * w]
        np.testing.assert_allclose(row, np.array(right), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("strategy", ["table", "bake"])
def test_strategies(strategy):
    @sterna.kernel(strategy=strategy)
    def k(out):
        out[0] = TABLE[3] + GAIN

    with sterna.on("metal:0"):
        out = sterna.to_device(np.zeros(1, np.float32))
        k[1, 1](out)
        sterna.synchronize()
        assert out.copy_to_host()[0] == 4.5 + 2.5
        GAIN.value = 10.0
        try:
            k[1, 1](out)
            sterna.synchronize()
            assert out.copy_to_host()[0] == 4.5 + 10.0
        finally:
            GAIN.value = 2.5


def test_arrays_of_packed_records():
    record = np.dtype([("flag", np.int8), ("x", np.float32), ("n", np.int64), ("z", np.complex64), ("h", np.float16)])

    @sterna.kernel
    def k(a, b):
        i = sterna.grid(1)
        b[i].flag = a[-1 - i].flag
        b[i].x = a[i].x * 2
        b[i].n = a[i].n - a[i].flag
        b[i].z = a[i].z + 1j
        b[i].h = a[i].h + np.float16(1)

    a = np.zeros(4, record)
    a["flag"], a["x"], a["n"] = [1, -2, 3, -4], [0.5, 1.5, -2.5, 1e30], [2**40, -1, 7, -(2**50)]
    a["z"], a["h"] = [1, 2j, 3, 4 - 1j], [0.5, 1, 2, -7]
    b = np.zeros(4, record)
    METAL.over(k, 4, a, b)
    assert b["flag"].tolist() == a["flag"][::-1].tolist()
    assert b["x"].tolist() == (a["x"] * 2).tolist()
    assert b["n"].tolist() == (a["n"] - a["flag"]).tolist()
    assert b["z"].tolist() == (a["z"] + 1j).tolist()
    assert b["h"].tolist() == (a["h"] + 1).tolist()


def test_dynamic_shared_memory_behind_static():
    @sterna.kernel
    def k(x, sizes):
        fixed = sterna.shared.array(3, np.int16)
        free = sterna.shared.array(0, np.int64)
        t = sterna.threadIdx.x
        if t < 3:
            fixed[t] = 100 + t
        free[t] = x[t]
        sterna.syncthreads()
        x[t] = free[7 - t] + fixed[t % 3]
        sizes[t] = free.shape[0]

    x, sizes = np.arange(8, dtype=np.int64), np.zeros(8, np.int64)
    METAL.launch(k, 1, 8, x, sizes, shared_bytes=64)
    assert x.tolist() == [7 - t + 100 + t % 3 for t in range(8)]
    assert sizes.tolist() == [8] * 8


def test_blocks_of_three_axes_and_flat_grids():
    @sterna.kernel
    def k(out):
        i, j, m = sterna.grid(3)
        out[i, j, m] = i * 100 + j * 10 + m

    out = np.zeros((3, 4, 5), np.int32)
    METAL.over(k, out.shape, out)
    assert np.array_equal(out, np.arange(3)[:, None, None] * 100 + np.arange(4)[:, None] * 10 + np.arange(5))


def test_many_branches_that_read_memory_do_not_nest_deep(tmp_path):
    tests = "".join(f"    {'elif' if k else 'if'} x[{k}] == n:\n        x[0] = {k * k}\n" for k in range(90))
    source = f"import sterna\n\n@sterna.kernel\ndef k(x, n):\n{tests}    else:\n        x[0] = -1\n"
    kernel = write_module(tmp_path, source).k
    text = kernel.build("int64[:]", "int", target="metal").text("msl")
    assert max(len(line) - len(line.lstrip()) for line in text.splitlines()) < 4 * 60
    for n, right in ((7, 49), (45, 45**2), (89, 89**2), (200, -1)):
        x = np.arange(90, dtype=np.int64)
        METAL.launch(kernel, 1, 1, x, n)
        assert x[0] == right
