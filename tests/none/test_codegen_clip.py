"""Threads left out of a loop because a test says so: results and failures stay those of every thread by itself."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from sterna import blockDim, blockIdx, grid, shared, syncthreads, threadIdx

INT = np.int64


@sterna.kernel
def below(n, low, out):
    i = blockIdx.x * blockDim.x + threadIdx.x
    if i < n:
        out[i] += 1


@sterna.kernel
def between(n, low, out):
    i = grid(1)
    if low < i and n >= i and i != 7:
        out[i] += i


@sterna.kernel
def mirrored(n, low, out):
    i = grid(1)
    if n - 2 > i + 3 and not low > i:
        out[i] += i


@sterna.kernel
def returns(n, low, out):
    i = grid(1)
    if i >= n or i <= low:
        return
    out[i] += 2
    if i == 20:
        return
    out[i] += 1


@sterna.kernel
def chained(n, low, out):
    i = grid(1)
    if low <= i < n:
        out[i] = low * i


@sterna.kernel
def narrow(n, low, out):
    i = np.int8(grid(1))  # wraps for many threads
    if i < n and i >= 0:
        out[i] = i


@sterna.kernel
def unsigned(n, low, out):
    i = np.uint32(grid(1)) - np.uint32(3)  # wraps for three threads
    if i < np.uint32(50):
        out[np.int64(i)] = 5


@sterna.kernel
def wraps(n, low, out):
    i = np.int64(grid(1)) + np.int64(2**63 - 20)  # wraps behind the twentieth thread
    if i > n:
        out[grid(1)] = 1


@sterna.kernel
def after_a_barrier(n, low, out):
    s = shared.array(128, INT)
    i, t = grid(1), threadIdx.x
    s[t] = i
    syncthreads()
    if i < n and t > low:
        out[i] = s[(t + 31) % 32]
    syncthreads()


@sterna.kernel
def value_used_later(n, low, out):
    s = shared.array(128, INT)
    t = threadIdx.x
    mine = 1
    if t < n:
        mine = t
    s[t] = mine
    syncthreads()
    out[grid(1)] = s[t] + mine


KERNELS = [
    below, between, mirrored, returns, chained, narrow, unsigned, wraps, after_a_barrier, value_used_later,
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__sterna_kernel__.__name__)
@pytest.mark.parametrize("n", [-5, 0, 1, 33, 100, 128, 1000])
@pytest.mark.parametrize("low", [-1, 0, 40, 2000])
def test_equal_to_interpreter(kernel, n, low):
    found, wanted = np.zeros(128, INT), np.zeros(128, INT)
    kernel[4, 32](n, low, found)
    sterna.synchronize()
    sterna.interpret(kernel)[4, 32](n, low, wanted)
    np.testing.assert_array_equal(found, wanted)


@sterna.kernel
def inner(x, y):
    i, j, k = grid(3)
    if 0 < i < x.shape[0] - 1 and j > 0 and k > 0 and j < x.shape[1] - 1 and k < x.shape[2] - 1:
        y[i, j, k] = x[i - 1, j, k] + x[i + 1, j, k] + x[i, j - 1, k] + x[i, j + 1, k] + x[i, j, k - 1] + x[i, j, k + 1]


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 40), (3, 3, 3), (5, 33, 17), (4, 5, 1500)])
def test_three_axes(shape):
    x = np.random.default_rng(4).integers(0, 100, shape)
    y, wanted = np.zeros_like(x), np.zeros_like(x)
    inner.over(shape)(x, y)
    sterna.synchronize()
    c = slice(1, -1)
    if min(shape) > 2:
        wanted[c, c, c] = (
            x[:-2, c, c] + x[2:, c, c] + x[c, :-2, c] + x[c, 2:, c] + x[c, c, :-2] + x[c, c, 2:]
        )  # fmt: skip
    np.testing.assert_array_equal(y, wanted)


@sterna.kernel
def fails_before_the_test(x, n, y):
    i = grid(1)
    if x[i] > 0 and i < n:
        y[i] = 1


def test_a_test_that_fails_is_not_skipped_for_one_behind_it():
    y = np.zeros(64, INT)
    fails_before_the_test[2, 32](np.ones(40, INT), 40, y)
    with pytest.raises(IndexError, match=r"index 4\d"):
        sterna.synchronize()
    np.testing.assert_array_equal(y, np.arange(64) < 40)


@sterna.kernel
def fails_inside(x, n, y):
    i = grid(1)
    if i < n:
        y[i] = x[i + 1]


def test_a_failure_names_its_thread():
    y = np.zeros(64, INT)
    fails_inside[2, 32](np.ones(40, INT), 40, y)
    with pytest.raises(IndexError, match=r"index 40 .* block \(1, 0, 0\), thread \(7, 0, 0\)"):
        sterna.synchronize()
    np.testing.assert_array_equal(y, np.arange(64) < 39)


@sterna.kernel
def stencil(x, y):
    i, j = grid(2)
    if i > 0 and j > 0 and i < x.shape[0] - 1 and j < x.shape[1] - 1:
        y[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]


def test_a_guarded_stencil_has_no_mask_and_no_check_in_its_loop():
    asm = stencil.specialize("float32[:,:]", "float32[:,:]", over=2).asm
    assert "vaddps" in asm or "addps" in asm or "fadd" in asm
    assert "vmaskmov" not in asm
