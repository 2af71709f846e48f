"""Holding a launch to the promise ``noalias``: arguments that the kernel writes must not overlap others.

Only kernels with that option pay for it; two comparisons an array where nothing is near anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sterna.errors import SignatureError
from sterna.runtime.signature import ArgumentPacker
from sterna.types import Type

__all__ = ["DisjointPacker"]

_MOST_WORK = 10_000


class DisjointPacker(ArgumentPacker):
    """Packs arguments that do not overlap where the kernel writes.

    Parameters
    ----------
    kernel, names, types
        As for `ArgumentPacker`.
    written : sequence of int
        Positions of the arguments that the kernel may write.
    """

    checks = True

    def __init__(self, kernel: str, names: Sequence[str], types: tuple[Type, ...], written: Sequence[int]) -> None:
        super().__init__(kernel, names, types)
        self._written = frozenset(written)

    def pack(self, args: Sequence[Any]) -> bytes:
        """Arguments as bytes, checked."""
        self.check(args)
        return super().pack(args)

    def check(self, args: Sequence[Any]) -> None:
        """Compare the memory of all arrays.

        Raises
        ------
        SignatureError
            When memory of an argument that is written belongs to another one too.
        """
        spans = [(*span, n) for n, arg in enumerate(args) for span in _spans(arg)]
        spans.sort(key=_start)
        for k, (_, end, array, n) in enumerate(spans):
            for start, _, other, m in spans[k + 1 :]:
                if start >= end:
                    break
                if n != m and (n in self._written or m in self._written) and _overlap(array, other):
                    raise self._refused(n, m)

    def _refused(self, n: int, m: int) -> SignatureError:
        first, second = sorted((n, m))
        written = " and ".join(self._names[k] for k in (first, second) if k in self._written)
        return SignatureError(
            f"kernel {self._kernel}: arguments {self._names[first]} and {self._names[second]} overlap in memory; the "
            f"kernel writes {written}, and its option noalias promises that nothing else reaches that memory. Pass a "
            "copy of one of them, or make the kernel without noalias=True"
        )


def _start(span: tuple[int, int, Any, int]) -> int:
    return span[0]


def _spans(value: Any) -> Iterator[tuple[int, int, Any]]:
    """First byte, end and array of every array in an argument."""
    if isinstance(value, tuple):
        for item in value:
            yield from _spans(item)
    elif hasattr(type(value), "__dataclass_fields__"):
        for name in type(value).__dataclass_fields__:
            yield from _spans(getattr(value, name))
    elif (isinstance(value, np.ndarray) or getattr(type(value), "__sterna_array__", False)) and value.size:
        address = _address(value)
        reach = [(n - 1) * s for n, s in zip(value.shape, value.strides, strict=True)]
        low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
        yield address + low, address + high + value.dtype.itemsize, value


def _address(value: Any) -> int:
    return int(value.__array_interface__["data"][0] if isinstance(value, np.ndarray) else value.address)


class _Shape:
    """Shape, strides and address of an array, for NumPy; nothing is read there."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = {
            "data": (_address(array), True), "shape": array.shape, "strides": array.strides,
            "typestr": f"|V{array.dtype.itemsize}", "version": 3,
        }  # fmt: skip


def _overlap(left: Any, right: Any) -> bool:
    """Whether two arrays certainly have a byte in common: views may lie between each other's elements."""
    try:
        return np.shares_memory(np.asarray(_Shape(left)), np.asarray(_Shape(right)), max_work=_MOST_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return False
