"""Atomic operations: results that do not depend on the order of threads, and old values one thread at a time."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from helpers.compare import assert_same
from helpers.launching import Place

ATOMIC = ("int32", "uint32", "int64", "uint64", "float32", "float64")


@sterna.kernel
def histogram(x, bins):
    i = sterna.grid(1)
    if i < x.size:
        sterna.atomic.add(bins, x[i], 1)


@pytest.mark.parametrize("dtype", ATOMIC)
def test_add_from_many_blocks(place: Place, dtype):
    x = np.random.default_rng(2).integers(0, 10, 2000).astype(np.int32)
    bins = np.zeros(10, dtype)
    place.launch(histogram, 32, 64, x, bins)
    assert_same(bins, np.bincount(x, minlength=10).astype(dtype))


@sterna.kernel
def extremes(x, out):
    i = sterna.grid(1)
    sterna.atomic.max(out, 0, x[i])
    sterna.atomic.min(out, 1, x[i])
    sterna.atomic.sub(out, 2, x[i] // 2)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_max_min_sub(place: Place, dtype):
    rng = np.random.default_rng(3)
    x = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 500, dtype=dtype)
    out = np.array([x[0], x[0], 0], dtype)
    place.over(extremes, 500, x, out)
    assert_same(out, np.array([x.max(), x.min(), (-(x // 2)).sum(dtype=dtype)], dtype))


@sterna.kernel
def float_extremes(x, out):
    i = sterna.grid(1)
    sterna.atomic.max(out, 0, x[i])
    sterna.atomic.min(out, 1, x[i])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_extremes_ignore_nan(place: Place, dtype):
    x = np.array([1.5, np.nan, -7.25, 3.0, np.inf, -0.5], dtype)
    out = np.array([-1e30, 1e30], dtype)
    place.over(float_extremes, x.size, x, out)
    assert_same(out, np.array([np.inf, -7.25], dtype))


@sterna.kernel
def bits(x, out):
    i = sterna.grid(1)
    sterna.atomic.and_(out, 0, x[i])
    sterna.atomic.or_(out, 1, x[i])
    sterna.atomic.xor(out, 2, x[i])


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_bitwise(place: Place, dtype):
    x = np.random.default_rng(4).integers(0, np.iinfo(dtype).max, 77, dtype=dtype) | np.array(6, dtype)
    out = np.array([~np.array(0, dtype), 0, 0], dtype)
    place.over(bits, 77, x, out)
    expected = [np.bitwise_and.reduce(x), np.bitwise_or.reduce(x), np.bitwise_xor.reduce(x)]
    assert_same(out, np.array(expected, dtype))


@sterna.kernel
def one_thread(a, old):
    old[0] = sterna.atomic.add(a, 0, 5)
    old[1] = sterna.atomic.sub(a, 0, 3)
    old[2] = sterna.atomic.exch(a, 0, 40)
    old[3] = sterna.atomic.cas(a, 0, 40, 41)
    old[4] = sterna.atomic.cas(a, 0, 40, 42)
    old[5] = sterna.atomic.max(a, 0, 7)
    old[6] = sterna.atomic.min(a, 0, 7)
    old[7] = a[0]


@pytest.mark.parametrize("dtype", ATOMIC)
def test_old_values(place: Place, dtype):
    a, old = np.array([10], dtype), np.zeros(8, dtype)
    place.launch(one_thread, 1, 1, a, old)
    assert old.tolist() == [10, 15, 12, 40, 41, 41, 41, 7]


@sterna.kernel
def count_up_and_down(a, old):
    for k in range(4):
        old[k] = sterna.atomic.inc(a, 0, 2)
    for k in range(5):
        old[4 + k] = sterna.atomic.dec(a, 1, 2)


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_inc_and_dec_go_round(place: Place, dtype):
    a, old = np.array([0, 9], dtype), np.zeros(9, dtype)
    place.launch(count_up_and_down, 1, 1, a, old)
    assert old.tolist() == [0, 1, 2, 0, 9, 2, 1, 0, 2]


@sterna.kernel
def tickets(counter, taken):
    taken[sterna.atomic.add(counter, 0, 1)] += 1


def test_every_old_value_is_given_once(place: Place):
    counter, taken = np.zeros(1, np.int32), np.zeros(1000, np.int32)
    place.over(tickets, 1000, counter, taken)
    assert counter[0] == 1000
    assert (taken == 1).all()


@sterna.kernel
def in_shared(x, out):
    part = sterna.shared.array(4, np.int32)
    t = sterna.threadIdx.x
    if t < 4:
        part[t] = 0
    sterna.syncthreads()
    sterna.atomic.add(part, x[sterna.grid(1)] % 4, 1)
    sterna.syncthreads()
    if t < 4:
        sterna.atomic.add(out, (t // 2, t % 2), part[t])


def test_shared_memory_and_several_axes(place: Place):
    x = np.random.default_rng(5).integers(0, 100, 256).astype(np.int32)
    out = np.zeros((2, 2), np.int32)
    place.launch(in_shared, 4, 64, x, out)
    assert_same(out, np.bincount(x % 4, minlength=4).astype(np.int32).reshape(2, 2))


@sterna.kernel
def spin_max(x, best):
    i = sterna.grid(1)
    old = best[0]
    while old < x[i]:
        found = sterna.atomic.cas(best, 0, old, x[i])
        if found == old:
            break
        old = found


def test_compare_and_swap_loop(place: Place):
    x = np.random.default_rng(6).permutation(800).astype(np.int64)
    best = np.array([-1])
    place.over(spin_max, 800, x, best)
    assert best[0] == 799


@sterna.kernel
def from_the_end(a):
    sterna.atomic.add(a, -1, 2.5)
    sterna.atomic.add(a[1:], 0, 1)


def test_negative_index_and_view(place: Place):
    a = np.zeros(3, np.float32)
    place.over(from_the_end, 10, a)
    assert a.tolist() == [0, 10, 25]


@sterna.kernel
def outside(a):
    sterna.atomic.add(a, 3, 1)


def test_index_is_checked(place: Place):
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3"):
        place.over(outside, 1, np.zeros(3, np.int32))
