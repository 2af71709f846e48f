"""The promises ``noalias`` and ``contract``: the same results on every device, and launches that would break them."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from sterna.errors import SignatureError

TABLE = np.arange(8, dtype=np.float64)


@sterna.kernel(noalias=True)
def mix(out, x, y):
    i = sterna.grid(1)
    for n in range(3):
        out[i] += x[(i + n) % x.shape[0]] * TABLE[n] + y[i]


@sterna.kernel(noalias=True)
def add(out, x):
    i = sterna.grid(1)
    out[i] += x[i]


def _write(target, i, value):
    target[i] = value
    return target


@sterna.kernel(noalias=True)
def through_functions(pair, x, flag):
    i = sterna.grid(1)
    a = pair[0] if flag else pair[1]
    b = _write(a[1:], i, x[i] + 1)
    x0 = x[0]
    _write(pair[1], i, b[i] + x0)


@sterna.kernel(contract=True)
def fused(out, x, y):
    i = sterna.grid(1)
    out[i] = x[i] * y[i] + out[i]


def test_results_are_those_without_the_promise(place):
    x, y = np.arange(16.0), np.arange(16.0) / 3
    found, expected = np.ones(16), np.ones(16)
    place.over(mix, 16, found, x, y)
    place.over(sterna.kernel(mix.function), 16, expected, x, y)
    assert np.array_equal(found, expected)
    assert found[0] == 1 + (0 * 0 + 0) + (1 * 1 + 0) + (2 * 2 + 0)


def test_writes_through_functions_views_and_tuples():
    first, second, x = np.zeros(9), np.zeros(8), np.arange(8.0)
    through_functions[1, 8]((first, second), x, 1)
    sterna.synchronize()
    assert first.tolist() == [0, *range(1, 9)]
    assert second.tolist() == list(range(1, 9))


def test_contraction_rounds_once_or_twice(place):
    rng = np.random.default_rng(3)
    x, y, z = (rng.random(256) for _ in range(3))
    found = z.copy()
    place.over(fused, 256, found, x, y)
    exact = x.astype(np.longdouble) * y.astype(np.longdouble) + z.astype(np.longdouble)
    once, twice = exact.astype(np.float64), x * y + z
    assert np.all((found == once) | (found == twice))


def test_overlapping_arguments_are_refused(place):
    if place.is_interpreter:
        pytest.skip("the interpreter does what the code says, whatever overlaps")
    with sterna.on(place.name):
        base = sterna.to_device(np.arange(32.0))
        add.over(8)(base[:8], base[8:16])
        for left, right in ((base[:8], base[7:15]), (base[:8], base[:8]), (base[:8], base[7::-1]), (base, base[::4])):
            with pytest.raises(SignatureError, match=r"out and x overlap.*writes out"):
                add.over(8)(left, right)
        sterna.synchronize()
        assert base.copy_to_host().tolist() == [8 + 2 * n for n in range(8)] + list(range(8, 32))


def test_views_between_each_others_elements_are_apart(place):
    if place.is_interpreter:
        pytest.skip("the interpreter does what the code says, whatever overlaps")
    with sterna.on(place.name):
        base = sterna.to_device(np.arange(16.0))
        add.over(8)(base[::2], base[1::2])
        sterna.synchronize()
        assert base.copy_to_host()[::2].tolist() == [4 * n + 1 for n in range(8)]


def test_arrays_that_are_only_read_may_overlap(place):
    x, found = np.arange(8.0), np.zeros(8)
    with sterna.on("cpu" if place.is_interpreter else place.name):
        there, out = sterna.to_device(x), sterna.to_device(found)
        mix.over(8)(out, there, there)
        sterna.synchronize()
        assert out.copy_to_host()[1] == (1 * 0 + 1) + (2 * 1 + 1) + (3 * 2 + 1)
