"""Indices that are data: gathers and scatters with checks, many threads at once, wherever one of them fails."""

from __future__ import annotations

import numpy as np
import pytest

import sterna

N = 1000  # many strips of threads and a rest


@sterna.kernel
def gather(source, index, target):
    i = sterna.grid(1)
    target[i] = source[index[i]] + 1


@sterna.kernel
def scatter(source, index, target):
    i = sterna.grid(1)
    if i < source.size:
        target[index[i]] = source[i]


@sterna.kernel
def two_axes(table, row, column, target):
    i, j = sterna.grid(2)
    k = row[i]
    target[i, j] = table[k, column[j] - 1]


@sterna.kernel
def in_place(order, x):
    i = sterna.grid(1)
    x[i] = order[x[i]]


@sterna.kernel
def own_store_first(index, source, target):
    i = sterna.grid(1)
    index[i] = index[i] + 1
    target[i] = source[index[i]]


@sterna.kernel
def two_stores(index, first, second):
    i = sterna.grid(1)
    first[i] = 1
    second[index[i]] = 2
    first[i] = 3


@pytest.fixture
def random():
    return np.random.default_rng(11)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_gather_by_every_type_of_index(device, random, dtype):
    low = -100 if dtype[0] == "i" else 0
    index = random.integers(low, 100, N).astype(dtype)
    source, target = random.random(100, np.float32), np.zeros(N, np.float32)
    device.over(gather, N, source, index, target)
    np.testing.assert_array_equal(target, source[index.astype(np.int64)] + np.float32(1))


@pytest.mark.parametrize("bad", [100, -101, 2**40, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("where", [0, 31, 32, 500, 991, 992, N - 1])
def test_one_thread_fails_and_all_others_do_their_work(device, random, bad, where):
    index = random.integers(-100, 100, N)
    expected_index = index.copy()
    index[where], expected_index[where] = bad, 0
    source, target = random.random(100, np.float32), np.full(N, -1, np.float32)
    with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis 0 with size 100") as caught:
        device.over(gather, N, source, index, target)
    expected = source[expected_index] + np.float32(1)
    expected[where] = -1
    np.testing.assert_array_equal(target, expected)
    assert caught.value.kernel.endswith("gather")


def test_scatter(device, random):
    index, source = random.permutation(N) - N, random.random(N)
    memory = np.zeros(N + 20)
    device.over(scatter, N + 5, source, index, memory[10:-10])
    expected = np.zeros(N)
    expected[index] = source
    np.testing.assert_array_equal(memory[10:-10], expected)
    index[700] = N
    with pytest.raises(IndexError, match=f"index {N} is out"):
        device.over(scatter, N + 5, source, index, memory[10:-10])
    assert not memory[:10].any() and not memory[-10:].any(), "nothing outside is touched"


def test_a_table_by_row_and_column(device, random):
    table, row, column = random.random((7, 9)), random.integers(-7, 7, 40), random.integers(-8, 10, 70)
    target = np.zeros((40, 70))
    device.over(two_axes, (40, 70), table, row, column, target)
    np.testing.assert_array_equal(target, table[row[:, None], column[None, :] - 1])
    row[39] = 7
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 7"):
        device.over(two_axes, (40, 70), table, row, column, target)


def test_an_empty_source(device):
    target = np.zeros(N, np.float32)
    with pytest.raises(IndexError, match="with size 0"):
        device.over(gather, N, np.zeros(0, np.float32), np.zeros(N, np.int64), target)
    assert not target.any()


def test_indices_that_are_overwritten(device, random):
    order = random.permutation(N)
    x = random.integers(0, N, N)
    expected = order[x]
    device.over(in_place, N, order, x)
    np.testing.assert_array_equal(x, expected)


def test_what_a_thread_wrote_before_is_what_it_reads(device, random):
    index, source, target = random.integers(0, 98, N), random.random(100), np.zeros(N)
    expected = source[index + 1]
    device.over(own_store_first, N, index, source, target)
    np.testing.assert_array_equal(target, expected)


def test_what_came_before_a_failure_stays(device):
    index = np.arange(N)
    index[77] = N
    first, second = np.zeros(N, np.int32), np.zeros(N, np.int32)
    with pytest.raises(IndexError):
        device.over(two_stores, N, index, first, second)
    assert first[77] == 1 and second[77] == 0
    assert np.all(np.delete(first, 77) == 3) and np.all(np.delete(second, 77) == 2)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("threads", [8, 32, 96, 256])
def test_negative_indices_in_some_strips_count_from_the_end(device, random, dtype, threads):
    n, source = 4 * threads, random.random(50).astype(np.float32)
    index = random.integers(0, 50, n).astype(dtype)
    index[:threads] = random.integers(-50, 50, threads)
    index[-1] = -50
    target = np.zeros(n, np.float32)
    device.launch(gather, 4, threads, source, index, target)
    np.testing.assert_array_equal(target, source[index] + 1)
