"""The print buffer of a Metal device (`sterna.runtime.printing` reads it)."""

from __future__ import annotations

from typing import Any

from sterna.runtime.printing import PRINT_BYTES
from sterna.runtime.printing import PrintBuffer as _PrintBuffer
from sterna.targets.metal.memory import SharedBuffer

__all__ = ["PrintBuffer"]


class PrintBuffer(_PrintBuffer):
    """The print buffer of one device.

    Attributes
    ----------
    memory : SharedBuffer
        What a dispatch of a printing kernel declares.
    """

    def __init__(self, device: Any) -> None:
        self.memory = SharedBuffer(device, PRINT_BYTES)
        super().__init__(self.memory.address, self.memory.bytes)
