"""Arrays as interpreted device code sees them: NumPy views that behave like device arrays.

* records have their fields as attributes (``points[i].x``), as device code writes them;
* an integer array wraps numbers out of range, and a 64-bit one takes any object and stores its identity word;
* captured arrays are read-only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sterna.language.dtypes import StorageType

__all__ = ["Bfloat16Array", "IntegerArray", "device_view", "empty", "host_array"]

_NUMBERS = (int, complex, np.generic, np.ndarray, list, tuple)


class IntegerArray(np.ndarray):
    """An integer array that converts what is stored as device code does.

    Numbers out of range wrap, as `astype` does it (NumPy's own assignment raises); in a 64-bit array an
    object that is no number is stored as ``id(object)``.
    """

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(value) is int:
            value = np.uint64(value & 0xFFFFFFFFFFFFFFFF)
        if isinstance(value, np.integer | np.floating | float):
            with np.errstate(all="ignore"):
                value = np.asarray(value).astype(self.dtype)
        elif self.dtype.itemsize == 8 and not isinstance(value, _NUMBERS) and not hasattr(value, "__index__"):
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
    elif array.dtype.kind in "iu":
        view = array.view(IntegerArray)
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
