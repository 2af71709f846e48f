"""NVIDIA GPUs as devices: contexts, memory, loading images, launching, waiting.

Runtime half of the target; imports neither a compiler nor a CUDA package.  Launches are asynchronous: what a kernel
raised, and what it printed, comes at the next synchronise or copy.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import math
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sterna.errors import LinkError
from sterna.runtime.captured import captured_array
from sterna.runtime.config import Triple, suggest_blocks
from sterna.runtime.devices import active_stream
from sterna.runtime.exceptions import PendingFailures, report_unobserved
from sterna.targets.base import Limits, Target
from sterna.targets.cuda.context import Context
from sterna.targets.cuda.driver import driver, is_available
from sterna.targets.cuda.loader import load_code
from sterna.targets.cuda.memory import CudaMemory, HostAllocation, MemoryPool, new_handle
from sterna.targets.cuda.module import CudaModule
from sterna.targets.cuda.printing import PrintBuffer
from sterna.targets.cuda.records import RecordPool
from sterna.targets.cuda.streams import Event, Stream, relaxed_capture, stream_handle
from sterna.targets.cuda.target import ARCHITECTURES, parse_target

if TYPE_CHECKING:
    from sterna.abi import ArgLayout
    from sterna.image.format import KernelImage

__all__ = ["RUNTIME", "CudaDevice", "CudaRuntime"]

_DLPACK_CUDA = 2
_NON_BLOCKING = 1
_MOST_KEPT = 4096
"""Launches whose objects are kept alive before one waits for them."""


class _ForeignStream:
    """A stream that another library owns."""

    __slots__ = ("device", "handle", "is_blocking", "is_foreign")

    def __init__(self, device: CudaDevice, handle: int) -> None:
        self.device, self.handle, self.is_blocking, self.is_foreign = device, handle, False, True


class CudaDevice:
    """One NVIDIA GPU.

    Attributes
    ----------
    name : str
        ``cuda:0``.
    target : Target
        With its architecture.
    limits : Limits
        What a launch may ask for.
    context : Context
        Its primary context.
    pending : PendingFailures
        Exceptions of kernels that no synchronise has raised yet.
    """

    reads_host_memory = False
    frees_in_order = True

    def __init__(self, index: int) -> None:
        self.name, self.index = f"cuda:{index}", index
        self.context = Context(index)
        self.target: Target = parse_target(self._architecture())
        get = self.context.attribute
        self.limits = Limits(
            max_threads=get("max_threads"),
            max_block=(get("max_block_x"), get("max_block_y"), get("max_block_z")),
            max_grid=(get("max_grid_x"), get("max_grid_y"), get("max_grid_z")),
            shared_bytes=get("shared_bytes_optin"),
            warp_size=get("warp_size"),
        )
        self.memory, self.records = MemoryPool(self.context), RecordPool(self.context)
        self.pending = PendingFailures()
        self._lock = threading.RLock()  # a kernel may be collected, and unload, inside
        self._kept: list[Any] = []
        self._watched: dict[int, CudaModule] = {}
        self._finishes_with: Any = None
        self._modules: weakref.WeakSet[CudaModule] = weakref.WeakSet()
        self._loader: tuple[int, int] = (-1, 0)
        self._foreign: dict[int, _ForeignStream] = {}

    def _architecture(self) -> str:
        capability = self.context.attribute("major") * 10 + self.context.attribute("minor")
        known = [arch for arch in ARCHITECTURES if int(arch[3:]) <= capability]
        if not known:
            raise LinkError(f"{self.name} is of compute capability {capability / 10}; Sterna needs 7.5 or later")
        return known[-1]

    def __repr__(self) -> str:
        return f"<sterna device {self.name}: {self.context.device_name}, {self.target}>"

    # ---- loading -----------------------------------------------------------------------------

    def load(self, image: KernelImage, layout: ArgLayout) -> CudaModule:
        """Load an image's code in this device's context.

        Raises
        ------
        ImageRefused
            When the driver takes neither its cubin nor its PTX.
        """
        module = CudaModule(self, image, load_code(self, image), layout.size)
        self._modules.add(module)
        return module

    def launch_call(self, cooperative: bool) -> Callable[..., int]:
        """The driver's launch function, unchecked."""
        return _launch_call(driver(), cooperative)

    @property
    def loader(self) -> int:
        """A stream for what linking copies; it waits for nothing."""
        generation, stream = self._loader
        if generation != self.context.generation:
            cu = self.context.enter()
            stream = new_handle(cu.cuStreamCreateWithPriority, _NON_BLOCKING, 0)
            self._loader = self.context.generation, stream
        return stream

    def write_now(self, data: Mapping[int, bytes]) -> None:
        """Copy bytes to device addresses, done on return, beside whatever runs."""
        cu, stream = self.context.enter(), self.loader
        with relaxed_capture(cu):
            for address, content in data.items():
                cu.cuMemcpyHtoDAsync_v2(address, content, len(content), stream)
            cu.cuStreamSynchronize(stream)

    def write_word(self, address: int, word: int, stream: Any) -> None:
        """Write one word, ordered on a stream; at once while the stream records a graph."""
        cu = self.context.enter()
        if hasattr(type(stream), "is_foreign") and stream.device is not self:
            stream = None  # it orders the words of its own device; here the current stream does
        given = active_stream(self) if stream is None else stream
        if getattr(given, "is_capturing", False):
            self.write_now({address: word.to_bytes(8, "little")})
            return
        handle = 0 if given is None else stream_handle(given)
        cu.cuMemcpyHtoDAsync_v2(address, word.to_bytes(8, "little"), 8, handle)

    # ---- memory ------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> CudaMemory:
        """Device memory from the driver's pool, ordered on the current stream; not initialised."""
        stream = self._copy_stream()
        self._enter(stream)
        made = self.memory.allocate(nbytes, stream)
        self._leave(stream)
        return made

    def _copy_stream(self) -> int:
        """Where copies go: the current stream, or beside it while it records a graph."""
        given = active_stream(self)
        if given is None:
            return 0
        return self.loader if getattr(given, "is_capturing", False) else stream_handle(given)

    def _enter(self, stream: int) -> None:
        """Work that nothing waits for goes into `stream`: memory is not given out again before it is done."""
        if stream and stream != self._loader[1]:
            given = self.stream_of(active_stream(self))
            self.memory.enter_stream(stream, given.is_blocking, given.is_foreign)

    def _leave(self, stream: int) -> None:
        """As `_enter`, behind the work."""
        if not stream:
            return
        if stream == self._loader[1]:  # beside a recording: what is recorded is ordered behind nothing
            self.context.enter().cuStreamSynchronize(stream)
        elif self.stream_of(active_stream(self)).is_foreign:
            self.memory.leave_stream(stream)

    def capture(self, value: Any) -> Any:
        """An array of this device for a captured one: NumPy arrays are copied, device arrays used as they are.

        Raises
        ------
        LinkError
            For an array that lives on another device.
        """
        return captured_array(value, self, self._copied, adopts=True)

    def _copied(self, value: Any) -> Any:
        """A copy that launches in any stream may read."""
        from sterna.array import to_device

        made = to_device(value, self)
        self.context.enter().cuStreamSynchronize(self._copy_stream())
        return made

    def copy_in(self, address: int, host: np.ndarray) -> None:
        """Copy a contiguous host array to `address`, in the current stream; done on return."""
        if not host.nbytes:
            return
        cu, stream = self.context.enter(), self._copy_stream()
        cu.cuMemcpyHtoDAsync_v2(address, _host_address(host), host.nbytes, stream)
        cu.cuStreamSynchronize(stream)

    def copy_out(self, host: np.ndarray, address: int) -> None:
        """Copy from `address` into a contiguous host array, in the current stream; done on return."""
        if not host.nbytes:
            return
        cu, stream = self.context.enter(), self._copy_stream()
        cu.cuMemcpyDtoHAsync_v2(_host_address(host), address, host.nbytes, stream)
        cu.cuStreamSynchronize(stream)

    def copy_device(self, target: int, source_device: Any, source: int, nbytes: int) -> bool:
        """Copy from a CUDA device's memory into this one's, in the current stream; False if it is no CUDA device."""
        if not isinstance(source_device, CudaDevice):
            return False
        stream = self._copy_stream()
        if source_device is self:
            self._enter(stream)
            self.context.enter().cuMemcpyDtoDAsync_v2(target, source, nbytes, stream)
            self._leave(stream)
            return True
        source_device.context.enter().cuCtxSynchronize()
        cu = self.context.enter()
        cu.cuMemcpyPeerAsync(target, self.context.handle, source, source_device.context.handle, nbytes, stream)
        cu.cuStreamSynchronize(stream)
        return True

    def fill_bytes(self, address: int, nbytes: int, value: int = 0) -> None:
        """Set every byte, in the current stream."""
        if nbytes:
            stream = self._copy_stream()
            self._enter(stream)
            self.context.enter().cuMemsetD8Async(address, value, nbytes, stream)
            self._leave(stream)

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's (device type, index)."""
        return _DLPACK_CUDA, self.index

    def array_interface(self, array: Any) -> dict[str, Any]:
        """``__cuda_array_interface__`` of an array of this device."""
        from sterna.targets.cuda.interop import array_interface

        return array_interface(array)

    def to_dlpack(self, array: Any, options: dict[str, Any]) -> Any:
        """A DLPack capsule of an array of this device."""
        from sterna.targets.cuda.dlpack import to_dlpack

        return to_dlpack(array, options)

    @property
    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.context.enter().cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    # ---- streams -----------------------------------------------------------------------------

    def stream_of(self, given: Any) -> Any:
        """A stream given to a launch, as one of ours.

        Raises
        ------
        LinkError
            When it belongs to another device.
        """
        if hasattr(type(given), "is_foreign"):
            if given.device is not self:
                raise LinkError(f"the stream is of {given.device.name}, the kernel runs on {self.name}")
            return given
        handle = stream_handle(given)
        found = self._foreign.get(handle)
        if found is None:
            found = self._foreign[handle] = _ForeignStream(self, handle)
        return found

    def handle_of(self, given: Any) -> int:
        """The driver's handle of a stream, of the current one for None."""
        if given is None:
            given = active_stream(self)
        return 0 if given is None else stream_handle(given)

    def event(self, timing: bool = True) -> Event:
        """A new event (see `sterna.event`)."""
        return Event(self, timing)

    def record_graph(self) -> Any:
        """Record a new graph (see `sterna.capture`)."""
        from sterna.targets.cuda.graphs import Graph

        return Graph(self).record()

    def stream(self, priority: int = 0, blocking: bool = True) -> Stream:
        """A new stream (see `sterna.stream`)."""
        return Stream(self, priority, blocking)

    # ---- host memory for copies --------------------------------------------------------------

    def pinned(self, shape: Any, dtype: Any) -> np.ndarray:
        """A NumPy array in page-locked memory (see `sterna.pinned`)."""
        return self._host_allocation(shape, dtype)[1]

    def mapped(self, shape: Any, dtype: Any) -> Any:
        """An array in page-locked memory that kernels use in place (see `sterna.mapped`)."""
        from sterna.array import Array

        memory, view = self._host_allocation(shape, dtype)
        if memory.address != memory.host:
            raise LinkError(f"{self.name} has no common addresses with the host; use sterna.pinned and copies")
        return Array(view, memory, self)

    def _host_allocation(self, shape: Any, dtype: Any) -> tuple[HostAllocation, np.ndarray]:
        extents = tuple(int(n) for n in shape) if isinstance(shape, tuple | list) else (int(shape),)
        found = np.dtype(dtype)
        memory = HostAllocation(self.context, math.prod(extents) * found.itemsize)
        return memory, np.ndarray(extents, found, memory.buffer)

    # ---- launching and waiting ---------------------------------------------------------------

    def suggest(self, shape: tuple[int, ...]) -> tuple[Triple, Triple]:
        """Blocks and threads (x, y, z) for ``over(shape)``, last axis fastest."""
        return suggest_blocks(shape, self.context.attribute("multiprocessors"))

    def keep(self, used: tuple[Any, tuple[Any, ...]]) -> None:
        """Keep the arguments of a launch (specialisation, arguments) alive until the device has finished it."""
        self._kept.append(used[1])
        if len(self._kept) > _MOST_KEPT and not getattr(active_stream(self), "is_capturing", False):
            self._finish_kept()

    def _finish_kept(self) -> None:
        kept, self._kept = self._kept, []
        self.context.enter().cuCtxSynchronize()
        del kept

    def watch(self, module: CudaModule) -> None:
        """A kernel that may fail or print was launched: look at its record at the next synchronise."""
        with self._lock:
            self._watched[id(module)] = module
            module.is_watched = True
            if self._finishes_with is not driver():
                self._finishes_with = driver()
                atexit.register(self._finish, self._finishes_with)

    def _finish(self, cu: Any) -> None:
        """At the end of the process: report what nothing has synchronised after."""
        with contextlib.suppress(Exception):  # the driver may be gone, or this is a forked child
            if self._watched and driver() is cu:
                started = self._note_waiting()
                self.context.enter().cuCtxSynchronize()
                with contextlib.suppress(Exception):
                    self._collect_all(started)
                report_unobserved()

    def watches(self, module: CudaModule) -> bool:
        """Whether its record has still to be looked at."""
        return id(module) in self._watched

    def unwatch(self, module: CudaModule) -> None:
        """The kernel is being unloaded."""
        with self._lock:
            self._watched.pop(id(module), None)

    def _note_waiting(self) -> list[CudaModule]:
        """The device is about to be waited for: what was launched so far; a launch from now on is noted again."""
        with self._lock:
            started = list(self._watched.values())
            for module in started:
                module.is_watched = False
        return started

    def collect(self, finished: list[CudaModule] | None = None) -> None:
        """Look at the records of launched kernels, write what was printed, and raise the first exception.

        Parameters
        ----------
        finished : list of CudaModule, optional
            After the whole device was waited for: what had been launched before.
        """
        if self._watched or finished:
            self._collect_all(finished)
        if self.pending.any:
            self.pending.raise_first()

    def _collect_all(self, finished: list[CudaModule] | None) -> None:
        with self._lock:
            watched = {id(module): module for module in (*self._watched.values(), *(finished or ()))}
            for module in finished or ():
                if not module.is_watched:  # another thread may have launched it meanwhile
                    self._watched.pop(id(module), None)
        is_idle = finished is not None
        for module in watched.values():
            module.collect(is_idle)
        if "print_buffer" in self.__dict__:
            self.print_buffer.drain(is_idle)

    def synchronize(self) -> None:
        """Wait for everything on the device; raise the first exception of a kernel since the last call."""
        if not getattr(active_stream(self), "is_capturing", False):
            started = self._note_waiting()
            self._finish_kept()
            self.collect(started)

    @cached_property
    def print_buffer(self) -> PrintBuffer:
        """Where kernels leave what they print."""
        return PrintBuffer(self.context)

    def reset(self) -> None:
        """Destroy the context with everything in it; kernels are loaded and linked again when next launched.

        Arrays of the device are lost: using one afterwards is an error of the driver.
        """
        with self._lock:
            self._watched.clear()
        self.pending.take()
        self.__dict__.pop("print_buffer", None)
        self._foreign.clear()
        for module in list(self._modules):
            module.forget_context()
        self.context.reset()


def _host_address(host: np.ndarray) -> int:
    return int(host.__array_interface__["data"][0])


@lru_cache(maxsize=8)
def _launch_call(cu: Any, cooperative: bool) -> Callable[..., int]:
    if not cooperative:
        found: Callable[..., int] = cu.raw("cuLaunchKernel")
        return found
    call = cu.raw("cuLaunchCooperativeKernel")

    def launch(*arguments: Any) -> int:
        code: int = call(*arguments[:-1])
        return code

    return launch


class CudaRuntime:
    """The CUDA target's devices."""

    def device_count(self) -> int:
        """Number of GPUs; 0 where there is no driver."""
        if not is_available():
            return 0
        count = ctypes.c_int()
        driver().cuDeviceGetCount(ctypes.byref(count))
        return count.value

    def device(self, index: int) -> CudaDevice:
        """A device by number."""
        return _device(index)

    def adopt(self, value: Any) -> Any:
        """An array of another library, in place (see `sterna.targets.cuda.interop`)."""
        from sterna.targets.cuda.interop import adopt

        return adopt(value)


@cache
def _device(index: int) -> CudaDevice:
    return CudaDevice(index)


RUNTIME = CudaRuntime()
