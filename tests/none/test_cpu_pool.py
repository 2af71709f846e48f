"""The thread pool: every block once, many launching threads, fork, exit, interrupts, sleep."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llvmlite")

from helpers.native import host_object
from sterna.abi import LAUNCH_FIELDS
from sterna.targets.cpu.loader import host_machine
from sterna.targets.cpu.pool import Pool, pool
from sterna.targets.cpu.threads import thread_count

pytestmark = pytest.mark.skipif(host_machine() != 62, reason="the pool's functions are built for x86-64 here")

ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class Entry:
    """A kernel's entry in Python: counts calls, which wait for one another until `meet` are inside."""

    def __init__(self, meet: int = 1, then: Any = None) -> None:
        self.barrier = threading.Barrier(meet)
        self.names, self.calls, self.parts, self.then = set(), [], [], then
        self.native = ENTRY(self._call)

    def _call(self, args: int, launch: int, part: int) -> None:
        self.names.add(threading.current_thread().name)
        if self.then is not None:
            self.then()
        self.barrier.wait(30)
        self.calls.append((ctypes.string_at(args), launch))
        self.parts.append(part)


class Launch:
    """A launch structure with what the pool reads of it."""

    def __init__(self, entry: Entry, helpers: int) -> None:
        self.memory = (ctypes.c_uint64 * 64)()
        self.address = ctypes.addressof(self.memory)
        self.memory[LAUNCH_FIELDS["entry"]] = ctypes.cast(entry.native, ctypes.c_void_p).value
        self.memory[LAUNCH_FIELDS["parts"]] = helpers + 1


def make(threads: int) -> Pool:
    return Pool(threads, host_object())


def run(threads: Pool, entry: Entry, helpers: int, args: bytes = b"a") -> Launch:
    launch = Launch(entry, helpers)
    threads.run(entry.native, args, launch, helpers)
    return launch


def wait_until(true: Any) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_launch_calls_in_this_thread_and_in_helpers() -> None:
    threads = make(4)
    entry = Entry(meet=4)
    launch = run(threads, entry, 3)
    assert len(entry.calls) == 4 and set(entry.calls) == {(b"a", launch.address)}
    assert entry.names == {threading.current_thread().name, "sterna-1", "sterna-2", "sterna-3"}
    assert sorted(entry.parts) == [0, 1, 2, 3], "each begins with a range of its own"
    threads.stop()


def test_helpers_are_started_only_as_wanted() -> None:
    threads = make(8)
    run(threads, Entry(), 0)
    assert threads._workers == []
    run(threads, Entry(), 2)
    assert len(threads._workers) == 2
    run(threads, Entry(), 100)
    assert len(threads._workers) == 7
    threads.stop()
    assert threads._workers == []


def test_threads_with_nothing_to_do_sleep_and_are_woken() -> None:
    threads = make(3)
    for _ in range(20):
        entry = Entry(meet=3)
        run(threads, entry, 2)
        assert len(entry.calls) == 3
        wait_until(lambda: len(threads.sleeping) == 2)
    threads.stop()


def test_one_helper_of_many_is_woken() -> None:
    threads = make(5)
    run(threads, Entry(meet=5), 4)
    wait_until(lambda: len(threads.sleeping) == 4)
    entry = Entry(meet=2)
    run(threads, entry, 1)
    assert len(entry.calls) == 2 and all(0 <= part < 2 for part in entry.parts)
    threads.stop()


def test_a_finished_launch_withdraws_its_tickets() -> None:
    threads = make(2)
    go = threading.Event()
    slow, quick = Entry(meet=2, then=lambda: go.wait(30)), Entry()
    other = threading.Thread(target=run, args=(threads, slow, 1))
    other.start()
    wait_until(lambda: len(slow.names) == 2)
    run(threads, quick, 1)
    assert slow.calls == [], "it does not wait for a busy helper"
    assert len(quick.calls) == 1
    go.set()
    other.join()
    run(threads, Entry(meet=2), 1)
    assert len(slow.calls) == 2 and len(quick.calls) == 1, "a withdrawn ticket is not used later"
    threads.stop()


def test_a_free_helper_joins_a_launch_that_has_begun() -> None:
    threads = make(2)
    go = threading.Event()
    first, second = Entry(meet=2, then=lambda: go.wait(30)), Entry(meet=2, then=go.set)
    other = threading.Thread(target=run, args=(threads, first, 1))
    other.start()
    wait_until(lambda: len(first.names) == 2)
    run(threads, second, 1)
    other.join()
    assert second.names == {threading.current_thread().name, "sterna-1"} and len(second.calls) == 2
    threads.stop()


