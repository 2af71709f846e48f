"""Corners of the language: kernels whose compiled result must be the interpreter's, failure by failure.

Each stands for a kind of mistake a compiler of Python can make: scopes and bindings, types that change on the way,
order of evaluation, loops left in every way, checks inside conditions, values captured late.
"""
# ruff: noqa: B007, B905, E731, F821, F841, PIE796, RUF005

from __future__ import annotations

import collections
import dataclasses
import enum
import math
from typing import Any

import numpy as np
import pytest

import sterna
from helpers.launching import Place
from sterna import local
from sterna.errors import CompileError

A = np.arange(10, dtype=np.int32)


def loops_and_else(o, a, n):
    t = 0
    for i in range(n):
        if i % 3 == 0:
            continue
        for j in range(i, -1, -2):
            if j == 1:
                break
            t += j
        else:
            t += 100
        if t > 5000:
            break
    else:
        t += 7
    o[0] = t
    o[1] = i
    while t > 0:
        t -= 11
        if t == 3:
            break
    else:
        o[2] = 5
    o[3] = t
    for i in range(0):
        pass
    o[4] = i


def bound_by_a_loop(o, a, n):
    for i in range(n):
        q = i * 2
    o[0] = q


def bound_by_a_branch(o, a, n):
    for i in range(5):
        if i == n:
            x = i
        if i > 2:
            o[i] = x


def carried_to_the_next_turn(o, a, n):
    for i in range(n):
        if i > 0:
            o[i] = prev
        prev = i * 1.5
    else:
        prev = 0
    o[9] = prev


def types_of_the_moment(o, a, n):
    x = 1
    o[0] = x // 2
    x = 2.5
    o[1] = x // 2
    x = a[3]
    o[2] = x // 2
    if n > 2:
        x = 7.25
    o[3] = x
    x = (x, n)
    o[4] = x[1]
    y, x = x
    o[5] = x + y


def swaps(o, a, n):
    i, j = 0, 1
    for _ in range(n):
        i, j = j, i + j
    o[0] = i
    a[0], a[1] = a[1], a[0]
    i, a[i % 10] = 3, 4
    (p, q), r = (1, 2), 3
    o[1] = p + q * r


def order_of_evaluation(o, a, n):
    def bump(k):
        a[0] += 1
        return a[0] * k

    o[0] = a[0] + bump(1) + a[0]
    o[1] = bump(1) - bump(2) * bump(3)
    o[int(bump(1)) % 10] = bump(100)
    x = n
    o[9] = x + (x := x + 5) + x
    o[8] = a[0] if bump(0) == 0 and bump(1) > 0 else bump(7)


def booleans(o, a, n):
    o[0] = (n > 1) + (n > 2)
    o[1] = True + True
    o[2] = -(n > 1)
    o[3] = (a[1] > 0) + (a[2] > 0)
    o[4] = (n > 1) * 2.5
    o[5] = (n > 1) and 7
    o[6] = (n > 100) or a[4]
    o[7] = not n
    o[8] = ~(n > 1)
    o[9] = (a[1] > 0) + 1
    o[10] = (n > 1) & (n > 2)
    o[11] = (n > 1) / 2
    o[12] = max(n > 1, False)


def divisions_and_powers(o, a, n):
    o[0] = n // a[0]
    o[1] = n / 2
    o[2] = -7 // 2
    o[3] = -7 % 3
    o[4] = np.int32(-7) // np.int32(2)
    o[5] = -n // 2
    o[6] = -n % 3
    o[7] = n % -3
    o[8] = 7.5 % -2
    o[9] = float(-n) // 2.0
    o[10] = 2**n
    o[11] = n**2
    o[12] = 2**-1
    o[13] = a[2] ** 3
    o[14] = n << 2 | 1
    o[15] = -n >> 1


def integer_division_by_zero(o, a, n):
    o[0] = 1
    o[1] = 5 // n
    o[2] = 1


def float_division_by_zero(o, a, n):
    o[0] = 1
    o[1] = 5.0 / n
    o[2] = 1


