"""Region splitting on the CPU: barriers and warp operations under every kind of control flow.

The oracle is the interpreter, which runs every thread as a thread of its own.
"""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from sterna import (
    activemask,
    ballot_sync,
    grid,
    local,
    reduce_add_sync,
    reduce_max_sync,
    shared,
    shfl_down_sync,
    shfl_up_sync,
    shfl_xor_sync,
    syncthreads,
    syncthreads_and,
    syncthreads_count,
    syncthreads_or,
    threadIdx,
)

FULL = 0xFFFFFFFF


@sterna.kernel
def early_return(a, out):
    i = threadIdx.x
    s = shared.array(64, np.int64)
    s[i] = a[i]
    syncthreads()
    if a[i] % 3 == 0:
        return
    n = syncthreads_count(s[63 - i] > 2)
    out[i] = n + activemask()


@sterna.kernel
def varying_loop_same_count(a, out):
    i = threadIdx.x
    s = shared.array(64, np.int64)
    n = a[0]  # the same for all threads, but nobody can know
    total = 0
    while n > 0:
        s[i] = n * i
        syncthreads()
        total += s[(i + n) % 64]
        syncthreads()
        n -= 1
    out[i] = total


@sterna.kernel
def loop_left_by_break(a, out):
    i = threadIdx.x
    s = shared.array(64, np.int64)
    total = 0
    for k in range(20):
        s[i] = k
        syncthreads()
        if k == a[0]:
            break
        if k % 2 == a[1]:
            syncthreads()
            continue
        total += s[63 - i] * i
        syncthreads()
    out[i] = total


@sterna.kernel
def threads_leave_a_loop(a, out):
    i = threadIdx.x
    out[i] = -1
    for k in range(10):
        if k > a[i]:
            return
        out[i] = syncthreads_count(True) + 100 * k
    out[i] += 5


def scan(s, i, n):
    """An inclusive sum of a block, by doubling; has barriers and returns from a loop."""
    step = 1
    while True:
        if step >= n:
            return s[i]
        before = s[i - step] if i >= step else 0
        syncthreads()
        s[i] += before
        syncthreads()
        step *= 2


@sterna.kernel
def inlined_barriers(a, out):
    i = threadIdx.x
    s = shared.array(64, np.int64)
    s[i] = a[i]
    syncthreads()
    first = scan(s, i, 64)
    syncthreads()
    s[i] = first % 5
    syncthreads()
    out[i] = first + 1000 * scan(s, i, 64)


@sterna.kernel
def warp_sums(a, out):
    i = threadIdx.x
    v = a[i]
    d = 16
    while d > 0:
        v += shfl_down_sync(FULL, v, d)
        d //= 2
    w = reduce_max_sync(FULL, a[i]) + shfl_up_sync(FULL, a[i], 3) - shfl_xor_sync(FULL, a[i], 5)
    out[i] = v * 3 + w + (reduce_add_sync(FULL, a[i]) if ballot_sync(FULL, a[i] > 3) != 0 else 0)


@sterna.kernel
def votes_in_conditions(a, out):
    i = threadIdx.x
    k = 0
    while syncthreads_or(a[i] > k) and k < 30:
        k += 1
    out[i] = k + 100 * syncthreads_and(a[i] < k + 1)
    if syncthreads_count(a[i] == 1) > 2:
        out[i] += 1000


@sterna.kernel
def private_memory(a, out):
    i = threadIdx.x
    mine = local.array(4, np.int64)
    for k in range(4):
        mine[k] = a[i] * k
    syncthreads()
    i2 = i * 2
    total = 0
    for k in range(4):
        total += mine[3 - k] * (k + i2)
    out[i] = total


@sterna.kernel
def uniform_branch(a, out):
    i = threadIdx.x
    s = shared.array(64, np.int64)
    for k in range(3):
        if sterna.blockIdx.x == k:
            s[i] = a[i] + k
            syncthreads()
            out[i] = s[63 - i]
        elif k == 1:
            continue
        syncthreads()


