"""Devices by name, and which one is current.

The current device is where arrays are made and kernels launched when nothing else is said: that of the innermost
``with sterna.on(device):`` block of this thread or task, else ``STERNA_DEVICE``, else the CPU.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from sterna.errors import DeviceError
from sterna.targets.base import Device
from sterna.targets.registry import TARGETS, target

__all__ = [
    "active_block",
    "active_stream",
    "current_device",
    "current_stream",
    "device",
    "device_named",
    "device_of",
    "devices",
    "on",
    "synchronize",
]

_DEFAULT = os.environ.get("STERNA_DEVICE") or "cpu"
"""Name of the device that is current where no block says otherwise."""
_lock = threading.Lock()
_devices: dict[str, Device] = {}
_current: ContextVar[tuple[Device, Any] | None] = ContextVar("sterna_device", default=None)
active_block = _current.get
"""Device and stream of the innermost ``with sterna.on(…)`` block, or None outside of any."""


def device_named(name: str) -> Device:
    """The device called `name`: a target, or ``target:index``.

    Raises
    ------
    ValueError
        For an unknown target or an index that is not there.
    """
    found = _devices.get(name)
    if found is not None:
        return found
    base, _, text = name.partition(":")
    if base not in TARGETS:
        raise ValueError(f"unknown device {name!r}; known are {', '.join(sorted(TARGETS))}, or one with ':index'")
    runtime = target(base).runtime()
    count = runtime.device_count()
    if text and not (text.isdecimal() and int(text) < count):
        raise ValueError(
            f"unknown device {name!r}; {base} has {count} device{'s' if count != 1 else ''}, from {base}:0"
        )
    with _lock:
        return _devices.setdefault(name, runtime.device(int(text or 0)))


def device(name: str | None = None) -> Device:
    """A device by name, or the current one.

    Parameters
    ----------
    name : str, optional
        ``"cpu"``, ``"cpu:0"``.

    Raises
    ------
    ValueError
        For a name no device has.

    Examples
    --------
    >>> import sterna
    >>> sterna.device("cpu").name
    'cpu'
    """
    return current_device() if name is None else device_named(name)


def device_of(given: Device | str) -> Device:
    """The device itself, or the one with that name.

    Raises
    ------
    ValueError
        For a name no device has.
    TypeError
        For something that is neither.
    """
    if isinstance(given, str):
        return device_named(given)
    if not hasattr(given, "synchronize"):
        raise TypeError(f"a device is expected, or its name; given is {given!r}")
    return given


def devices() -> list[Device]:
    """Every device of every target on this machine; those that cannot be used are left out."""
    found = []
    for base in TARGETS:
        for index in range(target(base).runtime().device_count()):
            with suppress(DeviceError):  # `device` says what is wrong with it
                found.append(device_named(f"{base}:{index}"))
    return found


def current_device() -> Device:
    """The device of the innermost ``with sterna.on(…)`` block, else ``STERNA_DEVICE``, else the CPU."""
    active = _current.get()
    return device_named(_DEFAULT) if active is None else active[0]


def current_stream() -> Any:
    """The stream of the innermost ``with sterna.on(…)`` block, or None for the device's own."""
    active = _current.get()
    return None if active is None else active[1]


def active_stream(where: Device) -> Any:
    """The stream of the innermost ``with sterna.on(…)`` block if it is for this device, else None: its default one."""
    active = _current.get()
    return active[1] if active is not None and active[0] is where else None


@contextmanager
def on(where: Device | str, stream: Any = None) -> Iterator[Device]:
    """Make a device (and stream) current inside a ``with`` block, for this thread or task.

    Parameters
    ----------
    where : Device or str
        The device.
    stream : optional
        A stream of that device; None for its own.

    Examples
    --------
    >>> import sterna
    >>> with sterna.on("cpu") as cpu:
    ...     a = sterna.zeros(3)
    >>> a.device is cpu
    True
    """
    found = device_of(where)
    token = _current.set((found, stream))
    try:
        yield found
    finally:
        _current.reset(token)


def synchronize(where: Device | str | None = None) -> None:
    """Wait for everything launched on a device (the current one without argument).

    Raises
    ------
    Exception
        What a kernel raised since the last synchronise, once.
    """
    if where is not None:
        device_of(where).synchronize()
        return
    active = _current.get()
    found = _devices.get(_DEFAULT) if active is None else active[0]
    (found or current_device()).synchronize()
