"""One instruction of a target by its name: an LLVM intrinsic or inline assembly, for definitions of one target."""

from __future__ import annotations

from typing import Any

from sterna.language.context import intrinsic as operation

__all__ = ["inline_asm", "intrinsic"]


@operation("intrinsic", "special")
def intrinsic(name: str, result_type: Any, *operands: Any) -> Any:
    """Call an LLVM intrinsic of the target.

    It is tried out when the kernel is compiled: a name that the target does not have, or other operand or result types
    than it has, are a `CompileError`.

    Parameters
    ----------
    name : str
        Its full name, a constant: ``"llvm.nvvm.read.ptx.sreg.clock64"``, ``"llvm.ctpop.i32"``.
    result_type : dtype or None
        A bool, integer, float32 or float64 type; None if it gives nothing.
    *operands : bool, int or float
        Each is passed with its own type: a Python int is 64 bits wide, a Python float a float64; convert them
        (``np.int32(x)``) where the intrinsic wants another.  A constant stays one, for operands that must be.

    Returns
    -------
    number of `result_type`

    Examples
    --------
    >>> import numpy as np, sterna
    >>> @sterna.device_function(target="cpu")
    ... def bits(x):
    ...     return sterna.intrinsic("llvm.ctpop.i32", np.int32, np.int32(x))
    """


@operation("inline_asm", "special")
def inline_asm(text: str, constraints: str, result_type: Any, *operands: Any, side_effects: bool = True) -> Any:
    """Emit inline assembly of the target.

    Parameters
    ----------
    text : str
        The instructions, a constant, with ``$0``, ``$1``… for the result and the operands: ``"mov.u32 $0, %clock;"``.
    constraints : str
        LLVM's constraint string, a constant: ``"=r,r"``.
    result_type : dtype or None
        As for `intrinsic`.
    *operands : bool, int or float
        As for `intrinsic`.
    side_effects : bool
        A constant.  If False, it may be left out, moved and joined with its like where its result allows.

    Returns
    -------
    number of `result_type`
    """
