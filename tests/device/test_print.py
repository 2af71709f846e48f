"""``print`` in a kernel: whole lines, Python's text."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from helpers.launching import Place


@sterna.kernel
def say(x):
    i = sterna.grid(1)
    print("thread", i, "has", x[i])


def test_every_line_is_whole(place: Place, capfd):
    place.over(say, 50, np.arange(50, dtype=np.int32) * 3)
    lines = [line for line in capfd.readouterr().out.splitlines() if line]
    assert sorted(lines) == sorted(f"thread {i} has {3 * i}" for i in range(50))


def test_lines_of_many_threads_at_once_are_whole(place: Place, capfd):
    place.launch(say, 100, 8, np.arange(800, dtype=np.int32))
    lines = capfd.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"thread {i} has {i}" for i in range(800))


@sterna.kernel
def say_things(flag, f, n):
    print("flag", flag)
    print("float", f, "int", n)
    print("no end", end=";")
    print()


def test_values_print_as_python_prints_them(place: Place, capfd):
    place.launch(say_things, 1, 1, True, 0.1, -5)
    assert capfd.readouterr().out.splitlines() == ["flag True", "float 0.1 int -5", "no end;"]


@sterna.kernel
def say_numbers(f64, f32, i8, u64, flags):
    for v in f64:
        print(v, end=" ")
    print()
    for v in f32:
        print(v, end=" ")
    print()
    print(i8[0], u64[0], flags[0], flags[1], sep=", ")
    print("100%", "{}", "tab\there")


def test_numbers_print_shortest(place: Place, capfd):
    f64 = np.array([0.1, 1.0, 1e16, 1e-5, 123456.789, -0.0, np.nan, np.inf, -np.inf, 1e300, 5e-324, 2 / 3])
    f32 = np.array([0.1, 3.0, 1e-7, 123456.5, -0.0, np.nan], np.float32)
    i8, u64 = np.array([-128], np.int8), np.array([2**64 - 1], np.uint64)
    place.launch(say_numbers, 1, 1, f64, f32, i8, u64, np.array([True, False]))
    assert capfd.readouterr().out.splitlines() == [
        " ".join(map(str, f64)) + " ",
        " ".join(map(str, f32)) + " ",
        "-128, 18446744073709551615, True, False",
        "100% {} tab\there",
    ]


@sterna.kernel
def say_all(values):
    for v in values:
        print(v)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_float_prints_as_numpy_prints_it(place: Place, capfd, dtype):
    rng = np.random.default_rng(11)
    top = {"float16": 999.0, "float32": 9e5, "float64": 9e15}[dtype]  # where all releases of NumPy agree
    small = np.concatenate([rng.random(150), np.exp2(-np.arange(1.0, 14.0)), [0.1, 0.007, 0.3]])
    values = np.concatenate([small[small > 2e-4], rng.random(150) * top, [0.0, -0.0, -1.5]]).astype(dtype)
    place.launch(say_all, 1, 1, values)
    assert capfd.readouterr().out.splitlines() == [str(v) for v in values]


def test_floats_with_exponents(device: Place, capfd):
    device.launch(say_all, 1, 1, np.array([1.5e10, 16777216, 999999, 1e6, 1e-4, 3e-5], np.float32))
    device.launch(say_all, 1, 1, np.array([1000, 999, 65504, 1e-5], np.float16))
    device.launch(say_all, 1, 1, np.array([1e16, 1e15, 1e-4, 9e-5]))
    assert capfd.readouterr().out.split() == [
        "1.5e+10", "1.6777216e+07", "999999.0", "1e+06", "1e-04", "3e-05",
        "1e+03", "999.0", "6.55e+04", "1e-05",
        "1e+16", "1000000000000000.0", "0.0001", "9e-05",
    ]  # fmt: skip


def test_complex_numbers_print_as_python_prints_them(place: Place, capfd):
    parts = [0.0, -0.0, 1.0, -2.5, float("nan"), float("inf"), -float("inf"), 1e20, 1e-5]
    values = np.array([complex(a, b) for a in parts for b in parts])
    place.launch(say_all, 1, 1, values)
    assert capfd.readouterr().out.splitlines() == [str(complex(v)) for v in values]
