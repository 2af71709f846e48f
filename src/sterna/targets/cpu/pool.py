"""Threads that run the blocks of CPU launches, with the GIL released.

A launch is one native call that takes blocks from an atomic counter until none are left (the CPU ABI),
so any number of threads may make it at once, and the launching thread alone would also finish it.  The pool
therefore only *offers* help: it queues tickets for a launch, idle threads take them, and the launching thread
withdraws those still there when its own call returns.  It waits only for threads that are really inside, so
launches from many Python threads never wait for one another.

Why Python threads: they keep the interpreter's own rules (signals, fork hooks, callbacks that print), need no
native code of ours, and cost a few microseconds to wake, which `Pool.run` callers avoid for small launches.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from sterna.targets.cpu.threads import thread_count

__all__ = ["Pool", "pool"]

_STACK_BYTES = 8 << 20
Entry = Callable[[Any, Any], None]


class _Launch:
    """One launch on offer: what to call, tickets not yet taken, threads that are inside, their sign-off."""

    __slots__ = ("args", "block", "entry", "finished", "running", "tickets")

    def __init__(self, entry: Entry, args: Any, block: Any, tickets: int) -> None:
        self.entry, self.args, self.block = entry, args, block
        self.tickets = [None] * tickets
        self.running: set[object] = set()
        self.finished: SimpleQueue[None] = SimpleQueue()

    def help(self) -> None:
        """A pool thread's part: enter, run if a ticket is left, sign off."""
        token = object()
        self.running.add(token)  # before the ticket, so that `close` never overlooks a thread that has one
        try:
            self.tickets.pop()
            self.entry(self.args, self.block)
        except IndexError:
            pass  # withdrawn
        finally:
            self.running.discard(token)
            self.finished.put(None)

    def close(self) -> None:
        """Withdraw the tickets and wait for the threads inside; an interrupt is raised only after that."""
        interrupt: BaseException | None = None
        while True:
            try:
                self.tickets.clear()
                while self.running:
                    self.finished.get()
                break
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt


class Pool:
    """Helper threads, started when a launch wants them and kept.

    Parameters
    ----------
    threads : int
        Most threads of a launch, the launching one included.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._queue: SimpleQueue[_Launch | None] = SimpleQueue()
        self._workers: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._most = threads - 1

    def run(self, entry: Entry, args: Any, block: Any, helpers: int) -> None:
        """Call ``entry(args, block)`` in this thread and in up to `helpers` others; return when all have.

        Parameters
        ----------
        entry : function
            A ctypes function that releases the GIL.
        args, block : object
            Its arguments; kept alive until every call has returned.
        helpers : int
            How many more threads could be useful.
        """
        helpers = min(helpers, self._most)
        if helpers > len(self._workers):
            helpers = self._start(helpers)
        if helpers <= 0:
            entry(args, block)
            return
        launch = _Launch(entry, args, block, helpers)
        try:
            for _ in range(helpers):
                self._queue.put(launch)
            entry(args, block)
        finally:
            launch.close()

    def stop(self) -> None:
        """End the threads; later launches run in the launching thread alone."""
        with self._lock:
            self._most = 0
            workers, self._workers = self._workers, []
        for _ in workers:
            self._queue.put(None)
        for worker in workers:
            worker.join(timeout=5)

    def forget(self) -> None:
        """In a forked child: the threads are gone, and the lock may be held by one of them."""
        self._lock, self._workers, self._most = threading.Lock(), [], 0

    def _start(self, wanted: int) -> int:
        """Have `wanted` threads if possible; the number there are."""
        with self._lock:
            while len(self._workers) < min(wanted, self._most):
                name = f"sterna-{len(self._workers) + 1}"
                worker = threading.Thread(target=_work, args=(self._queue,), name=name, daemon=True)
                try:
                    _start_with_stack(worker)
                except RuntimeError:  # no more threads to be had, or the interpreter is ending
                    self._most = len(self._workers)
                    break
                self._workers.append(worker)
            return min(wanted, len(self._workers))


def _start_with_stack(worker: threading.Thread) -> None:
    """Start a thread with room for a kernel's local arrays, which some systems' default has not."""
    before = threading.stack_size(_STACK_BYTES)
    try:
        worker.start()
    finally:
        threading.stack_size(before)


def _work(queue: SimpleQueue[_Launch | None]) -> None:
    """Life of a pool thread."""
    while (launch := queue.get()) is not None:
        launch.help()
        del launch  # its arguments must not live until the next one comes


_pool: Pool | None = None
_pool_lock = threading.Lock()


def pool() -> Pool:
    """The pool of this process; a forked child gets its own."""
    global _pool
    found = _pool
    if found is None:
        with _pool_lock:
            if _pool is None:
                _pool = Pool(thread_count())
                atexit.register(_pool.stop)
            found = _pool
    return found


def _after_fork() -> None:
    global _pool, _pool_lock
    if _pool is not None:
        _pool.forget()
    _pool, _pool_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
