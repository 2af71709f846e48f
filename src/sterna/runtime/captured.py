"""Captured arrays on the device of a kernel: which are used as they are, which are copied, which are refused.

What a device's `capture` does, whatever the target; a device says only how it copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sterna.errors import LinkError

__all__ = ["captured_array"]


def captured_array(
    value: Any,
    device: Any,
    copy: Callable[[Any], Any],
    share: Callable[[Any], Any] | None = None,
    adopts: bool = False,
) -> Any:
    """An array of a device for a captured one.

    Parameters
    ----------
    value : array
        Of Sterna, NumPy or another library.
    device : Device
        Where the kernel runs.
    copy : callable
        From a NumPy array or scalar to an array of the device.
    share : callable, optional
        From an array of the host with ``__dlpack__``; by default it is copied.
    adopts : bool
        Whether arrays of other libraries may lie on this device (`sterna.runtime.foreign`).

    Raises
    ------
    LinkError
        For an array that lives on another device, and for what is no array.
    """
    if adopts:
        from sterna.runtime.foreign import adopt, is_foreign

        if is_foreign(value):
            value = adopt(value)
    if getattr(type(value), "__sterna_array__", False):
        if value.device is not device:
            raise LinkError(f"a captured array is on {value.device.name}, the kernel runs on {device.name}")
        return value
    if isinstance(value, np.ndarray | np.generic):
        return copy(value)
    if not adopts and hasattr(value, "__cuda_array_interface__"):
        raise LinkError(f"a captured {type(value).__name__} is on a CUDA device, the kernel runs on {device.name}")
    if hasattr(value, "__dlpack__"):
        return copy(np.from_dlpack(value)) if share is None else share(value)
    raise LinkError(f"a captured {type(value).__name__} is not an array")
