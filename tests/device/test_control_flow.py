"""Statements: loops, choices, early leaves; right values worked out in plain Python or by hand."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from helpers.compare import assert_same
from helpers.launching import Place


@sterna.kernel
def choose(x, out):
    i = sterna.grid(1)
    v = x[i]
    if v < 0:
        out[i] = -1
    elif v == 0:
        out[i] = 0
    elif v > 100:
        out[i] = 2
    else:
        out[i] = 1


def test_if_elif_else(place: Place):
    x = np.array([-5, 0, 1, 100, 101, 2**31 - 1, -(2**31)], np.int32)
    out = np.full(x.size, 9, np.int32)
    place.over(choose, x.size, x, out)
    assert out.tolist() == [-1, 0, 1, 1, 2, 2, -1]


@sterna.kernel
def collatz(n, steps):
    i = sterna.grid(1)
    v = n[i]
    count = 0
    while v != 1:
        if v % 2 == 0:
            v //= 2
        else:
            v = 3 * v + 1
        count += 1
    steps[i] = count


def test_while_with_different_trips_per_thread(place: Place):
    n = np.arange(1, 28, dtype=np.int64)
    out = np.zeros(27, np.int64)
    place.over(collatz, 27, n, out)
    assert out[26] == 111  # the well-known 27
    assert out[:8].tolist() == [0, 1, 7, 2, 5, 8, 16, 3]


@sterna.kernel
def ranges(out):
    total = 0
    for i in range(10):
        total += i
    out[0] = total
    total = 0
    for i in range(10, 0, -3):  # 10 7 4 1
        total = total * 11 + i
    out[1] = total
    count = 0
    for _ in range(5, 5):
        count += 1
    out[2] = count
    i = 77
    for i in range(3):
        i += 100  # no effect on the count
    out[3] = i
    for j in range(0, 10, 4):
        out[4] = j


def test_range_loops(place: Place):
    out = np.zeros(5, np.int64)
    place.launch(ranges, 1, 1, out)
    assert out.tolist() == [45, ((10 * 11 + 7) * 11 + 4) * 11 + 1, 0, 102, 8]


@sterna.kernel
def leave_early(x, out):
    found = -1
    for i in range(x.size):
        if x[i] == 0:
            continue
        if x[i] < 0:
            found = i
            break
    else:
        found = -2
    out[0] = found
    n = 0
    while n < 5:
        n += 1
        if n == 3:
            break
    else:
        n = 100
    out[1] = n
    while n < 10:
        n += 1
    else:
        n += 1000
    out[2] = n


@pytest.mark.parametrize(("x", "found"), [([0, 1, -3, -4], 2), ([0, 1, 2, 3], -2), ([-1, 0, 0, 0], 0)])
def test_break_continue_else(place: Place, x, found):
    out = np.zeros(3, np.int64)
    place.launch(leave_early, 1, 1, np.array(x, np.int32), out)
    assert out.tolist() == [found, 3, 1010]


@sterna.kernel
def nested(out):
    i = sterna.grid(1)
    total = 0
    for a in range(i):
        for b in range(10):
            if b > a:
                break
            if (a + b) % 2:
                continue
            total += a * 10 + b
    out[i] = total


def test_nested_loops(place: Place):
    out = np.zeros(8, np.int64)
    place.over(nested, 8, out)
    expected = [sum(a * 10 + b for a in range(i) for b in range(min(10, a + 1)) if (a + b) % 2 == 0) for i in range(8)]
    assert out.tolist() == expected


@sterna.kernel
def early_return(x):
    i = sterna.grid(1)
    if i % 3 == 0:
        return
    for k in range(10):
        if k == i:
            return
        x[i] += 1
    x[i] = -1


def test_return_from_inside(place: Place):
    x = np.zeros(13, np.int32)
    place.over(early_return, 13, x)
    assert x.tolist() == [0, 1, 2, 0, 4, 5, 0, 7, 8, 0, -1, -1, 0]


@sterna.kernel
def loops_over_things(a, out):
    total = 0.0
    for v in a:
        total += v
    out[0] = total
    total = 0.0
    for k, v in enumerate(a):
        total += k * v
    out[1] = total
    for k, _ in enumerate(a, 10):
        total += k
    out[2] = total
    total = 0.0
    for v, w in zip(a, a[1:]):  # noqa: B905, RUF007 - zip as kernels write it
        total += v * w
    out[3] = total
    total = 0.0
    for k in reversed(range(4)):
        total = total * 10 + k
    out[4] = total
    for v in (1, 2, 4):
        total += v
    out[5] = total


def test_loops_over_arrays_tuples_enumerate_zip_reversed(place: Place):
    a = np.array([1.0, 2.0, 3.0, 5.0])
    out = np.zeros(6)
    place.launch(loops_over_things, 1, 1, a, out)
    assert out.tolist() == [11.0, 2 + 6 + 15, 23.0 + 46, 2 + 6 + 15, 3210.0, 3217.0]


@sterna.kernel
def expressions(x, out):
    i = sterna.grid(1)
    v = x[i]
    out[0, i] = 1 if v > 2 else -1
    out[1, i] = 0 < v <= 3
    out[2, i] = (v and 7) or 9
    out[3, i] = not (v > 1 and v < 4)
    out[4, i] = v in (1, 3)
    out[5, i] = v not in (1, 3)
    if (w := v * 2) > 4:
        out[6, i] = w
    a, b = v, 10
    a, b = b, a
    out[7, i] = a * 100 + b
    c = d = v
    c += 1
    out[8, i] = c * d


def test_expressions(place: Place):
    x = np.arange(5, dtype=np.int64)
    out = np.zeros((9, 5), np.int64)
    place.over(expressions, 5, x, out)
    rows = [
        [1 if v > 2 else -1 for v in range(5)], [0 < v <= 3 for v in range(5)], [(v and 7) or 9 for v in range(5)],
        [not (v > 1 and v < 4) for v in range(5)], [v in (1, 3) for v in range(5)], [v not in (1, 3) for v in range(5)],
        [v * 2 if v * 2 > 4 else 0 for v in range(5)], [1000 + v for v in range(5)], [(v + 1) * v for v in range(5)],
    ]  # fmt: skip
    assert_same(out, np.array(rows, np.int64))


@sterna.kernel
def short_circuit(x, out):
    i = sterna.grid(1)
    if i < x.size and x[i] > 0:  # the right side would be out of range
        out[i] = 1
    if i >= x.size or x[i] == 0:
        out[i] = 2


def test_and_or_evaluate_only_what_they_must(place: Place):
    x = np.array([5, 0, -1], np.int32)
    out = np.zeros(6, np.int32)
    place.over(short_circuit, 6, x, out)
    assert out.tolist() == [1, 2, 0, 2, 2, 2]


@sterna.kernel
def weak_then_strong(x, out):
    total = 0  # a Python int that meets float32: the sum is float32
    for i in range(x.size):
        total += x[i]
    out[0] = total


def test_a_python_number_takes_the_type_it_meets(place: Place):
    x = np.array([1e8, 1.0, -1e8, 0.25], np.float32)
    out = np.zeros(1, np.float64)
    place.launch(weak_then_strong, 1, 1, x, out)
    total = np.float32(0)
    for v in x:
        total += v
    assert out[0] == total == 0.25


@sterna.kernel
def many(x, out):
    i = sterna.grid(1)
    v = x[i]
    out[i] = (
        v + 1 + v + 2 + v + 3 + v + 4 + v + 5 + v + 6 + v + 7 + v + 8 + v + 9 + v + 10 + v + 11 + v + 12 + v + 13 + v
    ) % 1000


def test_long_expression(place: Place):
    x = np.arange(10, dtype=np.int64)
    out = np.zeros(10, np.int64)
    place.over(many, 10, x, out)
    assert_same(out, (14 * x + 91) % 1000)


def test_a_thousand_branches(place: Place, make_module):
    branches = "".join(f"    {'if' if k == 0 else 'elif'} v == {k}:\n        r = {k * k}\n" for k in range(1000))
    source = (
        "import sterna\n\n@sterna.kernel\ndef k(x, out):\n    i = sterna.grid(1)\n    v = x[i]\n    r = -1\n"
        f"{branches}    out[i] = r\n"
    )
    x = np.array([0, 1, 500, 999, 1000, -1])
    out = np.zeros(6, np.int64)
    try:
        kernel = make_module(source).k
    except (RecursionError, SyntaxError):  # Python's own parser: an elif chain nests
        pytest.skip("this Python cannot parse it")
    place.over(kernel, 6, x, out)
    assert out.tolist() == [0, 1, 250_000, 998_001, -1, -1]


def test_a_thousand_terms(place: Place, make_module):
    terms = " + ".join(f"v * {k}" for k in range(1000))
    source = (
        f"import sterna\n\n@sterna.kernel\ndef k(x, out):\n    i = sterna.grid(1)\n    v = x[i]\n    out[i] = {terms}\n"
    )
    x, out = np.arange(5), np.zeros(5, np.int64)
    place.over(make_module(source).k, 5, x, out)
    assert out.tolist() == [v * 499_500 for v in range(5)]
