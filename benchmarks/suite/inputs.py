"""Inputs of the compared kernels: the same arrays for every implementation, made from a fixed seed."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["CASES", "TILE", "make_inputs"]

TILE = 16
CASES = ("saxpy", "stencil", "mandelbrot", "matmul", "histogram", "black_scholes", "nbody")


def make_inputs(case: str, small: bool = False) -> tuple[Any, ...]:
    """Arguments of one case, outputs last; `small` ones only make a kernel compile and run."""
    rng = np.random.default_rng(11)
    f32 = np.float32

    def uniform(*shape: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
        return rng.uniform(low, high, shape).astype(f32)

    if case == "saxpy":
        n = 1 << (10 if small else 22)
        return 2.0, uniform(n), uniform(n)
    if case == "stencil":
        n = 64 if small else 2048
        return uniform(n, n), np.zeros((n, n), f32)
    if case == "mandelbrot":
        n = 32 if small else 512
        return (np.zeros((n, n), np.int32),)
    if case == "matmul":
        n = 64 if small else 512
        return uniform(n, n), uniform(n, n), np.zeros((n, n), f32)
    if case == "histogram":
        n = 1 << (12 if small else 23)
        return rng.integers(0, 256, n).astype(np.uint8), np.zeros(256, np.int32)
    if case == "black_scholes":
        n = 1 << (10 if small else 20)
        return (
            uniform(n, low=5, high=30),
            uniform(n, low=1, high=100),
            uniform(n, low=0.25, high=10),
            *(np.zeros(n, f32) for _ in range(2)),
        )
    n = 128 if small else 3072
    return uniform(n, 3, low=-1), uniform(n, low=0.1), np.zeros((n, 3), f32)
