"""A kernel of some 200 lines with ten device functions: compile time of code of a real program's size.

The text is put together from two templates with other constants each time; every function has a loop, choices,
arithmetic in two precisions and array accesses that are checked.
"""

from __future__ import annotations

import linecache
from typing import Any

__all__ = ["LINES", "SIGNATURE", "kernel"]

FUNCTIONS = 10
SIGNATURE = ("float32[:,:]", "float32[:]", "int32[:]", "float64[:]", "float32[:,:]")

_FUNCTION = """\
def part{k}(x, table, i, j):
    total = np.float32({k})
    for m in range({turns}):
        value = x[i, (j + m * {step}) % x.shape[1]]
        if value > np.float32(0.{k}5):
            total += value * table[m % table.shape[0]]
        elif value < np.float32(-0.5):
            total -= math.{function}(abs(value) + np.float32(1))
        else:
            total += np.float32(0.5) * value
    return total / np.float32({turns})
"""
_BLOCK = """\
    a{k} = part{k}(x, table, i, j)
    level = kind[(i + {k}) % kind.shape[0]]
    if level == {k}:
        energy += np.float64(a{k}) * weight[{k} % weight.shape[0]]
    elif level > {k} and a{k} > np.float32(0):
        energy -= math.sqrt(np.float64(a{k}))
        flux = flux * np.float32(0.9) + a{k}
    else:
        flux = max(flux, a{k})
    out[i, j] += flux
"""


def _source() -> str:
    names = ("sqrt", "log", "exp", "cos", "tanh")
    functions = [
        _FUNCTION.format(k=k, turns=4 + k, step=1 + k % 3, function=names[k % len(names)]) for k in range(FUNCTIONS)
    ]
    head = [
        "@sterna.kernel",
        "def large(x, table, kind, weight, out):",
        "    i, j = sterna.grid(2)",
        "    energy = 0.0",
        "    flux = np.float32(0)",
    ]
    blocks = [_BLOCK.format(k=k) for k in range(FUNCTIONS)]
    return "\n".join([*functions, *head, *blocks]) + "\n    out[i, j] += np.float32(energy)\n"


_TEXT = _source()
LINES = sum(bool(line.strip()) for line in _TEXT.splitlines())


def kernel() -> Any:
    """The kernel, defined anew."""
    import math

    import numpy as np

    import sterna

    filename = "<generated large kernel>"
    linecache.cache[filename] = (len(_TEXT), None, _TEXT.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"__name__": "large", "math": math, "np": np, "sterna": sterna}
    exec(compile(_TEXT, filename, "exec"), scope)
    return scope["large"]
