"""Arithmetic, mathematics, conversions."""

from __future__ import annotations

import cmath
import math

import numpy as np

LIMITS = (1, 2.5, -3)


def add(x: float, y: float) -> float:
    return x + y


def add_single(x: np.float32, y: np.float32) -> np.float32:
    return x + y


def mixed(x: np.float32, n: int) -> np.float32:
    return x * n + 1


def floored(a: int, b: int) -> int:
    return a // b + a % b


def divided(a: int, b: int) -> float:
    return a / b


def shifted(a: np.uint8, n: int) -> int:
    return (a << 1) >> n


def bitwise(a: np.int32, b: np.int32) -> np.int32:
    return (a & b) | (a ^ ~b)


def narrow(a: np.int8, b: np.int16) -> int:
    return int(a) + int(b)


def powers(x: float, n: int) -> float:
    return x**2 + x**n


def hypotenuse(x: float, y: float) -> float:
    return math.sqrt(x * x + y * y) + math.hypot(x, y)


def waves(x: np.float32) -> np.float32:
    return np.sin(x) * np.cos(x) + np.tan(x)


def logarithms(x: float) -> float:
    return math.log(x) + math.log2(x) + math.log10(x) + math.log1p(x)


def special(x: float) -> float:
    return math.erf(x) + math.gamma(x) + math.atan2(x, 2.0)


def rounding(x: float) -> float:
    return math.floor(x) + math.ceil(x) + round(x) + math.trunc(x)


def half(x: np.float16) -> np.float32:
    return np.float32(x) * np.float32(2)


def complex_product(a: complex, b: complex) -> complex:
    return a * b + a.conjugate()


def complex_single(z: np.complex64) -> np.float32:
    return abs(z) + z.real * z.imag


def exponential(z: complex) -> complex:
    return cmath.exp(z) / (z + 1)


def truth(a: bool, b: bool, x: int) -> bool:
    return (a and not b) or x > 3


def extremes(a: int, b: int, c: float) -> float:
    return max(a, b) + min(c, 1.0) + abs(a)


def constants(x: float) -> float:
    return x * LIMITS[1] + LIMITS[0] - LIMITS[2] + math.pi


def unsigned(a: np.uint64, b: np.uint64) -> np.uint64:
    return a * b - (a >> np.uint64(3))


def converted(x: float) -> int:
    return int(x) + int(np.int16(3)) + int(np.uint8(7))
