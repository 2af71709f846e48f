"""Warnings that a process gives once: a damaged file, a cache that cannot be written."""

from __future__ import annotations

import threading
import warnings

from sterna.errors import SternaWarning

__all__ = ["forget_notices", "warn_once"]

_seen: set[tuple[str, str]] = set()
_lock = threading.Lock()


def warn_once(kind: str, subject: str, message: str) -> bool:
    """Warn with `SternaWarning` unless this process has already warned of this kind and subject.

    Returns
    -------
    bool
        Whether it warned now.
    """
    with _lock:
        if (kind, subject) in _seen:
            return False
        _seen.add((kind, subject))
    warnings.warn(message, SternaWarning, stacklevel=3)
    return True


def forget_notices() -> None:
    """Let every warning be given again (tests)."""
    with _lock:
        _seen.clear()
