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
