"""The thread pool: every block once, many launching threads, fork, exit, interrupts."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from sterna.targets.cpu.pool import Pool, pool
from sterna.targets.cpu.threads import thread_count


class Entry:
    """Counts calls; each lasts `seconds` with the GIL released."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.names, self.calls = seconds, set(), []

    def __call__(self, args: object, block: object) -> None:
        if self.seconds:
            time.sleep(self.seconds)
        self.names.add(threading.current_thread().name)
        self.calls.append((args, block))


def test_a_launch_calls_in_this_thread_and_in_helpers() -> None:
    threads = Pool(4)
    entry = Entry(0.05)
    threads.run(entry, b"a", "block", 3)
    assert len(entry.calls) == 4 and set(entry.calls) == {(b"a", "block")}
    assert entry.names == {threading.current_thread().name, "sterna-1", "sterna-2", "sterna-3"}
    threads.stop()


def test_helpers_are_started_only_as_wanted() -> None:
    threads = Pool(8)
    threads.run(Entry(), b"", None, 0)
    assert threads._workers == []
    threads.run(Entry(), b"", None, 2)
    assert len(threads._workers) == 2
    threads.run(Entry(), b"", None, 100)
    assert len(threads._workers) == 7
    threads.stop()
    assert threads._workers == []


def test_a_finished_launch_withdraws_its_tickets() -> None:
    threads = Pool(2)
    threads.run(Entry(), b"", None, 1)
    slow, quick = Entry(0.3), Entry()
    other = threading.Thread(target=threads.run, args=(slow, b"", None, 1))
    other.start()
    time.sleep(0.1)
    start = time.perf_counter()
    threads.run(quick, b"", None, 1)
    assert time.perf_counter() - start < 0.15, "it does not wait for a busy helper"
    assert len(quick.calls) == 1
    other.join()
    time.sleep(0.05)
    assert len(quick.calls) == 1, "a withdrawn ticket is not used later"
    threads.stop()


def test_many_threads_launch_at_once() -> None:
    threads = Pool(3)
    failures = []

    def work(number: int) -> None:
        for turn in range(200):
            entry = Entry()
            threads.run(entry, bytes([number]), turn, 2)
            if not 1 <= len(entry.calls) <= 3 or set(entry.calls) != {(bytes([number]), turn)}:
                failures.append((number, turn, entry.calls))

    workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    threads.stop()


def test_after_stop_launches_run_in_the_caller() -> None:
    threads = Pool(4)
    threads.stop()
    entry = Entry()
    threads.run(entry, b"", None, 3)
    assert entry.names == {threading.current_thread().name}


def test_an_interrupt_is_raised_after_the_helpers_are_out() -> None:
    threads = Pool(2)
    inside = []

    def entry(args: object, block: object) -> None:
        if threading.current_thread() is threading.main_thread():
            while not inside:
                time.sleep(0.001)
            raise KeyboardInterrupt
        inside.append("in")
        time.sleep(0.1)
        inside.append("out")

    with pytest.raises(KeyboardInterrupt):
        threads.run(entry, b"", None, 1)
    assert inside == ["in", "out"]
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


FORK = """
import os, threading
from sterna.targets.cpu.pool import pool
names = set()
def entry(args, block):
    import time; time.sleep(0.05)
    names.add(threading.current_thread().name)
pool().run(entry, b"", None, 1)
child = os.fork()
if child == 0:
    names.clear()
    pool().run(entry, b"", None, 1)
    os._exit(0 if len(names) == 2 else 1)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0
print("parent still works:", (names.clear(), pool().run(entry, b"", None, 1), len(names))[-1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_its_own_threads() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], env={**os.environ, "STERNA_NUM_THREADS": "2"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "parent still works: 2"


EXIT = """
import atexit, threading
from sterna.targets.cpu.pool import pool
calls = []
def entry(args, block):
    calls.append(threading.current_thread().name)
atexit.register(lambda: (pool().run(entry, b"", None, 3), print("at exit:", calls[-1])))
pool().run(entry, b"", None, 3)
"""


def test_the_interpreter_ends_cleanly() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXIT], env={**os.environ, "STERNA_NUM_THREADS": "4"}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "at exit: MainThread", "")


def test_the_pool_of_the_process_is_one() -> None:
    assert pool() is pool()
