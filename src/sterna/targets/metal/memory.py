"""Memory of Metal devices: buffers that the host and the GPU share, found again by their GPU addresses.

Kernels get raw addresses, in their arguments and in the relocation table.  Metal must be told of every buffer that a
dispatch reaches in this way, so each device keeps a map from addresses to its living buffers.

A buffer is Metal's to keep once a launch was told of it: the queue holds what its launches use until they are done,
so that an array may be dropped while a kernel still runs.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections.abc import Iterable
from typing import Any

import numpy as np

from sterna.errors import DeviceError
from sterna.targets.metal.api import metal

__all__ = ["MemoryMap", "MetalMemory", "SharedBuffer"]


class SharedBuffer:
    """An MTLBuffer in shared storage.

    Attributes
    ----------
    handle : MTLBuffer
        Metal's object.
    address : int
        Where it begins, for the GPU.
    bytes : memoryview
        Its contents, for the host.
    """

    __slots__ = ("address", "bytes", "handle", "nbytes")

    def __init__(self, device: Any, nbytes: int, where: str = "the device") -> None:
        size = max(nbytes, 1)
        self.handle = device.newBufferWithLength_options_(size, metal().MTLResourceStorageModeShared)
        if self.handle is None:
            raise MemoryError(
                f"{where} has no {nbytes} bytes left ({device.currentAllocatedSize()} are in use, one buffer may have "
                f"{device.maxBufferLength()})"
            )
        self.nbytes = nbytes
        self.address = int(self.handle.gpuAddress())
        view = memoryview(self.handle.contents().as_buffer(size))
        self.bytes = view if view.format == "B" else view.cast("B")


class MetalMemory:
    """A range of device memory; freed when nothing refers to it and no launch uses it any more."""

    __slots__ = ("_host", "_map", "address", "nbytes", "shared", "shift")

    def __init__(self, where: MemoryMap, shared: SharedBuffer) -> None:
        self._map, self.shared = where, shared
        self.address, self.nbytes = shared.address, shared.nbytes
        self._host = int(np.frombuffer(shared.bytes, np.uint8).__array_interface__["data"][0])
        self.shift = self.address - self._host
        """From an address for the host to the same byte's for the GPU."""

    @property
    def buffer(self) -> np.ndarray:
        """The bytes, for the host; keeps the memory alive."""
        return np.asarray(_HostBytes(self, self._host))

    def __del__(self) -> None:
        try:
            self._map.forget(self.address)
        except Exception:  # the interpreter is going down
            return


class _HostBytes:
    """Carrier of an array interface; the view's base, which keeps the memory alive."""

    def __init__(self, owner: MetalMemory, address: int) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (address, False), "shape": (max(owner.nbytes, 1),), "typestr": "|u1", "version": 3,
        }  # fmt: skip


class MemoryMap:
    """The living buffers of one device, by GPU address.

    Parameters
    ----------
    device : MTLDevice
        Which allocates them.
    name : str
        For messages.
    """

    def __init__(self, device: Any, name: str) -> None:
        self._device, self._name = device, name
        self._lock = threading.RLock()  # memory may be freed by a collection inside any of these methods
        self._starts: list[int] = []
        self._buffers: dict[int, SharedBuffer] = {}

    def allocate(self, nbytes: int) -> MetalMemory:
        """Memory of `nbytes`, not initialised."""
        shared = SharedBuffer(self._device, nbytes, self._name)
        with self._lock:
            insort(self._starts, shared.address)
            self._buffers[shared.address] = shared
        return MetalMemory(self, shared)

    def forget(self, address: int) -> None:
        """The memory that begins at `address` is freed."""
        with self._lock:
            if self._buffers.pop(address, None) is not None:
                del self._starts[bisect_right(self._starts, address) - 1]

    def find(self, address: int) -> SharedBuffer | None:
        """The buffer that an address lies in."""
        with self._lock:
            position = bisect_right(self._starts, address) - 1
            if position < 0:
                return None
            found = self._buffers[self._starts[position]]
        return found if address < found.address + max(found.nbytes, 1) else None

    def all_of(self, words: Iterable[int]) -> list[SharedBuffer]:
        """The buffers that any of some words point into, each once; a word that is no address is in none."""
        found = (self.find(word) for word in words)
        return list({buffer.address: buffer for buffer in found if buffer is not None}.values())

    def holder_of(self, address: int, nbytes: int) -> tuple[SharedBuffer, memoryview]:
        """The buffer that holds `nbytes` from a GPU address on, and what the host sees of them.

        Raises
        ------
        DeviceError
            When they do not lie in one buffer of the device.
        """
        found = self.find(address)
        if found is None or address + nbytes > found.address + found.nbytes:
            raise DeviceError(f"{self._name} has no memory of {nbytes} bytes at {address:#x}")
        start = address - found.address
        return found, found.bytes[start : start + nbytes]
