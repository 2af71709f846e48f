"""Indexing and slicing made in a kernel: NumPy's rules for negative indices, steps and bounds."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from helpers.compare import assert_same
from helpers.launching import Place


@sterna.kernel
def copy1(v, out):
    for i in range(v.shape[0]):
        out[i] = v[i]


SLICES = {
    "a[::-1]": lambda a: a[::-1],
    "a[5:2:-1]": lambda a: a[5:2:-1],
    "a[-3:3]": lambda a: a[-3:3],
    "a[-3:]": lambda a: a[-3:],
    "a[:-3]": lambda a: a[:-3],
    "a[1::2]": lambda a: a[1::2],
    "a[::3]": lambda a: a[::3],
    "a[100:]": lambda a: a[100:],
    "a[:100]": lambda a: a[:100],
    "a[-100:2]": lambda a: a[-100:2],
    "a[100::-2]": lambda a: a[100::-2],
    "a[:-100:-1]": lambda a: a[:-100:-1],
    "a[2:2]": lambda a: a[2:2],
    "a[-1:-6:-2]": lambda a: a[-1:-6:-2],
    "a[1:][::2][::-1]": lambda a: a[1:][::2][::-1],
}
_SOURCE = """
import sterna

@sterna.kernel
def k(a, out, size):
    v = {expression}
    size[0] = v.shape[0]
    size[1] = v.size
    size[2] = len(v)
    size[3] = v.ndim
    size[4] = v.strides[0]
    for i in range(v.shape[0]):
        out[i] = v[i]
        out[v.shape[0] - 1 - i - v.shape[0]] = v[-1 - i]
"""


@pytest.mark.parametrize("expression", SLICES)
@pytest.mark.parametrize("n", [0, 1, 7])
def test_slices_of_one_axis(place: Place, make_module, expression, n):
    a = np.arange(n, dtype=np.int32) * 3 + 1
    expected = SLICES[expression](a)
    out, size = np.zeros(2 * n + 1, np.int32), np.zeros(5, np.int64)
    kernel = make_module(_SOURCE.format(expression=expression)).k
    place.launch(kernel, 1, 1, a, out, size)
    assert size.tolist()[:4] == [expected.size, expected.size, expected.size, 1]
    assert expected.size < 2 or size[4] == expected.strides[0]
    assert_same(out[: expected.size], expected)
    if expected.size:
        assert_same(out[-expected.size :], expected)


@sterna.kernel
def runtime_slice(a, bounds, out):
    v = a[bounds[0] : bounds[1] : bounds[2]]
    out[0] = v.shape[0]
    for i in range(v.shape[0]):
        out[1 + i] = v[i]


def test_slices_with_bounds_known_only_at_run_time(place: Place):
    a = np.arange(6, dtype=np.int64) + 10
    numbers = (-100, -7, -6, -5, -1, 0, 1, 3, 5, 6, 7, 100)
    for start in numbers:
        for stop in (-100, -6, -1, 0, 2, 6, 100):
            for step in (-7, -2, -1, 1, 2, 7):
                out = np.zeros(8, np.int64)
                place.launch(runtime_slice, 1, 1, a, np.array([start, stop, step]), out)
                expected = a[start:stop:step]
                assert out[0] == expected.size, (start, stop, step)
                assert out[1 : 1 + expected.size].tolist() == expected.tolist(), (start, stop, step)


@sterna.kernel
def negative(a, b, out):
    out[0] = a[-1]
    out[1] = a[-a.size]
    out[2] = b[1, -1]
    out[3] = b[-2, 0]
    i = -2
    out[4] = a[i]
    a[-1] = 50
    out[5] = a[a.size - 1]


def test_negative_indices(place: Place):
    a, b = np.arange(5.0), np.arange(6.0).reshape(3, 2)
    out = np.zeros(6)
    place.launch(negative, 1, 1, a, b, out)
    assert out.tolist() == [4.0, 0.0, 3.0, 2.0, 3.0, 50.0]


@sterna.kernel
def last_of_one_column(a, out):
    i = sterna.grid(1)
    out[i] = a[i, -1]


def test_last_of_one_column(place: Place):
    a = np.arange(4.0).reshape(4, 1)
    out = np.zeros(4)
    place.over(last_of_one_column, 4, a, out)
    assert_same(out, a[:, -1])


VIEWS = {
    "a[1]": lambda a: a[1],
    "a[-1, 1:]": lambda a: a[-1, 1:],
    "a[:, 0]": lambda a: a[:, 0],
    "a[:, -1, ::2]": lambda a: a[:, -1, ::2],
    "a[..., 1]": lambda a: a[..., 1],
    "a[1, ...]": lambda a: a[1, ...],
    "a[::-1, :, 0]": lambda a: a[::-1, :, 0],
    "a.T": lambda a: a.T,
    "a.T[0]": lambda a: a.T[0],
    "a[0].T": lambda a: a[0].T,
    "a[None, 0]": lambda a: a[None, 0],
    "a[0, :, None]": lambda a: a[0, :, None],
}
_VIEW_SOURCE = """
import sterna

