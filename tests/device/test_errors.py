"""Failures on the device: the right exception at synchronise, other threads and launches unharmed."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from helpers.launching import Place


class UserError(Exception):
    """Raised by kernels under test."""


@sterna.kernel
def read_at(x, index, out):
    i = sterna.grid(1)
    out[i] = x[index[i]]


@pytest.mark.parametrize("bad", [10, -11, 2**40, -(2**40)])
def test_index_out_of_range(place: Place, bad):
    x, index, out = np.arange(10.0), np.arange(8) - 4, np.zeros(8)
    index[5] = bad
    with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis 0 with size 10") as caught:
        place.launch(read_at, 2, 4, x, index, out)
    assert tuple(caught.value.block) == (1, 0, 0)
    assert tuple(caught.value.thread) == (1, 0, 0)
    assert caught.value.kernel.endswith("read_at")
    line = read_at.__wrapped__.__code__.co_firstlineno + 3
    assert caught.value.line == line
    assert "read_at" in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert out[0] == x[-4]


@sterna.kernel
def write_at(x, i, j):
    x[i, j] = 1


@pytest.mark.parametrize(("i", "j", "axis", "bad"), [(3, 0, 0, 3), (-4, 0, 0, -4), (0, 4, 1, 4), (2, -5, 1, -5)])
def test_memory_past_the_array_is_untouched(place: Place, i, j, axis, bad):
    base = np.zeros((9, 4))
    with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis {axis} with size {(3, 4)[axis]}"):
        place.launch(write_at, 1, 1, base[3:6], i, j)
    assert not base.any()


@sterna.kernel
def powers(x, r, n):
    x[0] = r**n
    x[1] = 10.0**400 if r > 2 else r**2


@pytest.mark.parametrize(("r", "n"), [(10.0, 400), (-1e200, 3), (1e200, 1), (3.0, 2), (0.5, -2000)])
def test_a_power_of_python_floats_overflows(place: Place, r, n):
    x = np.zeros(2)
    with pytest.raises(OverflowError, match="Numerical result out of range"):
        place.launch(powers, 1, 1, x, r, n)
    place.launch(powers, 1, 1, x, 1.5, 3)
    assert x.tolist() == [1.5**3, 1.5**2]


@sterna.kernel
def check(x):
    i = sterna.grid(1)
    assert x[i] >= 0, "negative input"
    x[i] += 1


def test_assert(place: Place):
    x = np.arange(8) - 7
    with pytest.raises(AssertionError, match="negative input"):
        place.over(check, 8, x)


@sterna.kernel
def refuse(x):
    i = sterna.grid(1)
    if x[i] == 3:
        raise ValueError("three is not allowed")
    checked(x[i])
    x[i] = -1


def checked(v):
    if v == 5:
        raise UserError("five")
    return v


@pytest.mark.parametrize(("bad", "kind", "message"), [(3, ValueError, "three is not allowed"), (5, UserError, "five")])
def test_raise_in_one_thread_of_many(place: Place, bad, kind, message):
    x = np.full(64, 9)
    x[40] = bad
    with pytest.raises(kind, match=message) as caught:
        place.launch(refuse, 2, 32, x)
    assert tuple(caught.value.block) == (1, 0, 0)
    assert tuple(caught.value.thread) == (8, 0, 0)
    assert x[40] == bad
    if not place.is_interpreter:  # which stops at the first failure
        assert (np.delete(x, 40) == -1).all()


def test_the_next_launch_works(place: Place):
    x = np.full(4, 3)
    with pytest.raises(ValueError, match="three"):
        place.over(refuse, 4, x)
    x[:] = 1
    place.over(refuse, 4, x)
    assert x.tolist() == [-1] * 4


def test_a_failure_is_raised_once(device: Place):  # the interpreter raises at the launch itself
    with sterna.on(device.name):
        refuse.over(4)(np.full(4, 3))
        with pytest.raises(ValueError, match="three"):
            sterna.synchronize()
        sterna.synchronize()


@sterna.kernel
def unchecked_value(x, d):
    with sterna.inbounds():
        x[0] = 5
        x[-1] = 6


def test_inbounds(place: Place):
    x = np.zeros(3)
    place.launch(unchecked_value, 1, 1, x, 1)
    assert x.tolist() == [5, 0, 6]


@sterna.kernel
def fail_between_barriers(x, out):
    tile = sterna.shared.array(32, np.int64)
    t = sterna.threadIdx.x
    tile[t] = t
    sterna.syncthreads()
    if t == 7:
        raise ValueError("seven")
    sterna.syncthreads()
    out[t] = tile[31 - t]


def test_failing_threads_leave_their_block(place: Place):
    x, out = np.zeros(1), np.zeros(32, np.int64)
    with pytest.raises(ValueError, match="seven"):
        place.launch(fail_between_barriers, 1, 32, x, out)
    if not place.is_interpreter:
        assert out.tolist() == [0 if t == 7 else 31 - t for t in range(32)]


@sterna.kernel
def formatted(x):
    i = sterna.grid(1)
    if x[i] > 2:
        raise ValueError(f"value {x[i]} at {i}")


def test_values_in_a_message(place: Place):
    with pytest.raises(ValueError, match="value 3 at 3"):
        place.over(formatted, 4, np.arange(4))
