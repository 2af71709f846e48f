"""Kernels are collected wherever Python allocates, also while locks are held that unloading takes too."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import sterna
from sterna.relocation.record import RefKind, RelocationRecord
from sterna.relocation.roots import Holder
from sterna.runtime.exceptions import PendingFailures
from sterna.runtime.records import RecordPool

RECORD = RelocationRecord("slot_0", 0, RefKind.GLOBAL, "globals:GAIN", type="float32")


def finishes(call: Callable[[], None]) -> None:
    """Fail, rather than hang, when `call` waits for itself."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "it waits for a lock that it holds"


def test_a_holder_is_collected_while_another_is_filled():
    old = Holder()
    old.hold([object()])
    cycle: list[Any] = [old]
    cycle.append(cycle)
    del old, cycle

    def values() -> Iterator[object]:
        gc.collect()
        yield object()

    new = Holder()
    finishes(lambda: new.hold(values()))
    new.release()


def test_a_record_comes_back_while_others_are_made():
    class Pool(RecordPool):
        per_page = 1

        def make_page(self, nbytes: int) -> Any:
            return SimpleNamespace(address=0)

        def make_record(self, page: Any, offset: int) -> Any:
            if taken:
                self.give(taken[0])  # its kernel is collected here
            made.append(SimpleNamespace(page=page, clear=lambda: None))
            return made[-1]

    taken: list[Any] = []
    made: list[Any] = []
    pool = Pool()
    taken.append(pool.take())
    finishes(lambda: taken.append(pool.take()))
    first, second = taken
    assert {id(record) for record in [second, *pool._free]} == {id(first), id(made[1])}, "none is lost or twice in use"


def test_a_kernel_is_collected_while_a_number_is_written():
    value = sterna.Global(2.0, "float32")

    class Module:
        def __init__(self, other: Any = None) -> None:
            self.other, self.words = other, []

        def write_word(self, record: RelocationRecord, word: int, stream: Any = None) -> None:
            self.words.append(word)
            if self.other is not None:
                value.detach(self.other, record)

    first = Module()
    second = Module(first)
    value.attach(first, RECORD)
    finishes(lambda: value.attach(second, RECORD))
    finishes(lambda: value.set(3.0))
    assert (len(first.words), len(second.words)) == (1, 2)


def test_a_failure_is_added_while_failures_are_taken():
    pending = PendingFailures()

    class Adding(list):
        def append(self, failure: Any) -> None:
            super().append(failure)
            if len(self) == 1:
                pending.add("second")  # type: ignore[arg-type]

    pending._failures = Adding()
    finishes(lambda: pending.add("first"))  # type: ignore[arg-type]
    assert pending.any
    assert pending.take() == ["first", "second"]
    assert not pending.any
