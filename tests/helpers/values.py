"""Values at which arithmetic goes wrong, per dtype."""

from __future__ import annotations

import numpy as np

__all__ = ["COMPLEX", "FLOATS", "INTEGERS", "REAL", "edge_pairs", "edges"]

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
REAL = ("bool", *INTEGERS, *FLOATS)


def edges(dtype: str) -> np.ndarray:
    """Extremes, zeros of both signs, small numbers, infinities, NaN; what the dtype has of them."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        numbers = {limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 7, limits.max // 2 + 1}
        if kind.kind == "i":
            numbers |= {-1, -2, -3, -7}
        return np.array(sorted(numbers), kind)
    if kind.kind == "c":
        parts = np.array([0.0, -0.0, 0.1, 1.0, -1.5, 7.0, -10.25])
        return (parts[:, None] + 1j * parts[None, :]).ravel().astype(kind)
    info = np.finfo(kind)
    tiny = info.smallest_subnormal
    positive = [0.0, tiny, info.tiny, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, 10.25, info.max, np.inf]
    return np.array([*positive, *(-x for x in positive), np.nan], kind)


def edge_pairs(left: str, right: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of edge values of two dtypes."""
    a, b = edges(left), edges(right)
    return np.repeat(a, b.size), np.tile(b, a.size)
