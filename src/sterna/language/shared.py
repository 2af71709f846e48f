"""Memory that the threads of one block share: ``shared.array(shape, dtype)``."""

from __future__ import annotations

from typing import Any

from sterna.language.context import intrinsic

__all__ = ["array"]


@intrinsic("shared.array", "special")
def array(shape: Any, dtype: Any) -> Any:
    """An array that all threads of the block see; uninitialised, gone with the block.

    Each place in the source (and each specialisation of the function it stands in) is one array per block,
    however often it is reached.

    Parameters
    ----------
    shape : int or tuple of int
        Constant extents.  ``0`` gives the dynamic shared memory of the launch
        (``kernel[blocks, threads, stream, shared_bytes]``) as a 1-D array; all such arrays are the same bytes.
    dtype : dtype
        A scalar type (``sterna.float32``, ``np.float32``) or a structured dtype.

    Returns
    -------
    array
        C-ordered, of that shape.
    """
