"""Exception records of loaded kernels, in mapped host memory: a kernel writes, the host looks.

A failing thread fills the record of its kernel and leaves; nothing traps, so the context goes on working.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from sterna.runtime.exceptions import RECORD_BYTES, ExceptionRecord
from sterna.targets.cuda.context import Context
from sterna.targets.cuda.memory import HostAllocation

__all__ = ["Record", "RecordPool"]

_STRIDE = -(-RECORD_BYTES // 128) * 128
_PER_PAGE = 512


class Record:
    """One kernel's record.

    Attributes
    ----------
    address : int
        As kernels see it.
    """

    __slots__ = ("_bytes", "_page", "_start", "_status", "address")

    def __init__(self, page: HostAllocation, offset: int) -> None:
        self._page, self._start = page, page.host + offset
        self.address = page.address + offset
        self._bytes = memoryview(page.buffer.data)[offset : offset + RECORD_BYTES]
        self._status = self._bytes[:4].cast("i")

    @property
    def is_written(self) -> bool:
        """Whether a thread has failed and finished writing."""
        return self._status[0] == 2

    def take(self) -> ExceptionRecord | None:
        """What was written; the record is free again."""
        found = ExceptionRecord.unpack(self._bytes)
        self.clear()
        return found

    def clear(self) -> None:
        """Make it free."""
        ctypes.memset(self._start, 0, RECORD_BYTES)


class RecordPool:
    """Records of one context."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._generation = -1
        self._lock = threading.RLock()  # a kernel may be collected, and give its record back, inside
        self._free: list[Record] = []
        self._pages: list[Any] = []

    def take(self) -> Record:
        """A free record."""
        with self._lock:
            if self._generation != self._context.generation:
                self._free, self._pages, self._generation = [], [], self._context.generation
            if not self._free:
                page = HostAllocation(self._context, _PER_PAGE * _STRIDE)
                self._pages.append(page)
                self._free.extend([Record(page, n * _STRIDE) for n in reversed(range(_PER_PAGE))])
            record = self._free.pop()
        record.clear()
        return record

    def give(self, record: Record) -> None:
        """Return a record whose kernel is unloaded."""
        with self._lock:
            if any(record._page is page for page in self._pages):
                self._free.append(record)
