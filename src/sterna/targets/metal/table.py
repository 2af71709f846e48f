"""The relocation table of one linked kernel: the manifest's words, in a buffer of its device.

A word may change while launches that read the table still run (`sterna.Global`).  Those keep the table that they were
started with, and later ones get a new one; while nothing runs, the word is written in place.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sterna.relocation.record import WORD_BYTES
from sterna.targets.metal.memory import SharedBuffer
from sterna.targets.metal.queue import Submission

if TYPE_CHECKING:
    from sterna.targets.metal.device import MetalDevice

__all__ = ["RelocationTable"]


class RelocationTable:
    """Words of this session on one device.

    Parameters
    ----------
    device : MetalDevice
        Where the table lies, and what its addresses point to.
    words : sequence of int
        All words of the manifest, in its order.

    Attributes
    ----------
    lock : RLock
        Held between looking at the table and telling it of the launch that uses it.
    """

    def __init__(self, device: MetalDevice, words: Sequence[int]) -> None:
        self._device = device
        self.lock = threading.RLock()
        self._users: list[Submission] = []
        self._buffer = device.new_buffer(struct.pack(f"={len(words)}Q", *words))
        self._pointees = device.memory.all_of(words)

    @property
    def address(self) -> int:
        """Where the words are, for the GPU, at present."""
        return self._buffer.address

    @property
    def resident(self) -> list[SharedBuffer]:
        """What a dispatch must declare: the table, and all that its addresses point into."""
        return [self._buffer, *self._pointees]

    def write(self, index: int, word: int) -> None:
        """Change one word, for the launches that are yet to come."""
        with self.lock:
            self._users = [use for use in self._users if not use.is_done]
            if self._users:
                self._buffer, self._users = self._device.new_buffer(self._buffer.bytes), []
            struct.pack_into("=Q", self._buffer.bytes, WORD_BYTES * index, word)

    def note_use(self, use: Submission) -> None:
        """A launch reads the table as it is now."""
        with self.lock:
            if len(self._users) > 64:
                self._users = [user for user in self._users if not user.is_done]
            self._users.append(use)
