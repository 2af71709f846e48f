"""Arrays, views, tuples, named tuples, frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

SINGLES, DOUBLES, LONGS = "float32[:]", "float64[:]", "int64[:]"
IMAGE, MATRIX, STRIDED = "float32[:, :]", "float64[:, :]", "int32[:, A]"
TABLE = np.arange(16, dtype=np.float32)


class Point(NamedTuple):
    """A point of the plane."""

    x: float
    y: float


@dataclass(frozen=True)
class Box:
    """Two corners and a weight."""

    low: Point
    high: Point
    weight: np.float32


def first(a: SINGLES) -> np.float32:
    return a[0]


def filled(a: LONGS, value: int) -> None:
    for i in range(a.size):
        a[i] = value


def summed(a: MATRIX) -> float:
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            total += a[i, j]
    return total


def transposed(a: IMAGE, b: IMAGE) -> None:
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            b.T[i, j] = a[i, j]


def strided(a: STRIDED) -> int:
    return int(a[1]) + int(a[-1])


def sliced(a: DOUBLES, n: int) -> float:
    part = a[n:]
    return part[0] + part.size


def looked_up(i: int) -> np.float32:
    return TABLE[i % 16]


def distance(a: Point, b: Point) -> float:
    return ((a.x - b.x) ** 2 + (a.y - b.y) ** 2) ** 0.5


def centre(box: Box) -> Point:
    return Point((box.low.x + box.high.x) / 2, (box.low.y + box.high.y) / 2)


def swapped(pair: tuple[int, float]) -> tuple[float, int]:
    a, b = pair
    return b, a


def sums(triple: tuple[int, int, int]) -> int:
    total = 0
    for item in triple:
        total += item
    return total


def swap_ends(a: LONGS) -> None:
    a[0], a[-1] = a[-1], a[0]


def dot(a: SINGLES, b: SINGLES) -> np.float32:
    total = np.float32(0)
    for i in range(min(a.size, b.size)):
        total += a[i] * b[i]
    return total


def nothing() -> None:
    return None
