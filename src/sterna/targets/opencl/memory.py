"""Memory of OpenCL devices: shared virtual memory, so that addresses in tables and structures mean the same to kernels.

Where the device shares it finely, the host reads and writes it in place; elsewhere only through copies that a queue
does.  Freeing is ordered behind all work that may still use the memory.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from sterna.targets.opencl.driver import call, function

if TYPE_CHECKING:
    from sterna.targets.opencl.device import OpenclDevice

__all__ = ["SharedBytes", "SvmMemory", "host_address"]

_READ_WRITE, _FINE_GRAIN, _ATOMICS = 1, 1 << 10, 1 << 11
_ALIGNMENT = 64  # a cache line, and the widest vector registers


class SvmMemory:
    """A range of shared virtual memory; freed when nothing refers to it any more.

    Parameters
    ----------
    device : OpenclDevice
        Whose kernels use it.
    nbytes : int
        Size; 0 is allowed and has an address too.
    """

    __slots__ = ("__weakref__", "_device", "address", "nbytes")

    def __init__(self, device: OpenclDevice, nbytes: int) -> None:
        flags = _READ_WRITE
        if device.is_fine_grained:
            flags |= _FINE_GRAIN | (_ATOMICS if device.has_svm_atomics else 0)
        self.address = 0
        found = function("clSVMAlloc")(device.context.int_ptr, flags, max(nbytes, 1), _ALIGNMENT)
        if not found:
            raise MemoryError(f"{device.name} has no {nbytes} bytes of shared virtual memory left")
        self._device, self.address, self.nbytes = device, int(found), nbytes
        device.note_memory(self.address)

    @property
    def buffer(self) -> np.ndarray | None:
        """The bytes, where the host may use them in place; keeps the memory alive."""
        return np.asarray(_Bytes(self)) if self._device.is_fine_grained else None

    def __del__(self) -> None:
        try:
            if self.address:
                self._device.free(self.address)
        except Exception:  # the interpreter or the driver is going down
            return


class _Bytes:
    """Carrier of an array interface; the view's base, which keeps the memory alive."""

    def __init__(self, owner: SvmMemory) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (owner.address, False), "shape": (max(owner.nbytes, 1),), "typestr": "|u1", "version": 3,
        }  # fmt: skip


class SharedBytes:
    """Memory that kernels and the host write in turn: exception records, the print buffer.

    Attributes
    ----------
    address : int
        As kernels see it.
    data : memoryview
        The bytes: the memory itself, or the host's copy of it, which `fetch` and `store` bring up to date.
    """

    def __init__(self, device: OpenclDevice, nbytes: int) -> None:
        self._device, self._memory = device, SvmMemory(device, nbytes)
        self.address = self._memory.address
        view = self._memory.buffer
        self._copied = view is None
        self._array = np.zeros(nbytes, np.uint8) if view is None else view
        self.data = memoryview(self._array.data)
        self.data[:] = bytes(nbytes)
        self.store()

    def fetch(self) -> None:
        """See what kernels that have finished wrote."""
        if self._copied:
            self._device.copy(host_address(self._array), self.address, self._array.nbytes)

    def store(self, start: int = 0, nbytes: int | None = None) -> None:
        """Let kernels see what the host wrote."""
        if self._copied:
            size = self._array.nbytes - start if nbytes is None else nbytes
            self._device.copy(self.address + start, host_address(self._array) + start, size)


def host_address(host: np.ndarray) -> int:
    """Address of a NumPy array's first byte."""
    return int(host.__array_interface__["data"][0])


def free_behind(queue: int, address: int, waits: list[int]) -> None:
    """Free memory in a queue, once its work so far and the events of `waits` are done."""
    cell = ctypes.c_void_p(address)
    events = (ctypes.c_void_p * len(waits))(*waits) if waits else None
    call("clEnqueueSVMFree", queue, 1, ctypes.byref(cell), None, None, len(waits), events, None)
