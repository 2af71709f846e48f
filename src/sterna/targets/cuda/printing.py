"""What kernels print: raw values in mapped host memory, turned into text by Python itself.

A ``print`` in a kernel reserves room in the device's buffer and leaves the number of its format and its values there;
the next synchronise writes the lines, exactly as Python would.  A record is::

    bytes of the record (u32, written last; 0: not finished)   number of the format (u32)
    address of the kernel's exception record, which names the kernel (u64)
    values, 8 bytes each

The buffer begins with the bytes reserved so far (u64) and its capacity (u64).
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from sterna.targets.cuda.context import Context
from sterna.targets.cuda.memory import HostAllocation

__all__ = ["PrintBuffer"]

_BYTES = 1 << 20
_HEAD = 16
_RECORD = struct.Struct("=2IQ")


class PrintBuffer:
    """The print buffer of one context.

    Attributes
    ----------
    address : int
        As kernels see it.
    """

    def __init__(self, context: Context) -> None:
        self._memory = HostAllocation(context, _BYTES)
        self.address = self._memory.address
        ctypes.memset(self._memory.host, 0, _BYTES)
        self._view = memoryview(self._memory.buffer.data)
        struct.pack_into("=2Q", self._view, 0, 0, _BYTES - _HEAD)
        self._read = 0
        self._formats: dict[int, Sequence[Any]] = {}
        self._lock = threading.Lock()

    def register(self, owner: int, formats: Sequence[Any]) -> None:
        """Note the formats of the kernel whose exception record is at `owner`."""
        with self._lock:
            self._formats[owner] = formats

    def drain(self, is_idle: bool) -> None:
        """Write finished lines; `is_idle` says that no kernel runs, so the buffer can begin anew."""
        with self._lock:
            reserved, capacity = struct.unpack_from("=2Q", self._view, 0)
            if not reserved:
                return
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
                ctypes.memset(self._memory.host + _HEAD, 0, end)
                struct.pack_into("=Q", self._view, 0, 0)
                self._read = 0

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
