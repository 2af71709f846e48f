"""The CPU as a target of the LLVM code generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sterna.compiler.codegen.cpu.mathematics import FLOAT32_FUNCTIONS
from sterna.compiler.codegen.llvm.mathops import Emit
from sterna.compiler.codegen.llvm.profile import LLVMProfile

__all__ = ["CpuProfile"]


@dataclass(frozen=True)
class CpuProfile(LLVMProfile):
    """A CPU: one hardware thread runs a whole block, so shared memory is its own.

    Attributes
    ----------
    pause : (str, str)
        LLVM's intrinsic that tells the processor that a thread is waiting, and its argument.
    """

    pause: tuple[str, str] = ("llvm.x86.sse2.pause", "")

    def float32_functions(self) -> Mapping[str, Emit]:
        """Those that loops over threads are vectorised with."""
        return FLOAT32_FUNCTIONS

    def rare_attributes(self) -> str:
        """What only a failing thread runs takes no time of the optimiser."""
        return "cold noinline optnone nounwind"

    def shared_is_private(self) -> bool:
        """Blocks never share a hardware thread's stack."""
        return True
