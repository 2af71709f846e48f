"""Device functions: plain Python functions that the kernels call; specialised by their argument types."""

from __future__ import annotations

import numpy as np

from .film import CURVE

__all__ = ["luminance", "repeat", "tone"]


def luminance(red: np.float32, green: np.float32, blue: np.float32) -> np.float32:
    """Relative luminance of linear light (ITU-R BT.709)."""
    return red * 0.2126 + green * 0.7152 + blue * 0.0722


def tone(light: np.float32) -> np.float32:
    """Look `light` up in the captured tone curve, linearly interpolated; light outside 0…1 is clipped."""
    last = len(CURVE) - 1
    position = min(max(light, 0.0), 1.0) * last
    left = min(int(position), last - 1)
    share = position - left
    return CURVE[left] + (CURVE[left + 1] - CURVE[left]) * share


def repeat(index: int, size: int) -> int:
    """The nearest valid index: the picture's edge is repeated outwards."""
    return min(max(index, 0), size - 1)
