"""Who am I: position of the running thread in its block and grid, and the sizes of both.

All of these are Python ints (weak): ``x[i] * 2 + i`` keeps the type of ``x[i]``'s arithmetic.
"""

from __future__ import annotations

import operator
from typing import Any

from sterna.language.context import intrinsic, overlay_operation, perform

__all__ = ["blockDim", "blockIdx", "grid", "gridDim", "gridsize", "laneid", "threadIdx", "warpsize"]


@intrinsic("grid", "special")
def grid(ndim: int) -> Any:
    """Position of this thread in the whole grid.

    With explicit blocks and threads, component 0 is ``blockIdx.x * blockDim.x + threadIdx.x``, component 1 uses
    ``.y``, component 2 ``.z``.  In a ``kernel.over(shape)`` launch component `k` is below ``shape[k]`` and the
    last axis varies fastest among neighbouring threads.

    Parameters
    ----------
    ndim : int
        Number of components, a constant 1, 2 or 3; in an ``over`` launch, the number of axes of the shape.

    Returns
    -------
    int or tuple of int
        One int for ``grid(1)``, else a tuple of `ndim` ints.

    Examples
    --------
    >>> import sterna
    >>> @sterna.kernel
    ... def double(x):
    ...     i = sterna.grid(1)
    ...     if i < x.size:
    ...         x[i] = x[i] * 2
    """


@intrinsic("grid_sync", "none")
def grid_sync() -> Any:
    """Wait until every thread of the whole grid has come here; written ``grid.sync()``.

    The kernel must be cooperative (``@sterna.kernel(cooperative=True)``), so that all its blocks run at the same time,
    and every thread must come: one that has returned is waited for in vain, one that has failed ends the launch.
    """


grid.sync = grid_sync  # type: ignore[attr-defined]


@intrinsic("gridsize", "special")
def gridsize(ndim: int) -> Any:
    """Number of threads of the whole grid along each of `ndim` axes, in the order of `grid`.

    Parameters
    ----------
    ndim : int
        A constant 1, 2 or 3.

    Returns
    -------
    int or tuple of int
        One int for ``gridsize(1)``, else a tuple.
    """


class ThreadVector:
    """Three ints, one per axis, that differ by thread, block or launch.

    Attributes
    ----------
    x, y, z : int
        The components; `x` varies fastest among the threads of a block.
    """

    __slots__ = ("_shown", "name")

    def __init__(self, name: str, shown: str) -> None:
        self.name, self._shown = name, shown
        overlay_operation(self, name)

    @property
    def x(self) -> int:
        """Component along the fastest axis."""
        return int(perform(f"{self.name}.x"))

    @property
    def y(self) -> int:
        """Component along the second axis."""
        return int(perform(f"{self.name}.y"))

    @property
    def z(self) -> int:
        """Component along the slowest axis."""
        return int(perform(f"{self.name}.z"))

    def __repr__(self) -> str:
        return f"sterna.{self._shown}"


class ThreadValue:
    """An int that differs by thread, read by its plain name; behaves as that int in arithmetic."""

    __slots__ = ("__sterna_result__", "name")
    __array_ufunc__ = None  # NumPy scalars leave mixed arithmetic to the reflected methods below

    def __init__(self, name: str) -> None:
        self.name, self.__sterna_result__ = name, "int"
        overlay_operation(self, name)

    def __index__(self) -> int:
        return int(perform(self.name))

    def __int__(self) -> int:
        return self.__index__()

    def __float__(self) -> float:
        return float(self.__index__())

    def __bool__(self) -> bool:
        return bool(self.__index__())

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"sterna.{self.name}"

    def __neg__(self) -> int:
        return -self.__index__()

    def __invert__(self) -> int:
        return ~self.__index__()


def _give_operators(cls: type) -> None:
    """Binary operators and comparisons of `cls`, on the int it stands for."""

    def forward(function: Any) -> Any:
        return lambda self, other: function(self.__index__(), other)

    def reflected(function: Any) -> Any:
        return lambda self, other: function(other, self.__index__())

    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift"):
        function, plain = getattr(operator, name), name.rstrip("_")
        setattr(cls, f"__{plain}__", forward(function))
        setattr(cls, f"__r{plain}__", reflected(function))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(cls, f"__{name}__", forward(getattr(operator, name)))


_give_operators(ThreadValue)

threadIdx = ThreadVector("thread_idx", "threadIdx")
"""Position of the thread in its block."""
blockIdx = ThreadVector("block_idx", "blockIdx")
"""Position of the block in the grid."""
blockDim = ThreadVector("block_dim", "blockDim")
"""Threads of a block along each axis."""
gridDim = ThreadVector("grid_dim", "gridDim")
"""Blocks of the grid along each axis."""
laneid: Any = ThreadValue("laneid")
"""Position of the thread in its warp: the linear thread number modulo `warpsize`."""
warpsize: Any = ThreadValue("warpsize")
"""Threads of a warp (32 on cpu and cuda)."""
