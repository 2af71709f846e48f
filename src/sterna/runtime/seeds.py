"""Seeds of kernels that draw random numbers: one a launch, from the seed that `sterna.seed` sets.

A launch's seed is the key of its generator (`sterna.random`).  Seeds are the outputs of SplitMix64 (Steele, Lea and
Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), started at the scrambled seed of the process, so
that launches differ from each other and setting the seed again replays them.  Launches of all devices, and of the
interpreter, take from the same sequence; those of kernels that draw nothing take none.
"""

from __future__ import annotations

import operator
import os
import threading

__all__ = ["next_seed", "seed"]

_GAMMA = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


class _Sequence:
    """The process's sequence: where it stands."""

    __slots__ = ("lock", "state")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.state: int | None = None


_SEQUENCE = _Sequence()


def _mix(value: int) -> int:
    """SplitMix64's output function."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


def seed(value: int | None = None) -> None:
    """Start the random numbers of kernels anew.

    Parameters
    ----------
    value : int, optional
        From 0 to 2**64 - 1; without it a seed comes from the operating system, as before the first call.

    Raises
    ------
    ValueError
        For an integer outside that range.

    Examples
    --------
    >>> import sterna
    >>> sterna.seed(7)  # the launches that follow draw the same numbers in every run
    """
    if value is None:
        number = int.from_bytes(os.urandom(8), "little")
    else:
        try:
            number = operator.index(value)
        except TypeError:
            raise TypeError(f"a seed is an integer, given {type(value).__name__}") from None
        if not 0 <= number <= _MASK:
            raise ValueError(f"a seed is from 0 to 2**64 - 1, given {number}")
    with _SEQUENCE.lock:
        _SEQUENCE.state = _mix(number)


def next_seed() -> int:
    """The seed of the next launch, an unsigned 64-bit number."""
    if _SEQUENCE.state is None:
        seed()
    with _SEQUENCE.lock:
        assert _SEQUENCE.state is not None
        state = _SEQUENCE.state = (_SEQUENCE.state + _GAMMA) & _MASK
    return _mix(state)
