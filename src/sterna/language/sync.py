"""Barriers and fences: the order in which threads of a block see each other's work."""

from __future__ import annotations

from typing import Any

from sterna.language.context import intrinsic
from sterna.language.index import grid_sync

__all__ = [
    "grid_sync", "syncthreads", "syncthreads_and", "syncthreads_count", "syncthreads_or", "syncwarp",
    "threadfence", "threadfence_block", "threadfence_system",
]  # fmt: skip


@intrinsic("syncthreads", "none")
def syncthreads() -> Any:
    """Wait until every thread of the block that has not returned has come here.

    What each wrote to shared and global memory before is visible to all afterwards.
    """


@intrinsic("syncthreads_count", "int")
def syncthreads_count(predicate: Any) -> Any:
    """A barrier that counts the threads whose `predicate` is true.

    Parameters
    ----------
    predicate : bool or int
        This thread's vote.

    Returns
    -------
    int
        The same number in every thread of the block.
    """


@intrinsic("syncthreads_and", "int")
def syncthreads_and(predicate: Any) -> Any:
    """A barrier that gives 1 if `predicate` is true in all threads of the block, else 0."""


@intrinsic("syncthreads_or", "int")
def syncthreads_or(predicate: Any) -> Any:
    """A barrier that gives 1 if `predicate` is true in any thread of the block, else 0."""


@intrinsic("syncwarp", "none")
def syncwarp(mask: Any = 0xFFFFFFFF) -> Any:
    """Wait until the threads of the warp named in `mask` have come here.

    Parameters
    ----------
    mask : int
        Bit `k` names lane `k`.
    """


@intrinsic("threadfence", "none")
def threadfence() -> Any:
    """Make this thread's writes so far visible to all threads of the device before its later ones."""


@intrinsic("threadfence_block", "none")
def threadfence_block() -> Any:
    """Make this thread's writes so far visible to the threads of its block before its later ones."""


@intrinsic("threadfence_system", "none")
def threadfence_system() -> Any:
    """Make this thread's writes so far visible to the device and the host before its later ones."""
