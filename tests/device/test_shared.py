"""Shared and local memory, barriers; reference results by NumPy or by hand."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from helpers.compare import assert_same
from helpers.launching import Place

THREADS = 64
TILE = 8


@sterna.kernel
def reverse_block(x):
    tile = sterna.shared.array(THREADS, sterna.float32)
    t = sterna.threadIdx.x
    i = sterna.grid(1)
    tile[t] = x[i]
    sterna.syncthreads()
    x[i] = tile[sterna.blockDim.x - 1 - t]


def test_every_block_has_its_own(place: Place):
    x = np.arange(3 * THREADS, dtype=np.float32)
    place.launch(reverse_block, 3, THREADS, x)
    assert_same(x, np.arange(3 * THREADS, dtype=np.float32).reshape(3, THREADS)[:, ::-1].ravel())


@sterna.kernel
def block_sum(x, out):
    part = sterna.shared.array(THREADS, np.int64)
    t = sterna.threadIdx.x
    i = sterna.grid(1)
    part[t] = x[i] if i < x.size else 0
    sterna.syncthreads()
    half = sterna.blockDim.x // 2
    while half > 0:
        if t < half:
            part[t] += part[t + half]
        sterna.syncthreads()
        half //= 2
    if t == 0:
        out[sterna.blockIdx.x] = part[0]


def test_tree_reduction(place: Place):
    x = np.arange(200, dtype=np.int64) ** 2
    out = np.zeros(4, np.int64)
    place.launch(block_sum, 4, THREADS, x, out)
    assert out.tolist() == [int(x[k * 64 : (k + 1) * 64].sum()) for k in range(4)]


@sterna.kernel
def matmul(a, b, c):
    sa = sterna.shared.array((TILE, TILE), sterna.float32)
    sb = sterna.shared.array((TILE, TILE), sterna.float32)
    tx, ty = sterna.threadIdx.x, sterna.threadIdx.y
    col, row = sterna.grid(2)
    total = sterna.float32(0)
    for k in range((a.shape[1] + TILE - 1) // TILE):
        inside_a = row < a.shape[0] and k * TILE + tx < a.shape[1]
        inside_b = k * TILE + ty < b.shape[0] and col < b.shape[1]
        sa[ty, tx] = a[row, k * TILE + tx] if inside_a else 0
        sb[ty, tx] = b[k * TILE + ty, col] if inside_b else 0
        sterna.syncthreads()
        for j in range(TILE):
            total += sa[ty, j] * sb[j, tx]
        sterna.syncthreads()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


def test_tiled_matrix_product(place: Place):
    rng = np.random.default_rng(1)
    a = rng.integers(-9, 9, (19, 13)).astype(np.float32)
    b = rng.integers(-9, 9, (13, 10)).astype(np.float32)
    c = np.zeros((19, 10), np.float32)
    place.launch(matmul, (2, 3), (TILE, TILE), a, b, c)
    assert_same(c, a @ b, signed_zero=False)  # small integers: exact in any order


@sterna.kernel
def votes(x, count, every, some):
    i = sterna.grid(1)
    b = sterna.blockIdx.x
    count[b] = sterna.syncthreads_count(x[i] > 0)
    every[b] = sterna.syncthreads_and(x[i] > 0)
    some[b] = sterna.syncthreads_or(x[i] > 0)


def test_counting_barriers(place: Place):
    x = np.ones((4, 40), np.int32)
    x[1] = 0
    x[2, 5:9] = -1
    x[3, :39] = -3
    count, every, some = (np.zeros(4, np.int32) for _ in range(3))
    place.launch(votes, 4, 40, x.ravel(), count, every, some)
    assert count.tolist() == [40, 0, 36, 1]
    assert every.tolist() == [1, 0, 0, 0]
    assert some.tolist() == [1, 0, 1, 1]


@sterna.kernel
def some_leave_first(x, out):
    tile = sterna.shared.array(THREADS, np.int32)
    t = sterna.threadIdx.x
    tile[t] = x[t]
    if t >= 10:
        return
    sterna.syncthreads()
    for _ in range(3):
        v = tile[(t + 1) % 10]
        sterna.syncthreads()
        tile[t] = v
        sterna.syncthreads()
    out[t] = tile[t]


def test_threads_that_returned_take_no_part(place: Place):
    x, out = np.arange(THREADS, dtype=np.int32), np.zeros(10, np.int32)
    place.launch(some_leave_first, 1, THREADS, x, out)
    assert out.tolist() == [(t + 3) % 10 for t in range(10)]


@sterna.kernel
def dynamic(x, y):
    raw = sterna.shared.array(0, sterna.float32)
    t = sterna.threadIdx.x
    raw[t] = x[t]
    sterna.syncthreads()
    y[t] = raw[sterna.blockDim.x - 1 - t]


@pytest.mark.parametrize("n", [1, 33, 128])
def test_dynamic_shared_memory(place: Place, n):
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    place.launch(dynamic, 1, n, x, y, shared_bytes=4 * n)
    assert_same(y, x[::-1])


@sterna.kernel
def in_a_callee(x):
    shift_in_block(x, 1)
    sterna.syncthreads()
    shift_in_block(x, 2)


def shift_in_block(x, n):
    tile = sterna.shared.array(THREADS, np.int32)
    t = sterna.threadIdx.x
    sterna.syncthreads()
    tile[t] = x[t]
    sterna.syncthreads()
    x[t] = tile[(t + n) % sterna.blockDim.x]


def test_barriers_in_a_called_function(place: Place):
    x = np.arange(THREADS, dtype=np.int32)
    place.launch(in_a_callee, 1, THREADS, x)
    assert x.tolist() == [(t + 3) % THREADS for t in range(THREADS)]


@sterna.kernel
def barrier_in_uniform_branch(x, flag):
    tile = sterna.shared.array(THREADS, np.int32)
    t = sterna.threadIdx.x
    tile[t] = x[t]
    if flag:
        sterna.syncthreads()
        x[t] = tile[THREADS - 1 - t]
    else:
        x[t] = -1


@pytest.mark.parametrize("flag", [True, False])
def test_barrier_in_a_branch_that_all_take(place: Place, flag):
    x = np.arange(THREADS, dtype=np.int32)
    place.launch(barrier_in_uniform_branch, 1, THREADS, x, flag)
    assert x.tolist() == (list(range(THREADS))[::-1] if flag else [-1] * THREADS)


@sterna.kernel
def live_across_barriers(x, out):
    tile = sterna.shared.array(THREADS, np.float64)
    t = sterna.threadIdx.x
    a = x[t] * 2.0
    pair = (t, a + 1.0)
    total = 0.0
    for k in range(4):
        tile[t] = a + k
        sterna.syncthreads()
        total += tile[(t + k) % THREADS]
        sterna.syncthreads()
    out[t] = total + pair[1] * 1000.0 + pair[0]


def test_variables_live_across_barriers(place: Place):
    x, out = np.arange(THREADS, dtype=np.float64), np.zeros(THREADS)
    place.launch(live_across_barriers, 1, THREADS, x, out)
    t = np.arange(THREADS)
    total = sum(((t + k) % THREADS) * 2.0 + k for k in range(4))
    assert_same(out, total + (2.0 * t + 1) * 1000 + t)


def negated_across_a_barrier(x, out):
    tile = sterna.shared.array(THREADS, sterna.float32)
    t = sterna.threadIdx.x
    value = x[t]
    tile[t] = value
    negated, product = -value, value * np.float32(-1)
    sterna.syncthreads()
    other = tile[THREADS - 1 - t]
    out[0, t] = other if other > 50 else negated
    out[1, t] = other if other > 50 else product


@pytest.mark.parametrize("options", [{"opt": 0}, {"boundscheck": False}], ids=str)
def test_negated_numbers_live_across_barriers(place: Place, options):
    x, out = np.arange(THREADS, dtype=np.float32), np.zeros((2, THREADS), np.float32)
    place.launch(sterna.kernel(**options)(negated_across_a_barrier), 1, THREADS, x, out)
    other = np.float32(THREADS - 1) - x
    assert_same(out, np.array([np.where(other > 50, other, -x)] * 2))


@sterna.kernel
def local_memory(x, out):
    i = sterna.grid(1)
    buffer = sterna.local.array(5, sterna.int32)
    grid = sterna.local.array((2, 3), sterna.float32)
    for k in range(5):
        buffer[k] = x[i] * k
    for r in range(2):
        for c in range(3):
            grid[r, c] = r * 10 + c
    total = 0
    for k in range(5):
        total += buffer[4 - k] * (k + 1)
    out[i] = total + grid[1, -1]


def test_local_arrays_belong_to_one_thread(place: Place):
    x, out = np.arange(100, dtype=np.int32), np.zeros(100)
    place.over(local_memory, 100, x, out)
    weight = sum(k * (5 - k) for k in range(5))
    assert_same(out, x * weight + 12.0)


@sterna.kernel
def three_axes(out):
    t, b = sterna.threadIdx, sterna.blockIdx
    d, g = sterna.blockDim, sterna.gridDim
    x, y, z = sterna.grid(3)
    sx, sy, sz = sterna.gridsize(3)
    out[z, y, x] = (
        t.x + 10 * t.y + 100 * t.z + 1000 * b.x + 10_000 * b.y + 100_000 * b.z
        + 10**6 * d.x + 10**7 * d.y + 10**8 * d.z + 10**9 * g.x + 10**10 * g.y + 10**11 * g.z
    )  # fmt: skip
    if x == 0 and y == 0 and z == 0:
        out[0, 0, 0] = sx * 10_000 + sy * 100 + sz


def test_positions_on_three_axes(place: Place):
    out = np.zeros((4, 6, 6), np.int64)
    place.launch(three_axes, (3, 2, 1), (2, 3, 4), out)
    z, y, x = np.indices(out.shape)
    expected = (
        x % 2 + 10 * (y % 3) + 100 * (z % 4) + 1000 * (x // 2) + 10_000 * (y // 3) + 100_000 * (z // 4)
        + 10**6 * 2 + 10**7 * 3 + 10**8 * 4 + 10**9 * 3 + 10**10 * 2 + 10**11 * 1
    )  # fmt: skip
    expected[0, 0, 0] = 6 * 10_000 + 6 * 100 + 4
    assert_same(out, expected)


@sterna.kernel
def through_bfloat16(x, out):
    tile = sterna.shared.array(16, sterna.bfloat16)
    t = sterna.threadIdx.x
    tile[t] = x[t]
    sterna.syncthreads()
    out[t] = tile[t] + tile[t] * 0.5


def test_bfloat16_is_for_memory(place: Place):
    # 8 bits of mantissa: 1 + 2**-8 and 1 + 3 * 2**-8 are ties and go to even.
    x = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-7, 3.14159, -1e30, 1e-40, 0], np.float32)
    stored = np.array([1, 1, 1 + 2**-6, 1 + 2**-7, 3.140625, -1e30, 1e-40, 0], np.float32)
    bits = stored.view(np.uint32)
    stored[5:7] = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)[5:7]
    out = np.zeros(8, np.float32)
    place.launch(through_bfloat16, 1, 8, x, out)
    assert_same(out, stored + stored * np.float32(0.5))
