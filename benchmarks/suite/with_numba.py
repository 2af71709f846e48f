"""The compared kernels in numba: the same loops under ``prange``, cached on disk.

``SUITE_NUMBA_SERIAL=1`` compiles them without ``parallel=True``: numba's cheaper compilation.
``LAUNCH[case](*inputs)`` runs one to completion.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import prange

__all__ = ["LAUNCH"]

TILE = 16
RISKFREE, VOLATILITY = np.float32(0.02), np.float32(0.30)
SOFTENING = np.float32(1e-3)
HALF, ONE, QUARTER, TWO, FOUR = (np.float32(v) for v in (0.5, 1.0, 0.25, 2.0, 4.0))
ROOT_HALF = np.float32(0.7071067811865476)

jit = numba.njit(cache=True, parallel=os.environ.get("SUITE_NUMBA_SERIAL") != "1")


@jit
def saxpy(a, x, y):
    for i in prange(x.size):
        y[i] = a * x[i] + y[i]


@jit
def stencil(x, y):
    for i in prange(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            y[i, j] = QUARTER * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) - x[i, j]


@jit
def mandelbrot(out):
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            cr = np.float32(-2.0) + np.float32(3.0) * np.float32(j) / np.float32(out.shape[1])
            ci = np.float32(-1.5) + np.float32(3.0) * np.float32(i) / np.float32(out.shape[0])
            zr = np.float32(0)
            zi = np.float32(0)
            count = 0
            while count < 200 and zr * zr + zi * zi < FOUR:
                zr, zi = zr * zr - zi * zi + cr, TWO * zr * zi + ci
                count += 1
            out[i, j] = count


@jit
def matmul(a, b, c):
    blocks = c.shape[1] // TILE
    for block in prange((c.shape[0] // TILE) * blocks):
        left = np.empty((TILE, TILE), np.float32)
        right = np.empty((TILE, TILE), np.float32)
        total = np.zeros((TILE, TILE), np.float32)
        row, column = (block // blocks) * TILE, (block % blocks) * TILE
        for k in range(0, a.shape[1], TILE):
            for i in range(TILE):
                for j in range(TILE):
                    left[i, j] = a[row + i, k + j]
                    right[i, j] = b[k + i, column + j]
            for i in range(TILE):
                for m in range(TILE):
                    for j in range(TILE):
                        total[i, j] += left[i, m] * right[m, j]
        for i in range(TILE):
            for j in range(TILE):
                c[row + i, column + j] = total[i, j]


@jit
def histogram(x, counts):
    parts = np.zeros((8, 256), np.int32)
    share = (x.size + 7) // 8
    for part in prange(8):
        for i in range(part * share, min((part + 1) * share, x.size)):
            parts[part, x[i]] += 1
    for level in range(256):
        total = 0
        for part in range(8):
            total += parts[part, level]
        counts[level] = total


@numba.njit(cache=True)
def normal_cdf(x):
    return HALF * (ONE + math.erf(x * ROOT_HALF))


@jit
def black_scholes(price, strike, years, call, put):
    for i in prange(price.size):
        root = math.sqrt(years[i])
        d1 = (math.log(price[i] / strike[i]) + (RISKFREE + HALF * VOLATILITY * VOLATILITY) * years[i]) / (
            VOLATILITY * root
        )
        d2 = d1 - VOLATILITY * root
        discounted = strike[i] * math.exp(-RISKFREE * years[i])
        call[i] = price[i] * normal_cdf(d1) - discounted * normal_cdf(d2)
        put[i] = discounted * normal_cdf(-d2) - price[i] * normal_cdf(-d1)


@jit
def nbody(position, mass, acceleration):
    for i in prange(position.shape[0]):
        x, y, z = position[i, 0], position[i, 1], position[i, 2]
        ax = np.float32(0)
        ay = np.float32(0)
        az = np.float32(0)
        for j in range(position.shape[0]):
            dx = position[j, 0] - x
            dy = position[j, 1] - y
            dz = position[j, 2] - z
            squared = dx * dx + dy * dy + dz * dz + SOFTENING
            weight = mass[j] / (squared * math.sqrt(squared))
            ax += dx * weight
            ay += dy * weight
            az += dz * weight
        acceleration[i, 0] = ax
        acceleration[i, 1] = ay
        acceleration[i, 2] = az


def _saxpy(a: float, x: np.ndarray, y: np.ndarray) -> None:
    saxpy(np.float32(a), x, y)


LAUNCH: dict[str, Callable[..., Any]] = {
    "saxpy": _saxpy, "stencil": stencil, "mandelbrot": mandelbrot, "matmul": matmul, "histogram": histogram,
    "black_scholes": black_scholes, "nbody": nbody,
}  # fmt: skip