def guarded_division(o, a, n):
    o[0] = n != 0 and 5 % n > 0
    o[1] = 1 if n == 0 or 5 // n else 2


def tuples(o, a, n):
    for k, (x, y) in enumerate(((1, 2.5), (n, a[3]), (True, 3))):
        o[k] = x * y
    t = (1, 2, 3) + (n,)
    o[3] = len(t)
    o[4] = sum(t)
    o[5] = max(t)
    o[6] = t[-1]
    o[7] = t[1:][0]
    for q in reversed(t):
        o[8] += q * o[8] + 1
    for u, v in zip(t, (4, 5, 6, 7)):
        o[9] += u * v
    o[10] = n in t
    o[11] = 9 in t
    o[12] = t[n % 4]
    o[13] = (1, 2) < (1, 3)
    o[14] = (1, n) == (1, 7)
    o[15] = any((n > 3, False)) + all((1, n))


def slices(o, a, n):
    o[0] = a[2:5].size
    o[1] = a[::-1][0]
    o[2] = a[-3:][0]
    o[3] = a[n:2:-1].size
    b = a[1::2]
    o[4] = len(b)
    b[-1] = 50
    for i, v in enumerate(b):
        o[5] += i * v
    for v in a[::-2]:
        o[6] = o[6] * 2 + v
    c = a[100:]
    o[7] = c.size
    o[8] = a[None, :].ndim
    o[9] = a[...][3]


def closures(o, a, n):
    s = n
    f = lambda x, k=s: x * k + s
    s = 100
    o[0] = f(2)

    def g(x, *r, z=5):
        return x + len(r) + sum(r) + z

    o[1] = g(1)
    o[2] = g(1, 2, 3, z=n)

    def twice(h, x):
        return h(h(x))

    o[3] = twice(f, 1)
    o[4] = twice(lambda q: q + s, 1)

    def rec(m):
        return 1 if m <= 1 else m * rec(m - 1)

    o[5] = rec(5)
    fs = (f, lambda y: y - 1)
    for k, h in enumerate(fs):
        o[6 + k] = h(10)
    h = f if True else g
    o[9] = h(1)


def failures(o, a, n):
    o[0] = 1
    if n == 1:
        raise ValueError(f"bad {n}")
    if n == 2:
        assert n > 2, "small"
    if n == 3:
        a[n * 5] = 1
    if n == 4:
        raise KeyError
    if n == 5:
        o[1] = (1, 2)[n]
    if n == 6:
        o[1] = int(float("nan") * n)
    if n == 7:
        o[1] = range(3)[n]
    if n == 8:
        o[1] = 1 << -n
    if n == 9:
        for i in range(0, 10, n - 9):
            o[2] = 1
    o[3] = 2


def weak_numbers(o, a, n):
    x = np.float32(0.1)
    o[0] = x * 2.0
    o[1] = x + n
    o[2] = x == 0.1
    o[3] = x + np.float64(1)
    o[4] = np.uint8(200) + np.uint8(100)
    o[5] = np.uint8(200) + 50
    o[6] = np.int32(2**31 - 1) + 1
    o[7] = a[3] * 2.5
    o[8] = a[3] / 2
    o[9] = np.uint8(5) < 300
    o[10] = np.uint64(2**63) > -1
    o[11] = math.sqrt(x)
    o[12] = abs(np.int8(-128))
    o[14] = round(2.5) + round(np.float32(3.5))
    o[15] = np.int64(-1) < np.uint64(1)


P = collections.namedtuple("P", "x y")


@dataclasses.dataclass(frozen=True)
class D:
    a: float
    b: P
    c: int = 3


class Col(enum.Enum):
    R = 1
    G = 2
    B = 1


class IE(enum.IntEnum):
    A = 5
    B = 6


NT = P(2, 3.5)


def structs_enums_strings(o, a, p, d, c, ie, s, none):
    o[0] = p.x + p[1]
    o[1] = d.b.y * d.c
    q = P(1, y=p.x)
    o[2] = q.y
    e = D(1.0, q)
    o[3] = e.c + e.b.x
    o[4] = c is Col.R
    o[5] = c == Col.B
    o[6] = c is not Col.G
    o[7] = ie
    o[8] = ie == IE.A
    o[9] = ie + IE.B
    o[10] = s == "abc"
    o[11] = 1 if none is None else 2
    x, y = p
    o[12] = x - y
    o[13] = NT.y
    o[14] = isinstance(p.x, int)


