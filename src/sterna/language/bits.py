"""Operations on bits and numbers that Python has no name for, by CUDA Python's names.

An integer argument is taken at its own width; a Python int is 64 bits wide.
"""

from __future__ import annotations

from typing import Any

from sterna.language.context import intrinsic

__all__ = ["brev", "cbrt", "clz", "ffs", "fma", "inbounds", "mul_hi", "popc", "rsqrt", "selp"]


@intrinsic("popc", "int")
def popc(x: Any) -> Any:
    """Number of bits set in `x` (two's complement at its width)."""


@intrinsic("clz", "int")
def clz(x: Any) -> Any:
    """Number of zero bits above the highest bit set; the width for 0."""


@intrinsic("ffs", "int")
def ffs(x: Any) -> Any:
    """Position of the lowest bit set, counted from 1; 0 for 0."""


@intrinsic("brev", "same")
def brev(x: Any) -> Any:
    """The bits of `x` in reverse order, of the type of `x`."""


@intrinsic("mul_hi", "same")
def mul_hi(a: Any, b: Any) -> Any:
    """The upper half of the double-width product; `a` and `b` are first promoted to one type."""


@intrinsic("fma", "floating")
def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` rounded once; the arguments are first promoted to one floating type."""


@intrinsic("rsqrt", "floating")
def rsqrt(x: Any) -> Any:
    """``1 / sqrt(x)`` within 2 ulp; float32 for float32, float64 for integers."""


@intrinsic("cbrt", "floating")
def cbrt(x: Any) -> Any:
    """Cube root; float32 for float32, float64 for integers."""


@intrinsic("selp", "special")
def selp(condition: Any, a: Any, b: Any) -> Any:
    """`a` if `condition` else `b`, both evaluated; of the promoted type of both."""


@intrinsic("inbounds", "special")
def inbounds() -> Any:
    """``with inbounds():`` leaves out the index checks of the statements in it.

    The indices there must be in range (negative ones still count from the end): an index outside is
    undefined behaviour, as in C.  Calls made inside keep their own checks.
    """
