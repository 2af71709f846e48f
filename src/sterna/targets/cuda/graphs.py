"""CUDA graphs: launches recorded once and replayed by one call.

A graph holds everything its launches use: loaded kernels and argument arrays.  Host references need no
re-capture: a kernel reads its slots at every replay, so a `sterna.Global` changed since is seen.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sterna.runtime.devices import active_stream, on
from sterna.targets.cuda.driver import DriverError
from sterna.targets.cuda.memory import new_handle
from sterna.targets.cuda.streams import Stream

if TYPE_CHECKING:
    from sterna.targets.cuda.device import CudaDevice

__all__ = ["Graph"]

_RELAXED = 2


class _CaptureStream(Stream):
    """The stream that records; keeps what is launched into it."""

    def __init__(self, device: CudaDevice) -> None:
        super().__init__(device, blocking=False)
        self.is_capturing = False
        self.kept: list[Any] = []

    def keep(self, used: tuple[Any, tuple[Any, ...]]) -> None:
        """Note a launch: (specialisation, arguments)."""
        self.kept.append(used)


class _UpdateResult(ctypes.Structure):
    _fields_ = (("result", ctypes.c_int), ("node", ctypes.c_void_p), ("from_node", ctypes.c_void_p))


class Graph:
    """A recorded sequence of launches on one device; made by `sterna.capture`.

    Attributes
    ----------
    device : CudaDevice
        Where it runs.
    """

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self._executable = 0
        self._kept: list[Any] = []
        self._generation = -1

    @contextmanager
    def record(self) -> Iterator[Graph]:
        """Record what is launched inside; replaces what was recorded before."""
        stream = _CaptureStream(self.device)
        cu = self.device.context.enter()
        cu.cuStreamBeginCapture_v2(stream.handle, _RELAXED)
        stream.is_capturing = True
        try:
            with on(self.device, stream):
                yield self
        except BaseException:
            self._abandon(stream)
            raise
        self._finish(stream)

    update = record

    def _abandon(self, stream: _CaptureStream) -> None:
        cu, graph = self.device.context.enter(), ctypes.c_void_p()
        try:
            cu.cuStreamEndCapture(stream.handle, ctypes.byref(graph))
        except DriverError:  # the recording was invalid already; the cause is on its way to the caller
            return
        finally:
            stream.is_capturing = False
        if graph.value:
            cu.cuGraphDestroy(graph)

    def _finish(self, stream: _CaptureStream) -> None:
        cu, graph = self.device.context.enter(), ctypes.c_void_p()
        stream.is_capturing = False
        cu.cuStreamEndCapture(stream.handle, ctypes.byref(graph))
        try:
            if not (self._executable and self._update(cu, graph)):
                self._destroy()
                self._executable = new_handle(cu.cuGraphInstantiateWithFlags, graph, 0)
        finally:
            cu.cuGraphDestroy(graph)
        self._kept, self._generation = stream.kept, self.device.context.generation

    def _update(self, cu: Any, graph: ctypes.c_void_p) -> bool:
        """Give the executable graph new arguments; False when its structure differs."""
        result = _UpdateResult()
        try:
            cu.cuGraphExecUpdate_v2(self._executable, graph, ctypes.byref(result))
        except DriverError:
            return False
        return True

    def launch(self, stream: Any = None) -> None:
        """Replay it, in `stream` or the current one; exceptions wait for the next synchronise.

        Raises
        ------
        ValueError
            When nothing was recorded, or the context was reset since.
        """
        device = self.device
        if not self._executable or self._generation != device.context.generation:
            raise ValueError("the graph holds no recording; use `with graph.record():`")
        cu = device.context.enter()
        given = active_stream(device) if stream is None else stream
        handle = device.handle_of(given)
        if handle:
            side = device.stream_of(given)
            device.memory.enter_stream(handle, side.is_blocking, side.is_foreign)
        modules = [specialisation.loaded.module for specialisation, _ in self._kept]
        for module in modules:
            module.take_turn(handle)
        cu.cuGraphLaunch(self._executable, handle)
        if handle and side.is_foreign:
            device.memory.leave_stream(handle)
        for module in modules:
            module.end_turn(handle)
            module.note_launch()

    def _destroy(self) -> None:
        if self._executable and self._generation == self.device.context.generation:
            self.device.context.enter().cuGraphExecDestroy(self._executable)
        self._executable = 0

    def __del__(self) -> None:
        try:
            self._destroy()
        except Exception:  # the interpreter or the driver is going down
            return

    def __repr__(self) -> str:
        return f"<sterna graph of {len(self._kept)} launches on {self.device.name}>"
