"""Functions called from kernels: any plain Python function, specialised by its arguments."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from helpers.compare import assert_same
from helpers.launching import Place
from sterna import local


def square(x):
    return x * x


def poly(x, *coefficients):
    total = 0.0
    for c in coefficients:
        total = total * x + c
    return total


def sign(x):
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0


def swap(pair):
    a, b = pair
    return b, a


def apply(f, x):
    return f(x)


def store(a, i, v):
    a[i] = v


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


def make_adder(n):
    return lambda x: x + n


add_five = make_adder(5)
add_seven = make_adder(7)
double, triple = (lambda x: x * 2), (lambda x: x * 3)


@sterna.kernel
def calls(x, out):
    i = sterna.grid(1)
    v = x[i]
    out[0, i] = square(v)
    out[1, i] = poly(v, 1.0, 2.0, 3.0)
    out[2, i] = sign(v)
    out[3, i] = swap((v, 7.0))[0]
    out[4, i] = apply(square, v) + apply(lambda y: y + 1, v)
    store(out, (5, i), v)
    out[6, i] = add_five(v) * 100 + add_seven(v)
    out[7, i] = double(v) * 100 + triple(v)

    def local(y):
        return y * v

    out[8, i] = local(3)


def test_calls(place: Place):
    x = np.array([-2.0, 0.0, 1.0, 3.0])
    out = np.zeros((9, 4))
    place.over(calls, 4, x, out)
    expected = [
        x * x, (1 * x + 2) * x + 3, np.sign(x), np.full(4, 7.0), x * x + x + 1, x, (x + 5) * 100 + x + 7,
        x * 200 + x * 3, 3 * x,
    ]  # fmt: skip
    assert_same(out, np.array(expected), signed_zero=False)


@sterna.kernel
def by_type(f32, i32, out):
    out[0] = square(f32[0])
    out[1] = square(i32[0])
    out[2] = square(3)


def test_each_argument_type_has_its_own_version(place: Place):
    out = np.zeros(3)
    place.launch(by_type, 1, 1, np.array([0.1], np.float32), np.array([50000], np.int32), out)
    wrapped = (50000**2 + 2**31) % 2**32 - 2**31
    assert out.tolist() == [float(np.float32(0.1) * np.float32(0.1)), wrapped, 9]


@sterna.kernel
def recursive(out):
    i = sterna.grid(1)
    out[i] = factorial(i)


@pytest.mark.recursion
def test_recursion(place: Place):
    out = np.zeros(10, np.int64)
    place.over(recursive, 10, out)
    assert out.tolist() == [1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880]


@sterna.kernel
def helper_kernel(x, i):
    x[i] = i


@sterna.kernel
def calls_a_kernel(x):
    helper_kernel(x, sterna.grid(1))


def test_a_kernel_called_from_a_kernel_is_a_function(place: Place):
    x = np.full(5, -1)
    place.over(calls_a_kernel, 5, x)
    assert x.tolist() == [0, 1, 2, 3, 4]


@sterna.kernel
def builtins(x, out):
    i = sterna.grid(1)
    v = x[i]
    out[0, i] = abs(v)
    out[1, i] = round(v)
    out[2, i] = int(v)
    out[3, i] = pow(v, 2)
    q, r = divmod(v, 2.0)
    out[4, i] = q
    out[5, i] = r
    out[6, i] = sum((v, 1.0, 2.0))
    out[7, i] = any((v > 100, v < 0))
    out[8, i] = all((v > -100, v < 2))
    out[9, i] = len((1, 2, 3))
    out[10, i] = float(i) / 2


def test_builtins(place: Place):
    x = np.array([-2.5, 0.5, 1.5, 7.75])
    out = np.zeros((11, 4))
    place.over(builtins, 4, x, out)
    rows = [
        np.abs(x), [-2, 0, 2, 8], [-2, 0, 1, 7], x * x, np.floor(x / 2), x - 2 * np.floor(x / 2), x + 3,
        [1, 0, 0, 0], [1, 1, 1, 0], [3] * 4, [0, 0.5, 1, 1.5],
    ]  # fmt: skip
    assert_same(out, np.array([np.asarray(row, np.float64) for row in rows]), signed_zero=False)


def descend(n):
    return 0 if n == 0 else 1 + descend(n - 1)


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


def count_up(x, n):
    x[0] += 1
    if n > 0:
        count_up(x, n - 1)


@sterna.kernel
def deep(n, x, out):
    i = sterna.grid(1)
    if i == 1:
        out[0] = descend(n)
        out[1] = is_even(n)
        count_up(x, n)


@pytest.mark.recursion
def test_recursion_hundreds_of_calls_deep(place: Place):
    x, out = np.zeros(1), np.zeros(2, np.int64)
    place.launch(deep, 1, 2, 800, x, out)
    assert out.tolist() == [800, 1]
    assert x[0] == 801


@pytest.mark.recursion
@pytest.mark.parametrize("depth", [5000, 10**9])
def test_a_recursion_without_end_raises(place: Place, depth):
    with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
        place.launch(deep, 1, 2, depth, np.zeros(1), np.zeros(2, np.int64))


def many_branches(x):
    a, b = local.array(4, np.float64), local.array((2, 2), np.int32)
    for k in range(4):
        a[k] = x * k
        b[k // 2, k % 2] = k
    total = 0.0
    for k in range(4):
        if k == 0:
            total += a[k] + 1
        elif k == 1:
            total += a[k] * 2
        elif k == 2:
            total += a[k] * 3 - x
        elif a[1] > 2 and a[2] > 4:
            total += a[k] * 4 + a[0]
        else:
            total -= a[3] * b[0, 1] + a[1] * b[1, 0] + a[2] * b[1, 1]
    total += a[1] * a[2] + a[2] * a[3] + a[1] * a[3]
    for k in range(4):
        a[k] += total * b[k // 2, k % 2]
    return a[0] + a[1] - a[2] * 2 + a[3]


def remember(n):
    a = local.array(8, np.int64)
    a[n] = n * n
    below = remember(n - 1) if n > 0 else 0
    return below + a[n]


@sterna.kernel
def arrays_of_functions(x, out):
    i = sterna.grid(1)
    out[i, 0] = many_branches(x[i]) + many_branches(x[i] + 1)
    out[i, 1] = remember(i + 2)


@pytest.mark.recursion
def test_local_arrays_of_called_functions(place: Place):
    x, out = np.arange(5.0), np.zeros((5, 2))
    place.over(arrays_of_functions, 5, x, out)

    def expected(v):
        a = [v * k for k in range(4)]
        last = a[3] * 4 if a[1] > 2 and a[2] > 4 else -(a[3] + a[1] * 2 + a[2] * 3)
        total = a[0] + 1 + a[1] * 2 + a[2] * 3 - v + last + a[1] * a[2] + a[2] * a[3] + a[1] * a[3]
        return a[0] + a[1] + total - 2 * (a[2] + 2 * total) + a[3] + 3 * total

    assert out[:, 0].tolist() == [expected(v) + expected(v + 1) for v in x]
    assert out[:, 1].tolist() == [sum(k * k for k in range(i + 3)) for i in range(5)]


def with_a_large_array(n):
    a = local.array(20000, np.float64)
    a[n] = 1.0
    return a[n] if n == 0 else a[n] + with_a_large_array(n - 1)


@sterna.kernel
def large_arrays(n, out):
    out[0] = with_a_large_array(n)


@pytest.mark.recursion
def test_recursion_with_large_arrays_ends_before_the_stack_does(place: Place):
    out = np.zeros(1)
    if place.name.startswith("cuda"):
        pytest.skip("the stack of a GPU's thread does not hold such arrays")
    place.launch(large_arrays, 1, 1, 20, out)
    assert out[0] == 21
    if not place.is_interpreter:
        with pytest.raises(RecursionError):
            place.launch(large_arrays, 1, 1, 900, out)
