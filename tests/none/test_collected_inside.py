"""Kernels are collected wherever Python allocates, also while locks are held that unloading takes too."""

from __future__ import annotations

import gc
import importlib
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import sterna
from sterna.relocation.record import RefKind, RelocationRecord
from sterna.relocation.roots import Holder
from sterna.runtime.exceptions import PendingFailures

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


@pytest.mark.parametrize(
    ("target", "page"), [("cuda", "HostAllocation"), ("metal", "SharedBuffer"), ("opencl", "SharedBytes")]
)
def test_a_record_comes_back_while_others_are_made(monkeypatch, target, page):
    records = importlib.import_module(f"sterna.targets.{target}.records")
    pool = records.RecordPool(SimpleNamespace(generation=0))

    def made(page: Any, start: int) -> Any:
        record = SimpleNamespace(_page=page, clear=lambda: None)
        if start == 0:
            pool.give(back[0] if back else back.append(record) or record)
        return record

    back: list[Any] = []
    monkeypatch.setattr(records, page, lambda *given: object())
    monkeypatch.setattr(records, "Record", made)
    taken: list[Any] = []
    finishes(lambda: taken.append(pool.take()))
    assert len(taken) == 1
    assert any(record is back[0] for record in [*taken, *pool._free]), "it is not lost"


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
