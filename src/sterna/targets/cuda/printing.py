"""The print buffer of a CUDA context: `sterna.runtime.printing` in mapped host memory."""

from __future__ import annotations

from sterna.runtime.printing import PRINT_BYTES
from sterna.runtime.printing import PrintBuffer as _PrintBuffer
from sterna.targets.cuda.context import Context
from sterna.targets.cuda.memory import HostAllocation

__all__ = ["PrintBuffer"]


class PrintBuffer(_PrintBuffer):
    """The print buffer of one context."""

    def __init__(self, context: Context) -> None:
        self._memory = HostAllocation(context, PRINT_BYTES)
        super().__init__(self._memory.address, memoryview(self._memory.buffer.data))
