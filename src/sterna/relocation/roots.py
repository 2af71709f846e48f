"""Roots: what keeps an object alive while device code holds its word (I6).

A word of an object is its identity (`id`).  Linking *holds* every resolved object for as long as the
loaded kernel lives; objects passed as arguments are only *noted*, weakly where that is possible, so that
`resolve` can give them back after the launch without keeping them alive for ever.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any

__all__ = ["Holder", "note_argument", "resolve"]

_lock = threading.Lock()
_held: dict[int, tuple[Any, int]] = {}
_noted: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_recent: deque[Any] = deque(maxlen=1024)
"""Arguments that cannot be referenced weakly (`object()`, tuples): the latest ones stay alive."""


class Holder:
    """Keeps a set of objects alive, and their words resolvable, until `release` or collection."""

    def __init__(self) -> None:
        self._objects: list[Any] = []
        self._finalizer: Any = weakref.finalize(self, _release, self._objects)
        self._finalizer.atexit = False

    def hold(self, values: Iterable[Any]) -> None:
        """Root every object of `values`."""
        with _lock:
            for value in values:
                word = id(value)
                _held[word] = (value, _held[word][1] + 1 if word in _held else 1)
                self._objects.append(value)

    def release(self) -> None:
        """Let go of everything held; harmless when called again."""
        self._finalizer()


def _release(objects: list[Any]) -> None:
    with _lock:
        for value in objects:
            word = id(value)
            count = _held[word][1]
            if count == 1:
                del _held[word]
            else:
                _held[word] = (value, count - 1)
    objects.clear()


def note_argument(value: Any) -> int:
    """Make the word of a launch argument resolvable; the caller keeps it alive during the launch."""
    word = id(value)
    try:
        _noted[word] = value
    except TypeError:
        _recent.append(value)
    return word


def resolve(word: int) -> Any:
    """The host object whose word this is.

    Parameters
    ----------
    word : int
        What device code stored for an object or class: ``out[i] = thing`` with an (u)int64 array `out`.

    Raises
    ------
    LookupError
        When no living object known to a loaded kernel or a recent launch has that word.
    """
    word = int(word) & (2**64 - 1)
    held = _held.get(word)
    if held is not None:
        return held[0]
    found = _noted.get(word)
    if found is not None:
        return found
    for value in _recent:
        if id(value) == word:
            return value
        if id(type(value)) == word:
            return type(value)
    raise LookupError(
        f"no object known to Sterna has the word {word:#x}; it resolves while a loaded kernel captures it or "
        "the object passed as an argument is alive"
    )
