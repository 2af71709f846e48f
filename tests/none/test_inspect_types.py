"""``inspect_types``: the source with the types that were inferred, line by line."""

from __future__ import annotations

import io
from typing import NamedTuple

import numpy as np

import sterna


class Limits(NamedTuple):
    low: float
    high: float


def clamp(v, limits):
    return min(max(v, limits.low), limits.high)


@sterna.kernel
def develop(x, n, limits):
    """Every kind of line."""
    i = sterna.grid(1)
    if i < x.size:
        total = 0
        for k in range(n):
            total += x[k] * 2.0
        for v in (1, 2.5):
            last = v
        pair = (i, total)

        def shifted(z):
            return z + last

        # a comment
        x[i] = clamp(total, limits) + shifted(pair[0])


def types_of(kernel, *given):
    """Stripped source line → types beside it."""
    text = kernel.specialize(*given).types
    pairs = (line[7:].partition("# ") for line in text.splitlines() if line[:5].strip().isdigit())
    return {source.strip(): types for source, _, types in pairs}


def test_types_stand_beside_what_has_them():
    shown = types_of(develop, "float32[:]", "int", Limits(0.0, 1.0))
    assert shown["def develop(x, n, limits):"] == "x: 1-D array of float32, n: Python int, limits: named tuple Limits"
    assert shown["i = sterna.grid(1)"] == "i: Python int"
    assert shown["if i < x.size:"] == "i: Python int, x: 1-D array of float32"
    assert shown["total = 0"] == "total: Python int"
    assert shown["total += x[k] * 2.0"] == "total: float32"
    assert shown["last = v"] == "last: Python int or Python float"
    assert shown["pair = (i, total)"] == "pair: tuple (Python int, float32)"
    assert shown["x[i] = clamp(total, limits) + shifted(pair[0])"] == "x[…]: float32"
    assert shown["return min(max(v, limits.low), limits.high)"] == "return: float32"
    assert shown["return z + last"] == "return: Python float"


def test_each_function_has_a_heading_with_its_place():
    text = develop.specialize("float64[:]", "int", Limits(0.0, 1.0)).types
    assert "clamp(v: float64, limits: named tuple Limits) -> float64\n" in text
    assert "develop.<locals>.shifted(z: Python int, last: Python float) -> Python float\n" in text
    assert f'File "{__file__}", line {clamp.__code__.co_firstlineno}, globals:clamp' in text


@sterna.kernel
def double(x):
    i = sterna.grid(1)
    x[i] = x[i] * 2


def test_every_specialisation_of_the_process_is_printed(capsys):
    double.inspect_types()
    assert "has not been launched or specialised" in capsys.readouterr().out
    for dtype in (np.float32, np.int16):
        double.over(3)(np.ones(3, dtype))
    sterna.synchronize()
    file = io.StringIO()
    double.inspect_types(file)
    assert "# x[…]: float32" in file.getvalue()
    assert "# x[…]: int16" in file.getvalue()
