"""Arrays of other libraries on devices, taken in place: which protocol leads to which target.

A library says where its arrays are by a protocol (`sterna.targets.registry.FOREIGN_PROTOCOLS`, else DLPack); that
target's runtime makes a Sterna array of the same memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.targets.registry import FOREIGN_PROTOCOLS, target

__all__ = ["adopt", "is_foreign"]


def is_foreign(value: Any) -> bool:
    """Whether `value` is an array of another library in the memory of a device."""
    return _target_of(value) is not None


def adopt(value: Any) -> Any:
    """A Sterna array that shares the memory of a foreign one and keeps it alive.

    Raises
    ------
    TypeError
        For a dtype no device has, or an array that cannot be shared.
    """
    name = _target_of(value)
    if name is None:
        raise TypeError(f"a {type(value).__name__} is not an array on a device")
    runtime: Any = target(name).runtime()
    return runtime.adopt(value)


def _target_of(value: Any) -> str | None:
    cls = type(value)
    if getattr(cls, "__sterna_array__", False):
        return None
    for name, found in FOREIGN_PROTOCOLS.items():
        if hasattr(cls, name) and _has(value, name):
            return found
    return None if cls is np.ndarray or not hasattr(cls, "__dlpack_device__") else _by_dlpack(value)


def _by_dlpack(value: Any) -> str | None:
    from sterna.dlpack import DEVICES

    try:
        return DEVICES.get(int(value.__dlpack_device__()[0]))
    except Exception:  # it has the name for something else, or cannot say
        return None


def _has(value: Any, name: str) -> bool:
    """Whether the object itself has it: a class may have it for arrays that happen to be on a device."""
    try:
        getattr(value, name)
    except AttributeError:
        return False
    except Exception:  # it is one, and `adopt` says what is wrong
        return True
    return True
