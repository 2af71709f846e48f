"""Floating functions of narrow integers: NumPy's own give the narrowest float that holds them, `math`'s a float64."""

from __future__ import annotations

import linecache
import math

import numpy as np
import pytest

import sterna
from helpers.launching import Place

NAMES = ("sqrt", "sin", "rint", "degrees", "arctan2", "copysign", "ldexp")
DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "bool")


def kernel(text: str, name: str):  # type: ignore[no-untyped-def]
    """A kernel made from text that has a place in the line cache."""
    filename = f"<{name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    space = {"np": np, "math": math, "sterna": sterna}
    exec(compile(text, filename, "exec"), space)
    return space["k"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_numpy_function_of(place: Place, name: str, dtype: str) -> None:
    second = {"arctan2": ", x[1]", "copysign": ", x[1]", "ldexp": ", 2"}.get(name, "")
    text = f"@sterna.kernel\ndef k(x, o):\n    o[0] = np.{name}(x[0]{second}) + np.float16(1)\n"
    x, o = np.array([1, 1], dtype), np.zeros(1)
    place.launch(kernel(text, f"narrow {name} {dtype}"), 1, 1, x, o)
    arguments = {"ldexp": (x[0], 2)}.get(name, (x[0], x[1])[: getattr(np, name).nin])
    expected = getattr(np, name)(*arguments) + np.float16(1)
    assert expected.dtype == {"int32": "float64", "int16": "float32", "uint16": "float32"}.get(dtype, "float16")
    assert o[0] == pytest.approx(float(expected), rel=4 * float(np.finfo(expected.dtype).eps))