def test_many_threads_launch_at_once() -> None:
    threads = make(3)
    failures = []

    def work(number: int) -> None:
        for turn in range(200):
            entry = Entry()
            launch = run(threads, entry, 2, bytes([number + 1]))
            if not 1 <= len(entry.calls) <= 3 or set(entry.calls) != {(bytes([number + 1]), launch.address)}:
                failures.append((number, turn, entry.calls))

    workers = [threading.Thread(target=work, args=(n,)) for n in range(20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    assert len(threads.board.free) == threads.board._count.value
    threads.stop()


def test_more_launches_than_places_run_in_their_own_threads() -> None:
    threads = make(2)
    go = threading.Event()
    entries = [Entry(then=lambda: go.wait(30)) for _ in range(20)]
    callers = [threading.Thread(target=run, args=(threads, entry, 1)) for entry in entries]
    for caller in callers:
        caller.start()
    wait_until(lambda: all(entry.names for entry in entries))
    go.set()
    for caller in callers:
        caller.join()
    assert all(1 <= len(entry.calls) <= 2 for entry in entries)
    assert threads.board._count.value == len(threads.board.free) == 16
    threads.stop()


def test_after_stop_launches_run_in_the_caller() -> None:
    threads = make(4)
    threads.stop()
    entry = Entry()
    run(threads, entry, 3)
    assert entry.names == {threading.current_thread().name}


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_is_raised_after_the_helpers_are_out() -> None:
    threads = make(2)
    main, inside = threading.current_thread(), []

    def then() -> None:
        if threading.current_thread() is main:
            wait_until(lambda: inside)
        else:
            inside.append("in")
            time.sleep(0.1)  # the launching thread waits in native code by then
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            inside.append("out")

    entry = Entry(then=then)
    with pytest.raises(KeyboardInterrupt):
        run(threads, entry, 1)
    assert inside == ["in", "out"]
    assert len(entry.calls) == 2
    run(threads, Entry(), 1)
    threads.stop()


def test_thread_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STERNA_NUM_THREADS", raising=False)
    if hasattr(os, "sched_getaffinity"):
        assert thread_count() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("STERNA_NUM_THREADS", "5")
    assert thread_count() == 5
    for text in ("0", "-1", "two"):
        monkeypatch.setenv("STERNA_NUM_THREADS", text)
        with pytest.raises(ValueError, match="STERNA_NUM_THREADS"):
            thread_count()


def fresh(code: str, threads: int) -> subprocess.CompletedProcess[str]:
    here = Path(__file__).parent
    paths = [str(here), str(here.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "STERNA_NUM_THREADS": str(threads), "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )


FORK = """
import os
from test_cpu_pool import Entry, pool, run, host_object
def names():
    entry = Entry(meet=2)
    run(pool(host_object()), entry, 1)
    return len(entry.names)
assert names() == 2
child = os.fork()
if child == 0:
    os._exit(0 if names() == 2 else 1)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0
print("parent still works:", names())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_its_own_threads() -> None:
    done = fresh(FORK, 2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "parent still works: 2"


EXIT = """
import atexit
from test_cpu_pool import Entry, pool, run, host_object
def last():
    entry = Entry()
    run(pool(host_object()), entry, 3)
    print("at exit:", *entry.names)
atexit.register(last)
run(pool(host_object()), Entry(), 3)
"""


def test_the_interpreter_ends_cleanly() -> None:
    done = fresh(EXIT, 4)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "at exit: MainThread", "")


def test_the_pool_of_the_process_is_one() -> None:
    assert pool(host_object()) is pool(host_object())


GROWN = """
import os
os.environ["STERNA_NUM_THREADS"] = "1"
import numpy as np, sterna

@sterna.kernel
def add(x):
    x[sterna.grid(1)] += 1

x, y = np.zeros(1_000_000), np.zeros(2_000_000)
add.over(x.size)(x)
os.environ["STERNA_NUM_THREADS"] = "4"
for _ in range(40):
    add.over(y.size)(y)
print((x == 1).all() and (y == 40).all())
"""


def test_the_number_of_threads_may_grow_during_a_process(tmp_path: Path) -> None:
    (tmp_path / "grown.py").write_text(GROWN)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "grown.py")], capture_output=True, text=True, timeout=60,
        env={**os.environ, "STERNA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr
