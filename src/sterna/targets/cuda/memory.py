"""Memory of CUDA devices: the driver's stream-ordered pool, pinned and mapped host memory, others' memory.

Freeing is ordered behind all work that may still use the memory.  While only the default stream is in use the free
goes there.  Once other streams are, it goes to a stream of its own that first waits for all of them, so that nothing
else waits.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np

from sterna.errors import LinkError
from sterna.targets.cuda.context import Context
from sterna.targets.cuda.driver import DriverError

__all__ = ["CudaMemory", "ForeignMemory", "HostAllocation", "MemoryPool", "is_capturing", "new_handle"]

_RELEASE_THRESHOLD = 4  # CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
_PORTABLE, _MAPPED = 1, 2  # CU_MEMHOSTALLOC_…
_NON_BLOCKING, _NO_TIMING = 1, 2


class MemoryPool:
    """Allocations of one context, from the driver's pool where the device has one."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.allocations = 0
        self._generation = -1
        self._pooled = False
        self._lock = threading.RLock()
        self._streams: dict[int, bool] = {}
        self._seen: dict[int, int] = {}
        self._events: dict[int, int] = {}
        self._reclaim = 0

    def allocate(self, nbytes: int, stream: int = 0) -> CudaMemory:
        """Memory of `nbytes`, not initialised, usable by what is put into `stream` from now on."""
        cu = self.context.enter()
        if self._generation != self.context.generation:
            self._start(cu)
        address = ctypes.c_uint64()
        size = max(nbytes, 1)
        try:
            if self._pooled:
                cu.cuMemAllocAsync(ctypes.byref(address), size, stream)
            else:
                cu.cuMemAlloc_v2(ctypes.byref(address), size)
        except DriverError as error:
            if error.name != "CUDA_ERROR_OUT_OF_MEMORY":
                raise
            raise MemoryError(
                f"cuda:{self.context.index} has no {nbytes} bytes left ({self._free_text(cu)})"
            ) from error
        self.allocations += 1
        return CudaMemory(self, address.value, nbytes, self.context.generation)

    def _free_text(self, cu: Any) -> str:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return f"{free.value} of {total.value} bytes are free"

    def _start(self, cu: Any) -> None:
        with self._lock:
            if self._generation == self.context.generation:
                return
            for table in (self._streams, self._seen, self._events):
                table.clear()
            self._reclaim = 0
            self._pooled = bool(self.context.attribute("memory_pools"))
            if self._pooled:
                pool, keep = ctypes.c_void_p(), ctypes.c_uint64(2**64 - 1)
                cu.cuDeviceGetDefaultMemPool(ctypes.byref(pool), self.context.ordinal)
                cu.cuMemPoolSetAttribute(pool, _RELEASE_THRESHOLD, ctypes.byref(keep))
            self._generation = self.context.generation

    # ---- streams beside the default one ------------------------------------------------------

    def enter_stream(self, stream: int, is_blocking: bool, is_foreign: bool) -> None:
        """Work is about to go into `stream`: it must come after the allocations made so far."""
        if self._streams.get(stream) is None:
            with self._lock:
                self._streams[stream] = is_foreign
        if not is_blocking and self._seen.get(stream) != self.allocations:
            self._seen[stream] = self.allocations
            cu = self.context.enter()
            cu.cuStreamWaitEvent(stream, self._record(cu, 0), 0)

    def leave_stream(self, stream: int) -> None:
        """Work went into a stream of another library, which may end without notice."""
        self._record(self.context.enter(), stream)

    def drop_stream(self, stream: int) -> None:
        """The stream is about to be destroyed; what it does until then is still waited for."""
        with self._lock:
            if self._streams.pop(stream, None) is not None:
                self._record(self.context.enter(), stream)
            self._seen.pop(stream, None)

    def _record(self, cu: Any, stream: int) -> int:
        """The event behind all work in `stream` so far."""
        with self._lock:
            event = self._events.get(stream)
            if event is None:
                event = self._events[stream] = new_handle(cu.cuEventCreate, _NO_TIMING)
        cu.cuEventRecord(event, stream)
        return event

    def free(self, address: int, generation: int) -> None:
        """Give memory back once all work so far is done."""
        if generation != self.context.generation:
            return  # it went with its context
        cu = self.context.enter()
        if not self._pooled:
            cu.cuMemFree_v2(address)
        elif not self._streams:
            cu.cuMemFreeAsync(address, 0)
        else:
            self._free_behind_all(cu, address)

    def _free_behind_all(self, cu: Any, address: int) -> None:
        with self._lock:
            if not self._reclaim:
                self._reclaim = new_handle(cu.cuStreamCreateWithPriority, _NON_BLOCKING, 0)
            for stream in [0, *(s for s, is_foreign in self._streams.items() if not is_foreign)]:
                if not is_capturing(cu, stream):
                    self._record(cu, stream)
            for event in self._events.values():
                cu.cuStreamWaitEvent(self._reclaim, event, 0)
            cu.cuMemFreeAsync(address, self._reclaim)


