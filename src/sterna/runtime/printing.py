"""What kernels print on a GPU: raw values in memory that the host reads, turned into text by Python itself.

A ``print`` in a kernel reserves room in the device's buffer and leaves the number of its format and its values there;
the next synchronise writes the lines, exactly as Python would.  A record is::

    bytes of the record (u32, written last; 0: not finished)   number of the format (u32)
    address of the kernel's exception record, which names the kernel (u64)
    values, 8 bytes each

The buffer begins with the bytes reserved so far (u64) and its capacity (u64).
"""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["PRINT_BYTES", "PrintBuffer"]

PRINT_BYTES = 1 << 20
"""Size of a device's print buffer."""

_HEAD = 16
_RECORD = struct.Struct("=2IQ")


class PrintBuffer:
    """The print buffer of one device.

    Parameters
    ----------
    address : int
        As kernels see it.
    data : memoryview
        The same `PRINT_BYTES` as the host sees them, or its copy of them.
    """

    def __init__(self, address: int, data: memoryview) -> None:
        self.address, self._view = address, data
        self._view[:] = bytes(PRINT_BYTES)
        struct.pack_into("=2Q", self._view, 0, 0, PRINT_BYTES - _HEAD)
        self._read = 0
        self._formats: dict[int, Sequence[Any]] = {}
        self._lock = threading.Lock()

    def register(self, owner: int, formats: Sequence[Any]) -> None:
        """Note the formats of the kernel whose exception record is at `owner`."""
        with self._lock:
            self._formats[owner] = formats

    def drain(self, is_idle: bool) -> bool:
        """Write finished lines; `is_idle` says that no kernel runs, so the buffer can begin anew.

        Returns
        -------
        bool
            Whether the buffer has begun anew: its bytes were changed.
        """
        with self._lock:
            reserved, capacity = struct.unpack_from("=2Q", self._view, 0)
            if not reserved:
                return False
            end = min(reserved, capacity)
            while self._read < end:
                size, number, owner = _RECORD.unpack_from(self._view, _HEAD + self._read)
                if not size:
                    break
                start = _HEAD + self._read + _RECORD.size
                self._write(self._formats[owner][number], bytes(self._view[start : start + size - _RECORD.size]))
                self._read += size
            if is_idle:
                if reserved > capacity and sys.stdout is not None:
                    sys.stdout.write("[sterna: more was printed between two synchronises than the buffer holds]\n")
                self._view[_HEAD : _HEAD + end] = bytes(end)
                struct.pack_into("=Q", self._view, 0, 0)
                self._read = 0
            return is_idle

    @staticmethod
    def _write(template: Sequence[Any], data: bytes) -> None:
        parts, place = [], 0
        for part in template:
            if part[0] == "text":
                parts.append(part[1])
            else:
                text, used = _value(part[1], data[place:])
                parts.append(text)
                place += used
        if sys.stdout is not None:
            sys.stdout.write("".join(parts))


def _value(name: str, data: bytes) -> tuple[str, int]:
    """Text of a value as `print` shows it, and the bytes it took."""
    dtype = np.dtype(
        {"int": "int64", "float": "float64", "complex": "complex128", "bfloat16": "float32"}.get(name, name)
    )
    if dtype.kind == "c":
        half = np.dtype(f"f{dtype.itemsize // 2}")
        parts = [np.frombuffer(data[8 * n : 8 * n + half.itemsize], half)[0] for n in range(2)]
        return str(dtype.type(complex(*parts)) if dtype.itemsize == 8 else complex(*parts)), 16
    value = np.frombuffer(data[: dtype.itemsize], dtype)[0]
    return str(value.item() if dtype.itemsize == 8 or dtype.kind in "iub" else value), 8
