"""Hits and misses of past processes: one line a process in the user's cache, for `sterna info`.

For people only: nothing decides by it, losing some of it is no harm, and no trouble with it is ever reported.  A line
is appended when the interpreter ends, in one write, so that processes do not disturb each other; a long file is
replaced by its sum.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from sterna.image import files

__all__ = ["read_history", "record_at_exit"]

_NAME = "history.jsonl"
_MAX_BYTES = 32 * 1024
_FIELDS = ("hits", "misses", "writes", "bad_files")
_OF_CODE = ("hits", "misses")
"""Counters of the archive of machine code, recorded as ``code_hits`` …"""

_watched: list[Any] = []


def record_at_exit(search: Any) -> None:
    """Add the counters of a search path to the history when the interpreter ends."""
    if not _watched:
        atexit.register(_record_all)
    _watched.append(search)


def read_history(folder: str) -> dict[str, int]:
    """Sums over all recorded processes: processes, hits, misses, writes, bad_files, code_hits, code_misses."""
    of_code = [f"code_{name}" for name in _OF_CODE]
    total = dict.fromkeys(("processes", *_FIELDS, *of_code), 0)
    data = files.read_file(os.path.join(folder, _NAME)).data or b""
    for line in data.splitlines():
        try:
            entry = json.loads(line)
            counts = {name: int(entry.get(name, 0) if name in of_code else entry[name]) for name in total}
        except (ValueError, TypeError, KeyError, AttributeError):
            continue  # a line cut short, or not ours
        for name, count in counts.items():
            total[name] += count
    return total


def _record_all() -> None:
    for search in _watched:
        if search.cache is not None:
            _record(search.cache.path, search.counters.as_dict())


def _record(folder: str, counters: Mapping[str, Any]) -> None:
    stored = sum(count for label, count in counters["hits"].items() if label != "memory")
    counts = {"hits": stored, **{name: counters[name] for name in _FIELDS[1:]}}
    archive = sys.modules.get("sterna.image.archive")  # not there in a process whose devices have no use for one
    if archive is not None:
        found = archive.counters_of(folder)
        counts |= {f"code_{name}": found[name] for name in _OF_CODE if found.get(name)}
    if not any(counts.values()):
        return
    path = os.path.join(folder, _NAME)
    try:
        if os.path.getsize(path) > _MAX_BYTES:
            files.atomic_write(path, _line(read_history(folder)), durable=False)
    except OSError:
        pass
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    except OSError:
        return
    try:
        os.write(handle, _line({"processes": 1, **counts}))
    except OSError:
        pass
    finally:
        os.close(handle)


def _line(counts: Mapping[str, int]) -> bytes:
    return json.dumps(counts, sort_keys=True).encode() + b"\n"
