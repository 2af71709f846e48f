"""Exception records of loaded kernels, in memory that a device and the host share: a kernel writes, the host looks.

A failing thread fills the record of its kernel and leaves; nothing traps, so the device goes on working.  A target
says what a page of such memory is (`RecordPool.make_page`) and where its bytes are (`RecordPool.make_record`).

Invariant: a record in a pool is clear.
"""

from __future__ import annotations

import threading
from typing import Any

from sterna.runtime.exceptions import RECORD_BYTES, ExceptionRecord

__all__ = ["Record", "RecordPool"]

_STRIDE = -(-RECORD_BYTES // 128) * 128
_WRITTEN = 2


class Record:
    """One kernel's record.

    Parameters
    ----------
    page : object
        What it is part of.
    memory : memoryview
        All bytes of the page, as the host sees them.
    offset : int
        Where in the page it begins.

    Attributes
    ----------
    page : object
        What it is part of; it is kept alive.
    address : int
        As kernels see it.
    """

    __slots__ = ("_bytes", "_status", "address", "page")

    def __init__(self, page: Any, memory: memoryview, offset: int) -> None:
        self.page, self.address = page, page.address + offset
        self._bytes = memory[offset : offset + RECORD_BYTES]
        self._status = self._bytes[:4].cast("i")

    @property
    def is_written(self) -> bool:
        """Whether a thread has failed and finished writing, as far as the host sees."""
        return self._status[0] == _WRITTEN

    def take(self) -> ExceptionRecord | None:
        """What was written, if a thread has failed; the record is free again."""
        found = ExceptionRecord.unpack(self._bytes)
        if found is not None:
            self.clear()
        return found

    def clear(self) -> None:
        """Make it free."""
        self._bytes[:] = bytes(RECORD_BYTES)


class RecordPool:
    """Records of one device; a page of them at a time.

    Attributes
    ----------
    pages : list
        What `make_page` gave.
    """

    per_page = 512

    def __init__(self) -> None:
        self.pages: list[Any] = []
        self._lock = threading.RLock()  # a kernel may be collected, and give its record back, inside
        self._free: list[Record] = []

    def make_page(self, nbytes: int) -> Any:
        """Memory that is 0 and has an ``address``."""
        raise NotImplementedError

    def make_record(self, page: Any, offset: int) -> Record:
        """The record at an offset of a page."""
        raise NotImplementedError

    def take(self) -> Record:
        """A free record."""
        with self._lock:
            if not self._free:
                page = self.make_page(self.per_page * _STRIDE)
                self.pages.append(page)
                self._free.extend([self.make_record(page, n * _STRIDE) for n in reversed(range(self.per_page))])
            return self._free.pop()

    def give(self, record: Record) -> None:
        """Return a record whose kernel is unloaded, and which nothing writes any more."""
        if any(record.page is page for page in list(self.pages)):
            record.clear()
            with self._lock:
                self._free.append(record)

    def forget(self) -> None:
        """The memory of all records is gone."""
        with self._lock:
            self.pages, self._free = [], []