REC = np.zeros(4, dtype=[("x", "f4"), ("v", "i4", (3,)), ("s", [("q", "f8")])])
REC["x"] = np.arange(4)
REC["s"]["q"] = 7


def records(o, r, n):
    r[1].x = 3.5
    r[2]["v"][1] = 4
    r[n].s.q += 1
    o[0] = r[1]["x"]
    o[1] = r[2].v[1]
    o[2] = REC[2].x + REC[1].s.q
    v = r["x"][::-1]
    v[0] = 9
    for k, e in enumerate(r):
        o[3 + k] = e.x
    o[8] = r[-1].v.size


def ranges_and_iterators(o, a, n):
    r = range(0, n, 2)
    n = 100
    for i in r:
        o[0] += i
    o[1] = len(r)
    o[2] = r[-1]
    m = n - 94
    for i, v in enumerate(reversed(range(m)), m):
        m = 0
        o[3] += i * v
    for i in range(m, 5):
        m = i
        n = i
        o[4] += i
    o[5] = i + m
    x, y, z = n, m, n
    x, y = y + 1, x
    o[6] = x * y
    b = a
    for v in b:
        b = a[::2]
        o[7] += v
    for v, w in zip(a, b[::-1]):
        o[8] += v * w
    for i, (p, q) in enumerate(zip((1, 2, 3), range(5, 30))):
        o[9] += p * q * i
    else:
        o[10] = i


def breaks_and_continues(o, a, n):
    for t in (1, 2.5, 3, 4):
        for j in range(3):
            if j == t:
                break
            if t > n:
                continue
            o[0] += t * j
        else:
            o[1] += t
            continue
        if t == 3:
            break
        o[2] += t
        x = t
    else:
        o[3] = 1
    o[4] = x
    for u in (5, 6):
        if u == n:
            break
    o[5] = u
    k = 0
    while True:
        k += 1
        if k > n:
            break
        if k % 2:
            continue
        last = k
    o[6] = k
    o[7] = last
    while k and (k := k - 1):
        o[8] += k
    while not k >= 3:
        k += 1
        for q in range(k):
            if q == 1:
                break
        else:
            continue
        break
    o[9] = k


def returns_from_loops(o, a, n):
    def f(x):
        for i in range(10):
            if i * x > 7:
                return i
            for v in (1, 2.0):
                if v * x > 5:
                    return v
        return -1

    o[0] = f(n)
    o[1] = f(0)
    o[2] = f(2.5)

    def g(x):
        while True:
            x -= 1
            if x < 0:
                return
            o[3] += x

    g(n)

    def h(x):
        if x > 2:
            return 1
        elif x > 1:
            return 2.5
        else:
            return a[0]

    o[4] = h(n)


def complex_numbers(o, a, n):
    z = complex(n, 2)
    w = z * z + 1j
    o[0] = w.real
    o[1] = w.imag
    o[2] = abs(z)
    o[3] = z == complex(n, 2)
    c = np.complex64(z)
    o[4] = c.real
    o[5] = (c * 2).imag
    o[6] = z.conjugate().imag


def mathematics(o, a, n):
    o[0] = math.floor(-2.5)
    o[1] = math.ceil(n / 2)
    o[2] = math.trunc(-n / 2)
    m, e = math.frexp(n)
    o[3] = m * e
    f, w = math.modf(-n / 4)
    o[4] = f
    o[5] = w
    o[6] = np.sign(a[3] - 5)
    o[7] = np.clip(n, 0, 2)
    o[8] = np.where(n > 2, 1.5, 2)
    o[9] = divmod(-n, 4)[1]
    o[10] = math.hypot(3.0, 4.0)
    o[11] = math.copysign(1, -n)
    o[12] = math.fmod(-7, 3)
    o[13] = np.float32(1.5).view(np.int32) % 1000
    o[14] = math.isnan(n / 7)
    o[15] = round(np.float64(n) / 7, 2)


