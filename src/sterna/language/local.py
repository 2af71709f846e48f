"""Memory of one thread: ``local.array(shape, dtype)``."""

from __future__ import annotations

from typing import Any

from sterna.language.context import intrinsic

__all__ = ["array"]


@intrinsic("local.array", "special")
def array(shape: Any, dtype: Any) -> Any:
    """A small array of the running thread alone; uninitialised.

    Parameters
    ----------
    shape : int or tuple of int
        Constant extents.
    dtype : dtype
        A scalar type or a structured dtype.

    Returns
    -------
    array
        C-ordered, of that shape.
    """
