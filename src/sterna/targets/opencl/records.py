"""Exception records of loaded kernels, in shared virtual memory or the host's copy of it (`sterna.runtime.records`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.runtime import records
from sterna.runtime.exceptions import RECORD_BYTES
from sterna.targets.opencl.memory import SharedBytes

if TYPE_CHECKING:
    from sterna.targets.opencl.device import OpenclDevice

__all__ = ["Record", "RecordPool"]


class Record(records.Record):
    """One kernel's record; what is read of it is as of the last `RecordPool.fetch`."""

    __slots__ = ("_start",)

    def __init__(self, page: SharedBytes, offset: int) -> None:
        super().__init__(page, page.data, offset)
        self._start = offset

    def clear(self) -> None:
        """Make it free, for kernels too."""
        super().clear()
        self.page.store(self._start, RECORD_BYTES)


class RecordPool(records.RecordPool):
    """Records of one device."""

    def __init__(self, device: OpenclDevice) -> None:
        super().__init__()
        self._device = device

    def make_page(self, nbytes: int) -> SharedBytes:
        """Memory that kernels and the host write in turn."""
        return SharedBytes(self._device, nbytes)

    def make_record(self, page: SharedBytes, offset: int) -> Record:
        """The record at an offset of a page."""
        return Record(page, offset)

    def fetch(self) -> None:
        """See what kernels wrote."""
        for page in list(self.pages):
            page.fetch()
