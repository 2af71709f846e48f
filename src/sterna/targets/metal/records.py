"""Exception records of loaded kernels, in memory that the host and the GPU share.

A failing thread fills the record of its kernel and leaves.  The host looks after the launch has ended: only then does
Metal promise that it sees what the GPU wrote.
"""

from __future__ import annotations

import threading
from typing import Any

from sterna.runtime.exceptions import RECORD_BYTES, ExceptionRecord
from sterna.targets.metal.memory import SharedBuffer

__all__ = ["Record", "RecordPool"]

_STRIDE = -(-RECORD_BYTES // 128) * 128
_PER_PAGE = 128


class Record:
    """One kernel's record.

    Attributes
    ----------
    page : SharedBuffer
        What it is part of.
    address : int
        As kernels see it.
    """

    __slots__ = ("_bytes", "address", "page")

    def __init__(self, page: SharedBuffer, offset: int) -> None:
        self.page, self.address = page, page.address + offset
        self._bytes = page.bytes[offset : offset + RECORD_BYTES]

    def take(self) -> ExceptionRecord | None:
        """What a thread has written, if one has failed; the record is free again then."""
        found = ExceptionRecord.unpack(self._bytes)
        if found is not None:
            self.clear()
        return found

    def clear(self) -> None:
        """Make it free."""
        self._bytes[:] = bytes(RECORD_BYTES)


class RecordPool:
    """Records of one device."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._lock = threading.RLock()  # a kernel may be collected, and give its record back, inside
        self._free: list[Record] = []

    def take(self) -> Record:
        """A free record."""
        with self._lock:
            if not self._free:
                page = SharedBuffer(self._device, _PER_PAGE * _STRIDE)
                self._free.extend([Record(page, n * _STRIDE) for n in reversed(range(_PER_PAGE))])
            record = self._free.pop()
        record.clear()
        return record

    def give(self, record: Record) -> None:
        """Return a record whose kernel is unloaded."""
        with self._lock:
            self._free.append(record)
