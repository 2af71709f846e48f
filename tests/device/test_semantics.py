"""Python's finer points, one line each: what a statement leaves in `out`, worked out by hand.

Each snippet is the body of a kernel with ``out`` (float64, 8 zeros), ``x`` (int32: 5, -3, 7, 0), ``f`` (float32: 0.1, 2.5),
``b`` (bool: True, False) and the Python numbers ``n = 3`` and ``r = 0.25``.
"""
# ruff: noqa: E501 - one snippet a line

from __future__ import annotations

import numpy as np
import pytest

import sterna
from helpers.launching import Place

F = float(np.float32(0.1))
HEAD = """
import math
import numpy as np
import sterna
ONE = 1
NOTHING = None

def bump(a, k):
    a[k] += 1
    return a[k]

def first_negative(a):
    for i in range(a.shape[0]):
        for j in range(2):
            if a[i] < 0 and j == 1:
                return i
    return -1

def positive(v):
    assert v > 0, "not positive"
    return v

def many(*args):
    return len(args) * 10 + args[-1]

@sterna.kernel
def k(out, x, f, b, n, r):
"""

SNIPPETS: dict[str, tuple[str, list[float]]] = {
    # ---- bools
    "python bools add as ints": ("out[0] = (n < 5) + (n > 1)", [2]),
    "python bool and number": ("out[0] = (n < 5) * 10 + True", [11]),
    "minus of a comparison": ("out[0] = -(n < 5)", [-1]),
    "numpy bools add as or": ("out[0] = b[0] + b[0]", [1]),
    "numpy bool times int": ("out[0] = b[0] * 5 + b[1]", [5]),
    "comparison of elements is a numpy bool": ("out[0] = (x[0] > 1) + (x[2] > 1)", [1]),
    "not gives a python bool": ("out[0] = (not b[1]) + (not b[1])", [2]),
    "and or give operands": ("out[0] = n and 7\nout[1] = 0 or r\nout[2] = (x[3] or 9) + 1\nout[3] = x[0] and x[1]", [7, 0.25, 10, -3]),
    # ---- numbers
    "power binds tighter than minus": ("out[0] = -2 ** 2\nout[1] = 2 ** n\nout[2] = x[0] ** 2", [-4, 8, 25]),
    "power of floats": ("out[0] = 2.0 ** -1\nout[1] = r ** 2\nout[2] = 2 ** -1", [0.5, 0.0625, 0.5]),
    "hypotenuse of several": ("out[0] = math.hypot(3, 4, 12)\nout[1] = math.hypot(-n)", [13, 3]),
    "modulo of negatives": ("out[0] = -7 % 3\nout[1] = 7 % -3\nout[2] = x[1] % 5\nout[3] = -7 // 2\nout[4] = -0.5 % 3", [2, -2, 2, -4, 2.5]),
    "shift of a weak number by a strong one": ("out[0] = 1 << x[0]\nout[1] = n << 4\nout[2] = -9 >> 1", [32, 48, -5]),
    "big unsigned literals": ("w = np.uint64(0xFFFFFFFFFFFFFFFF)\nout[0] = (w & 0xFF) + (w >> 60)\nout[1] = w > 2 ** 63", [270, 1]),
    "mixed sign comparison": ("out[0] = np.int64(-1) < np.uint64(1)\nout[1] = np.int8(-1) == np.uint8(255)", [1, 0]),
    "float32 keeps its width": ("out[0] = f[0] + 0.2\nout[1] = f[0] * n\nout[2] = f[0] // 1", [float(np.float32(0.1) + np.float32(0.2)), float(np.float32(0.1) * np.float32(3)), 0]),
    "float32 and int32 give float64": ("out[0] = f[0] * x[0]", [F * 5]),
    "true division of ints": ("out[0] = x[0] / x[1]\nout[1] = n / 2\nout[2] = x[0] // 2", [5 / -3, 1.5, 2]),
    "int truncates": ("out[0] = int(-2.7)\nout[1] = int(f[1])\nout[2] = round(2.5)\nout[3] = round(f[1])\nout[4] = round(-1.5)", [-2, 2, 2, 2, -2]),
    "divmod": ("q, m = divmod(-7, 2)\nout[0] = q\nout[1] = m\nq2, m2 = divmod(x[1], 2)\nout[2] = q2\nout[3] = m2", [-4, 1, -2, 1]),
    "min and max of several": ("out[0] = min(n, 2, 9)\nout[1] = max((1, 5, 2))\nout[2] = max(x[0], x[2], 6)", [2, 5, 7]),
    "chained comparison evaluates once": ("out[0] = 0 < bump(x, 3) < 2\nout[1] = x[3]", [1, 1]),
    "complex numbers": ("z = complex(1.0, 2.0) * 1j\nout[0] = z.real\nout[1] = z.imag\nout[2] = abs(3 + 4j)", [-2, 1, 5]),
    "nan is not itself": ("v = math.nan\nout[0] = v == v\nout[1] = v != v\nout[2] = math.inf > 1e308", [0, 1, 1]),
    # ---- names and scopes
    "a name may change its type": ("v = 1\nout[0] = v\nv = 2.5\nout[1] = v\nv = (v, 3)\nout[2] = v[1]", [1, 2.5, 3]),
    "a weak sum becomes float": ("t = 0\nfor i in range(4):\n    t = t + 0.5\nout[0] = t", [2]),
    "the loop variable stays": ("for i in range(3):\n    pass\nout[0] = i", [2]),
    "late binding of closures": ("v = 1\ndef g():\n    return v\nv = 5\nout[0] = g()", [5]),
    "defaults are bound early": ("v = 1\ndef g(y, w=v):\n    return y + w\nv = 5\nout[0] = g(10)", [11]),
    "parameters shadow": ("def g(n):\n    n += 1\n    return n\nout[0] = g(10) + n", [14]),
    "walrus": ("out[0] = (v := n + 1) * v\nout[1] = v", [16, 4]),
    "lambda with default": ("g = lambda v, w=n: v * w\nout[0] = g(2) + g(2, 5)", [16]),
    "functions as values": ("g = math.sqrt if ONE else math.exp\nout[0] = g(16.0)", [4]),
    # ---- assignment
    "swap": ("a, c = n, r\na, c = c, a\nout[0] = a\nout[1] = c", [0.25, 3]),
    "swap of elements": ("x[0], x[1] = x[1], x[0]\nout[0] = x[0]\nout[1] = x[1]", [-3, 5]),
    "rotate": ("a, c, d = 1, 2, 3\na, c, d = c, d, a\nout[0] = a * 100 + c * 10 + d", [231]),
    "nested unpacking": ("(a, c), d = (1, 2), 3\nout[0] = a * 100 + c * 10 + d", [123]),
    "chain": ("a = c = n\na += 1\nout[0] = a\nout[1] = c", [4, 3]),
    "augmented element evaluates its index once": ("x[bump(x, 3)] += 100\nout[0] = x[1]\nout[1] = x[3]", [97, 1]),
    "right side first": ("x[0] = x[1] = 8\nout[0] = x[0] + x[1]", [16]),
    "integer store truncates": ("x[0] = 3.9\nx[1] = -3.9\nout[0] = x[0]\nout[1] = x[1]", [3, -3]),
    # ---- control flow
    "return from nested loops of a callee": ("out[0] = first_negative(x)", [1]),
    "while true": ("c = 0\nwhile True:\n    c += 1\n    if c > 6:\n        break\nout[0] = c", [7]),
    "continue skips the rest": ("for i in range(6):\n    if i % 2:\n        continue\n    out[i] = i", [0, 0, 2, 0, 4, 0]),
    "else after no break": ("for i in range(3):\n    if i == 7:\n        break\nelse:\n    out[0] = 1\nwhile n < 0:\n    pass\nelse:\n    out[1] = 1", [1, 1]),
    "range with a negative step": ("for i in range(5, -1, -2):\n    out[i] = 1", [0, 1, 0, 1, 0, 1]),
    "range is evaluated once": ("m = 3\nfor i in range(m):\n    m = 100\n    out[i] = 1", [1, 1, 1]),
    "dead branch is not typed": ("if NOTHING is not None:\n    out[0] = NOTHING + 1\nelse:\n    out[0] = 4", [4]),
    "conditional evaluates one side": ("out[0] = x[100] if n > 5 else 1\nout[1] = x[0] if n < 5 else x[100]", [1, 5]),
    "short circuit guards a check": ("if n > 5 and positive(x[1]) > 0:\n    out[0] = 1\nif n < 5 or positive(x[1]) > 0:\n    out[1] = 1", [0, 1]),
    "early return": ("out[0] = 1\nif n == 3:\n    return\nout[0] = 2", [1]),
    # ---- tuples
    "tuple equality": ("out[0] = (1, n) == (1, 3)\nout[1] = (1, n) != (1, 3)", [1, 0]),
    "tuple membership": ("out[0] = n in (1, 3)\nout[1] = x[0] not in (1, 3)\nout[2] = 2.5 in (f[1], 1.0)", [1, 1, 1]),
    "tuple slices and sums": ("t = (1, 2, 3, n)\nout[0] = sum(t)\nout[1] = len(t[1:])\nout[2] = t[-1]\nout[3] = any((b[1], n > 1))", [9, 3, 3, 1]),
    "tuple concatenation": ("t = (1, 2) + (n,)\nout[0] = t[2] * len(t)", [9]),
    "star arguments": ("out[0] = many(1, 2, 3)\nout[1] = many(n)", [33, 13]),
    "loop over a mixed tuple": ("t = 0.0\nfor v in (1, 2.5, n):\n    t += v\nout[0] = t", [6.5]),
    "zip of arrays and ranges": ("for i, (u, v) in enumerate(zip(x, range(10, 14))):\n    out[i] = u * v", [50, -33, 84, 0]),
    # ---- views
    "a view follows the array": ("v = x[1:]\nx[1] = 42\nout[0] = v[0]\nv[1] = 9\nout[1] = x[2]", [42, 9]),
    "rebinding a view": ("v = x\nv = v[1:]\nv = v[1:]\nout[0] = v[0]\nout[1] = v.shape[0]", [7, 2]),
    "shape in arithmetic": ("out[0] = x.shape[0] * 2 + x.size + len(x) + x.ndim", [17]),
}  # fmt: skip


@pytest.mark.parametrize("name", SNIPPETS)
def test_snippet(place: Place, make_module, name):
    body, expected = SNIPPETS[name]
    module = make_module(HEAD + "\n".join("    " + line for line in body.splitlines()) + "\n")
    out, x = np.zeros(8), np.array([5, -3, 7, 0], np.int32)
    place.launch(module.k, 1, 1, out, x, np.array([0.1, 2.5], np.float32), np.array([True, False]), 3, 0.25)
    assert out.tolist() == expected + [0] * (8 - len(expected))


@sterna.kernel
def chosen(x, out):
    i = sterna.grid(1)
    value = np.where(x[i] > 2, x[i], np.float32(10))
    before = (value, value)
    value -= np.float32(1)
    out[i, 0] = before[0]
    out[i, 1] = value


def test_what_where_gives_is_a_value(place: Place):
    """``-=`` binds the name anew; NumPy's own ``where`` gives an array without axes, which it would change."""
    out = np.zeros((2, 2), np.float32)
    place.launch(chosen, 1, 2, np.array([1, 5], np.float32), out)
    assert out.tolist() == [[10, 9], [5, 4]]
