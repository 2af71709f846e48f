"""From the text of an LLVM module to LLVM's own form, for the targets whose code LLVM makes."""

from __future__ import annotations

import llvmlite.binding as llvm

from sterna.errors import CompileError

__all__ = ["parse_module"]


def parse_module(text: str) -> llvm.ModuleRef:
    """Parse and verify a module that a code generator of Sterna's wrote.

    Raises
    ------
    CompileError
        If it is not valid; the fault is ours then, not the user's.
    """
    try:
        parsed = llvm.parse_assembly(text)
        parsed.verify()
    except RuntimeError as error:
        raise CompileError(f"the code generator made invalid LLVM IR: {error}") from None
    return parsed