def new_handle(create: Any, *rest: Any) -> int:
    """A handle that a function of the driver writes through its first parameter."""
    made = ctypes.c_void_p()
    create(ctypes.byref(made), *rest)
    return made.value or 0


def is_capturing(cu: Any, stream: int) -> bool:
    """Whether a stream records a graph at present."""
    if not stream:
        return False
    state = ctypes.c_int()
    cu.cuStreamIsCapturing(stream, ctypes.byref(state))
    return state.value != 0


class CudaMemory:
    """A range of device memory; freed when nothing refers to it any more."""

    __slots__ = ("_generation", "_pool", "address", "nbytes")
    buffer: np.ndarray | None = None

    def __init__(self, pool: MemoryPool, address: int, nbytes: int, generation: int) -> None:
        self._pool, self.address, self.nbytes, self._generation = pool, address, nbytes, generation

    def __del__(self) -> None:
        try:
            self._pool.free(self.address, self._generation)
        except Exception:  # the interpreter or the driver is going down, or a child process was forked
            return


class HostAllocation:
    """Page-locked host memory; mapped memory has a device address too.

    Parameters
    ----------
    context : Context
        Through which it is allocated; every context can use it.
    nbytes : int
        Size.

    Attributes
    ----------
    address : int
        Address that kernels use.
    """

    __slots__ = ("__weakref__", "_context", "_generation", "address", "host", "nbytes")

    def __init__(self, context: Context, nbytes: int) -> None:
        cu = context.enter()
        host, device = ctypes.c_void_p(), ctypes.c_uint64()
        cu.cuMemHostAlloc(ctypes.byref(host), max(nbytes, 1), _PORTABLE | _MAPPED)
        self._context, self.host, self._generation = context, host.value or 0, context.generation
        self.nbytes = nbytes
        cu.cuMemHostGetDevicePointer_v2(ctypes.byref(device), self.host, 0)
        self.address = device.value

    @property
    def buffer(self) -> np.ndarray:
        """The bytes, for the host; keeps the allocation alive."""
        return np.asarray(_HostBytes(self))

    def __del__(self) -> None:
        try:
            if self._generation == self._context.generation:
                self._context.enter().cuMemFreeHost(self.host)
        except Exception:  # as for device memory
            return


class _HostBytes:
    """Carrier of an array interface; the view's base, which keeps the allocation alive."""

    def __init__(self, owner: HostAllocation) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (owner.host, False), "shape": (owner.nbytes,), "typestr": "|u1", "version": 3,
        }  # fmt: skip


class ForeignMemory:
    """Memory that another library owns; kept alive by a reference to its object."""

    __slots__ = ("address", "nbytes", "owner")
    buffer: np.ndarray | None = None

    def __init__(self, owner: Any, address: int, nbytes: int) -> None:
        if not address and nbytes:
            raise LinkError(f"a {type(owner).__name__} gives a null address for {nbytes} bytes")
        self.owner, self.address, self.nbytes = owner, address, nbytes
