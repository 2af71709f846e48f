"""Launch configurations: how many blocks of how many threads, checked against the target's limits.

A configuration that exists is possible; whatever cannot run is refused here with what was given and what is
allowed, before anything is packed or started.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sterna.errors import LaunchError
from sterna.frozen import frozen
from sterna.targets.base import Limits

__all__ = [
    "KEPT_CONFIGS", "LaunchConfig", "LaunchKey", "Triple", "keep_prepared", "launch_key", "make_config", "over_shape",
    "suggest_blocks",
]  # fmt: skip

Triple = tuple[int, int, int]
LaunchKey = tuple[int | tuple[int, ...], ...]
_INT = frozenset({int})
_AXES = "xyz"
KEPT_CONFIGS = 256
"""Configurations that a loaded kernel keeps prepared; they are let go of together when there are more."""
_BLOCK = 256


@frozen
class LaunchConfig:
    """One launch configuration.

    Attributes
    ----------
    blocks, threads : (int, int, int)
        Extents of the grid in blocks and of a block in threads, as x, y, z.
    over : tuple of int
        Extents of an ``over(shape)`` launch as the user gave them (last axis fastest); empty for explicit ones.
    shared_bytes : int
        Dynamic shared memory of each block.
    """

    blocks: Triple
    threads: Triple
    over: tuple[int, ...] = ()
    shared_bytes: int = 0

    @property
    def extents(self) -> Triple:
        """Extents of an ``over`` launch as x, y, z (1 for axes it does not have)."""
        x, y, z = (*reversed(self.over), 1, 1, 1)[:3]
        return x, y, z

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to run: an ``over`` launch with an extent of 0."""
        return 0 in self.over


if TYPE_CHECKING:

    class _Prepared(Protocol):
        config: LaunchConfig


_T = TypeVar("_T", bound="_Prepared")


def keep_prepared(kept: dict[LaunchConfig, _T], config: LaunchConfig, make: Callable[[LaunchConfig], _T]) -> _T:
    """What a loaded kernel has prepared for a configuration, made when it is new.

    Parameters
    ----------
    kept : dict
        What the kernel has prepared, by configuration; changed.
    config : LaunchConfig
        Which; the result's `config` is this very object, so that the next look may be by identity.
    make : callable
        From a configuration to what is to be kept.
    """
    prepared = kept.get(config)
    if prepared is None:
        prepared = make(config)
        if len(kept) >= KEPT_CONFIGS:
            kept.clear()
        kept[config] = prepared
    prepared.config = config
    return prepared


def make_config(limits: Limits, blocks: Any, threads: Any, shared_bytes: Any = 0, kernel: str = "") -> LaunchConfig:
    """Check explicit blocks and threads.

    Parameters
    ----------
    limits : Limits
        Of the target or device.
    blocks, threads : int or sequence of up to three int
        As written in ``kernel[blocks, threads]``; axes left out are 1.
    shared_bytes : int
        Dynamic shared memory of each block, in bytes.
    kernel : str
        For messages.

    Raises
    ------
    LaunchError
        For wrong types, too many axes, an extent below 1 or over its limit, more threads in a block or more
        shared memory than allowed.
    """
    where = f"kernel {kernel}: " if kernel else ""
    grid = _triple(where, "blocks", blocks, limits.max_grid)
    block = _triple(where, "threads", threads, limits.max_block)
    total = block[0] * block[1] * block[2]
    if total > limits.max_threads:
        raise LaunchError(
            f"{where}threads = {threads!r} is {total} threads in a block; allowed are at most {limits.max_threads}"
        )
    return LaunchConfig(grid, block, (), _shared(where, shared_bytes, limits))


def launch_key(*given: Any) -> LaunchKey | None:
    """What was given, if it is nothing but ints and tuples of them, else None.

    Then equal keys mean the same launch; ``True`` and ``1.0`` equal 1 too, and are refused as extents.
    """
    for item in given:
        if type(item) is not int and not (type(item) is tuple and _INT.issuperset(map(type, item))):
            return None
    return given


def over_shape(shape: Any, kernel: str = "") -> tuple[int, ...]:
    """Check the shape of ``kernel.over(shape)``: an int, or a sequence of one to three; 0 or more each.

    Raises
    ------
    LaunchError
        For wrong types, too many axes, or an extent that is negative or does not fit 64 bits.
    """
    where = f"kernel {kernel}: " if kernel else ""
    extents = _axes(where, "over shape", shape)
    for extent in extents:
        if not 0 <= extent < 2**63:
            raise LaunchError(f"{where}over shape = {shape!r} has the extent {extent}; allowed are 0 to 2**63 - 1")
    return extents


def _axes(where: str, what: str, given: Any) -> tuple[int, ...]:
    items = tuple(given) if isinstance(given, tuple | list) else (given,)
    if not 1 <= len(items) <= 3:
        raise LaunchError(f"{where}{what} = {given!r} has {len(items)} axes; allowed are 1, 2 or 3")
    return tuple(_integer(where, what, item, given) for item in items)


def _integer(where: str, what: str, item: Any, given: Any) -> int:
    if not isinstance(item, bool):
        try:
            return operator.index(item)
        except TypeError:
            pass
    raise LaunchError(
        f"{where}{what} = {given!r} ({type(item).__name__}); allowed is an int, or a tuple of up to three"
    )


def _triple(where: str, what: str, given: Any, limit: Triple) -> Triple:
    x, y, z = (*_axes(where, what, given), 1, 1)[:3]
    for axis, (extent, most) in enumerate(zip((x, y, z), limit, strict=True)):
        if not 1 <= extent <= most:
            raise LaunchError(f"{where}{what} = {given!r}: axis {_AXES[axis]} is {extent}; allowed are 1 to {most}")
    return x, y, z


def _shared(where: str, given: Any, limits: Limits) -> int:
    nbytes = _integer(where, "shared_bytes", given, given)
    if not 0 <= nbytes <= limits.shared_bytes:
        raise LaunchError(f"{where}shared_bytes = {nbytes}; allowed are 0 to {limits.shared_bytes} bytes")
    return nbytes


@lru_cache(maxsize=1024)
def suggest_blocks(shape: tuple[int, ...], multiprocessors: int) -> tuple[Triple, Triple]:
    """Blocks and threads (x, y, z) of an ``over(shape)`` launch on a GPU, last axis fastest.

    Blocks of 256 threads, whole warps along x; smaller ones where there would be fewer blocks than processors.
    """
    x, y, z = (*reversed(shape), 1, 1)[:3]
    if not x * y * z:
        return (0, 0, 0), (1, 1, 1)
    block = _BLOCK
    while block > 32 and -(-x * y * z // block) < multiprocessors:
        block //= 2
    width = min(block, max(32, 1 << (x - 1).bit_length())) if len(shape) > 1 else block
    width = min(width, 1 << (x - 1).bit_length()) if x < 32 else width
    height = min(max(block // width, 1), 1 << (y - 1).bit_length())
    depth = min(max(block // (width * height), 1), 1 << (z - 1).bit_length(), 64)
    return (-(-x // width), -(-y // height), -(-z // depth)), (width, height, depth)