@sterna.kernel
def k(a, out, shape):
    v = {expression}
    for d in range(v.ndim):
        pass
    {body}
"""
_BODIES = {
    1: "shape[0] = v.shape[0]\n    for i in range(v.shape[0]):\n        out[i] = v[i]",
    2: "shape[0] = v.shape[0]\n    shape[1] = v.shape[1]\n    n = 0\n    for i in range(v.shape[0]):\n"
    "        for j in range(v.shape[1]):\n            out[n] = v[i, j]\n            n += 1",
    3: "shape[0] = v.shape[0]\n    shape[1] = v.shape[1]\n    shape[2] = v.shape[2]\n    n = 0\n"
    "    for i in range(v.shape[0]):\n        for j in range(v.shape[1]):\n            for k in range(v.shape[2]):\n"
    "                out[n] = v[i][j, k]\n                n += 1",
}


@pytest.mark.parametrize("expression", VIEWS)
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_views_of_several_axes(place: Place, make_module, expression, order):
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    if order == "F":
        a = np.asfortranarray(a)
    elif order == "strided":
        a = np.arange(96, dtype=np.float32).reshape(4, 3, 8)[::2, :, ::-2]
    expected = VIEWS[expression](a)
    out, shape = np.zeros(24, np.float32), np.zeros(3, np.int64)
    body = _BODIES[expected.ndim]
    place.launch(make_module(_VIEW_SOURCE.format(expression=expression, body=body)).k, 1, 1, a, out, shape)
    assert tuple(shape[: expected.ndim].tolist()) == expected.shape
    assert_same(out[: expected.size], expected.ravel())


@sterna.kernel
def write_through(a):
    row = a[1]
    row[-1] = 9
    column = a[:, 0]
    column[::-1][0] = 7
    a.T[1, 0] = 5


def test_views_write_through(place: Place):
    a = np.zeros((3, 3), np.int16)
    place.launch(write_through, 1, 1, a)
    assert a.tolist() == [[0, 5, 0], [0, 0, 9], [7, 0, 0]]


@sterna.kernel
def facts(a, out):
    out[0] = a.size
    out[1] = a.ndim
    out[2] = a.shape[1]
    out[3] = len(a)
    out[4] = a.strides[0]
    out[5] = a.strides[1]
    out[6] = a.itemsize
    rows, columns = a.shape
    out[7] = rows * 100 + columns
    out[8] = len(a.shape)


def test_attributes(place: Place):
    a = np.zeros((3, 5), np.float64)
    out = np.zeros(9, np.int64)
    place.launch(facts, 1, 1, a, out)
    assert out.tolist() == [15, 2, 5, 3, 40, 8, 8, 305, 2]


@sterna.kernel
def scalar_array(a, out):
    out[()] = a[()] * 2


def test_zero_dimensional(place: Place):
    a, out = np.array(21.0), np.array(0.0)
    place.launch(scalar_array, 1, 1, a, out)
    assert out[()] == 42.0


@sterna.kernel
def touch(a):
    i = sterna.grid(1)
    if i < a.size:
        a[i] = 1


@sterna.kernel
def touch2(a):
    i, j = sterna.grid(2)
    a[i, j] = 1


def test_empty_arrays_and_launches_do_nothing(place: Place):
    place.launch(touch, 2, 32, np.zeros(0, np.float32))
    place.over(touch, 0, np.zeros(0, np.float32))
    place.over(touch2, (2, 0), np.zeros((2, 0), np.float32))
    place.over(touch2, (0, 3), np.zeros((0, 3), np.float32))


@sterna.kernel
def fill_even(a):
    i = sterna.grid(1)
    a[i] = i


def test_strided_arguments_leave_the_gaps_alone(place: Place):
    base = np.full(20, -1, np.int32)
    place.over(fill_even, 10, base[::2])
    assert base[::2].tolist() == list(range(10))
    assert (base[1::2] == -1).all()
    base = np.full(10, -1, np.int32)
    place.over(fill_even, 5, base[::-2])
    assert base.tolist() == [-1, 4, -1, 3, -1, 2, -1, 1, -1, 0]


@sterna.kernel
def strided_write(a):
    i, j = sterna.grid(2)
    a[i, j] = i * 10 + j


def test_any_layout_is_written_right(place: Place):
    expected = np.add.outer(np.arange(3) * 10, np.arange(4)).astype(np.int64)
    for a in (np.zeros((3, 4), np.int64), np.zeros((3, 4), np.int64, order="F"), np.zeros((6, 8), np.int64)[::2, ::-2]):
        place.over(strided_write, (3, 4), a)
        assert_same(a, expected)


@sterna.kernel
def parts(z, out):
    i = sterna.grid(1)
    out[0, i] = z[i].real
    out[1, i] = z[i].imag
    out[2, i] = abs(z[i])


def test_complex_parts(place: Place):
    z = np.array([3 + 4j, -1j, 0], np.complex64)
    out = np.zeros((3, 3), np.float32)
    place.over(parts, 3, z, out)
    assert out.tolist() == [[3, 0, 0], [4, -1, 0], [5, 1, 0]]


@sterna.kernel
def signed_and_unsigned_indices(a, i8, u8, i64, u64, out):
    out[0] = a[i8[0]]
    out[1] = a[u8[0]]
    out[2] = a[i64[0]]
    out[3] = a[u64[0]]


def test_index_dtypes(place: Place):
    a = np.arange(250)
    args = [np.array([-2], np.int8), np.array([200], np.uint8), np.array([-250]), np.array([249], np.uint64)]
    out = np.zeros(4, np.int64)
    place.launch(signed_and_unsigned_indices, 1, 1, a, *args, out)
    assert out.tolist() == [248, 200, 0, 249]


@sterna.kernel
def huge_indices(a, b, u64, out):
    i = sterna.grid(1)
    out[i] = -a[b[i:][u64[0] :].shape[0]]
    if i == 1:
        out[i] = a[u64[i]]
    elif i == 2:
        out[i] = b[u64[i], 0:][0]
    elif i == 3:
        out[i] = (1, 2)[u64[i]]


def test_a_uint64_that_no_int_holds_is_no_negative_index(device: Place):
    a, b, out = np.arange(5), np.ones((5, 5), np.int64), np.full(4, 9)
    for wrong in (2**64 - 1, 2**63):
        device.launch(huge_indices, 1, 1, a, b, np.full(4, wrong, np.uint64), out)
        for thread in (1, 2, 3):
            out[:] = 9
            u64 = np.zeros(4, np.uint64)
            u64[[0, thread]] = wrong
            with pytest.raises(IndexError, match=r"out of bounds for axis 0 with size 5|tuple index") as caught:
                device.launch(huge_indices, 1, 4, a, b, u64, out)
            assert caught.value.thread == (thread, 0, 0) and out[thread] == 0 and out[0] == 0


@pytest.mark.parametrize("wrong", [2**64 - 1, 2**63])
def test_a_strip_of_threads_with_a_huge_index(device: Place, wrong: int):
    index = np.arange(100, dtype=np.uint64)
    index[70] = wrong
    out = np.zeros(100, np.int64)
    with pytest.raises(IndexError) as caught:
        device.launch(gathered, 1, 100, np.arange(100) + 1, index, out)
    assert caught.value.thread == (70, 0, 0)
    assert_same(out, np.where(np.arange(100) == 70, 0, np.arange(100) + 1))


@sterna.kernel
def gathered(a, index, out):
    i = sterna.grid(1)
    out[i] = a[index[i]]
