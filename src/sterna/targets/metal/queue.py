"""Command queues as streams, their events, and what keeps memory alive while launches run.

A launch is one command buffer.  Work in one queue is in order.  Between queues, order is made by events: the default
queue and a blocking one wait for each other, as code that never names a stream expects.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from sterna.errors import LinkError
from sterna.targets.metal.api import MetalError, describe, metal

if TYPE_CHECKING:
    from sterna.targets.metal.device import MetalDevice

__all__ = ["Event", "Queue", "Submission"]


class Submission:
    """One committed command buffer.

    Attributes
    ----------
    number : int
        Its place in its queue; the queue's event has this value when it is done.
    kept : list
        What must live until then.
    """

    __slots__ = ("command", "kept", "number", "what")

    def __init__(self, command: Any, number: int, kept: list[Any], what: str) -> None:
        self.command, self.number, self.kept, self.what = command, number, kept, what

    @property
    def is_done(self) -> bool:
        """Whether it has ended, without waiting."""
        return bool(self.command.status() >= metal().MTLCommandBufferStatusCompleted)

    def failure(self) -> MetalError | None:
        """What Metal says went wrong, after it has ended."""
        if self.command.status() != metal().MTLCommandBufferStatusError:
            return None
        return MetalError(f"{self.what}: the GPU gave up: {describe(self.command.error())}")


class Queue:
    """A queue of work on one Metal device, in order; made by `sterna.stream`.

    Attributes
    ----------
    device : MetalDevice
        Where it runs.
    is_blocking : bool
        Whether it and the device's default queue wait for each other.
    """

    is_foreign = False

    def __init__(self, device: MetalDevice, blocking: bool = True) -> None:
        self.device, self.is_blocking = device, blocking
        self._queue = device.handle.newCommandQueue()
        if self._queue is None:
            raise MetalError(f"{device.name} gives no further command queue")
        self.event = device.handle.newEvent()
        self._lock = device.queue_lock  # one for all of them: they wait for each other
        self._running: deque[Submission] = deque()
        self._number = 0
        self._waits: list[tuple[Any, int]] = []
        self._ended = 0.0
        """When the last work that is known to be done ended, in the GPU's seconds."""

    def __repr__(self) -> str:
        return f"<sterna stream on {self.device.name}>"

    # ---- putting work in ---------------------------------------------------------------------

    def submit(self, encode: Any, kept: list[Any], what: str) -> Submission:
        """Commit one command buffer.

        Parameters
        ----------
        encode : callable
            Called with the command buffer, to put commands into it.
        kept : list
            What must live until it is done.
        what : str
            For messages.
        """
        with self._lock, metal().autorelease_pool():
            self._retire()
            command = self._queue.commandBuffer()
            for event, value in (*self._waits, *self.device.others_to_wait_for(self)):
                command.encodeWaitForEvent_value_(event, value)
            encode(command)
            self._number += 1
            command.encodeSignalEvent_value_(self.event, self._number)
            command.commit()
            self._waits = []
            made = Submission(command, self._number, kept, what)
            self._running.append(made)
        self.device.note_work(self)
        return made

    def keep(self, value: Any) -> None:
        """Keep something alive until the work so far is done."""
        with self._lock:
            if self._running:
                self._running[-1].kept.append(value)

    @property
    def last(self) -> Submission | None:
        """The last submission, unless it is known to be done."""
        with self._lock:
            return self._running[-1] if self._running else None

    def last_user(self, thing: Any) -> Submission | None:
        """The last submission that keeps `thing` until it is done."""
        with self._lock:
            return next((work for work in reversed(self._running) if any(one is thing for one in work.kept)), None)

    # ---- waiting -----------------------------------------------------------------------------

    def pending(self) -> tuple[Any, int] | None:
        """The event and the value that say when all work so far is done; None when it is."""
        with self._lock:
            self._retire()
            return (self.event, self._number) if self._running else None

    def finish(self, last: Submission | None = None) -> None:
        """Wait for the work up to `last`, all of it without; what failed is noted with the device."""
        with self._lock:
            goal = last if last is not None else (self._running[-1] if self._running else None)
        if goal is None:
            return
        goal.command.waitUntilCompleted()
        with self._lock:
            while self._running and self._running[0].number <= goal.number:
                self._end(self._running.popleft())

    def _retire(self) -> None:
        """Let go of what is done."""
        while self._running and self._running[0].is_done:
            self._end(self._running.popleft())

    def _end(self, done: Submission) -> None:
        self._ended = max(self._ended, float(done.command.GPUEndTime()))
        failure = done.failure()
        if failure is not None:
            self.device.note_failure(failure)
        done.kept.clear()

    def synchronize(self) -> None:
        """Wait for its work; raise what a kernel raised so far on the device."""
        self.finish()
        self.device.collect()

    @property
    def is_done(self) -> bool:
        """Whether all its work is finished, without waiting."""
        return self.pending() is None

    # ---- events ------------------------------------------------------------------------------

    def record(self, event: Event | None = None) -> Event:
        """Put an event (a new one without argument) behind the work so far."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def wait(self, event: Event) -> None:
        """Let later work wait for an event of this device.

        Raises
        ------
        LinkError
            For an event of another device, which Metal cannot wait for in a queue.
        """
        if event.device is not self.device:
            raise LinkError(f"an event of {event.device.name} cannot be waited for on {self.device.name}; synchronise")
        point = event.point
        if point is not None and point[0] is not self:
            with self._lock:
                self._waits.append((point[0].event, point[1].number))

    def end_of(self, work: Submission | None) -> float:
        """When work that is done ended, in the GPU's seconds."""
        return self._ended if work is None else float(work.command.GPUEndTime())


class Event:
    """A point in a queue's work.

    Parameters
    ----------
    device : MetalDevice
        Of the queues it will be recorded in.
    timing : bool
        Kept for the other targets' sake: Metal times every command buffer.
    """

    def __init__(self, device: MetalDevice, timing: bool = True) -> None:
        self.device = device
        self.point: tuple[Queue, Submission] | None = None
        self._queue: Queue | None = None
        self._recorded = 0.0

    def record(self, stream: Any = None) -> None:
        """Put it behind the work so far of a stream; of the current one without argument."""
        self._queue = self.device.queue_of(stream)
        last = self._queue.last
        self.point = None if last is None else (self._queue, last)
        self._recorded = time.monotonic()

    def synchronize(self) -> None:
        """Wait until the work before it is done; raise what a kernel raised so far on the device."""
        self._finish()
        self.device.collect()

    def _finish(self) -> None:
        if self.point is not None:
            self.point[0].finish(self.point[1])

    @property
    def is_done(self) -> bool:
        """Whether the work before it is done, without waiting."""
        return self.point is None or self.point[1].is_done

    @property
    def seconds(self) -> float:
        """When it happened: when the work before it had ended, not before it was recorded; waits for it.

        The GPU's clock is the host's (mach_absolute_time), which is Python's monotonic clock.
        """
        self._finish()
        if self._queue is None:
            raise ValueError("the event was not recorded; event.record(stream) puts it behind a stream's work")
        work = None if self.point is None else self.point[1]
        return max(self._recorded if work is None else 0.0, self._queue.end_of(work))

    def elapsed_ms(self, start: Event) -> float:
        """Milliseconds from `start` to this event; waits for this one."""
        end = self.seconds
        return 1e3 * (end - start.seconds)
