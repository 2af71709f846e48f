"""Grid-stride loops run turn by turn for the whole block; results stay those of every thread by itself."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from sterna import atomic, blockDim, blockIdx, grid, gridDim, gridsize, shared, syncthreads, threadIdx

INT = np.int64


@sterna.kernel
def doubled(x, out):
    for i in range(grid(1), x.size, gridsize(1)):
        out[i] = 2 * x[i]


@sterna.kernel
def written_by_hand(x, out):
    start = threadIdx.x + blockIdx.x * blockDim.x
    for i in range(start, x.size, blockDim.x * gridDim.x):
        out[i] += x[i] + i


@sterna.kernel
def sums(x, out):
    total = 0
    last = -1
    for i in range(grid(1), x.size, gridsize(1)):
        if x[i] % 3:
            total += x[i]
        last = i
    out[grid(1)] = total * 1000 + last


@sterna.kernel
def target_behind(x, out):
    i = -7
    for i in range(grid(1), x.size, gridsize(1)):
        x[i] += 1
    out[grid(1)] = i


@sterna.kernel
def within_a_block(x, out):
    s = shared.array(64, INT)
    for k in range(threadIdx.x, 64, blockDim.x):
        s[k] = k
    syncthreads()
    for i in range(threadIdx.x + 2, x.size, blockDim.x):
        atomic.add(s, x[i] % 64, 1)
    syncthreads()
    for k in range(threadIdx.x, 64, blockDim.x):
        atomic.add(out, k, s[k])


@sterna.kernel
def left_early(x, out):
    for i in range(grid(1), x.size, gridsize(1)):
        if x[i] == 5:
            break
        out[i] = x[i]


@sterna.kernel
def before_the_first(x, out):
    for i in range(grid(1) - 40, x.size, gridsize(1)):
        if i >= 0:
            out[i] = x[i]


@sterna.kernel
def downwards(x, out):
    for i in range(grid(1), -1, -1):
        if i < x.size:
            out[i] = x[i]


@sterna.kernel
def two_in_a_row(x, out):
    for i in range(grid(1), x.size, gridsize(1)):
        x[i] = x[i] + 1
    for i in range(grid(1), x.size, gridsize(1)):
        out[i] += x[i]


KERNELS = [
    doubled, written_by_hand, sums, target_behind, within_a_block, left_early, before_the_first, downwards,
    two_in_a_row,
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__sterna_kernel__.__name__)
@pytest.mark.parametrize("n", [0, 1, 31, 96, 97, 500])
def test_equal_to_interpreter(kernel, n):
    found, wanted = np.zeros(600, INT), np.zeros(600, INT)
    x = np.random.default_rng(n).integers(0, 20, n)
    mine, other = x.copy(), x.copy()
    kernel[3, 32](mine, found)
    sterna.synchronize()
    sterna.interpret(kernel)[3, 32](other, wanted)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(mine, other)


def test_over_launches():
    x, out = np.arange(1000), np.zeros(1000, INT)
    doubled.over(77)(x, out)
    sterna.synchronize()
    np.testing.assert_array_equal(out, 2 * x)


@sterna.kernel
def fails(x, index, out):
    for i in range(grid(1), index.size, gridsize(1)):
        out[i] = x[index[i]]


def test_a_failure_ends_the_turns_of_its_thread_only():
    index = np.arange(96) % 10
    index[40] = 99
    out = np.full(96, -1)
    fails[1, 32](np.arange(10), index, out)
    with pytest.raises(IndexError, match=r"index 99 .* thread \(8, 0, 0\)"):
        sterna.synchronize()
    wanted = index.copy()
    wanted[[40, 72]] = -1
    np.testing.assert_array_equal(out, wanted)


@sterna.kernel
def saxpy(a, x, y):
    for i in range(grid(1), x.size, gridsize(1)):
        y[i] = a * x[i] + y[i]


def test_a_grid_stride_loop_is_vectorised():
    asm = saxpy.specialize("float32", "float32[:]", "float32[:]").asm
    assert any(word in asm for word in ("mulps", "fmul\tv", "fmul v"))


@sterna.kernel
def counts(x, out):
    mine = shared.array(256, np.int32)
    for k in range(threadIdx.x, 256, blockDim.x):
        mine[k] = 0
    syncthreads()
    for i in range(grid(1), x.size, gridsize(1)):
        atomic.add(mine, x[i], 1)
    syncthreads()
    for k in range(threadIdx.x, 256, blockDim.x):
        atomic.add(out, k, mine[k])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint32])
def test_an_index_of_a_narrow_type(dtype):
    x = np.random.default_rng(1).integers(0, 127, 5000).astype(dtype)
    out = np.zeros(256, np.int32)
    counts[4, 64](x, out)
    sterna.synchronize()
    np.testing.assert_array_equal(out, np.bincount(x, minlength=256))


def test_a_byte_is_not_a_valid_index_of_a_shorter_array():
    out = np.zeros(3, INT)
    fails[1, 3](np.arange(255), np.array([1, 254, 255], np.uint8), out)
    with pytest.raises(IndexError, match="index 255"):
        sterna.synchronize()
    assert list(out) == [1, 254, 0]
