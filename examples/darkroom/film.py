"""What lives on the host: every value here is captured by a kernel or passed to one.

None of these values is in the compiled code.  Kernels name them; linking fills in where they are in
*this* process.  (The three sizes at the end are plain integers, so they are constants of the code.)
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np

import sterna

__all__ = [
    "CURVE",
    "EXPOSURE",
    "GRAIN",
    "LINEAR",
    "RADIUS",
    "TILE",
    "TILE_COLUMNS",
    "TILE_ROWS",
    "WEIGHTS",
    "Film",
    "Recipe",
]


class Film(Enum):
    """The film in the camera: passed to a kernel as an object and compared there by identity."""

    COLOUR = "colour"
    MONOCHROME = "monochrome"


class Recipe(NamedTuple):
    """Parameters of a print, passed to a kernel by value.

    Attributes
    ----------
    sharpen : float
        How much of the difference to the blurred picture is added; 0 leaves it as it is.
    grain : float
        Strength of the film grain; 0 for none.
    contrast : float
        0 prints by the tone curve alone, 1 bends it to a full S.
    """

    sharpen: float = 0.4
    grain: float = 0.03
    contrast: float = 0.35


RADIUS = 6
"""Pixels on each side that the blur looks at."""
TILE = 128
"""Threads of a block in the blur: one a pixel of a row."""
TILE_ROWS, TILE_COLUMNS = 16, 16
"""Threads of a block in the blur down the columns, along each axis."""


def _linear_light() -> np.ndarray:
    """sRGB decoding (IEC 61966-2-1) of the 256 levels of a byte, as float32."""
    level = np.arange(256) / 255.0
    return np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4).astype(np.float32)


def _tone_curve(size: int = 1024) -> np.ndarray:
    """sRGB encoding (IEC 61966-2-1) of linear light 0…1, as float32."""
    light = np.linspace(0.0, 1.0, size)
    return np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055).astype(np.float32)


def _weights() -> np.ndarray:
    """A Gaussian of standard deviation ``RADIUS / 2``, cut at `RADIUS`, of sum 1, as float32."""
    distance = np.arange(-RADIUS, RADIUS + 1) / (RADIUS / 2)
    bell = np.exp(-0.5 * distance * distance)
    return (bell / bell.sum()).astype(np.float32)


LINEAR = _linear_light()
"""Captured NumPy array, 256 float32: byte to linear light."""
CURVE = _tone_curve()
"""Captured NumPy array, 1024 float32: the tone curve, linear light to density of the print."""
WEIGHTS = _weights()
"""Captured NumPy array, 2·RADIUS + 1 float32: the blur."""
GRAIN = sterna.to_device(np.random.default_rng(1906).standard_normal((64, 64)).astype(np.float32))
"""Captured Sterna array, 64 by 64 float32: film grain, repeated over the picture."""
EXPOSURE = sterna.Global(1.0, np.float32)
"""Exposure of the print: a word the host changes between launches, with no recompilation."""
