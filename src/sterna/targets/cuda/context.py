"""One device's primary context, and which thread has it current.

Everything that belongs to a context (modules, functions, memory, streams) dies with it.  A reset starts a new
*generation*: handles remember theirs, and one of an older generation is never given to the driver.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from sterna.targets.cuda.driver import driver

__all__ = ["ATTRIBUTES", "Context"]

ATTRIBUTES = {
    "max_threads": 1, "max_block_x": 2, "max_block_y": 3, "max_block_z": 4, "max_grid_x": 5, "max_grid_y": 6,
    "max_grid_z": 7, "shared_bytes": 8, "warp_size": 10, "multiprocessors": 16, "concurrent_kernels": 31,
    "threads_per_multiprocessor": 39, "major": 75, "minor": 76, "cooperative": 95, "shared_bytes_optin": 97,
    "memory_pools": 115,
}  # fmt: skip
"""Names of device attributes, and the driver's numbers for them."""


_STACK_SIZE, _STACK = 0, 1024  # CU_LIMIT_STACK_SIZE, and what it is at first


class Context:
    """The primary context of one device; made when first needed.

    Attributes
    ----------
    index : int
        Device number.
    generation : int
        Grows with each reset.
    """

    def __init__(self, index: int) -> None:
        self.index, self.generation = index, 0
        self._handle: int | None = None
        self._lock = threading.RLock()
        self._known: dict[str, int] = {}
        self._stack = 0, _STACK
        device = ctypes.c_int()
        driver().cuDeviceGet(ctypes.byref(device), index)
        self.ordinal = device.value

    def attribute(self, name: str) -> int:
        """A device attribute by its name in `ATTRIBUTES`."""
        found = self._known.get(name)
        if found is None:
            value = ctypes.c_int()
            driver().cuDeviceGetAttribute(ctypes.byref(value), ATTRIBUTES[name], self.ordinal)
            found = self._known[name] = value.value
        return found

    @property
    def device_name(self) -> str:
        """The maker's name of the device."""
        text = ctypes.create_string_buffer(256)
        driver().cuDeviceGetName(text, len(text), self.ordinal)
        return text.value.decode("utf-8", "replace")

    @property
    def handle(self) -> int:
        """The context's handle."""
        if self._handle is None:
            with self._lock:
                if self._handle is None:
                    made = ctypes.c_void_p()
                    driver().cuDevicePrimaryCtxRetain(ctypes.byref(made), self.ordinal)
                    self._handle = made.value or 0
        return self._handle

    def enter(self) -> Any:
        """Make the context current in this thread; gives the driver."""
        cu = driver()
        cu.cuCtxSetCurrent(self.handle)
        return cu

    def need_stack(self, nbytes: int) -> None:
        """Let every thread have a stack of `nbytes`, for code whose need the driver cannot see: recursion.

        The driver takes the memory for all threads that the device can run at once.
        """
        with self._lock:
            if self._stack[0] != self.generation:
                self._stack = self.generation, _STACK
            if nbytes > self._stack[1]:
                self.enter().cuCtxSetLimit(_STACK_SIZE, nbytes)
                self._stack = self.generation, nbytes

    def reset(self) -> None:
        """Destroy everything in the context and start a new generation."""
        with self._lock:
            driver().cuDevicePrimaryCtxReset_v2(self.ordinal)
            self.lost()

    def lost(self) -> None:
        """Note that the context is gone: a new one is made when next needed."""
        with self._lock:
            self._handle = None
            self.generation += 1
