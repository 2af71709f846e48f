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

_lock = threading.RLock()  # a holder may be collected, and released, while another is filled
_held: dict[int, dict[int, Any]] = {}
"""Objects by word, of each living holder."""
_noted: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_recent: deque[Any] = deque(maxlen=1024)
"""Arguments that cannot be referenced weakly (`object()`, tuples): the latest ones stay alive."""


class Holder:
    """Keeps a set of objects alive, and their words resolvable, until `release` or collection."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}
        self._finalizer: Any = None

    def hold(self, values: Iterable[Any]) -> None:
        """Root every object of `values`."""
        objects = self._objects
        with _lock:
            objects.update([(id(value), value) for value in values])
            if self._finalizer is None and objects:
                _held[id(objects)] = objects
                self._finalizer = weakref.finalize(self, _release, objects)
                self._finalizer.atexit = False

    def release(self) -> None:
        """Let go of everything held; harmless when called again."""
        if self._finalizer is not None:
            self._finalizer()


def _release(objects: dict[int, Any]) -> None:
    with _lock:
        _held.pop(id(objects), None)
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
    for objects in list(_held.values()):
        if word in objects:
            return objects[word]
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
