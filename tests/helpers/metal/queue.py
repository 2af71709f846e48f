"""Simulated command queues: work runs when somebody waits for it, or asks often enough whether it is done.

So nothing has happened when `commit` returns, as on a busy GPU.  A command buffer keeps what was *set* on it alive, and
what was only declared (`useResource_usage_`) not.
"""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from helpers.metal.execute import Dispatch, Fault, run
from helpers.metal.memory import Pages
from helpers.metal.objects import Error

if TYPE_CHECKING:
    from helpers.metal.device import Buffer, Pipeline, SimulatedDevice

__all__ = ["CommandQueue", "Event"]

_COMMITTED, _COMPLETED, _ERROR = 2, 4, 5
_PATIENCE = 3
"""How often a command buffer's status is asked before it makes progress."""
_lock = threading.RLock()


class Event:
    """MTLEvent."""

    def __init__(self) -> None:
        self.value = 0


class CommandQueue:
    """MTLCommandQueue."""

    def __init__(self, device: SimulatedDevice) -> None:
        self._device = device
        self.pending: deque[CommandBuffer] = deque()
        device.queues.add(self)

    def commandBuffer(self) -> CommandBuffer:
        return CommandBuffer(self)

    def device(self) -> SimulatedDevice:
        return self._device

    def progress(self) -> bool:
        """Go on with the first command buffer as far as events allow; whether anything happened."""
        return bool(self.pending) and self.pending[0].advance()

    def finish(self, last: CommandBuffer) -> None:
        """Run until `last` is done; other queues too, where it waits for them."""
        while last in self.pending:
            if not self.progress() and not any(q.progress() for q in list(self._device.queues)):
                raise AssertionError("every queue waits for an event that nothing will signal")


class CommandBuffer:
    """MTLCommandBuffer."""

    def __init__(self, queue: CommandQueue) -> None:
        self.queue, self._status, self._error = queue, 0, None
        self._operations: deque[tuple[Any, ...]] = deque()
        self._kept: list[Any] = []
        self._start = self._end = 0.0
        self._asked = 0
        self._open = False

    # ---- encoding ----------------------------------------------------------------------------

    def computeCommandEncoder(self) -> Encoder:
        assert not self._open, "the last encoder was not ended"
        self._open = True
        return Encoder(self)

    def encodeWaitForEvent_value_(self, event: Event, value: int) -> None:
        self._operations.append(("wait", event, value))

    def encodeSignalEvent_value_(self, event: Event, value: int) -> None:
        assert not self._open, "an event cannot be encoded while an encoder is open"
        self._operations.append(("signal", event, value))

    def commit(self) -> None:
        assert self._status == 0, "a command buffer is committed once"
        assert not self._open, "an encoder was not ended"
        with _lock:
            self._status = _COMMITTED
            self.queue.pending.append(self)

    # ---- running -----------------------------------------------------------------------------

    def advance(self) -> bool:
        """Run its operations up to a wait whose event has not come; whether anything happened."""
        moved = False
        self._start = self._start or time.monotonic()
        while self._operations:
            kind, *rest = self._operations[0]
            if kind == "wait" and rest[0].value < rest[1]:
                return moved
            self._operations.popleft()
            moved = True
            if kind == "signal":
                rest[0].value = max(rest[0].value, rest[1])
            elif kind == "dispatch" and self._error is None:
                self._run(rest[0])
        self._end = time.monotonic()
        self._status = _ERROR if self._error is not None else _COMPLETED
        self._kept.clear()
        self.queue.pending.popleft()
        return True

    def _run(self, encoded: Encoder) -> None:
        device = self.queue._device
        try:
            device.counts["apart"] += run(encoded.dispatch_of())
        except Fault as fault:
            self._error = Error("MTLCommandBufferErrorDomain", 3, str(fault))

    def waitUntilCompleted(self) -> None:
        assert self._status, "waiting for a command buffer that was not committed"
        with _lock:
            self.queue.finish(self)

    def status(self) -> int:
        with _lock:
            self._asked += 1
            if self._status == _COMMITTED and self._asked > _PATIENCE:
                self.queue.progress()
            return self._status

    def error(self) -> Error | None:
        return self._error

    def GPUStartTime(self) -> float:
        return self._start if self._status >= _COMPLETED else 0.0

    def GPUEndTime(self) -> float:
        return self._end


class Encoder:
    """MTLComputeCommandEncoder, for one dispatch each."""

    def __init__(self, buffer: CommandBuffer) -> None:
        self._buffer = buffer
        self._pipeline: Pipeline | None = None
        self._buffers: dict[int, tuple[Pages, int]] = {}
        self._group_bytes: dict[int, int] = {}
        self._declared: list[tuple[weakref.ref[Buffer], int]] = []
        self._sizes: tuple[Any, Any] = ((), ())

    def setComputePipelineState_(self, pipeline: Pipeline) -> None:
        assert pipeline.device() is self._buffer.queue._device, "a pipeline of another device"
        self._pipeline = pipeline
        self._buffer._kept.append(pipeline)

    def setBytes_length_atIndex_(self, data: bytes, length: int, index: int) -> None:
        assert length <= 4096, f"setBytes of {length} bytes; at most 4096"
        assert len(data) >= length and 0 <= index < 31
        pages = Pages(length, writable=False)
        _fill(pages, bytes(data)[:length])
        self._buffers[index] = (pages, 0)

    def setBuffer_offset_atIndex_(self, buffer: Buffer, offset: int, index: int) -> None:
        assert buffer.device() is self._buffer.queue._device, "a buffer of another device"
        assert 0 <= index < 31 and 0 <= offset < buffer.length()
        self._buffers[index] = (buffer.pages, offset)
        self._buffer._kept.append(buffer)

    def useResource_usage_(self, buffer: Buffer, usage: int) -> None:
        assert buffer.device() is self._buffer.queue._device, "a resource of another device"
        self._declared.append((weakref.ref(buffer), usage))

    def setThreadgroupMemoryLength_atIndex_(self, length: int, index: int) -> None:
        assert length % 16 == 0, f"threadgroup memory of {length} bytes is no multiple of 16"
        self._group_bytes[index] = length

    def dispatchThreadgroups_threadsPerThreadgroup_(self, groups: Any, threads: Any) -> None:
        assert self._pipeline is not None, "no pipeline was set"
        self._sizes = tuple(map(int, groups)), tuple(map(int, threads))
        self.dispatch_of(check=False).check()
        self._buffer._operations.append(("dispatch", self))

    def endEncoding(self) -> None:
        self._buffer._open = False

    def dispatch_of(self, check: bool = True) -> Dispatch:
        """What was encoded; with `check`, what was declared must be alive still."""
        resident = []
        for reference, _ in self._declared:
            buffer = reference()
            if buffer is None and check:
                raise Fault("Caused GPU Address Fault Error: a declared resource was released before its use")
            if buffer is not None:
                resident.append(buffer.pages)
        assert self._pipeline is not None
        pipeline, buffers = self._pipeline, dict(self._buffers)
        return Dispatch(pipeline.code, pipeline.entry, *self._sizes, buffers, dict(self._group_bytes), resident)


def _fill(pages: Pages, data: bytes) -> None:
    ctypes.memmove(pages.host, data, len(data))
