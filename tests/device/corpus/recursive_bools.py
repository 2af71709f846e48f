"""A recursion that returns Python bools returns ints to arithmetic (its calls of itself made them NumPy's)."""

import numpy as np

import sterna

LAUNCH, OUTPUTS = ("over", 1), [0]


def arguments():
    return [np.zeros(6), np.array([1.0]), 4]


def even(n):
    if n == 0:
        return True
    return odd(n - 1)


def odd(n):
    if n == 0:
        return False
    return even(n - 1)


def all_down(n):
    return n > 0 and all_down(n - 1) if n > 1 else True


def either(n, x):
    if n == 0:
        return x[0] > 0
    return either(n - 1, x)


def number(n):
    if n == 0:
        return True
    if n > 5:
        return 7
    return number(n - 1)


@sterna.kernel
def k(o, x, n):
    o[0] = even(10) + odd(3)
    o[1] = all_down(n) + all_down(n)
    o[2] = -even(n)
    o[3] = either(3, x) + either(2, x)
    o[4] = number(3) + number(8)
