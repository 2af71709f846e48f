"""Warp operations with 32 lanes; expected values by list arithmetic on the lanes."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from helpers.compare import assert_same
from helpers.launching import Place

FULL = 0xFFFFFFFF
N = 64
LANE = np.arange(N) % 32
WARP = np.arange(N) - LANE


@sterna.kernel
def shuffles(x, out):
    i = sterna.grid(1)
    v = x[i]
    out[0, i] = sterna.shfl_sync(FULL, v, 3)
    out[1, i] = sterna.shfl_up_sync(FULL, v, 2)
    out[2, i] = sterna.shfl_down_sync(FULL, v, 5)
    out[3, i] = sterna.shfl_xor_sync(FULL, v, 1)
    out[4, i] = sterna.shfl_sync(FULL, v, (sterna.laneid + 1) % sterna.warpsize)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", "float32", "float64"])
def test_shuffles(place: Place, dtype):
    x = (np.arange(N) * 3 + 1).astype(dtype)
    out = np.zeros((5, N), dtype)
    place.launch(shuffles, 1, N, x, out)
    source = [
        WARP + 3, np.where(LANE >= 2, np.arange(N) - 2, np.arange(N)),
        np.where(LANE + 5 < 32, np.arange(N) + 5, np.arange(N)), WARP + (LANE ^ 1), WARP + (LANE + 1) % 32,
    ]  # fmt: skip
    assert_same(out, np.stack([x[s] for s in source]))


@sterna.kernel
def warp_sum(x, out):
    v = x[sterna.grid(1)]
    delta = 16
    while delta > 0:
        v += sterna.shfl_down_sync(FULL, v, delta)
        delta //= 2
    if sterna.laneid == 0:
        out[sterna.grid(1) // 32] = v


def test_reduction_by_shuffles(place: Place):
    x = np.arange(128, dtype=np.float32)
    out = np.zeros(4, np.float32)
    place.launch(warp_sum, 2, 64, x, out)
    assert_same(out, x.reshape(4, 32).sum(1))


@sterna.kernel
def votes(x, masks, flags):
    i = sterna.grid(1)
    masks[0, i] = sterna.ballot_sync(FULL, x[i] > 2)
    masks[1, i] = sterna.match_any_sync(FULL, x[i])
    masks[2, i] = sterna.activemask()
    masks[3, i] = sterna.lanemask_lt()
    flags[0, i] = sterna.any_sync(FULL, x[i] > 2)
    flags[1, i] = sterna.all_sync(FULL, x[i] > 2)
    flags[2, i] = sterna.eq_sync(FULL, x[i] > 2)
    same, everyone = sterna.match_all_sync(FULL, x[i])
    masks[4, i] = same
    flags[3, i] = everyone


def test_votes_and_matches(place: Place):
    x = np.array([k % 5 for k in range(32)] + [4] * 32, np.int32)
    masks, flags = np.zeros((5, N), np.uint32), np.zeros((4, N), bool)
    place.launch(votes, 1, N, x, masks, flags)
    for w in range(2):
        lanes, part = x[32 * w : 32 * w + 32], slice(32 * w, 32 * w + 32)
        over = sum(1 << k for k in range(32) if lanes[k] > 2)
        match = [sum(1 << j for j in range(32) if lanes[j] == lanes[k]) for k in range(32)]
        assert (masks[0, part] == over).all()
        assert masks[1, part].tolist() == match
        assert (masks[2, part] == FULL).all()
        assert masks[3, part].tolist() == [(1 << k) - 1 for k in range(32)]
        assert (masks[4, part] == (FULL if w else 0)).all()
        assert flags[:, part].all(1).tolist() == [True, bool(w), bool(w), bool(w)]
        assert flags[:, part].any(1).tolist() == [True, bool(w), bool(w), bool(w)]


@sterna.kernel
def reductions(x, out):
    i = sterna.grid(1)
    out[0, i] = sterna.reduce_add_sync(FULL, x[i])
    out[1, i] = sterna.reduce_min_sync(FULL, x[i])
    out[2, i] = sterna.reduce_max_sync(FULL, x[i])
    out[3, i] = sterna.reduce_and_sync(FULL, x[i])
    out[4, i] = sterna.reduce_or_sync(FULL, x[i])
    out[5, i] = sterna.reduce_xor_sync(FULL, x[i])


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_reductions(place: Place, dtype):
    info = np.iinfo(dtype)
    x = np.random.default_rng(7).integers(info.min, info.max, N, dtype=dtype)
    out = np.zeros((6, N), dtype)
    place.launch(reductions, 1, N, x, out)
    for w in range(2):
        lanes = x[32 * w : 32 * w + 32]
        expected = [
            lanes.sum(dtype=dtype), lanes.min(), lanes.max(), np.bitwise_and.reduce(lanes),
            np.bitwise_or.reduce(lanes), np.bitwise_xor.reduce(lanes),
        ]  # fmt: skip
        for row, value in zip(out[:, 32 * w : 32 * w + 32], expected, strict=True):
            assert (row == value).all()


@sterna.kernel
def part_of_a_warp(x, out, masks):
    i = sterna.grid(1)
    if i >= 20:
        return
    out[i] = sterna.shfl_down_sync(FULL, x[i], 10)
    masks[i] = sterna.ballot_sync(FULL, True)


def test_lanes_that_do_not_exist_or_have_returned(place: Place):
    for threads in (32, 20):
        x, out, masks = np.arange(32, dtype=np.int32), np.full(20, -1, np.int32), np.zeros(20, np.uint32)
        place.launch(part_of_a_warp, 1, threads, x, out, masks)
        assert out.tolist() == [i + 10 if i < 10 else i for i in range(20)]
        assert (masks == (1 << 20) - 1).all()


@sterna.kernel
def halves(x, out):
    i = sterna.grid(1)
    mask = 0xFFFF if sterna.laneid < 16 else 0xFFFF0000
    out[i] = sterna.reduce_add_sync(mask, x[i])


def test_masks_split_a_warp(place: Place):
    x = np.arange(64, dtype=np.int32)
    out = np.zeros(64, np.int32)
    place.launch(halves, 1, 64, x, out)
    assert_same(out, np.repeat(x.reshape(4, 16).sum(1), 16).astype(np.int32))


@sterna.kernel
def lanes_in_two_axes(out):
    x, y = sterna.grid(2)
    out[y, x] = sterna.laneid
    sterna.syncwarp()


def test_lanes_run_along_x_then_y(place: Place):
    out = np.zeros((6, 8), np.int32)
    place.launch(lanes_in_two_axes, 1, (8, 6), out)
    assert_same(out, (np.arange(48) % 32).astype(np.int32).reshape(6, 8))


@sterna.kernel
def bit_tricks(x, out, reverse):
    i = sterna.grid(1)
    out[0, i] = sterna.popc(x[i])
    out[1, i] = sterna.clz(x[i])
    out[2, i] = sterna.ffs(x[i])
    reverse[i] = sterna.brev(x[i])


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_bit_operations(place: Place, dtype):
    bits = np.dtype(dtype).itemsize * 8
    unsigned = np.array([0, 1, 2, 3, 40, 2**31 - 1, (1 << bits) - 1, 1 << (bits - 1)], np.uint64)
    x = unsigned.astype(f"uint{bits}").view(dtype)
    out, reverse = np.zeros((3, x.size), np.int32), np.zeros(x.size, dtype)
    place.over(bit_tricks, x.size, x, out, reverse)
    text = [f"{int(v):0{bits}b}" for v in unsigned]
    assert out[0].tolist() == [t.count("1") for t in text]
    assert out[1].tolist() == [(t.index("1") if "1" in t else bits) for t in text]
    assert out[2].tolist() == [bits - t.rindex("1") if "1" in t else 0 for t in text]
    assert reverse.view(f"uint{bits}").tolist() == [int(t[::-1], 2) for t in text]


@sterna.kernel
def products(a, b, high, fused):
    i = sterna.grid(1)
    high[i] = sterna.mul_hi(a[i], b[i])
    fused[i] = sterna.fma(1.0 + 2.0**-30, 1.0 - 2.0**-30, sterna.float64(-1.0))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_high_products_and_fused_multiply_add(place: Place, dtype):
    info = np.iinfo(dtype)
    a = np.array([info.max, info.min, info.max, 12345, 1], dtype)
    b = np.array([info.max, info.max, 2, 67890, 1], dtype)
    high, fused = np.zeros(5, dtype), np.zeros(5)
    place.over(products, 5, a, b, high, fused)
    bits = np.dtype(dtype).itemsize * 8
    assert high.tolist() == [int(p) * int(q) >> bits for p, q in zip(a, b, strict=True)]
    assert (fused == -(2.0**-60)).all()  # (1 + e)(1 - e) - 1 = -e², lost without fusing
