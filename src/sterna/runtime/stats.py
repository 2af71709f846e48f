"""Counters of this process: compilations, links, launches, where images were found.

`compiles` is the counter that tests of relocation rely on: every compilation of this process is counted when the
compiler is entered, and `require_precompiled` refuses before that, so "no compiler ran" is asserted, never assumed.
"""

from __future__ import annotations

import itertools
import os
import threading
from types import TracebackType
from typing import Any

from sterna.errors import CompilerUnavailable

__all__ = ["check_compiling_allowed", "count", "count_launch", "counters", "require_precompiled", "stats"]

_lock = threading.Lock()
_counters: dict[str, int] = dict.fromkeys(("compiles", "links", "hits", "misses", "stored"), 0)
_hits: dict[str, int] = {}
_launches, _looks = itertools.count(), itertools.count()
"""Launches take a number each, with no lock; each look at the counter takes one too, and is counted apart."""

count_launch = _launches.__next__
_required = os.environ.get("STERNA_REQUIRE_PRECOMPILED", "") in ("1", "true", "yes", "on")


def count(name: str, amount: int = 1) -> None:
    """Add to a counter."""
    with _lock:
        _counters[name] += amount


def count_hit(label: str) -> None:
    """Count an image found in the store called `label`."""
    with _lock:
        _counters["hits"] += 1
        _hits[label] = _hits.get(label, 0) + 1


def check_compiling_allowed(what: str) -> None:
    """Refuse a compilation while `require_precompiled` is in force.

    Raises
    ------
    CompilerUnavailable
        Naming `what` would have been compiled.
    """
    if _required:
        raise CompilerUnavailable(
            f"{what} is not in any store, and require_precompiled() forbids compiling. "
            "Build it ahead (kernel.specialize(…) with a writable store), or lift the requirement."
        )


def counters() -> dict[str, Any]:
    """The counters alone: what `stats` gives without looking around."""
    with _lock:
        launches = next(_launches) - next(_looks)
        return {**_counters, "launches": launches, "hits_by_store": dict(_hits)}


def stats() -> dict[str, Any]:
    """What ``sterna info`` prints, as data: counters of this process, versions, targets, devices, stores.

    Returns
    -------
    dict
        Counters: ``compiles``, ``links``, ``launches``, ``hits``, ``misses``, ``stored`` (integers) and
        ``hits_by_store`` (store label → hits).  Surroundings: ``versions`` (package → version or None), ``targets``,
        ``devices``, ``stores`` (see `sterna.runtime.report.describe`).

    Examples
    --------
    >>> import sterna
    >>> sterna.stats()["compiles"]
    0
    """
    from sterna.runtime.report import describe

    return {**counters(), **describe()}


class _Requirement:
    """What `require_precompiled` returns: in force at once, lifted by leaving a ``with`` block."""

    def __init__(self, previous: bool) -> None:
        self._previous = previous

    def __enter__(self) -> _Requirement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _set_required(self._previous)


def _set_required(value: bool) -> None:
    global _required
    _required = value


def require_precompiled(required: bool = True) -> _Requirement:
    """Make any compilation in this process an error (also ``STERNA_REQUIRE_PRECOMPILED=1``).

    Parameters
    ----------
    required : bool
        False lifts the requirement.

    Returns
    -------
    context manager
        Leaving its ``with`` block restores the former state; without ``with`` the requirement stays.

    Examples
    --------
    >>> import sterna
    >>> with sterna.require_precompiled():
    ...     pass
    """
    previous = _required
    _set_required(required)
    return _Requirement(previous)
