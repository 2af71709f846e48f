"""Where an intrinsic's meaning comes from on the host: nowhere, or the interpreter's thread.

Device code never runs these bodies: an intrinsic is an entry of the method table of all devices
(`sterna.overlays`), where the function object stands for a named operation.  On the host a call looks for the
implementations that `sterna.interpret` put in place for the calling thread; with none there it raises
`DeviceOnlyError`, so a kernel helper called by mistake on the host says so instead of giving a number.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from sterna.errors import DeviceOnlyError
from sterna.overlays import DEVICE, Overlay, register

__all__ = ["Implementations", "active", "intrinsic", "overlay_operation", "perform", "running"]

Implementations = Mapping[str, Callable[..., Any]]
"""Table name → what it does for one thread of an interpreted launch."""

F = TypeVar("F", bound=Callable[..., Any])


class _ThreadState(threading.local):
    """The implementations in force in one host thread."""

    table: Implementations | None = None


_STATE = _ThreadState()


def active() -> Implementations | None:
    """The implementations of the device thread that the calling host thread interprets, or None."""
    return _STATE.table


@contextmanager
def running(table: Implementations) -> Iterator[None]:
    """Give the calling host thread the implementations of one device thread."""
    before, _STATE.table = _STATE.table, table
    try:
        yield
    finally:
        _STATE.table = before


def perform(name: str, *args: Any, **kwargs: Any) -> Any:
    """Do what intrinsic `name` means for the calling thread.

    Raises
    ------
    DeviceOnlyError
        On the host, outside an interpreted launch.
    """
    table = _STATE.table
    if table is None:
        raise DeviceOnlyError(f"{_shown(name)} runs on the device only; call it from a kernel, or use sterna.interpret")
    return table[name](*args, **kwargs)


_VALUES = {
    "thread_idx": "threadIdx", "block_idx": "blockIdx", "block_dim": "blockDim", "grid_dim": "gridDim",
    "laneid": "laneid", "warpsize": "warpsize",
}  # fmt: skip
"""Operation that is read, not called → its name in Python."""


def _shown(name: str) -> str:
    """An operation as a program writes it."""
    first, dot, rest = name.partition(".")
    return f"{_VALUES[first]}{dot}{rest}" if first in _VALUES else f"{name}()"


def intrinsic(name: str, result: str) -> Callable[[F], F]:
    """Mark a function as an operation of the kernel language.

    Parameters
    ----------
    name : str
        Table name, unique in the language (``sterna.language.names``).
    result : str
        What a call gives: a scalar type's name (``int`` is a Python number, weak in arithmetic), ``none``,
        ``same`` (the type of the value argument), ``float`` of it (``floating``), or ``special`` (see its docstring).

    Returns
    -------
    callable
        A function with the same signature and docstring, and `__sterna_result__`.
    """

    def mark(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return perform(name, *args, **kwargs)

        cast(Any, call).__sterna_result__ = result
        code = cast(Any, function).__code__
        overlay_operation(call, name, (code.co_filename, code.co_firstlineno))
        return cast(F, call)

    return mark


def overlay_operation(subject: Any, name: str, place: tuple[str, int] = (__file__, 1)) -> None:
    """Make `subject` stand for the operation `name` in device code of all targets."""
    register(Overlay(subject, DEVICE, name, (), place, name))
