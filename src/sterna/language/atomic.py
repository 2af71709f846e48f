"""Read-modify-write of one array element that no other thread can cut in two.

Every function takes the array, an index (a tuple for several axes) and a value, which is converted to the
array's element type, and gives the **old** value.  Elements may be (u)int32, (u)int64, float32 and float64, in
global or shared memory; the bitwise ones and `inc`/`dec` need integers.
"""

from __future__ import annotations

from typing import Any

from sterna.language.context import intrinsic

__all__ = ["add", "and_", "cas", "dec", "exch", "inc", "max", "min", "or_", "sub", "xor"]


@intrinsic("atomic.add", "same")
def add(array: Any, index: Any, value: Any) -> Any:
    """``array[index] += value``; gives the old value."""


@intrinsic("atomic.sub", "same")
def sub(array: Any, index: Any, value: Any) -> Any:
    """``array[index] -= value``; gives the old value."""


@intrinsic("atomic.max", "same")
def max(array: Any, index: Any, value: Any) -> Any:
    """``array[index] = max(array[index], value)``; gives the old value.  A NaN on one side loses."""


@intrinsic("atomic.min", "same")
def min(array: Any, index: Any, value: Any) -> Any:
    """``array[index] = min(array[index], value)``; gives the old value.  A NaN on one side loses."""


@intrinsic("atomic.and_", "same")
def and_(array: Any, index: Any, value: Any) -> Any:
    """``array[index] &= value``; gives the old value."""


@intrinsic("atomic.or_", "same")
def or_(array: Any, index: Any, value: Any) -> Any:
    """``array[index] |= value``; gives the old value."""


@intrinsic("atomic.xor", "same")
def xor(array: Any, index: Any, value: Any) -> Any:
    """``array[index] ^= value``; gives the old value."""


@intrinsic("atomic.inc", "same")
def inc(array: Any, index: Any, value: Any) -> Any:
    """Count up to `value`, unsigned, then start again: ``0 if old >= value else old + 1``; gives the old value."""


@intrinsic("atomic.dec", "same")
def dec(array: Any, index: Any, value: Any) -> Any:
    """Count down from `value`, unsigned: ``value if old == 0 or old > value else old - 1``; gives the old value."""


@intrinsic("atomic.exch", "same")
def exch(array: Any, index: Any, value: Any) -> Any:
    """``array[index] = value``; gives the old value."""


@intrinsic("atomic.cas", "same")
def cas(array: Any, index: Any, old: Any, value: Any) -> Any:
    """``array[index] = value`` if it equals `old` (bit for bit); gives the value found."""
