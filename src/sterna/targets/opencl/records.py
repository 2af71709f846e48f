"""Exception records of loaded kernels, in memory that the host reads: a kernel writes, the host looks.

A failing thread fills the record of its kernel and leaves; the device goes on working.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sterna.runtime.exceptions import RECORD_BYTES, ExceptionRecord
from sterna.targets.opencl.memory import SharedBytes

if TYPE_CHECKING:
    from sterna.targets.opencl.device import OpenclDevice

__all__ = ["Record", "RecordPool"]

_STRIDE = -(-RECORD_BYTES // 128) * 128
_PER_PAGE = 512
_WRITTEN = 2


class Record:
    """One kernel's record.

    Attributes
    ----------
    address : int
        As kernels see it.
    """

    __slots__ = ("_bytes", "_page", "_start", "address")

    def __init__(self, page: SharedBytes, start: int) -> None:
        self._page, self._start = page, start
        self.address = page.address + start
        self._bytes = page.data[start : start + RECORD_BYTES]

    @property
    def is_written(self) -> bool:
        """Whether a thread has failed and finished writing (as of the last `RecordPool.fetch`)."""
        return int.from_bytes(self._bytes[:4], "little") == _WRITTEN

    def take(self) -> ExceptionRecord | None:
        """What was written; the record is free again."""
        found = ExceptionRecord.unpack(self._bytes)
        self.clear()
        return found

    def clear(self) -> None:
        """Make it free."""
        self._bytes[:] = bytes(RECORD_BYTES)
        self._page.store(self._start, RECORD_BYTES)


class RecordPool:
    """Records of one device."""

    def __init__(self, device: OpenclDevice) -> None:
        self._device = device
        self._lock = threading.RLock()  # a kernel may be collected, and give its record back, inside
        self._free: list[Record] = []
        self._pages: list[SharedBytes] = []

    def take(self) -> Record:
        """A free record."""
        with self._lock:
            if not self._free:
                page = SharedBytes(self._device, _PER_PAGE * _STRIDE)
                self._pages.append(page)
                self._free.extend([Record(page, n * _STRIDE) for n in reversed(range(_PER_PAGE))])
            return self._free.pop()

    def give(self, record: Record) -> None:
        """Return a record whose kernel is unloaded."""
        record.clear()
        with self._lock:
            self._free.append(record)

    def fetch(self) -> None:
        """See what kernels wrote."""
        for page in list(self._pages):
            page.fetch()
