"""Apple GPUs as devices: memory, loading images, launching, waiting.

Runtime half of the target; imports no compiler, and PyObjC only when a device is asked for.  Launches are asynchronous:
what a kernel raised, and what it printed, comes at the next synchronise or copy.

Exercised by simulation (``tests/helpers/metal``), not yet on Apple hardware.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sterna.errors import DeviceError, LinkError
from sterna.runtime.captured import captured_array
from sterna.runtime.config import Triple, suggest_blocks
from sterna.runtime.devices import active_stream
from sterna.runtime.exceptions import PendingFailures, report_unobserved
from sterna.targets.base import Limits, Target
from sterna.targets.metal.api import is_available, metal
from sterna.targets.metal.loader import load_pipeline
from sterna.targets.metal.memory import MemoryMap, MetalMemory, SharedBuffer
from sterna.targets.metal.module import MetalModule
from sterna.targets.metal.printing import PrintBuffer
from sterna.targets.metal.queue import Event, Queue
from sterna.targets.metal.records import RecordPool
from sterna.targets.metal.target import default_target

if TYPE_CHECKING:
    from sterna.abi import ArgLayout
    from sterna.image.format import KernelImage

__all__ = ["RUNTIME", "MetalDevice", "MetalRuntime", "forget_devices"]

_GRID_SIDE = 2**31 - 1


class MetalDevice:
    """One Apple GPU.

    Attributes
    ----------
    name : str
        ``metal:0``.
    target : Target
        The Metal target.
    limits : Limits
        What a launch may ask for.
    handle : MTLDevice
        Metal's object.
    device_name : str
        Its maker's name.
    memory : MemoryMap
        The buffers of its arrays.
    pending : PendingFailures
        Exceptions of kernels that no synchronise has raised yet.
    queue_lock : RLock
        Held while any of its queues changes.
    """

    reads_host_memory = False

    def __init__(self, index: int, handle: Any) -> None:
        self.name, self.index, self.handle = f"metal:{index}", index, handle
        self.device_name = str(handle.name())
        self.target: Target = default_target()
        block = handle.maxThreadsPerThreadgroup()
        sides = int(block.width), int(block.height), int(block.depth)
        most = self.target.limits.max_threads
        self.limits = Limits(
            max_threads=most,
            max_block=sides,
            max_grid=(_GRID_SIDE, _GRID_SIDE, _GRID_SIDE),
            shared_bytes=int(handle.maxThreadgroupMemoryLength()),
            warp_size=self.target.limits.warp_size,
            stack_bytes=self.target.limits.stack_bytes,
        )
        self.memory, self.records = MemoryMap(handle, self.name), RecordPool(handle)
        self.pending = PendingFailures()
        self.queue_lock = threading.RLock()
        self._busy: dict[int, Queue] = {}
        self._watched: dict[int, MetalModule] = {}
        self._retired: list[MetalModule] = []
        self._failures: list[DeviceError] = []
        self._finishes = False

    def __repr__(self) -> str:
        return f"<sterna device {self.name}: {self.device_name}, {self.target}>"

    # ---- loading -----------------------------------------------------------------------------

    def load(self, image: KernelImage, layout: ArgLayout) -> MetalModule:
        """Load an image's code on this device.

        Raises
        ------
        ImageRefused
            When Metal takes none of its payloads.
        """
        return MetalModule(self, image, load_pipeline(self, image), layout)

    # ---- memory ------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> MetalMemory:
        """Memory that the host and the GPU share; not initialised.

        Raises
        ------
        MemoryError
            When there is none left, even after everything that ran is done.
        """
        try:
            return self.memory.allocate(nbytes)
        except MemoryError:
            gc.collect()
            self._finish_queues()  # what launches in flight keep is free then
        return self.memory.allocate(nbytes)

    def new_buffer(self, content: bytes | memoryview) -> SharedBuffer:
        """A buffer of the runtime's own, with this content."""
        made = SharedBuffer(self.handle, len(content), self.name)
        made.bytes[: len(content)] = content
        return made

    def capture(self, value: Any) -> Any:
        """An array of this device for a captured one: NumPy arrays are copied, arrays of this device used as they are.

        Raises
        ------
        LinkError
            For an array that lives on another device.
        """
        from sterna.array import to_device

        return captured_array(value, self, lambda host: to_device(host, self))

    def copy_in(self, address: int, host: np.ndarray) -> None:
        """Copy a contiguous host array to `address`, once no launch uses the memory."""
        if host.nbytes:
            self._quiet(address, host.nbytes)[:] = _bytes_of(host)

    def copy_out(self, host: np.ndarray, address: int) -> None:
        """Copy from `address` into a contiguous host array, once no launch uses the memory."""
        if host.nbytes:
            _bytes_of(host)[:] = self._quiet(address, host.nbytes)

    def fill_bytes(self, address: int, nbytes: int, value: int = 0) -> None:
        """Set every byte, once no launch uses the memory."""
        if nbytes:
            self._quiet(address, nbytes)[:] = bytes([value]) * nbytes

    def _quiet(self, address: int, nbytes: int) -> memoryview:
        """What the host sees of some memory, after every launch that was given it is done."""
        shared, view = self.memory.holder_of(address, nbytes)
        with self.queue_lock:
            users = [(queue, last) for queue in self._busy.values() if (last := queue.last_user(shared)) is not None]
        for queue, last in users:
            queue.finish(last)
        return view

    def mapped(self, shape: Any, dtype: Any) -> Any:
        """An array that the host uses in place (see `sterna.mapped`): every array of this device is one."""
        from sterna.array import empty

        return empty(shape, dtype, self)

    @property
    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes, of what Metal recommends to use."""
        total = int(self.handle.recommendedMaxWorkingSetSize())
        return max(total - int(self.handle.currentAllocatedSize()), 0), total

    # ---- queues ------------------------------------------------------------------------------

    @cached_property
    def queue(self) -> Queue:
        """Where work goes that names no stream."""
        return Queue(self)

    def stream(self, priority: int = 0, blocking: bool = True) -> Queue:
        """A new stream (see `sterna.stream`); Metal's queues have no priorities."""
        return Queue(self, blocking)

    def event(self, timing: bool = True) -> Event:
        """A new event (see `sterna.event`)."""
        return Event(self, timing)

    def queue_of(self, given: Any = None) -> Queue:
        """A stream given to a launch; the current one, or the default queue, for None.

        Raises
        ------
        LinkError
            For a stream of another device, or of another library.
        """
        if given is None:
            given = active_stream(self)
        if given is None:
            return self.queue
        if not isinstance(given, Queue):
            raise LinkError(f"a stream of {self.name} is expected (sterna.stream({self.name!r})); given {given!r:.80}")
        if given.device is not self:
            raise LinkError(f"the stream is of {given.device.name}, the kernel runs on {self.name}")
        return given

    def keep(self, value: Any) -> None:
        """Keep something alive until the default queue's work so far is done."""
        self.queue.keep(value)

    def others_to_wait_for(self, queue: Queue) -> list[tuple[Any, int]]:
        """Events and values that new work in `queue` comes after: the default queue's, or all blocking queues'."""
        default = self.queue
        if queue is not default:
            others = [default] if queue.is_blocking else []
        else:
            others = [other for other in self._busy.values() if other is not default and other.is_blocking]
        return [found for other in others if (found := other.pending()) is not None]

    def note_work(self, queue: Queue) -> None:
        """Work is under way in `queue`, which lives until it is done."""
        self._busy[id(queue)] = queue

    def note_failure(self, failure: DeviceError) -> None:
        """A command buffer failed; the next synchronise raises it."""
        self._failures.append(failure)

    def _finish_queues(self) -> None:
        """Wait for everything; raise nothing."""
        with self.queue_lock:
            busy = list(self._busy.values())
        for queue in busy:
            queue.finish()
        with self.queue_lock:
            for queue in busy:
                if queue.is_done:
                    self._busy.pop(id(queue), None)

    # ---- launching and waiting ---------------------------------------------------------------

    def suggest(self, shape: tuple[int, ...]) -> tuple[Triple, Triple]:
        """Blocks and threads (x, y, z) for ``over(shape)``, last axis fastest."""
        return suggest_blocks(shape, 1)

    def watch(self, module: MetalModule) -> None:
        """A kernel that may fail or print was launched: look at its record when nothing runs any more."""
        with self.queue_lock:
            self._watched[id(module)] = module
            if not self._finishes:
                self._finishes = True
                atexit.register(self._finish)

    def _finish(self) -> None:
        """At the end of the process: report what nothing has synchronised after."""
        with contextlib.suppress(Exception):
            if self._watched:
                self._settle()
                report_unobserved()

    def retire(self, module: MetalModule) -> None:
        """A kernel is unloaded: its record is free once its launches are done."""
        with self.queue_lock:
            self._retired.append(module)

    def collect(self) -> None:
        """Look at the records of kernels whose launches are done, and raise the first exception known."""
        with self.queue_lock:
            done = [module for module in self._watched.values() if module.is_idle]
            for module in done:
                del self._watched[id(module)]
        for module in done:
            module.collect()
        self._raise()

    def synchronize(self) -> None:
        """Wait for everything on the device; raise the first exception of a kernel since the last call."""
        if self._busy or self._watched or self._retired:
            self._settle()
        self._raise()

    def _settle(self) -> None:
        """Wait for everything, then read records and what was printed."""
        self._finish_queues()
        with self.queue_lock:
            watched, self._watched = list(self._watched.values()), {}
            retired, self._retired = self._retired, []
        for module in watched:
            module.collect()
        for module in retired:
            module.release_record()
        if "print_buffer" in self.__dict__:
            self.print_buffer.drain(True)

    def _raise(self) -> None:
        if self._failures:
            with self.queue_lock:
                failures, self._failures = self._failures, []
            error = failures[0]
            for other in failures[1:6]:
                error.add_note(f"a later launch failed too: {other}")
            raise error
        if self.pending.any:
            self.pending.raise_first()

    @cached_property
    def print_buffer(self) -> PrintBuffer:
        """Where kernels leave what they print."""
        return PrintBuffer(self.handle)


def _bytes_of(host: np.ndarray) -> memoryview:
    return host.reshape(-1).view(np.uint8).data


class MetalRuntime:
    """The Metal target's devices."""

    def device_count(self) -> int:
        """Number of GPUs; 0 where there is no Metal."""
        return len(_handles()) if is_available() else 0

    def device(self, index: int) -> MetalDevice:
        """A device by number.

        Raises
        ------
        DeviceError
            Where there is no Metal, or no such device.
        """
        metal()
        handles = _handles()
        if not 0 <= index < len(handles):
            raise DeviceError(f"there is no metal:{index}; Metal lists {len(handles)} devices")
        with _lock:
            found = _devices.get(index)
            if found is None:
                found = _devices[index] = MetalDevice(index, handles[index])
        return found


_lock = threading.Lock()
_devices: dict[int, MetalDevice] = {}
_listed: list[list[Any]] = []


def _handles() -> list[Any]:
    with _lock:
        if not _listed:
            _listed.append(list(metal().MTLCopyAllDevices()))
        return _listed[0]


def forget_devices() -> None:
    """Ask Metal again for its devices when next one is needed."""
    with _lock:
        _devices.clear()
        _listed.clear()


RUNTIME = MetalRuntime()
