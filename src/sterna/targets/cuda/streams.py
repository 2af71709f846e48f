"""Streams and events of CUDA devices, and how they meet those of other libraries.

A stream made here waits, unless asked otherwise, for the default stream and is waited for by it (the driver's
*blocking* streams), so code that never names a stream is always right.  Streams of other libraries are accepted
wherever a stream is: a raw handle, an object with ``__cuda_stream__``, PyTorch's (``cuda_stream``) and CuPy's
(``ptr``).
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from sterna.targets.cuda.driver import DriverError
from sterna.targets.cuda.memory import new_handle

if TYPE_CHECKING:
    from sterna.targets.cuda.device import CudaDevice

__all__ = ["Event", "Stream", "relaxed_capture", "stream_handle"]

_NON_BLOCKING, _NO_TIMING = 1, 2
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_NOT_READY = "CUDA_ERROR_NOT_READY"


class Stream:
    """A queue of work on one CUDA device, in order.

    Made by `sterna.stream`; ends when nothing refers to it any more, after its work is done.

    Attributes
    ----------
    device : CudaDevice
        Where it runs.
    handle : int
        The driver's ``CUstream``.
    is_blocking : bool
        Whether it and the default stream wait for each other.
    """

    is_foreign = False

    def __init__(self, device: CudaDevice, priority: int = 0, blocking: bool = True) -> None:
        cu = device.context.enter()
        self.device, self.is_blocking = device, blocking
        self._generation = device.context.generation
        self.handle = new_handle(cu.cuStreamCreateWithPriority, 0 if blocking else _NON_BLOCKING, priority)

    def __cuda_stream__(self) -> tuple[int, int]:
        """The stream protocol: (version, handle)."""
        return 0, self.handle

    def synchronize(self) -> None:
        """Wait for its work; raise what a kernel raised so far on the device."""
        self.device.context.enter().cuStreamSynchronize(self.handle)
        self.device.collect()

    @property
    def is_done(self) -> bool:
        """Whether all its work is finished, without waiting."""
        return _is_done(self.device.context.enter().cuStreamQuery, self.handle)

    def record(self, event: Event | None = None) -> Event:
        """Put an event (a new one without argument) behind the work so far."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def wait(self, event: Event) -> None:
        """Let later work wait for an event, of any device."""
        self.device.context.enter().cuStreamWaitEvent(self.handle, event.handle, 0)

    def __del__(self) -> None:
        try:
            if self.handle and self._generation == self.device.context.generation:
                self.device.memory.drop_stream(self.handle)
                self.device.context.enter().cuStreamDestroy_v2(self.handle)
        except Exception:  # the interpreter or the driver is going down
            return

    def __repr__(self) -> str:
        return f"<sterna stream {self.handle:#x} on {self.device.name}>"


class Event:
    """A point in a stream's work.

    Parameters
    ----------
    device : CudaDevice
        Of the streams it will be recorded in.
    timing : bool
        Whether `elapsed_ms` is wanted.
    """

    def __init__(self, device: CudaDevice, timing: bool = True) -> None:
        cu = device.context.enter()
        self.device, self._generation = device, device.context.generation
        self.handle = new_handle(cu.cuEventCreate, 0 if timing else _NO_TIMING)

    def record(self, stream: Any = None) -> None:
        """Put it behind the work so far of a stream; of the current one without argument."""
        cu = self.device.context.enter()
        cu.cuEventRecord(self.handle, self.device.handle_of(stream))

    def synchronize(self) -> None:
        """Wait until the work before it is done; raise what a kernel raised so far on the device."""
        self.device.context.enter().cuEventSynchronize(self.handle)
        self.device.collect()

    @property
    def is_done(self) -> bool:
        """Whether the work before it is done, without waiting."""
        return _is_done(self.device.context.enter().cuEventQuery, self.handle)

    def elapsed_ms(self, start: Event) -> float:
        """Milliseconds from `start` to this event; waits for this one."""
        cu = self.device.context.enter()
        cu.cuEventSynchronize(self.handle)
        value = ctypes.c_float()
        cu.cuEventElapsedTime(ctypes.byref(value), start.handle, self.handle)
        return value.value

    def __del__(self) -> None:
        try:
            if self.handle and self._generation == self.device.context.generation:
                self.device.context.enter().cuEventDestroy_v2(self.handle)
        except Exception:  # as for streams
            return


class relaxed_capture:
    """While inside, calls that a recording stream would refuse are allowed in this thread."""

    def __init__(self, cu: Any) -> None:
        self._cu, self._mode = cu, ctypes.c_int(_RELAXED)

    def __enter__(self) -> None:
        self._cu.cuThreadExchangeStreamCaptureMode(ctypes.byref(self._mode))

    def __exit__(self, *_: object) -> None:
        self._cu.cuThreadExchangeStreamCaptureMode(ctypes.byref(self._mode))


def _is_done(query: Any, handle: int) -> bool:
    try:
        query(handle)
    except DriverError as error:
        if error.name == _NOT_READY:
            return False
        raise
    return True


def stream_handle(given: Any) -> int:
    """The driver's handle of a stream of any library.

    Raises
    ------
    TypeError
        For something that is no stream.
    """
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    protocol = getattr(given, "__cuda_stream__", None)
    if protocol is not None:
        found = protocol() if callable(protocol) else protocol
        return int(found[1])
    for name in ("cuda_stream", "ptr", "handle"):
        value = getattr(given, name, None)
        if value is not None:
            return int(getattr(value, "value", value) or 0)
    raise TypeError(
        f"a stream is expected: sterna.stream(), a raw handle, or an object with __cuda_stream__; given {given!r:.80}"
    )
