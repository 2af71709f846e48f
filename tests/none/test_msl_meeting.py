"""Barriers on Metal: every thread of a block comes to each, also one that has failed, returned or is past the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sterna
from helpers.launching import INTERPRETER, Place
from helpers.metal.api import simulated
from helpers.metal.marks import SIMULATED
from sterna.errors import UnsupportedError

pytestmark = SIMULATED
METAL, ORACLE = Place("metal:0"), Place(INTERPRETER)


@pytest.fixture(autouse=True)
def device(tmp_path, monkeypatch) -> Iterator[Any]:
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path))
    with simulated(1) as metal:
        yield metal.devices[0]


def text(kernel: Any, *signature: str) -> str:
    found: str = kernel.build(*signature, target="metal").text("msl")
    return found


@sterna.kernel
def early(x, out, n):
    tile = sterna.shared.array(32, np.int32)
    t = sterna.threadIdx.x
    tile[t] = x[t]
    sterna.syncthreads()
    if x[t] % 5 == 0:
        return
    for turn in range(3):
        if turn == n:
            continue
        v = tile[(t + 1) % 32]
        sterna.syncthreads()
        tile[t] = v + turn
        for k in range(4):
            if v == 100 + k:
                return
        sterna.syncthreads()
    total = sterna.syncthreads_count(tile[t] > 10)
    out[t] = tile[t] * 1000 + total


def test_threads_that_return_come_to_the_barriers(device):
    x = np.arange(32, dtype=np.int32)
    x[9] = 101
    found, expected = np.zeros(32, np.int32), np.zeros(32, np.int32)
    METAL.launch(early, 1, 32, x, found, 1)
    ORACLE.launch(early, 1, 32, x, expected, 1)
    assert found.tolist() == expected.tolist()
    assert np.count_nonzero(found) > 20
    assert device.counts["apart"] == 0


def test_threads_past_the_extents_come_to_the_barriers(device):
    @sterna.kernel
    def k(x):
        i = sterna.grid(1)
        v = x[i]
        sterna.syncthreads()
        x[i] = v + sterna.syncthreads_or(v == 3)

    x = np.arange(5, dtype=np.int64)
    METAL.over(k, 5, x)
    assert x.tolist() == [1, 2, 3, 4, 5]
    assert device.counts["apart"] == 0


def test_a_thread_that_fails_comes_to_the_barriers(device):
    @sterna.kernel
    def k(x, out):
        t = sterna.threadIdx.x
        for turn in range(4):
            out[t] = x[t + turn]
            sterna.syncthreads()
        out[t] = -1

    x, out = np.arange(10, dtype=np.int64), np.zeros(8, np.int64)
    with pytest.raises(IndexError, match="index 10 is out of bounds"):
        METAL.launch(k, 1, 8, x, out)
    assert out.tolist() == [-1, -1, -1, -1, -1, -1, -1, 9]
    assert device.counts["apart"] == 0


def test_a_barrier_in_a_device_function(device):
    def rotated(tile, t, v):
        tile[t] = v
        sterna.syncthreads()
        found = tile[(t + 1) % 8]
        sterna.syncthreads()
        return found

    @sterna.kernel
    def k(x):
        tile = sterna.shared.array(8, np.int32)
        t = sterna.threadIdx.x
        if t == 2:
            x[t] = 50
        x[t] = rotated(tile, t, x[t]) + rotated(tile, t, x[t])

    x = np.arange(8, dtype=np.int32)
    METAL.launch(k, 1, 8, x)
    values = [0, 1, 50, 3, 4, 5, 6, 7]
    assert x.tolist() == [2 * values[(t + 1) % 8] for t in range(8)]
    assert device.counts["apart"] == 0
    assert "live" in text(k, "int32[:]")


def test_a_refusal_names_the_line_of_the_function_it_is_in():
    def rotated(tile, t, v):
        sterna.syncthreads()
        return np.float32(np.float64(v) / 3)

    @sterna.kernel
    def k(x):
        tile = sterna.shared.array(8, np.int32)
        t = sterna.threadIdx.x
        x[t] = rotated(tile, t, x[t])

    with pytest.raises(UnsupportedError, match="float64 is not available on target metal") as caught:
        text(k, "float32[:]")
    assert caught.value.location.text.strip() == "return np.float32(np.float64(v) / 3)"
    assert caught.value.location.line == rotated.__code__.co_firstlineno + 2


def test_a_barrier_under_a_condition_of_threads_is_written_as_it_is(device):
    @sterna.kernel
    def k(x):
        t = sterna.threadIdx.x
        if x[t] > 100:
            return
        if x[t] >= 0:
            sterna.syncthreads()
        x[t] += 1

    assert "live" not in text(k, "int32[:]")
    x = np.arange(8, dtype=np.int32)
    METAL.launch(k, 1, 8, x)
    assert x.tolist() == list(range(1, 9))


def test_threads_that_all_stay_need_nothing_of_this():
    @sterna.kernel(boundscheck=False)
    def k(x):
        t = sterna.threadIdx.x
        v = x[t]
        sterna.syncthreads()
        x[7 - t] = v

    assert "live" not in text(k, "int32[:]")