def closures_in_loops(o, a, n):
    f = lambda: z + 1
    for i in range(n):
        if i > 0:
            o[i] = f()
        z = i * 2.5


def closures_over_unbound_names(o, a, n):
    if n > 3:
        z = 1
    f = lambda: z + 1
    o[0] = f()


class NS:
    K = 3

    class In:
        J = 2.5


def names_and_literals(o, a, n, *, kw=2):
    o[0] = NS.K + NS.In.J + kw
    o[1] = (lambda *q, w=n: len(q) * w)(1, 2)
    for (i,), j in (((1,), 2), ((3,), 4)):
        o[2] += i * j
    x = y = n
    x += 1
    o[3] = x * y
    o[4] = float("inf") > n
    o[5] = int(True) + int(2.9) + int(-2.9)
    o[6] = 1 if n else 2 if n > 1 else 3
    o[7] = n if n < 3 < a[4] < 5 else -1
    o[8] = 5 in (n, 3.0, 5)
    o[9] = (n, 2) == (3, 2.0)
    o[10] = "a" in "cab"
    t = (1, (2, 3))
    (p, (q, r)) = t
    o[11] = p + q * r
    o[12] = t[1][0]
    o[13] = len("abc") + len(range(n))
    o[14] = np.float32(n) / 3
    o[15] = a.shape[0] + a.size + a.ndim + a.strides[0] + a.nbytes + a.itemsize


def local_arrays(o, a, n):
    b = local.array((3, 4), np.int64)
    for i in range(3):
        for j in range(4):
            b[i, j] = i * 10 + j
    c = b[1:, ::2]
    d = c.T
    o[0] = d[1, 0]
    o[1] = d.shape[0]
    o[2] = b[-1, -1]
    for row in b:
        for v in row:
            o[3] += v
    o[4] = b[n][2]
    e = b[:, 1]
    e[0] = 99
    o[5] = b[0, 1]
    o[6] = e[::-1][2]
    o[7] = b[..., 0][1]
    o[8] = b[None][0, 1, 1]
    o[9] = b.transpose(1, 0)[2, 1]
    z = local.array(2, np.complex64)
    z[0] = 1 + 2j
    o[10] = z[0].imag
    o[11] = abs(z[0] * 2)


def functions_as_values(o, a, n):
    def f(x):
        def g(y):
            def h(z):
                return x + y + z + n

            return h(1)

        return g(2)

    o[0] = f(3)
    fs = (lambda v: v + 1, lambda v: v * 2)
    acc = 1
    for g in fs:
        acc = g(acc)
    o[1] = acc
    o[2] = (f if True else g)(1)

    def outer(fn, *args):
        return fn(*args)

    o[3] = outer(max, 1, n, 2)
    o[4] = outer(lambda a, b: a - b, n, 1)
    o[5] = outer(np.float32, 2) / 3
    o[6] = outer(math.sqrt, 4.0)


def nested_loops(o, a, n):
    s = 0
    for i in range(n):
        for j in range(n):
            if j > i:
                break
            for k in range(3):
                if k == j:
                    continue
                if k > i + j:
                    break
                s += i * j + k
            else:
                s += 1000
    o[0] = s
    i = 10
    while i:
        i -= 1
        if i == 5:
            continue
        if i == 2:
            break
        o[1] += i
    o[2] = i
    for i in range(5, 0, -2):
        o[3] = o[3] * 10 + i
    for i in range(-3, 3):
        a[i] = i


def record_views(o, r, n):
    v = r["v"]
    v[1, 2] = 5
    o[0] = v[1:, 0].size
    for row in v:
        for q in row:
            o[1] += q
    s = r["s"]["q"]
    o[2] = s[n]
    o[3] = r["v"][::-1][2, -1]
    o[4] = v.shape[1]


