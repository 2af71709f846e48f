"""Threads that run the blocks of CPU launches, in native code and with the GIL released.

A launch is one native call that takes blocks from shared counters until none are left (the CPU ABI), so any number of
threads may make it at once, and the launching thread alone would also finish it.  The pool therefore only *offers*
help: a launch stands on a board with some tickets, threads of the pool take them, and the launching thread withdraws
those still there when its own call returns.  It waits only for threads that are really inside, so launches from many
Python threads never wait for one another.

A thread of the pool that has nothing to do looks at the board for a little while, in native code (`sterna_team_work`,
which every CPU image has), and then sleeps in Python until a launch wakes it.  Launches that follow one another
closely are thus joined within a microsecond, by threads that keep their processors and what those have in their caches.

Why Python threads: they keep the interpreter's own rules (signals, fork hooks, callbacks that print), and waking one
costs a few microseconds, which callers of `Pool.run` avoid for small launches.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol

from sterna.host_abi import OFFER_FIELDS, TEAM
from sterna.targets.cpu.hostcode import host_functions
from sterna.targets.cpu.threads import thread_count

__all__ = ["Launch", "Pool", "pool"]

_STACK_BYTES = 8 << 20
_AWAKE_NS = 300_000
"""How long a thread with nothing to do looks for a launch before it sleeps."""
_LAST_LOOK = 16
"""The part of that time for which it looks once more after it is listed as sleeping."""
_TRIAL_SPINS = 500
_PLACES = 16
"""Launches that can be on offer at once; more run in their own threads alone."""
_PLACE_BYTES = 8 * OFFER_FIELDS["words"]
_FIRST_NAP, _LONGEST_NAP = 20e-6, 1e-3
"""Seconds between two looks at a launch whose last blocks take long."""
Entry = Callable[[Any, Any, int], None]


class Launch(Protocol):
    """A launch structure."""

    @property
    def address(self) -> int:
        """Where it lies."""
        ...


class _Team:
    """The native functions."""

    __slots__ = ("launch", "offer", "run", "wait", "work")

    def __init__(self, host: bytes) -> None:
        source = host_functions(host)
        word, pointer = ctypes.c_int64, ctypes.c_void_p
        offer, launch = (ctypes.CFUNCTYPE(kind, ctypes.c_char_p, pointer, pointer) for kind in (None, word))
        self.offer: Any = offer(source.entry(TEAM["offer"]))
        self.launch: Any = launch(source.entry(TEAM["launch"]))
        self.run: Any = ctypes.CFUNCTYPE(word, pointer)(source.entry(TEAM["run"]))
        self.wait: Any = ctypes.CFUNCTYPE(word, pointer)(source.entry(TEAM["wait"]))
        self.work: Any = ctypes.CFUNCTYPE(word, pointer, word, word)(source.entry(TEAM["work"]))


class _Board:
    """Places for launches on offer, in memory that the native functions read; each has cache lines of its own.

    Attributes
    ----------
    address : int
        Where it lies.
    free : list of int
        Addresses of places that nobody uses.
    """

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer((_PLACES + 2) * _PLACE_BYTES)
        self.address = -(-ctypes.addressof(self._memory) // _PLACE_BYTES) * _PLACE_BYTES
        self._count = ctypes.c_int64.from_address(self.address)
        self.free: list[int] = []

    def new_place(self) -> int:
        """Address of one more place, or 0."""
        with _pool_lock:
            number = self._count.value
            if number == _PLACES:
                return 0
            self._count.value = number + 1
        return self.address + (number + 1) * _PLACE_BYTES

    def has_others(self) -> bool:
        """Whether more than one launch is on offer."""
        return self._count.value - len(self.free) > 1


class _Worker:
    """A thread of the pool."""

    def __init__(self, number: int, owner: Pool) -> None:
        self.number, self.wake = number, SimpleQueue[bool]()
        self.thread = threading.Thread(target=self._run, args=(owner,), name=f"sterna-{number}", daemon=True)

    def _run(self, owner: Pool) -> None:
        """Life of the thread: look for launches, sleep, until False says that it is over."""
        work, board, sleeping = owner.team.work, owner.board.address, owner.sleeping
        spins = _spins(work)
        awake = True
        while awake:
            work(board, self.number, spins)
            sleeping.append(self)
            # a launch that saw the list before is on the board in a moment
            if not (work(board, self.number, spins // _LAST_LOOK) and self._has_left(sleeping)):
                awake = self.wake.get()

    def _has_left(self, sleeping: list[_Worker]) -> bool:
        """Whether the thread, given work before it could be woken, is no longer listed as sleeping."""
        try:
            sleeping.remove(self)
        except ValueError:  # another launch has woken it
            return False
        return True


def _spins(work: Any) -> int:
    """Turns of `work` that last about `_AWAKE_NS`."""
    nothing = ctypes.c_int64(0)
    start = time.thread_time_ns()
    work(ctypes.addressof(nothing), 0, _TRIAL_SPINS)
    taken = time.thread_time_ns() - start
    return max(_AWAKE_NS * _TRIAL_SPINS // max(taken, 1), _TRIAL_SPINS)


class Pool:
    """Helper threads, started when a launch wants them and kept.

    Parameters
    ----------
    threads : int
        Most threads of a launch, the launching one included.
    host : bytes
        Object of the host functions, as images have it.
    """

    def __init__(self, threads: int, host: bytes) -> None:
        self.team, self.board = _Team(host), _Board()
        self.sleeping: list[_Worker] = []
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()
        self._most, self._ready = threads - 1, 0
        self._free, self._launch = self.board.free, self.team.launch  # at hand: a launch may find nothing in the caches

    def run(self, entry: Entry, args: bytes, launch: Launch, helpers: int) -> None:
        """Run a launch in this thread and in up to `helpers` others; return when all have left it.

        Parameters
        ----------
        entry : function
            The kernel's entry, called where no help is to be had.
        args : bytes
            Packed arguments.
        launch : object
            The launch structure, whose blocks are in ``helpers + 1`` ranges.
        helpers : int
            How many more threads could be useful.
        """
        if helpers > self._ready:
            helpers = self._start(helpers)
        try:
            place = self._free.pop() if helpers > 0 else 0
        except IndexError:
            place = self.board.new_place()
        if not place:
            entry(args, launch.address, 0)
            return
        try:
            if self.sleeping:
                self.team.offer(args, launch.address, place)
                self._wake(helpers)  # whom the offer is there for
                inside = self.team.run(place)
            else:
                inside = self._launch(args, launch.address, place)
            if inside:
                self._wait(place)
        except BaseException:
            self._wait(place)
            raise
        finally:
            self._free.append(place)

    def _wait(self, place: int) -> None:
        """Wait for the threads inside a launch; an interrupt is raised only after that."""
        interrupt: BaseException | None = None
        inside, nap = 1, _FIRST_NAP
        while inside:
            try:
                inside = self.team.wait(place)
                if inside:
                    time.sleep(nap)
                    nap = min(2 * nap, _LONGEST_NAP)
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def stop(self) -> None:
        """End the threads; later launches run in the launching thread alone."""
        with self._lock:
            self._most = self._ready = 0
            workers, self._workers = self._workers, []
        for worker in workers:
            worker.wake.put(False)
        for worker in workers:
            worker.thread.join(timeout=5)

    def forget(self) -> None:
        """In a forked child: the threads are gone, and the lock may be held by one of them."""
        self._lock, self._workers, self.sleeping, self._most, self._ready = threading.Lock(), [], [], 0, 0

    def _wake(self, helpers: int) -> None:
        """Wake as many threads as are wanted beyond those that look at the board; they may be busy elsewhere."""
        sleeping = self.sleeping
        wanted = helpers if self.board.has_others() else helpers - len(self._workers) + len(sleeping)
        for _ in range(wanted):
            try:
                sleeping.pop().wake.put(True)
            except IndexError:
                break

    def _start(self, wanted: int) -> int:
        """Have `wanted` threads if possible; the number there are."""
        with self._lock:
            while len(self._workers) < min(wanted, self._most):
                worker = _Worker(len(self._workers) + 1, self)
                try:
                    _start_with_stack(worker.thread)
                except RuntimeError:  # no more threads to be had, or the interpreter is ending
                    self._most = len(self._workers)
                    break
                self._workers.append(worker)
            self._ready = len(self._workers)
            return min(wanted, self._ready)


def _start_with_stack(thread: threading.Thread) -> None:
    """Start a thread with room for a kernel's local arrays, which some systems' default has not."""
    before = threading.stack_size(_STACK_BYTES)
    try:
        thread.start()
    finally:
        threading.stack_size(before)


_pool: Pool | None = None
_pool_lock = threading.Lock()


def pool(host: bytes) -> Pool:
    """The pool of this process, made with these host functions by the first call; a forked child gets its own."""
    global _pool
    found = _pool
    if found is None:
        with _pool_lock:
            if _pool is None:
                _pool = Pool(thread_count(), host)
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
