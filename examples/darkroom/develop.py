"""The launches: from a picture to a print and its histogram.

Developing takes two passes, as in a darkroom: a test print, whose histogram says how to expose, and the
print itself.  Between them only `EXPOSURE` changes, one word on the device.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import sterna

from .film import EXPOSURE, TILE, TILE_COLUMNS, TILE_ROWS, Film, Recipe
from .kernels import blur_columns, blur_rows, expose, histogram, print_picture

__all__ = ["Developed", "Stopwatch", "develop", "metered"]

BRIGHT = 225.0
"""Level below which nine tenths of a print should lie."""


@dataclass
class Stopwatch:
    """Launches kernels, and times the first two launches of each to completion.

    Attributes
    ----------
    compiling : bool
        Prepare each kernel before its first launch and time that too: in a process with an empty store, this is
        the time it takes to compile.
    compile_ms, first_launch_ms : dict of str to float
        Milliseconds by kernel, in order of first launch.
    again_ms : dict of str to float
        The same of the second launch: what the kernel itself takes.
    compiled : dict of str to CompiledKernel
        What was launched, for reading.
    """

    compiling: bool = False
    compile_ms: dict[str, float] = field(default_factory=dict)
    first_launch_ms: dict[str, float] = field(default_factory=dict)
    again_ms: dict[str, float] = field(default_factory=dict)
    compiled: dict[str, Any] = field(default_factory=dict)

    def over(self, kernel: sterna.Kernel, shape: tuple[int, ...], *args: Any) -> None:
        """Launch `kernel` with one thread an element of `shape`."""
        self._launch(kernel, kernel.over(shape), len(shape), args)

    def blocks(self, kernel: sterna.Kernel, blocks: Any, threads: Any, *args: Any) -> None:
        """Launch `kernel` with explicit blocks and threads."""
        self._launch(kernel, kernel[blocks, threads], 0, args)

    def _launch(self, kernel: sterna.Kernel, launcher: Any, axes: int, args: tuple[Any, ...]) -> None:
        name = kernel.function.__name__
        if name in self.compiled:
            self.again_ms.setdefault(name, _timed(launcher, args))
            return
        if self.compiling:
            self.compile_ms[name] = _timed(lambda *given: kernel.specialize(*given, over=axes), args)
        self.first_launch_ms[name] = _timed(launcher, args)
        self.compiled[name] = kernel.specialize(*args, over=axes)


def _timed(work: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Milliseconds of a call, all launches completed."""
    start = time.perf_counter()
    work(*args)
    sterna.synchronize()
    return (time.perf_counter() - start) * 1e3


@dataclass(frozen=True)
class Developed:
    """A print: its bytes (rows, columns, 3), level counts (3, 256), and the exposures of test and print."""

    picture: np.ndarray
    counts: np.ndarray
    exposures: tuple[float, float]


def metered(counts: np.ndarray) -> float:
    """The exposure that puts nine tenths of a test print (counts (3, 256)) below `BRIGHT`, within 2 stops."""
    below = counts.sum(axis=0).cumsum()
    level = int(np.searchsorted(below, 0.9 * below[-1]))
    return float(np.clip((BRIGHT / max(level, 1)) ** 2.2, 0.25, 4.0))


def develop(
    picture: np.ndarray, film: Film = Film.COLOUR, recipe: Recipe | None = None, watch: Stopwatch | None = None
) -> Developed:
    """Develop a picture.

    Parameters
    ----------
    picture : ndarray of uint8, shape (rows, columns, 3)
        The photograph.
    film : Film
        Colour or monochrome.
    recipe : Recipe, optional
        Parameters of the print.
    watch : Stopwatch, optional
        Collects the time of every kernel's first launch.

    Returns
    -------
    Developed
        The print, its histogram and the exposures used.
    """
    recipe, watch = recipe or Recipe(), watch or Stopwatch()
    rows, columns = picture.shape[:2]
    source = sterna.to_device(np.ascontiguousarray(picture))
    light, along_rows, blurred = (sterna.empty(picture.shape, np.float32) for _ in range(3))
    printed = sterna.empty(picture.shape, np.uint8)
    exposures = [1.0]
    for _ in range(2):
        EXPOSURE.value = exposures[-1]
        counts = sterna.zeros((3, 256), np.int32)
        watch.over(expose, (rows, columns), source, light, film)
        watch.blocks(blur_rows, (-(-columns // TILE), rows), TILE, light, along_rows)
        blocks = (-(-columns // TILE_COLUMNS), -(-rows // TILE_ROWS))
        watch.blocks(blur_columns, blocks, (TILE_COLUMNS, TILE_ROWS), along_rows, blurred)
        watch.over(print_picture, (rows, columns), light, blurred, printed, recipe)
        watch.blocks(histogram, 32, 256, printed, counts)
        levels = counts.copy_to_host()
        exposures.append(metered(levels))
    return Developed(printed.copy_to_host(), levels, (exposures[0], exposures[1]))
