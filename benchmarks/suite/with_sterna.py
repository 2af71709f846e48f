"""The compared kernels in Sterna.  ``LAUNCH[case](*inputs)`` runs one to completion, as CPU launches do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import sterna
from sterna import atomic, blockDim, blockIdx, grid, gridsize, shared, syncthreads, threadIdx

__all__ = ["KERNELS", "LAUNCH"]

TILE = 16
RISKFREE, VOLATILITY = np.float32(0.02), np.float32(0.30)
SOFTENING = np.float32(1e-3)


@sterna.kernel
def saxpy(a, x, y):
    i = grid(1)
    y[i] = a * x[i] + y[i]


@sterna.kernel
def stencil(x, y):
    i, j = grid(2)
    if i > 0 and j > 0 and i < x.shape[0] - 1 and j < x.shape[1] - 1:
        y[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) - x[i, j]


@sterna.kernel
def mandelbrot(out):
    i, j = grid(2)
    cr = np.float32(-2.0) + np.float32(3.0) * np.float32(j) / np.float32(out.shape[1])
    ci = np.float32(-1.5) + np.float32(3.0) * np.float32(i) / np.float32(out.shape[0])
    zr = np.float32(0)
    zi = np.float32(0)
    count = 0
    while count < 200 and zr * zr + zi * zi < 4.0:
        zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
        count += 1
    out[i, j] = count


@sterna.kernel
def matmul(a, b, c):
    left = shared.array((TILE, TILE), np.float32)
    right = shared.array((TILE, TILE), np.float32)
    row = blockIdx.y * TILE + threadIdx.y
    column = blockIdx.x * TILE + threadIdx.x
    total = np.float32(0)
    for k in range(0, a.shape[1], TILE):
        left[threadIdx.y, threadIdx.x] = a[row, k + threadIdx.x]
        right[threadIdx.y, threadIdx.x] = b[k + threadIdx.y, column]
        syncthreads()
        for m in range(TILE):
            total += left[threadIdx.y, m] * right[m, threadIdx.x]
        syncthreads()
    c[row, column] = total


@sterna.kernel
def histogram(x, counts):
    mine = shared.array(256, np.int32)
    for level in range(threadIdx.x, 256, blockDim.x):
        mine[level] = 0
    syncthreads()
    for i in range(grid(1), x.size, gridsize(1)):
        atomic.add(mine, x[i], 1)
    syncthreads()
    for level in range(threadIdx.x, 256, blockDim.x):
        atomic.add(counts, level, mine[level])


def normal_cdf(x):
    return 0.5 * (1.0 + math.erf(x * 0.7071067811865476))


@sterna.kernel
def black_scholes(price, strike, years, call, put):
    i = grid(1)
    root = math.sqrt(years[i])
    d1 = (math.log(price[i] / strike[i]) + (RISKFREE + 0.5 * VOLATILITY * VOLATILITY) * years[i]) / (VOLATILITY * root)
    d2 = d1 - VOLATILITY * root
    discounted = strike[i] * math.exp(-RISKFREE * years[i])
    call[i] = price[i] * normal_cdf(d1) - discounted * normal_cdf(d2)
    put[i] = discounted * normal_cdf(-d2) - price[i] * normal_cdf(-d1)


@sterna.kernel
def nbody(position, mass, acceleration):
    i = grid(1)
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


KERNELS: dict[str, tuple[Any, int]] = {
    "saxpy": (saxpy, 1), "stencil": (stencil, 2), "mandelbrot": (mandelbrot, 2), "matmul": (matmul, 0),
    "histogram": (histogram, 0), "black_scholes": (black_scholes, 1), "nbody": (nbody, 1),
}  # fmt: skip
"""Case → kernel and the number of axes of its ``over`` launch (0: explicit blocks)."""


def _over(case: str) -> Callable[..., None]:
    kernel, axes = KERNELS[case]

    def run(*args: Any) -> None:
        kernel.over(args[-1].shape[:axes])(*args)

    return run


def _matmul(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    rows, columns = c.shape
    matmul[(columns // TILE, rows // TILE), (TILE, TILE)](a, b, c)


def _histogram(x: np.ndarray, counts: np.ndarray) -> None:
    counts[:] = 0
    histogram[8, 1024](x, counts)


LAUNCH: dict[str, Callable[..., None]] = {case: _over(case) for case, (_, axes) in KERNELS.items() if axes}
LAUNCH |= {"matmul": _matmul, "histogram": _histogram}
