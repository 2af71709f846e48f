"""Branches, loops, calls, recursion, closures, exceptions."""

from __future__ import annotations

import numpy as np


def sign(x: float) -> int:
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0


def collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def triangle(n: int) -> int:
    total = 0
    for i in range(n):
        if i % 3 == 0:
            continue
        if i > 1000:
            break
        total += i
    else:
        total += 1
    return total


def nested(n: int, m: int) -> int:
    total = 0
    for i in range(n):
        for j in range(i, m, 2):
            total += i * j
    return total


def factorial(n: int) -> int:
    return 1 if n <= 1 else n * factorial(n - 1)


def even(n: int) -> bool:
    return True if n == 0 else odd(n - 1)


def odd(n: int) -> bool:
    return False if n == 0 else even(n - 1)


def scaled(x: float, by: float) -> float:
    def inner(y):
        return y * by

    return inner(x) + inner(1.0)


def applied(x: float) -> float:
    return twice(lambda y: y + 1, x)


def twice(f, x):
    return f(f(x))


def guarded(x: float) -> float:
    assert x > 0, "x must be positive"
    if x > 100:
        raise ValueError("too large")
    return x


def unrolled(x: np.float32) -> np.float32:
    total = np.float32(0)
    for factor in (1, 2, 3):
        total += x * factor
    return total


def chained(a: int, b: int, c: int) -> bool:
    return a < b <= c != 7


def walrus(n: int) -> int:
    return (m := n + 1) * m
