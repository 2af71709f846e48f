"""Repeated launches: their function does what the general path does, and gives way when anything differs."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import sterna
from sterna.errors import SignatureError
from sterna.kernels import Launcher

SCALE = 2


@sterna.kernel
def scaled(x, factor, y):
    i = sterna.grid(1)
    y[i] = x[i] * factor * SCALE


def repeated(n: int = 8) -> tuple[Launcher, np.ndarray, np.ndarray]:
    """A launcher that has a function of its own, and its arrays."""
    launcher = scaled.over(n)
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    for _ in range(5):
        launcher(x, 3.0, y)
    if launcher._fast is None:  # the launcher is kept by the kernel: launched another number of times before
        launcher._seen = 3
        launcher(x, 3.0, y)
    assert launcher._fast is not None
    return launcher, x, y


@pytest.fixture(autouse=True)
def nothing_pending():
    yield
    sterna.synchronize()


def test_results_and_counters_are_those_of_any_launch():
    launcher, x, y = repeated()
    before = sterna.stats()["launches"]
    y[:] = 0
    assert launcher._fast((x, 5.0, y))
    np.testing.assert_array_equal(y, x * 10)
    launcher(x, 7.0, y)
    np.testing.assert_array_equal(y, x * 14)
    assert sterna.stats()["launches"] == before + 2


@pytest.mark.parametrize(
    "kind", ["dtype", "rank", "strides", "read-only", "scalar", "count", "list", "keyword", "array"]
)
def test_other_arguments_take_the_general_path(kind):
    launcher, x, y = repeated()
    y[:] = 0
    fast, expected = launcher._fast, x * 6
    if kind == "dtype":
        x = x.astype(np.float64)
    elif kind == "rank":
        with pytest.raises(sterna.errors.CompileError):
            launcher(x.reshape(2, 4), 3.0, y)
        return
    elif kind == "strides":
        x = np.repeat(x, 2)[::2]
    elif kind == "read-only":
        x = x.copy()
        x.flags.writeable = False
    elif kind == "array":
        x = sterna.to_device(x)
    if kind == "count":
        assert not fast((x, y))
        with pytest.raises(SignatureError):
            launcher(x, y)
    elif kind == "list":
        assert not fast(([1.0], 3.0, y))
        with pytest.raises(sterna.errors.CompileError):
            launcher([1.0], 3.0, y)
    elif kind == "keyword":
        launcher(x, y=y, factor=3.0)
        np.testing.assert_array_equal(y, expected)
    else:
        factor = np.float32(3) if kind == "scalar" else 3.0
        assert not fast((x, factor, y))
        launcher(x, factor, y)
        np.testing.assert_array_equal(y, expected)


def test_a_rebound_name_is_noticed(monkeypatch):
    launcher, x, y = repeated()
    monkeypatch.setitem(globals(), "SCALE", 10)
    assert not launcher._fast((x, 1.0, y))
    launcher(x, 1.0, y)
    np.testing.assert_array_equal(y, x * 10)
    monkeypatch.undo()
    launcher(x, 1.0, y)
    np.testing.assert_array_equal(y, x * 2)


def test_what_was_unloaded_is_not_launched_again():
    launcher, x, y = repeated()
    scaled._dispatcher.unload()
    assert not launcher._fast((x, 1.0, y))
    launcher(x, 1.0, y)
    np.testing.assert_array_equal(y, x * 2)


def test_inside_a_block_the_general_path_runs():
    launcher, x, y = repeated()
    with sterna.on("cpu"):
        assert not launcher._fast((x, 1.0, y))
        launcher(x, 1.0, y)
    np.testing.assert_array_equal(y, x * 2)


def test_arguments_are_not_kept():
    launcher, _, y = repeated()
    x = np.ones(8, np.float32)
    launcher(x, 1.0, y)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


@sterna.kernel
def reached(x, number, out):
    i = sterna.grid(1)
    out[i] = x[number]


def test_failures_and_integers_that_do_not_fit():
    x, out = np.arange(4.0), np.zeros(4)
    for _ in range(6):
        reached.over(4)(x, 1, out)
    assert reached.over(4)._fast is not None
    with pytest.raises(SignatureError, match="does not fit"):
        reached.over(4)(x, 2**70, out)
    reached.over(4)(x, 9, out)
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        sterna.synchronize()
    reached.over(4)(x, 3, out)
    np.testing.assert_array_equal(out, 3.0)


def test_sterna_arrays():
    x, y = sterna.to_device(np.arange(8, dtype=np.float32)), sterna.zeros(8, np.float32)
    launcher = scaled.over(8)
    launcher._fast, launcher._seen = None, 0
    for _ in range(5):
        launcher(x, 3.0, y)
    assert launcher._fast is not None and launcher._fast((x, 5.0, y))
    np.testing.assert_array_equal(np.asarray(y), np.arange(8) * 10)
    z = sterna.zeros((2, 8), np.float32)[1]
    assert launcher._fast((x, 1.0, z))
    np.testing.assert_array_equal(np.asarray(z), np.arange(8) * 2)


@sterna.kernel(noalias=True)
def moved(out, x):
    i = sterna.grid(1)
    out[i] = x[i] + 1


@pytest.mark.parametrize("make", [np.zeros, sterna.zeros], ids=["numpy", "sterna"])
def test_a_promise_is_checked_at_every_launch(make):
    a, b = make(16), make(16)
    launcher = moved.over(8)
    launcher._fast, launcher._seen = None, 0
    for _ in range(5):
        launcher(a[:8], b[:8])
    assert launcher._fast is not None and launcher._fast((a[:8], a[8:]))
    with pytest.raises(SignatureError, match="arguments out and x overlap in memory"):
        launcher(a[:8], a[4:12])


@sterna.kernel
def marked(x):
    x[0] = SCALE


def test_a_specialisation_that_was_dropped_for_newer_ones_keeps_its_code(monkeypatch):
    x, launcher = np.zeros(1), marked[1, 1]
    for value in (*range(12), *range(12)):
        monkeypatch.setitem(globals(), "SCALE", value)
        for _ in range(5 if value == 0 else 1):
            launcher(x)
            assert x[0] == value


@sterna.kernel
def without():
    pass


def test_no_arguments():
    for _ in range(6):
        without[2, 3]()
    fast = without[2, 3]._fast
    assert fast is not None and fast(()) and not fast((1,))
    with pytest.raises(SignatureError):
        without[2, 3](1)
