"""``print`` in a kernel: whole lines, Python's text."""

from __future__ import annotations

import numpy as np

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
