"""Metal as PyObjC gives it: the one place where it is imported, and only on macOS.

Everything else of this target asks `metal()` for Apple's names.  `use` puts another object in its place, which is how
the target is run where there is no Metal.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import AbstractContextManager
from typing import Any

from sterna.errors import DeviceError

__all__ = ["MetalError", "check", "is_available", "metal", "system_build", "use"]

_chosen: list[Any] = [None]


class MetalError(DeviceError):
    """Metal refused something; the message is what it said."""


class _PyObjC:
    """Names of the frameworks `Metal` and `Foundation`, looked up when they are first used."""

    def __init__(self) -> None:
        self._frameworks = [importlib.import_module(name) for name in ("Metal", "Foundation")]
        self._objc = importlib.import_module("objc")

    def autorelease_pool(self) -> AbstractContextManager[Any]:
        """A pool for what Metal's methods return; without one, a thread of ours would never free it."""
        pool: AbstractContextManager[Any] = self._objc.autorelease_pool()
        return pool

    def __getattr__(self, name: str) -> Any:
        for framework in self._frameworks:
            try:
                found = getattr(framework, name)
            except AttributeError:
                continue
            setattr(self, name, found)
            return found
        raise AttributeError(name)


def use(module: Any) -> Any:
    """Take Metal's names from `module` from now on, from PyObjC again for None; gives what was in use."""
    previous, _chosen[0] = _chosen[0], module
    return previous


def is_available() -> bool:
    """Whether Metal can be asked for devices here."""
    if _chosen[0] is not None:
        return True
    try:
        metal()
    except DeviceError:
        return False
    return True


def metal() -> Any:
    """Metal's names.

    Raises
    ------
    DeviceError
        Where there is no Metal, or PyObjC is not installed.
    """
    if _chosen[0] is None:
        if sys.platform != "darwin":
            raise DeviceError(
                f"there is no Metal device: Metal exists on macOS, and this is {sys.platform}; "
                "other devices here are listed by sterna.devices()"
            )
        try:
            _chosen[0] = _PyObjC()
        except ImportError as error:
            raise DeviceError(f'Metal needs PyObjC: pip install "sterna[metal]" ({error})') from None
    return _chosen[0]


def check(result: Any, what: str) -> Any:
    """The value of a method with an error parameter, which PyObjC returns beside the error.

    Raises
    ------
    MetalError
        When the method failed.
    """
    value, *_, error = result
    if value is None or value is False:
        raise MetalError(f"{what}: {describe(error)}")
    return value


def describe(error: Any) -> str:
    """An NSError in words."""
    return "no reason was given" if error is None else str(error.localizedDescription())


def system_build() -> str:
    """Version and build of the operating system."""
    return str(metal().NSProcessInfo.processInfo().operatingSystemVersionString())
