"""Exception records of loaded kernels, in mapped host memory (`sterna.runtime.records`).

Nothing traps when a thread fails, so the context goes on working.
"""

from __future__ import annotations

import ctypes

from sterna.runtime import records
from sterna.runtime.records import Record
from sterna.targets.cuda.context import Context
from sterna.targets.cuda.memory import HostAllocation

__all__ = ["Record", "RecordPool"]


class RecordPool(records.RecordPool):
    """Records of one context."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context
        self._generation = -1

    def take(self) -> Record:
        """A free record, in memory of the context as it is now."""
        with self._lock:
            if self._generation != self._context.generation:
                self.forget()
                self._generation = self._context.generation
            return super().take()

    def make_page(self, nbytes: int) -> HostAllocation:
        """Memory of the host that the GPU sees."""
        page = HostAllocation(self._context, nbytes)
        ctypes.memset(page.host, 0, nbytes)
        return page

    def make_record(self, page: HostAllocation, offset: int) -> Record:
        """The record at an offset of a page."""
        return Record(page, memoryview(page.buffer.data), offset)
