"""Running a recursive pass over a tree of any depth.

Python's recursion limit protects a small stack; a kernel with thousands of terms or branches needs more.  The
pass runs as it is, and only if the limit is hit it runs once more in a thread with a large stack and a
limit to match.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["with_deep_stack"]

P = ParamSpec("P")
R = TypeVar("R")
_STACK_BYTES = 512 * 1024 * 1024
_DEPTH = 400_000
_ONE_AT_A_TIME = threading.Lock()


def with_deep_stack(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """``function(*args, **kwargs)``, repeated on a deep stack if it exceeds the recursion limit.

    The function must be safe to call a second time after a `RecursionError`.
    """
    try:
        return function(*args, **kwargs)
    except RecursionError:
        pass
    if threading.current_thread().name == "sterna-deep":
        raise RecursionError("the tree is too deep to compile")
    outcome: list[R] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(function(*args, **kwargs))
        except BaseException as error:
            failure.append(error)

    with _ONE_AT_A_TIME:
        size, limit = threading.stack_size(_STACK_BYTES), sys.getrecursionlimit()
        try:
            thread = threading.Thread(target=work, name="sterna-deep")
            sys.setrecursionlimit(max(limit, _DEPTH))
            thread.start()
            threading.stack_size(size)
            thread.join()
        finally:
            threading.stack_size(size)
            sys.setrecursionlimit(limit)
    if failure:
        raise failure[0]
    return outcome[0]