KERNELS = [
    early_return, varying_loop_same_count, loop_left_by_break, threads_leave_a_loop, inlined_barriers, warp_sums,
    votes_in_conditions, private_memory, uniform_branch,
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__sterna_kernel__.__name__)
@pytest.mark.parametrize("opt", [0, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_equal_to_interpreter(kernel, opt, seed):
    kernel = sterna.kernel(opt=opt)(kernel.__sterna_kernel__)
    a = np.random.default_rng(seed).integers(0, 8, 64)
    found, wanted = np.zeros(64, np.int64), np.zeros(64, np.int64)
    kernel[1, 64](a.copy(), found)
    sterna.synchronize()
    sterna.interpret(kernel)[1, 64](a.copy(), wanted)
    np.testing.assert_array_equal(found, wanted)


@sterna.kernel
def failing_thread(a, out):
    i = threadIdx.x
    s = shared.array(64, np.int64)
    s[i] = a[i]
    syncthreads()
    out[a[i]] = s[i]
    n = syncthreads_count(True)
    out[i] = n


def test_failing_thread_leaves_and_others_go_on():
    a = np.arange(64)
    a[10] = 99
    out = np.zeros(64, np.int64)
    failing_thread[1, 64](a, out)
    with pytest.raises(IndexError, match="99"):
        sterna.synchronize()
    assert out[10] == 0
    assert (np.delete(out, 10) == 63).all()


@sterna.kernel
def weights(x, w, out):
    i = grid(1)
    if i < out.shape[0]:
        total = np.float32(0)
        for k in range(w.shape[0]):
            total += w[k] * x[i + k]
        out[i] = total


@pytest.mark.parametrize("n", [1, 7, 64, 100, 1000])
def test_interchanged_loop(n):
    rng = np.random.default_rng(n)
    x, w = rng.random(n + 4, np.float32), rng.random(5, np.float32)
    out = np.zeros(n, np.float32)
    weights[-(-n // 64), 64](x, w, out)
    sterna.synchronize()
    wanted = np.zeros(n, np.float32)
    for k in range(5):
        wanted += w[k] * x[k : k + n]
    np.testing.assert_array_equal(out, wanted)


def test_interchanged_loop_fails_in_the_right_thread():
    x, w, out = np.zeros(100, np.float32), np.zeros(5, np.float32), np.ones(100, np.float32)
    weights[2, 64](x, w, out)
    with pytest.raises(IndexError, match=r"index 100 .* block \(1, 0, 0\), thread \((32|33|34|35), 0, 0\)"):
        sterna.synchronize()
    assert (out[:96] == 0).all()
    assert (out[96:] == 1).all()


@sterna.kernel
def shared_histogram(values, out):
    i = threadIdx.x
    bins = shared.array(8, np.int32)
    if i < 8:
        bins[i] = 0
    syncthreads()
    for k in range(4):
        sterna.atomic.add(bins, values[i + 64 * k], 1)
    syncthreads()
    if i < 8:
        out[i] = bins[i]


@pytest.mark.parametrize("values", [np.zeros(256, np.int32), np.arange(256, dtype=np.int32) % 8])
def test_threads_that_meet_in_one_element_of_shared_memory(values):
    out = np.zeros(8, np.int32)
    shared_histogram[1, 64](values, out)
    sterna.synchronize()
    np.testing.assert_array_equal(out, np.bincount(values, minlength=8))


@sterna.kernel
def many_values_cross(a, out):
    i = threadIdx.x
    mine = local.array(64, np.float64)
    for k in range(64):
        mine[k] = a[i] + k
    total = shfl_xor_sync(FULL, mine[3], 1)
    syncthreads()
    for k in range(64):
        total += mine[k]
    out[i] = total


@pytest.mark.parametrize("threads", [1, 33, 1024])
def test_large_state_of_a_block(threads):
    a, out = np.random.default_rng(0).random(threads), np.zeros(threads)
    many_values_cross[1, threads](a, out)
    sterna.synchronize()
    other = np.arange(threads) ^ 1
    wanted = np.where(other < threads, a[np.minimum(other, threads - 1)], a) + 3
    for k in range(64):
        wanted += a + k
    np.testing.assert_array_equal(out, wanted)


def average(values, i):
    """Small enough to be inlined; its checks become part of the kernel's guard."""
    return (values[i] + values[i + 1]) * 0.5


@sterna.kernel
def averages(values, out):
    i = grid(1)
    out[i] = average(values, i)


def test_failure_in_an_inlined_function():
    values, out = np.arange(100.0), np.zeros(100)
    averages.over(100)(values, out)
    with pytest.raises(IndexError, match="index 100"):
        sterna.synchronize()
    np.testing.assert_array_equal(out[:99], np.arange(99) + 0.5)
    assert out[99] == 0


@sterna.kernel
def index_from_the_turn_before(a, first, out):
    j = first[0]
    for k in range(10):
        out[k] = a[j]
        j = k


def test_a_guard_counts_the_value_from_before_a_loop():
    a, out = np.arange(10.0), np.full(10, -1.0)
    index_from_the_turn_before[1, 1](a, np.array([3]), out)
    sterna.synchronize()
    assert out.tolist() == [3, *range(9)]
    out[:] = -1
    index_from_the_turn_before[1, 1](a, np.array([10]), out)
    with pytest.raises(IndexError, match="index 10"):
        sterna.synchronize()
    assert (out == -1).all()


@sterna.kernel
def index_kept_across_a_barrier(a, start, out):
    i = threadIdx.x
    j = start[i]
    syncthreads()
    out[i] = a[j]
    j = i
    out[i] += a[j]


def test_a_guard_counts_a_value_from_another_region():
    a, out, start = np.arange(64.0), np.zeros(64), np.zeros(64, np.int64)
    start[5] = 64
    index_kept_across_a_barrier[1, 64](a, start, out)
    with pytest.raises(IndexError, match=r"index 64.*thread \(5, 0, 0\)"):
        sterna.synchronize()
    assert out[5] == 0
    np.testing.assert_array_equal(np.delete(out, 5), np.delete(a, 5))
