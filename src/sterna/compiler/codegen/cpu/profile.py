"""The CPU as a target of the LLVM code generator."""

from __future__ import annotations

from dataclasses import dataclass

from sterna.compiler.codegen.llvm.profile import LLVMProfile

__all__ = ["CpuProfile"]


@dataclass(frozen=True)
class CpuProfile(LLVMProfile):
    """A CPU: one hardware thread runs a whole block, so shared memory is its own."""

    def rare_attributes(self) -> str:
        """What only a failing thread runs takes no time of the optimiser."""
        return "cold noinline optnone nounwind"

    def shared_is_private(self) -> bool:
        """Blocks never share a hardware thread's stack."""
        return True
