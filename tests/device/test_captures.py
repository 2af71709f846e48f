"""Captured names in one session (other sessions: tests/cross_session): each row of the table, and rebinding."""

from __future__ import annotations

import types

import numpy as np
import pytest

import sterna
from helpers.launching import Place

SCALE = 3
OFFSET = np.float32(0.1)
WEIGHTS = (1.5, 2, True)
CURVE = np.array([1.0, 4.0, 9.0, 16.0])
GRID = np.arange(12.0).reshape(3, 4).T
RECORDS = np.array([(1, 2.5), (3, 4.5)], [("n", np.int32), ("v", np.float64)])
EXPOSURE = sterna.Global(2.0, "float32")
MODULE = types.ModuleType("settings")
MODULE.LEVEL = 11
MODULE.TABLE = np.array([5, 6, 7])


@sterna.kernel
def constants(x, out):
    out[0] = SCALE
    out[1] = x[0] * OFFSET
    out[2] = WEIGHTS[0] + WEIGHTS[1]
    if WEIGHTS[2]:
        out[3] = MODULE.LEVEL


def test_constants(place: Place):
    out = np.zeros(4)
    place.launch(constants, 1, 1, np.array([3], np.float32), out)
    assert out.tolist() == [3, float(np.float32(3) * np.float32(0.1)), 3.5, 11]


@sterna.kernel
def arrays(out):
    i = sterna.grid(1)
    out[0, i] = CURVE[i]
    out[1, i] = CURVE[-1 - i]
    out[2, i] = GRID[i, 2]
    out[3, i] = CURVE[1:][i % 3]
    out[4, i] = RECORDS[1].v + RECORDS[0].n
    out[5, i] = MODULE.TABLE[1] + CURVE.shape[0] + GRID.shape[1]


def test_captured_arrays(place: Place):
    out = np.zeros((6, 4))
    place.over(arrays, 4, out)
    expected = [CURVE, CURVE[::-1], GRID[:, 2], [4, 9, 16, 4], [5.5] * 4, [13] * 4]
    assert out.tolist() == [list(map(float, row)) for row in expected]


@sterna.kernel
def read_global(x, out):
    i = sterna.grid(1)
    out[i] = x[i] * EXPOSURE + EXPOSURE.value


def test_a_global_changes_between_launches(place: Place):
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    for value in (2.0, -0.5, 8.0):
        EXPOSURE.value = value
        place.over(read_global, 4, x, out)
        assert out.tolist() == [k * value + value for k in range(4)]


def test_rebinding_is_noticed(place: Place, make_module):
    module = make_module(
        "import numpy as np\nimport sterna\nN = 1\nTABLE = np.array([1.0, 2.0])\n\n"
        "@sterna.kernel\ndef k(out):\n    out[0] = N\n    out[1] = TABLE[-1]\n    out[2] = TABLE.size\n"
    )
    out = np.zeros(3)
    place.launch(module.k, 1, 1, out)
    assert out.tolist() == [1, 2, 2]
    module.N, module.TABLE = 5, np.array([7.0, 8.0, 9.0])
    place.launch(module.k, 1, 1, out)
    assert out.tolist() == [5, 9, 3]


def make(factor, table):
    @sterna.kernel
    def k(out):
        i = sterna.grid(1)
        out[i] = table[i] * factor

    return k


def test_closures_of_one_factory(place: Place):
    first, second = make(2, np.array([1.0, 2.0])), make(10, np.array([3.0, 4.0]))
    for kernel, expected in ((first, [2, 4]), (second, [30, 40]), (first, [2, 4])):
        out = np.zeros(2)
        place.over(kernel, 2, out)
        assert out.tolist() == expected


@sterna.kernel
def write_capture(out):
    CURVE[0] = 1


def test_a_captured_numpy_array_is_read_only(place: Place):
    before = CURVE.copy()
    with pytest.raises((ValueError, TypeError)):
        place.launch(write_capture, 1, 1, np.zeros(1))
    assert CURVE.tolist() == before.tolist()


@pytest.fixture
def device_table(place: Place):
    if place.is_interpreter:
        yield sterna.to_device(np.arange(5.0)) if sterna.devices() else None
        return
    with sterna.on(place.name):
        yield sterna.to_device(np.arange(5.0))


def test_captured_sterna_arrays(place: Place, make_module, device_table):
    module = make_module(
        "import sterna\nTABLE = None\n\n@sterna.kernel\ndef k(out):\n    out[0] = TABLE[3]\n    TABLE[0] = 6.0\n"
        "    out[1] = TABLE[0] + TABLE.size\n"
    )
    module.TABLE = device_table
    out = np.zeros(2)
    place.launch(module.k, 1, 1, out)
    assert out.tolist() == [3, 11]
    assert np.asarray(device_table)[0] == 6.0