def leaving_from_an_else(o, a, n):
    for v in a:
        k = 0
        while k < 3 and 6 // (n - 1) > k:
            k += 1
            if k == v:
                break
        else:
            if v > 4:
                break
            if v == 3:
                continue
            o[0] += v
        o[1] += k
        q = v
    else:
        o[2] = 1
    o[3] = q
    while n and 9 // n:
        n -= 1
        for v in (1, 2.5, n):
            if v == 2:
                break
        else:
            if n < 1:
                break
            continue
        o[4] += n
    else:
        o[5] = 1
    o[6] = n


CASES: list[tuple[Any, tuple[Any, ...]]] = [
    *((loops_and_else, (A, n)) for n in (1, 8)),
    *((bound_by_a_loop, (A, n)) for n in (0, 3)),
    *((bound_by_a_branch, (A, n)) for n in (1, 4)),
    (carried_to_the_next_turn, (A, 5)),
    *((types_of_the_moment, (A, n)) for n in (1, 3)),
    (swaps, (A, 7)),
    (order_of_evaluation, (A, 7)),
    (booleans, (A, 7)),
    (divisions_and_powers, (A, 7)),
    (integer_division_by_zero, (A, 0)),
    (float_division_by_zero, (A, 0)),
    (guarded_division, (A, 0)),
    (tuples, (A, 7)),
    (slices, (A, 7)),
    (closures, (A, 7)),
    *((failures, (A, n)) for n in range(1, 10)),
    (weak_numbers, (A, 7)),
    (structs_enums_strings, (A, P(1, 2.5), D(1.5, P(2, 3), 4), Col.R, IE.A, "abc", None)),
    (records, (REC, 1)),
    (ranges_and_iterators, (A, 7)),
    *((breaks_and_continues, (A, n)) for n in (1, 2, 5, 6)),
    *((returns_from_loops, (A, n)) for n in (1, 3)),
    (complex_numbers, (A, 3)),
    (mathematics, (A, 3)),
    (closures_in_loops, (A, 3)),
    *((closures_over_unbound_names, (A, n)) for n in (3, 4)),
    (names_and_literals, (A, 3)),
    (local_arrays, (A, 1)),
    (functions_as_values, (A, 3)),
    (nested_loops, (A, 4)),
    (record_views, (REC, 1)),
    *((leaving_from_an_else, (A, n)) for n in (2, 3, 4, 20)),
]


def _outcome(place: Place, function: Any, args: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """What a launch of one thread leaves behind: the output, the arrays it was given, the class of its failure."""
    copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    out = np.zeros(16, dtype)
    failure = None
    try:
        with np.errstate(all="ignore"):
            place.launch(sterna.kernel(function), 1, 1, out, *copies)
    except Exception as error:
        if isinstance(error, CompileError) and (place.is_metal or not place.recurses):
            raise
        failure = type(error)
    return out, [copy for copy in copies if isinstance(copy, np.ndarray)], failure


def cases() -> list[Any]:
    """The cases, marked if they need recursion."""
    marks = {"closures": pytest.mark.recursion}
    return [pytest.param(f, a, marks=[m for n, m in marks.items() if f.__name__ == n]) for f, a in CASES]


@pytest.mark.parametrize(("function", "args"), cases(), ids=lambda part: getattr(part, "__name__", ""))
def test_compiled_as_interpreted(device: Place, function: Any, args: tuple[Any, ...]) -> None:
    dtype = np.float64
    if device.is_metal:  # Python's floats are float32 there
        dtype, args = np.float32, tuple(_narrow(arg) for arg in args)
    out, arrays, failure = _outcome(device, function, args, dtype)
    expected, expected_arrays, expected_failure = _outcome(Place("interpreter"), function, args, dtype)
    assert failure is expected_failure
    # NVIDIA's maths library is within 2 ulps where the C library is exact
    tolerance = 5e-16 if device.name.startswith("cuda") else 2e-6 if device.is_metal else 0
    np.testing.assert_allclose(out, expected, rtol=tolerance, atol=0)
    for array, right in zip(arrays, expected_arrays, strict=True):
        np.testing.assert_array_equal(array, right)


def _narrow(arg: Any) -> Any:
    """An argument without float64."""
    return arg.astype(np.float32) if isinstance(arg, np.ndarray) and arg.dtype == np.float64 else arg
