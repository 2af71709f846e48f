"""The darkroom in plain NumPy: an independent implementation to check the kernels against.

It does the same single-precision operations in the same order, so the result should be equal to the
byte on a target that rounds as IEEE 754 says.
"""

from __future__ import annotations

import numpy as np

from .film import CURVE, GRAIN, LINEAR, RADIUS, WEIGHTS, Film, Recipe

__all__ = ["develop_reference", "histogram_reference"]


def _blurred(light: np.ndarray, axis: int) -> np.ndarray:
    size = light.shape[axis]
    total = np.zeros_like(light)
    for k in range(2 * RADIUS + 1):
        index = np.clip(np.arange(size) + k - RADIUS, 0, size - 1)
        total = total + WEIGHTS[k] * light.take(index, axis=axis)
    return total


def _toned(light: np.ndarray) -> np.ndarray:
    position = np.clip(light, 0.0, 1.0) * (len(CURVE) - 1)
    left = np.minimum(position.astype(np.int64), len(CURVE) - 2)
    share = position - left.astype(np.float32)
    return CURVE[left] + (CURVE[left + 1] - CURVE[left]) * share


def develop_reference(picture: np.ndarray, film: Film, recipe: Recipe, exposure: float) -> np.ndarray:
    """Print `picture` (rows, columns, 3; uint8) at one exposure; a uint8 array of the same shape."""
    light = LINEAR[picture] * np.float32(exposure)
    if film is Film.MONOCHROME:
        grey = light[..., 0] * 0.2126 + light[..., 1] * 0.7152 + light[..., 2] * 0.0722
        light = np.repeat(grey[..., None], 3, axis=2)
    blurred = _blurred(_blurred(light, axis=1), axis=0)
    pattern = GRAIN.copy_to_host()
    rows, columns = (np.arange(n) % size for n, size in zip(picture.shape, pattern.shape, strict=False))
    grain = (pattern[np.ix_(rows, columns)] * recipe.grain)[..., None]
    sharp = light + (light - blurred) * recipe.sharpen
    grainy = sharp + sharp * grain
    density = _toned(grainy)
    bent = density * density * (3.0 - 2.0 * density)
    density = density + (bent - density) * recipe.contrast
    return (density * 255.0 + 0.5).astype(np.uint8)


def histogram_reference(printed: np.ndarray) -> np.ndarray:
    """Level counts (3, 256) of a print."""
    return np.stack([np.bincount(printed[..., channel].ravel(), minlength=256) for channel in range(3)])
