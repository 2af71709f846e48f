"""Launches over a shape: every index once, the last axis fastest, nothing past the end."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from helpers.compare import assert_same
from helpers.launching import Place
from sterna.errors import CompileError


@sterna.kernel
def mark1(a):
    i = sterna.grid(1)
    a[i] += i + 1


@sterna.kernel
def mark2(a):
    i, j = sterna.grid(2)
    a[i, j] += i * 1000 + j + 1


@sterna.kernel
def mark3(a):
    i, j, k = sterna.grid(3)
    a[i, j, k] += i * 10_000 + j * 100 + k + 1


@pytest.mark.parametrize("n", [1, 31, 32, 33, 64, 1000, 1025])
def test_one_axis(place: Place, n):
    a = np.zeros(n, np.int64)
    place.over(mark1, n, a)
    assert_same(a, np.arange(n) + 1)


@pytest.mark.parametrize("shape", [(1, 1), (3, 70), (70, 3), (1, 300), (300, 1), (17, 33)])
def test_two_axes(place: Place, shape):
    a = np.zeros(shape, np.int64)
    place.over(mark2, shape, a)
    i, j = np.indices(shape)
    assert_same(a, i * 1000 + j + 1)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 70), (5, 6, 7), (40, 1, 2)])
def test_three_axes(place: Place, shape):
    a = np.zeros(shape, np.int64)
    place.over(mark3, shape, a)
    i, j, k = np.indices(shape)
    assert_same(a, i * 10_000 + j * 100 + k + 1)


@sterna.kernel
def sizes(out):
    i, j = sterna.grid(2)
    rows, columns = sterna.gridsize(2)
    out[i, j] = rows * 100 + columns


def test_gridsize_is_the_shape(place: Place):
    out = np.zeros((7, 9), np.int64)
    place.over(sizes, (7, 9), out)
    assert (out == 709).all()


@pytest.mark.parametrize("shape", [5, (2, 3, 4)])
def test_another_number_of_axes_is_an_error(place: Place, shape):
    with pytest.raises(CompileError, match="grid"):
        place.over(mark2, shape, np.zeros((9, 9), np.int64))


@sterna.kernel
def stride_loop(x):
    for i in range(sterna.grid(1), x.size, sterna.gridsize(1)):
        x[i] += i


def test_grid_stride_loop(place: Place):
    x = np.zeros(1000, np.int64)
    place.launch(stride_loop, 3, 32, x)
    assert_same(x, np.arange(1000))


@sterna.kernel
def own_check(x):
    i = sterna.grid(1)
    if i < x.size:
        x[i] = sterna.gridsize(1)


def test_explicit_launch_past_the_end(place: Place):
    x = np.zeros(100, np.int64)
    place.launch(own_check, 4, 32, x)
    assert (x == 128).all()
