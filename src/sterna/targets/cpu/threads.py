"""How many threads run a CPU launch; apart from the pool, which a launch of little work never imports."""

from __future__ import annotations

import os

__all__ = ["thread_count"]


def thread_count() -> int:
    """Threads that run a launch: ``STERNA_NUM_THREADS``, else the processors this process may use.

    Raises
    ------
    ValueError
        When the variable is not a positive number.
    """
    text = os.environ.get("STERNA_NUM_THREADS", "")
    if text:
        if not text.isdecimal() or int(text) < 1:
            raise ValueError(f"STERNA_NUM_THREADS={text!r}; allowed are 1, 2, 3 …")
        return int(text)
    if hasattr(os, "sched_getaffinity"):
        return max(len(os.sched_getaffinity(0)), 1)
    return os.cpu_count() or 1
