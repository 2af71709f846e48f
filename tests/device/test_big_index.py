"""Index arithmetic is 64 bits wide: positions past 2**31 are right (on the host in memory that nobody touches)."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest

import sterna
from helpers.launching import Place


def sparse(n: int) -> np.ndarray:
    """`n` bytes; pages that are never touched take no memory."""
    try:
        memory = mmap.mmap(-1, n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0))
    except (OSError, AttributeError) as error:
        pytest.skip(f"no sparse mapping here: {error}")
    return np.frombuffer(memory, np.uint8)


def bytes_of(place: Place, n: int) -> Any:
    """`n` zero bytes where kernels of the place can use them."""
    if place.shares_memory:
        return sparse(n)
    if not place.name.startswith("cuda"):
        pytest.skip(f"{n} bytes of memory on {place.name}")
    free, _ = sterna.device(place.name).memory_info
    if free < 2 * n:
        pytest.skip(f"{place.name} has {free} bytes free")
    return sterna.zeros(n, np.uint8, place.name)


@sterna.kernel
def offsets(a, out):
    out[0] = a[2**31 + 5]
    out[1] = a[-1]
    a[2**31 + 6] = 7
    v = a[2**31 :]
    out[2] = v.shape[0]
    out[3] = v[6]
    out[4] = a.size


def test_past_two_to_the_31_elements(place: Place):
    n = 2**31 + 10
    a = bytes_of(place, n)
    a[2**31 + 5], a[-1] = 3, 9
    out = np.zeros(5, np.int64)
    place.launch(offsets, 1, 1, a, out)
    assert out.tolist() == [3, 9, 10, 7, n]


@sterna.kernel
def corners(a, out):
    i, j = sterna.grid(2)
    rows, columns = a.shape
    k, m = i * (rows - 1), j * (columns - 1)
    out[i, j] = a[k, m]
    a[k - 5, m - 5] = 10 * i + j
    out[2 + i, j] = a.T[m, k] + a[::-1][rows - 1 - k, m]


def test_rows_times_columns_past_two_to_the_31(place: Place):
    side = 70_000
    a = bytes_of(place, side * side).reshape(side, side)
    right = np.array([[1, 2], [3, 4]], np.uint8)
    a[:: side - 1, :: side - 1] = right
    out = np.zeros((4, 2), np.int64)
    place.over(corners, (2, 2), a, out)
    assert out.tolist() == [*right.tolist(), *(2 * right).tolist()]
    assert [int(a[k, m]) for k in (-5, side - 6) for m in (-5, side - 6)] == [0, 1, 10, 11]


@sterna.kernel
def index_product(rows, columns, out):
    i = rows * columns
    out[0] = i
    out[1] = i // 3
    out[2] = sterna.gridsize(1) * rows


def test_python_ints_are_64_bits(place: Place):
    out = np.zeros(3, np.int64)
    place.launch(index_product, 2, 4, 70_000, 70_000, out)
    assert out.tolist() == [4_900_000_000, 4_900_000_000 // 3, 560_000]


@sterna.kernel
def last_thread(out, n):
    i = sterna.grid(1)
    if i == n - 1:
        out[0] = i


def test_grids_past_two_to_the_31_threads(device: Place):  # too many for the interpreter
    if device.is_metal:
        pytest.skip("2**31 threads, one after another")
    n = 2**31 + 1024
    out = np.zeros(1, np.int64)
    device.launch(last_thread, n // 1024, 1024, out, n)
    assert out[0] == n - 1
