"""What the runtime library asks of the launch and of the running thread; users call `sterna.random` instead."""

from __future__ import annotations

from typing import Any

from sterna.language.context import intrinsic

__all__ = ["generator", "need_integer", "refuse", "seed", "thread"]


@intrinsic("state.seed", "uint64")
def seed() -> Any:
    """The seed of this launch (`sterna.seed`): the state word that only kernels which draw random numbers have."""


@intrinsic("state.thread", "uint64")
def thread() -> Any:
    """Number of this thread in the grid, x fastest; of an ``over`` launch, in its shape, the last axis fastest.

    How the grid is cut into blocks makes no difference to it.
    """


@intrinsic("state.generator", "special")
def generator(start: Any) -> Any:
    """The thread's generator, an array of `sterna.language.random.STATE_WORDS` uint32 words that lives as long as it.

    Parameters
    ----------
    start : function
        Called with the array, once, before the kernel's first statement; it returns nothing.  The job's tables may
        have another function in its place.
    """


@intrinsic("state.refuse", "none")
def refuse(message: Any, given: Any) -> Any:
    """End the compilation, if this call is part of the code that is compiled, at the line of the user's call.

    Parameters
    ----------
    message : str
        What is allowed, a constant.
    given : object
        What was given instead; the error says what it is.
    """


@intrinsic("state.need_integer", "none")
def need_integer(message: Any, value: Any) -> Any:
    """End the compilation as `refuse` does, unless `value` is an integer."""
