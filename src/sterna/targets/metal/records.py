"""Exception records of loaded kernels, in memory that the host and the GPU share (`sterna.runtime.records`).

The host looks after the launch has ended: only then does Metal promise that it sees what the GPU wrote.
"""

from __future__ import annotations

from typing import Any

from sterna.runtime import records
from sterna.runtime.records import Record
from sterna.targets.metal.memory import SharedBuffer

__all__ = ["Record", "RecordPool"]


class RecordPool(records.RecordPool):
    """Records of one device."""

    per_page = 128

    def __init__(self, device: Any) -> None:
        super().__init__()
        self._device = device

    def make_page(self, nbytes: int) -> SharedBuffer:
        """A buffer of the device."""
        page = SharedBuffer(self._device, nbytes)
        page.bytes[:nbytes] = bytes(nbytes)
        return page

    def make_record(self, page: SharedBuffer, offset: int) -> Record:
        """The record at an offset of a page."""
        return Record(page, page.bytes, offset)
