"""Every atomic operation on every element type, in global, shared and view-of-shared memory, value by value.

One thread applies an operation to edge values; what it gives and leaves is worked out here with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers.compare import assert_same
from helpers.launching import Place
from helpers.values import edges

INTEGERS = ("int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64")
ARITHMETIC = ("add", "sub", "max", "min", "exch")
BITWISE = ("and_", "or_", "xor", "inc", "dec")
HEAD = "import numpy as np\nimport sterna\n\n\n@sterna.kernel\ndef k(x, a, old, swap):\n"


def source(dtype: str, space: str) -> str:
    ops = [*ARITHMETIC, *(BITWISE if dtype in INTEGERS else ())]
    memory = {
        "global": "a", "shared": f"sterna.shared.array(16, np.{dtype})",
        "view": f"sterna.shared.array((3, 40), np.{dtype})[1, 3::2]",
    }[space]  # fmt: skip
    lines = [f"m = {memory}", "for j in range(a.size):", "    m[j] = a[j]", "for i in range(x.size):"]
    lines += [f"    old[{k}, i] = sterna.atomic.{op}(m, {k}, x[i])" for k, op in enumerate(ops)]
    lines += [f"    old[{len(ops)}, i] = sterna.atomic.cas(m, 10, swap[i], x[i])"]
    lines += ["for j in range(a.size):", "    a[j] = m[j]"]
    return HEAD + "".join(f"    {line}\n" for line in lines)


def _largest(a, b):
    return b if np.isnan(a) else a if np.isnan(b) else max(a, b)


def _smallest(a, b):
    return b if np.isnan(a) else a if np.isnan(b) else min(a, b)


RESULT: dict[str, Callable[..., object]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "max": _largest, "min": _smallest, "exch": lambda a, b: b,
    "and_": lambda a, b: a & b, "or_": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "inc": lambda a, b: a * 0 if a >= b else a + 1, "dec": lambda a, b: b if a == 0 or a > b else a - 1,
}  # fmt: skip


@pytest.mark.parametrize("space", ["global", "shared", "view"])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_values(place: Place, make_module, dtype, space):
    t = np.dtype(dtype).type
    ops = [*ARITHMETIC, *(BITWISE if dtype in INTEGERS else ())]
    x = np.random.default_rng(8).permutation(edges(dtype))
    start = np.full(16, 5, dtype)
    a, old, swap = start.copy(), np.zeros((len(ops) + 1, x.size), dtype), np.roll(x, 1)
    swap[::3] = 1
    place.launch(make_module(source(dtype, space)).k, 1, 1, x, a, old, swap)
    expected, left = np.zeros_like(old), start.copy()
    with np.errstate(all="ignore"):
        for k, op in enumerate(ops):
            for i, value in enumerate(x):
                expected[k, i] = left[k]
                unsigned = op in ("inc", "dec")
                one, two = (v.view(f"u{v.itemsize}") if unsigned else v for v in (left[k], value))
                left[k] = t(RESULT[op](one, two)) if not unsigned else np.array(RESULT[op](one, two)).view(dtype)
        for i, value in enumerate(x):
            expected[-1, i] = left[10]
            if left[10].tobytes() == swap[i].tobytes():  # bit for bit: a NaN is itself, the zeros differ
                left[10] = value
    assert_same(old, expected, label="old values")
    assert_same(a, left, label="what is left")
