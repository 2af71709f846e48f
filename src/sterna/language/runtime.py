"""The runtime library: what compiled code calls on its own account, written in the kernel language.

Its functions are device functions.  Generated code finds each through the tables of its job, so that a target, or a
user, may put another definition in its place with `device_override`; such a definition captures nothing of the host
but constants, cannot fail itself, and is part of the key.

Index checks themselves are no functions: the compiler must see them to prove them, to join them and to take them out
of loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from sterna.language import atomic
from sterna.language.device import device_function
from sterna.language.sync import threadfence_system
from sterna.overlays import note_runtime

__all__ = ["report_failure"]

if TYPE_CHECKING:
    STATUS: TypeAlias = Any
    WORDS: TypeAlias = Any
else:
    STATUS, WORDS = "int32[:]", "int64[:]"  # the record's memory, seen in two ways
FREE, CLAIMED, WRITTEN = 0, 1, 2
"""Status of an exception record."""


@device_function
def report_failure(
    status: STATUS, words: WORDS, width: int, height: int, error: int, bx: int, by: int, bz: int, tx: int, ty: int,
    tz: int, d0: int, d1: int, d2: int,
) -> None:  # fmt: skip
    """Write the launch's exception record, if this thread is the first to fail; others leave no trace.

    Parameters
    ----------
    status : array of int32
        The record's first two words: its status, and the number of the error.
    words : array of int64
        The same memory: behind the first come block, thread and details.
    width, height : int
        Threads of a block along x and y.  Where blocks run together as one, the thread's x and y count through all of
        them, and are brought back to its own block here.
    error : int
        Number of the error site in the image.
    bx, by, bz, tx, ty, tz : int
        Block and thread.
    d0, d1, d2 : int
        Details, such as an index and an extent.
    """
    if atomic.cas(status, 0, FREE, CLAIMED) == FREE:
        status[1] = error
        while tx >= width:
            tx -= width
            bx += 1
        while ty >= height:
            ty -= height
            by += 1
        words[1] = bx
        words[2] = by
        words[3] = bz
        words[4] = tx
        words[5] = ty
        words[6] = tz
        words[7] = d0
        words[8] = d1
        words[9] = d2
        threadfence_system()
        atomic.exch(status, 0, WRITTEN)


note_runtime(report_failure)
