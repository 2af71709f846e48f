"""The five kernels of the darkroom."""

from __future__ import annotations

import numpy as np

import sterna
from sterna import atomic, blockDim, blockIdx, grid, gridsize, shared, syncthreads, threadIdx

from .curves import luminance, repeat, tone
from .film import EXPOSURE, GRAIN, LINEAR, RADIUS, TILE, TILE_COLUMNS, TILE_ROWS, WEIGHTS, Film

__all__ = ["blur_columns", "blur_rows", "expose", "histogram", "print_picture"]


@sterna.kernel
def expose(picture, light, film):
    """Bytes to linear light, times the exposure; monochrome film keeps luminance only."""
    row, column = grid(2)
    red = LINEAR[picture[row, column, 0]] * EXPOSURE
    green = LINEAR[picture[row, column, 1]] * EXPOSURE
    blue = LINEAR[picture[row, column, 2]] * EXPOSURE
    if film is Film.MONOCHROME:
        grey = luminance(red, green, blue)
        red = grey
        green = grey
        blue = grey
    light[row, column, 0] = red
    light[row, column, 1] = green
    light[row, column, 2] = blue


@sterna.kernel
def blur_rows(light, blurred):
    """Blur along rows: a block loads its pixels and their neighbours into shared memory once."""
    tile = shared.array((TILE + 2 * RADIUS, 3), np.float32)
    columns = light.shape[1]
    row = blockIdx.y
    start = blockIdx.x * TILE - RADIUS
    for k in range(threadIdx.x, TILE + 2 * RADIUS, TILE):
        source = repeat(start + k, columns)
        for channel in range(3):
            tile[k, channel] = light[row, source, channel]
    syncthreads()
    column = blockIdx.x * TILE + threadIdx.x
    if column < columns:
        for channel in range(3):
            total = 0.0
            for k in range(2 * RADIUS + 1):
                total += WEIGHTS[k] * tile[threadIdx.x + k, channel]
            blurred[row, column, channel] = total


@sterna.kernel
def blur_columns(light, blurred):
    """Blur down columns, with a tile of rows in shared memory."""
    tile = shared.array((TILE_ROWS + 2 * RADIUS, TILE_COLUMNS, 3), np.float32)
    rows, columns = light.shape[0], light.shape[1]
    column = blockIdx.x * TILE_COLUMNS + threadIdx.x
    start = blockIdx.y * TILE_ROWS - RADIUS
    for k in range(threadIdx.y, TILE_ROWS + 2 * RADIUS, TILE_ROWS):
        source = repeat(start + k, rows)
        for channel in range(3):
            tile[k, threadIdx.x, channel] = light[source, repeat(column, columns), channel]
    syncthreads()
    row = blockIdx.y * TILE_ROWS + threadIdx.y
    if row < rows and column < columns:
        for channel in range(3):
            total = 0.0
            for k in range(2 * RADIUS + 1):
                total += WEIGHTS[k] * tile[threadIdx.y + k, threadIdx.x, channel]
            blurred[row, column, channel] = total


@sterna.kernel
def print_picture(light, blurred, printed, recipe):
    """Sharpen, lay the grain over it, print by the tone curve, and round to bytes."""
    row, column = grid(2)
    grain = GRAIN[row % GRAIN.shape[0], column % GRAIN.shape[1]] * recipe.grain
    for channel in range(3):
        here = light[row, column, channel]
        sharp = here + (here - blurred[row, column, channel]) * recipe.sharpen
        grainy = sharp + sharp * grain
        density = tone(grainy)
        bent = density * density * (3.0 - 2.0 * density)
        density += (bent - density) * recipe.contrast
        printed[row, column, channel] = np.uint8(density * 255.0 + 0.5)


@sterna.kernel
def histogram(printed, counts):
    """Count the levels of each channel: in shared memory first, then once into the result."""
    levels = shared.array((3, 256), np.int32)
    for level in range(threadIdx.x, 256, blockDim.x):
        for channel in range(3):
            levels[channel, level] = 0
    syncthreads()
    for pixel in range(grid(1), printed.shape[0] * printed.shape[1], gridsize(1)):
        row, column = pixel // printed.shape[1], pixel % printed.shape[1]
        for channel in range(3):
            atomic.add(levels, (channel, printed[row, column, channel]), 1)
    syncthreads()
    for level in range(threadIdx.x, 256, blockDim.x):
        for channel in range(3):
            atomic.add(counts, (channel, level), levels[channel, level])
