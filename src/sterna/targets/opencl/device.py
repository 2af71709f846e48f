"""OpenCL devices: contexts, memory, loading images, launching, waiting.

Runtime half of the target; pyopencl is imported when a device is first asked for.  Launches are asynchronous: what a
kernel raised, and what it printed, comes at the next synchronise or copy.

Each device has a context of its own.  Those are used that take SPIR-V, have 64-bit addresses, a generic address space
and shared virtual memory; `OpenclRuntime.unusable` says what the others lack.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import threading
import weakref
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sterna.errors import DeviceError, LinkError
from sterna.runtime.captured import captured_array
from sterna.runtime.config import Triple, suggest_blocks
from sterna.runtime.devices import active_stream
from sterna.runtime.exceptions import PendingFailures, report_unobserved
from sterna.runtime.printing import PRINT_BYTES, PrintBuffer
from sterna.targets.base import Limits, Target
from sterna.targets.opencl.driver import call
from sterna.targets.opencl.icd import load_opencl, why_missing
from sterna.targets.opencl.loader import load_program
from sterna.targets.opencl.memory import SharedBytes, SvmMemory, free_behind, host_address
from sterna.targets.opencl.module import OpenclModule
from sterna.targets.opencl.records import RecordPool
from sterna.targets.opencl.streams import Event, Stream, make_queue
from sterna.targets.opencl.target import MAX_THREADS, default_target

if TYPE_CHECKING:
    from sterna.abi import ArgLayout
    from sterna.image.format import KernelImage

__all__ = ["RUNTIME", "OpenclDevice", "OpenclRuntime"]

_COARSE, _FINE, _SYSTEM, _ATOMICS = 1, 2, 4, 8
_CORRECT_DIVISION = 1 << 7  # CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
_MOST_KEPT = 4096


class OpenclDevice:
    """One OpenCL device.

    Parameters
    ----------
    name : str
        ``opencl:0``.
    handle : pyopencl.Device
        The device, or a part of one.
    svm : int
        Kinds of shared virtual memory to use, as OpenCL's bit field; fewer than the device has are possible.

    Attributes
    ----------
    name, target, limits
        As of every device.
    context : pyopencl.Context
        Its own.
    pending : PendingFailures
        Exceptions of kernels that no synchronise has raised yet.
    """

    frees_in_order = True

    def __init__(self, name: str, handle: Any, svm: int | None = None) -> None:
        cl = load_opencl()
        self.name, self.handle = name, handle
        self.target: Target = default_target()
        have = int(handle.svm_capabilities) if svm is None else svm
        self.is_fine_grained = bool(have & _FINE)
        self.has_svm_atomics = bool(have & _ATOMICS)
        self.shares_system_memory = self.reads_host_memory = bool(have & _SYSTEM)
        self.has_float64 = int(_ask(handle, "double_fp_config", 0)) != 0
        self.is_processor = bool(handle.type & cl.device_type.CPU)
        self.argument_bytes = int(_ask(handle, "max_parameter_size", 1024))
        self.build_options = (
            "-cl-fp32-correctly-rounded-divide-sqrt"
            if int(_ask(handle, "single_fp_config", 0)) & _CORRECT_DIVISION
            else ""
        )
        most = min(int(handle.max_work_group_size), MAX_THREADS)
        x, y, z = (min(int(n), most) for n in handle.max_work_item_sizes[:3])
        self.limits = Limits(
            max_threads=most, max_block=(x, y, z), max_grid=self.target.limits.max_grid,
            shared_bytes=int(handle.local_mem_size), warp_size=self.target.limits.warp_size,
        )  # fmt: skip
        self.context = cl.Context([handle])
        self.queue = make_queue(self.context, handle)
        self._loader = make_queue(self.context, handle)
        self._queue: int = self.queue.int_ptr
        self.allocations = 0
        self.records = RecordPool(self)
        self.pending = PendingFailures()
        self._lock = threading.RLock()
        self._watched: dict[int, OpenclModule] = {}
        self._streams: weakref.WeakSet[Stream] = weakref.WeakSet()
        self._default_work = 0
        self._memories: set[int] = set()
        self._kept: list[Any] = []
        self._process = os.getpid()
        atexit.register(_at_exit, weakref.ref(self))

    def __repr__(self) -> str:
        return f"<sterna device {self.name}: {self.handle.name.strip()}, {self.target}>"

    def partition(self, parts: int) -> list[OpenclDevice]:
        """Equal parts of the device, each with a context of its own, where the driver can divide it.

        Parameters
        ----------
        parts : int
            How many.

        Raises
        ------
        ValueError
            When the device cannot be divided so.
        """
        cl = load_opencl()
        units = int(self.handle.max_compute_units)
        if parts < 1 or units % parts:
            raise ValueError(f"{self.name} has {units} compute units, which are not {parts} equal parts")
        try:
            found = self.handle.create_sub_devices([cl.device_partition_property.EQUALLY, units // parts])
        except cl.Error as error:
            raise ValueError(f"{self.name} cannot be divided into {parts} parts ({error})") from None
        return [OpenclDevice(f"{self.name}.{number}", part) for number, part in enumerate(found[:parts])]

    # ---- loading -----------------------------------------------------------------------------

    def load(self, image: KernelImage, layout: ArgLayout) -> OpenclModule:
        """Load an image's code in this device's context.

        Raises
        ------
        ImageRefused
            When the driver does not take it.
        LinkError
            When the kernel needs float64 or more arguments than the device has.
        """
        if image.facts.get("float64") and not self.has_float64:
            raise LinkError(
                f"kernel {image.name} computes in float64, which {self.name} ({self.handle.name.strip()}) does not "
                "have; use float32 arrays and constants"
            )
        return OpenclModule(self, image, load_program(self, image), layout.size)

    def write_now(self, address: int, data: bytes) -> None:
        """Copy bytes to a device address, done on return, beside whatever runs."""
        call("clEnqueueSVMMemcpy", self._loader.int_ptr, 1, address, data, len(data), 0, None, None)

    def write_word(self, address: int, word: int, stream: Any) -> None:
        """Write one word, ordered on a stream."""
        queue = self.enter_queue(active_stream(self) if stream is None else stream)
        pattern = word.to_bytes(8, "little")
        call("clEnqueueSVMMemFill", queue, address, pattern, 8, 8, 0, None, None)
        call("clFlush", queue)

    # ---- memory ------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> SvmMemory:
        """Shared virtual memory, not initialised."""
        return SvmMemory(self, nbytes)

    def note_memory(self, address: int) -> None:
        """Memory was allocated: kernels may reach it."""
        self.allocations += 1
        if not self.shares_system_memory:
            self._memories.add(address)

    def free(self, address: int) -> None:
        """Free memory once all work of the device that was begun before is done."""
        self._memories.discard(address)
        if os.getpid() != self._process:  # a forked child: the driver's threads are not here
            return
        cl = load_opencl()
        markers = [cl.enqueue_marker(stream.queue) for stream in list(self._streams)]
        for stream in list(self._streams):
            stream.queue.flush()
        free_behind(self._queue, address, [marker.int_ptr for marker in markers])
        call("clFlush", self._queue)

    def living_addresses(self) -> list[int]:
        """Allocations of arrays, records and tables that are alive."""
        return sorted(self._memories)

    def capture(self, value: Any) -> Any:
        """An array of this device for a captured one: NumPy arrays are copied, ours are used as they are.

        Raises
        ------
        LinkError
            For an array that lives on another device.
        """
        from sterna.array import to_device

        return captured_array(value, self, lambda host: to_device(host, self))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy between addresses of the host or the device, behind the current stream's work; done on return."""
        if nbytes:
            queue = self.enter_queue(active_stream(self))
            call("clEnqueueSVMMemcpy", queue, 1, target, source, nbytes, 0, None, None)

    def copy_in(self, address: int, host: np.ndarray) -> None:
        """Copy a contiguous host array to `address`, in the current stream; done on return."""
        self.copy(address, host_address(host), host.nbytes)

    def copy_out(self, host: np.ndarray, address: int) -> None:
        """Copy from `address` into a contiguous host array, in the current stream; done on return."""
        self.copy(host_address(host), address, host.nbytes)

    def fill_bytes(self, address: int, nbytes: int, value: int = 0) -> None:
        """Set every byte, in the current stream."""
        if nbytes:
            queue = self.enter_queue(active_stream(self))
            call("clEnqueueSVMMemFill", queue, address, bytes([value]), 1, nbytes, 0, None, None)
            call("clFlush", queue)

    # ---- streams -----------------------------------------------------------------------------

    def stream(self, priority: int = 0, blocking: bool = True) -> Stream:
        """A new stream (see `sterna.stream`); OpenCL has no priorities."""
        return Stream(self, priority, blocking)

    def event(self, timing: bool = True) -> Event:
        """A new event (see `sterna.event`)."""
        return Event(self, timing)

    def note_stream(self, stream: Stream) -> None:
        """A stream was made: memory is freed behind its work too."""
        self._streams.add(stream)

    def queue_of(self, stream: Any) -> Any:
        """pyopencl's queue of a stream, of the current one for None."""
        given = active_stream(self) if stream is None else stream
        return self.queue if given is None else self._own(given).queue

    def _own(self, stream: Any) -> Stream:
        if not isinstance(stream, Stream):
            raise TypeError(f"a stream of {self.name} is expected: sterna.stream({self.name!r}); given {stream!r:.80}")
        if stream.device is not self:
            raise LinkError(f"the stream is of {stream.device.name}, the kernel runs on {self.name}")
        return stream

    def enter_queue(self, stream: Any) -> int:
        """The queue of a stream (None: the default one), after what its next work must wait for."""
        if stream is None:
            if self._streams:
                self._order_default()
            self._default_work += 1
            return self._queue
        own = self._own(stream)
        if own.is_blocking:
            if own.has_default != self._default_work:
                _order(own.queue, [self.queue])
                own.has_default = self._default_work
            own.is_ordered = False
        return own.handle

    def _order_default(self) -> None:
        waits = [s for s in list(self._streams) if s.is_blocking and not s.is_ordered]
        if waits:
            _order(self.queue, [s.queue for s in waits])
            for stream in waits:
                stream.is_ordered = True

    # ---- launching and waiting ---------------------------------------------------------------

    def suggest(self, shape: tuple[int, ...]) -> tuple[Triple, Triple]:
        """Blocks and threads (x, y, z) for ``over(shape)``, last axis fastest."""
        return suggest_blocks(shape, int(self.handle.max_compute_units))

    def keep(self, used: tuple[Any, tuple[Any, ...]]) -> None:
        """Keep objects and host memory of a launch (specialisation, arguments) alive until the device has done it."""
        held = [arg for arg in used[1] if not getattr(type(arg), "__sterna_array__", False)]
        if held:  # arrays of ours are freed behind the work that uses them
            self._kept.append(held)
            if len(self._kept) > _MOST_KEPT:
                self.finish()

    def watch(self, module: OpenclModule) -> None:
        """A kernel that may fail or print was launched: look at its record at the next synchronise."""
        with self._lock:
            self._watched[id(module)] = module

    def unwatch(self, module: OpenclModule) -> None:
        """The kernel is being unloaded."""
        with self._lock:
            self._watched.pop(id(module), None)

    def finish(self) -> None:
        """Wait for all queues."""
        kept, self._kept = self._kept, []
        for stream in list(self._streams):
            call("clFinish", stream.handle)
            stream.is_ordered = True
        call("clFinish", self._queue)
        del kept

    def collect(self, is_idle: bool = False) -> None:
        """Look at the records of launched kernels, write what was printed, and raise the first exception."""
        if self._watched:
            self._collect_all(is_idle)
        if self.pending.any:
            self.pending.raise_first()

    def _collect_all(self, is_idle: bool) -> None:
        with self._lock:
            watched = list(self._watched.values())
            if is_idle:
                self._watched.clear()
        self.records.fetch()
        for module in watched:
            module.collect(is_idle)
        if "_printing" in self.__dict__:
            memory, buffer = self._printing
            memory.fetch()
            if buffer.drain(is_idle):
                memory.store()

    def synchronize(self) -> None:
        """Wait for everything on the device; raise the first exception of a kernel since the last call.

        Raises
        ------
        RuntimeError
            In a process that was forked after the device was first used.
        """
        if os.getpid() != self._process:
            raise RuntimeError(f"{self.name} was used before this process was forked; start processes by 'spawn'")
        self.finish()
        self.collect(True)

    @cached_property
    def _printing(self) -> tuple[SharedBytes, PrintBuffer]:
        memory = SharedBytes(self, PRINT_BYTES)
        buffer = PrintBuffer(memory.address, memory.data)
        memory.store()
        return memory, buffer

    @property
    def print_buffer(self) -> PrintBuffer:
        """Where kernels leave what they print."""
        return self._printing[1]

    @property
    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes; OpenCL says only the latter, so both are that."""
        total = int(self.handle.global_mem_size)
        return total, total


def _order(queue: Any, others: list[Any]) -> None:
    """Let later work of `queue` wait for the work so far of others."""
    cl = load_opencl()
    markers = [cl.enqueue_marker(other) for other in others]
    for other in others:
        other.flush()
    cl.enqueue_barrier(queue, wait_for=markers)


def _at_exit(reference: weakref.ref[OpenclDevice]) -> None:
    """At the end of the process: report what nothing has synchronised after."""
    device = reference()
    if device is None or os.getpid() != device._process:
        return
    with contextlib.suppress(Exception):
        device.finish()
        if device._watched:
            device._collect_all(True)
            report_unobserved()


_SPIRV = re.compile(r"SPIR-V_(\d+)\.(\d+)")
_LEAST_SPIRV = (1, 4)


def _ask(handle: Any, name: str, otherwise: Any) -> Any:
    """A fact of a device; drivers need not know those that are newer than they are."""
    try:
        return getattr(handle, name)
    except load_opencl().Error:
        return otherwise


def _lacks(handle: Any) -> str:
    """What a device lacks to run kernels, or nothing."""
    taken = str(_ask(handle, "il_version", ""))
    versions = [(int(a), int(b)) for a, b in _SPIRV.findall(taken)]
    if not versions or max(versions) < _LEAST_SPIRV:
        return f"SPIR-V {'.'.join(map(str, _LEAST_SPIRV))} (it takes {taken or 'none'})"
    if int(_ask(handle, "address_bits", 0)) != 64:
        return "64-bit addresses"
    if not int(_ask(handle, "svm_capabilities", 0)) & (_COARSE | _FINE):
        return "shared virtual memory"
    if not _ask(handle, "available", True):
        return "being available"
    return ""


class OpenclRuntime:
    """The OpenCL target's devices."""

    @cached_property
    def _found(self) -> tuple[list[Any], list[str]]:
        """Usable devices of all platforms, and what was wrong with the others."""
        try:
            cl = load_opencl()
        except ImportError:
            return [], []
        usable, others = [], []
        try:
            platforms = cl.get_platforms()
        except cl.Error:
            return [], []
        for platform in platforms:
            try:
                handles = platform.get_devices()
            except cl.Error:
                continue
            for handle in handles:
                lack = _lacks(handle)
                if lack:
                    others.append(f"{handle.name.strip()} ({platform.name.strip()}) lacks {lack}")
                else:
                    usable.append(handle)
        return usable, others

    @property
    def unusable(self) -> list[str]:
        """The devices that kernels cannot run on, and why."""
        return self._found[1]

    def device_count(self) -> int:
        """Number of usable devices; 0 without pyopencl."""
        return len(self._found[0])

    def device(self, index: int) -> OpenclDevice:
        """A device by number.

        Raises
        ------
        DeviceError
            When there is none; says why and what to install.
        """
        usable, others = self._found
        if index >= len(usable):
            reason = "; ".join(others) if others else why_missing()
            raise DeviceError(f"there is no device opencl:{index}: {reason}")
        try:
            return _device(index)
        except load_opencl().Error as error:
            raise DeviceError(
                f"opencl:{index} ({usable[index].name.strip()}) cannot be used: its driver refuses a context ({error})"
            ) from None


@cache
def _device(index: int) -> OpenclDevice:
    return OpenclDevice(f"opencl:{index}", RUNTIME._found[0][index])


RUNTIME = OpenclRuntime()
