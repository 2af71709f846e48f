"""Arrays as interpreted device code sees them: NumPy views that behave like device arrays.

* records have their fields as attributes (``points[i].x``), as device code writes them;
* a 64-bit integer array takes any object and stores its identity word;
* captured arrays are read-only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sterna.language.dtypes import StorageType

__all__ = ["Bfloat16Array", "WordArray", "device_view", "empty", "host_array"]

_NUMBERS = (int, float, complex, np.generic, np.ndarray, list, tuple)


class WordArray(np.ndarray):
    """A (u)int64 array in which storing an object stores ``id(object)``."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(value, _NUMBERS) and not hasattr(value, "__index__"):
            value = np.uint64(id(value)).astype(self.dtype)
        super().__setitem__(key, value)


class Bfloat16Array(np.ndarray):
    """A float32 array that rounds what is stored to bfloat16 (nearest even)."""

    def __setitem__(self, key: Any, value: Any) -> None:
        bits = np.asarray(value, np.float32).view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
        super().__setitem__(key, np.where(np.isnan(value), np.float32(np.nan), rounded.view(np.float32)))


class _Interface:
    """Carries an array interface to NumPy and keeps its owner alive."""

    def __init__(self, owner: Any) -> None:
        self.owner, self.__array_interface__ = owner, owner.__array_interface__


def device_view(array: np.ndarray, readonly: bool = False) -> np.ndarray:
    """A view of `array` that behaves as a device array of its dtype does."""
    if array.dtype.names is not None:
        view: np.ndarray = array.view(np.recarray)
    elif array.dtype in (np.int64, np.uint64):
        view = array.view(WordArray)
    else:
        view = array.view()
    if readonly:
        view.flags.writeable = False
    return view


def host_array(array: Any) -> tuple[np.ndarray, Callable[[], None] | None]:
    """A Sterna array as a NumPy array, and what to call after the launch to write it back.

    Memory that the host can address is viewed in place (nothing to write back); any other is copied.
    """
    if hasattr(array, "__array_interface__"):
        return np.asarray(_Interface(array)), None
    host = np.array(array.copy_to_host())
    return host, lambda: array.copy_from_host(host)


def empty(shape: Any, dtype: Any) -> np.ndarray:
    """Memory for ``shared.array`` and ``local.array``: zeros here, undefined on a device."""
    if isinstance(dtype, StorageType):
        return np.zeros(shape, np.float32).view(Bfloat16Array)
    return device_view(np.zeros(shape, np.dtype(dtype)))
