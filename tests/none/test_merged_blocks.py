"""Blocks of an ``over`` launch that run as one: failures still name the thread, edges are right, nothing runs twice."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from sterna import grid, threadIdx


@sterna.kernel
def line(x, index, out):
    i = grid(1)
    out[i] += x[index[i]]


@pytest.mark.parametrize("n", [1, 1000, 1025, 40_000])
def test_each_thread_runs_once(n):
    rng = np.random.default_rng(n)
    x, index = rng.random(50), rng.integers(0, 50, n)
    out = np.zeros(n)
    line.over(n)(x, index, out)
    sterna.synchronize()
    np.testing.assert_array_equal(out, x[index])


@pytest.mark.parametrize("bad", [0, 999, 31_234, 39_999])
def test_a_failing_thread_is_named_and_the_others_run(bad):
    index = np.arange(40_000) % 50
    index[bad] = 77
    out = np.zeros(40_000)
    line.over(40_000)(np.ones(50), index, out)
    with pytest.raises(IndexError) as caught:
        sterna.synchronize()
    threads = sterna.device("cpu").suggest((40_000,))[1]
    assert caught.value.block[0] * threads[0] + caught.value.thread[0] == bad
    assert caught.value.thread[0] < threads[0]
    assert out.sum() == 39_999


@sterna.kernel
def plane(x, out):
    i, j = grid(2)
    total = x[i, j]
    if i + 1 < x.shape[0]:  # two choices: the last row and column fail the guard
        total += x[i + 1, j]
    if j + 1 < x.shape[1]:
        total += x[i, j + 1]
    out[i, j] += total


@pytest.mark.parametrize("shape", [(1, 1), (3, 2000), (2000, 3), (40, 1100), (257, 129)])
def test_edges(shape):
    x = np.random.default_rng(2).integers(0, 100, shape)
    out = np.zeros_like(x)
    plane.over(shape)(x, out)
    sterna.synchronize()
    wanted = x.copy()
    wanted[:-1] += x[1:]
    wanted[:, :-1] += x[:, 1:]
    np.testing.assert_array_equal(out, wanted)


@sterna.kernel
def far_row(x, out):
    i, j, k = grid(3)
    out[i, j, k] = x[i, j, k + j]


def test_a_failure_in_three_axes():
    shape = (4, 30, 500)
    x, out = np.ones((4, 30, 510)), np.zeros(shape)
    far_row.over(shape)(x, out)
    with pytest.raises(IndexError) as caught:
        sterna.synchronize()
    _, size = sterna.device("cpu").suggest(shape)
    place = [b * n + t for b, n, t in zip(caught.value.block, size, caught.value.thread, strict=True)]
    assert all(t < n for t, n in zip(caught.value.thread, size, strict=True))
    assert place[0] + place[1] >= 510
    j, k = np.ogrid[:30, :500]
    np.testing.assert_array_equal(out, np.broadcast_to(j + k < 510, shape))


@sterna.kernel
def asks_for_its_thread(out):
    out[grid(1)] = threadIdx.x


def test_a_thread_that_asks_is_in_its_own_block():
    out = np.full(40_000, -1)
    asks_for_its_thread.over(40_000)(out)
    sterna.synchronize()
    width = sterna.device("cpu").suggest((40_000,))[1][0]
    np.testing.assert_array_equal(out, np.arange(40_000) % width)
