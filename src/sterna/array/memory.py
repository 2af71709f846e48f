"""Memory behind arrays: what a device's `allocate` returns, and views of it that NumPy can compute with.

An array keeps a NumPy view of its memory.  For memory the host can read that view is real.  For any other
device it is a *shadow*: an ndarray whose address is a device address, used only to compute shapes, strides and
addresses of sub-arrays by NumPy's own rules, and never read or written by the host.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

__all__ = ["ALIGNMENT", "HostMemory", "Memory", "view_of"]

ALIGNMENT = 64
"""Alignment in bytes of every allocation: a cache line, and the widest vector registers."""


class Memory(Protocol):
    """A range of device memory that frees itself when nothing refers to it any more."""

    @property
    def address(self) -> int:
        """Where it begins, on its device."""
        ...

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        ...

    @property
    def buffer(self) -> np.ndarray | None:
        """Its bytes (uint8, one axis, at least one) if the host can read and write them directly, else None.

        They may have another address for the host than on the device; `shift`, if it has one, is what must be added.
        """
        ...


class HostMemory:
    """Memory of this process, aligned.

    Parameters
    ----------
    nbytes : int
        Size; 0 is allowed and has an address too.
    """

    __slots__ = ("address", "buffer", "nbytes")

    def __init__(self, nbytes: int) -> None:
        whole = np.empty(nbytes + ALIGNMENT, np.uint8)
        start = -int(whole.__array_interface__["data"][0]) % ALIGNMENT
        self.nbytes = nbytes
        self.buffer: np.ndarray = whole[start : start + max(nbytes, 1)]  # never empty: an address to count on
        self.address = int(self.buffer.__array_interface__["data"][0])


class _Shadow:
    """Carrier of an array interface with a device address; keeps the memory alive as the view's base."""

    def __init__(self, memory: Memory, nbytes: int) -> None:
        self.memory = memory
        self.__array_interface__ = {
            "data": (memory.address, False), "shape": (max(nbytes, 1),), "typestr": "|u1", "version": 3,
        }  # fmt: skip


def view_of(memory: Memory, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """A C-ordered view of all of `memory`, real or a shadow; it keeps the memory alive."""
    buffer = memory.buffer
    if buffer is None:
        buffer = np.asarray(_Shadow(memory, memory.nbytes))
    return np.ndarray(shape, dtype, buffer)
