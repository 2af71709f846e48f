"""Counters of what stores did in this process: read by statistics and `sterna info`, decide nothing."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["Counters"]


class Counters:
    """What happened in the stores of one search path.

    Attributes
    ----------
    hits : dict of str to int
        Images found, by the label of the place.
    misses, bad_files, writes, write_failures : int
        Searches that found nothing, files refused, images written, images that could not be written.
    facts_hits, facts_misses : int
        The same for source facts.
    """

    def __init__(self) -> None:
        self.hits: dict[str, int] = {}
        self.misses = self.bad_files = self.writes = self.write_failures = 0
        self.facts_hits = self.facts_misses = 0
        self._lock = threading.Lock()

    def add(self, name: str) -> None:
        """Add one to the counter called `name`."""
        with self._lock:
            setattr(self, name, getattr(self, name) + 1)

    def add_hit(self, label: str) -> None:
        """Add one to the hits of the place called `label`."""
        with self._lock:
            self.hits[label] = self.hits.get(label, 0) + 1

    def as_dict(self) -> dict[str, Any]:
        """All counters as plain data."""
        with self._lock:
            return {
                "hits": dict(self.hits), "misses": self.misses, "bad_files": self.bad_files, "writes": self.writes,
                "write_failures": self.write_failures, "facts_hits": self.facts_hits,
                "facts_misses": self.facts_misses,
            }  # fmt: skip
