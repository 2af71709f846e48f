"""Streams and events of OpenCL devices: command queues in order, markers in them, their profiling times.

A stream waits, unless asked otherwise, for the device's default queue and is waited for by it, so code that never
names a stream is always right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sterna.targets.opencl.driver import call
from sterna.targets.opencl.icd import load_opencl

if TYPE_CHECKING:
    from sterna.targets.opencl.device import OpenclDevice

__all__ = ["Event", "Stream", "make_queue"]


def make_queue(context: Any, device: Any) -> Any:
    """An in-order queue that notes times."""
    cl = load_opencl()
    return cl.CommandQueue(context, device, properties=cl.command_queue_properties.PROFILING_ENABLE)


class Stream:
    """A queue of work on one OpenCL device, in order.

    Made by `sterna.stream`; ends when nothing refers to it any more.

    Attributes
    ----------
    device : OpenclDevice
        Where it runs.
    queue : pyopencl.CommandQueue
        OpenCL's queue.
    handle : int
        Its address.
    is_blocking : bool
        Whether it and the default queue wait for each other.
    """

    def __init__(self, device: OpenclDevice, priority: int = 0, blocking: bool = True) -> None:
        self.device, self.is_blocking = device, blocking
        self.queue = make_queue(device.context, device.handle)
        self.handle: int = self.queue.int_ptr
        self.is_ordered = True
        """Whether the default queue waits for all of its work already."""
        self.has_default = 0
        """Number of the default queue's work that it waits for."""
        device.note_stream(self)

    def synchronize(self) -> None:
        """Wait for its work; raise what a kernel raised so far on the device."""
        call("clFinish", self.handle)
        self.device.collect()

    @property
    def is_done(self) -> bool:
        """Whether all its work is finished, without waiting."""
        return self.record().is_done

    def record(self, event: Event | None = None) -> Event:
        """Put an event (a new one without argument) behind the work so far."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def wait(self, event: Event) -> None:
        """Let later work wait for an event of the same device."""
        event.order(self.queue)

    def __repr__(self) -> str:
        return f"<sterna stream {self.handle:#x} on {self.device.name}>"


class Event:
    """A point in a stream's work.

    Parameters
    ----------
    device : OpenclDevice
        Of the streams it will be recorded in.
    timing : bool
        Accepted as on other devices; queues always note times.
    """

    def __init__(self, device: OpenclDevice, timing: bool = True) -> None:
        self.device = device
        self._marker: Any = None

    def record(self, stream: Any = None) -> None:
        """Put it behind the work so far of a stream; of the current one without argument."""
        queue = self.device.queue_of(stream)
        self._marker = load_opencl().enqueue_marker(queue)
        queue.flush()

    def order(self, queue: Any) -> None:
        """Let later work of a queue wait for it; an event never recorded is done."""
        if self._marker is not None:
            load_opencl().enqueue_barrier(queue, wait_for=[self._marker])

    def synchronize(self) -> None:
        """Wait until the work before it is done; raise what a kernel raised so far on the device."""
        if self._marker is not None:
            self._marker.wait()
        self.device.collect()

    @property
    def is_done(self) -> bool:
        """Whether the work before it is done, without waiting."""
        if self._marker is None:
            return True
        done: bool = self._marker.command_execution_status == load_opencl().command_execution_status.COMPLETE
        return done

    def elapsed_ms(self, start: Event) -> float:
        """Milliseconds from `start` to this event; waits for both.

        Raises
        ------
        ValueError
            When one of them was never recorded.
        """
        if self._marker is None or start._marker is None:
            raise ValueError("the time between two events is asked for, and one was not recorded")
        for marker in (start._marker, self._marker):
            marker.wait()
        return float(self._marker.profile.end - start._marker.profile.end) * 1e-6
