"""What GPU targets of the LLVM code generator have in common: one hardware thread runs one thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.frame import Frame
from sterna.compiler.codegen.llvm.profile import LLVMProfile
from sterna.compiler.codegen.simt.frame import device_frame

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
    from sterna.options import CompileOptions

__all__ = ["SimtProfile"]


@dataclass(frozen=True)
class SimtProfile(LLVMProfile):
    """Facts and hooks of one GPU target.

    Attributes
    ----------
    entry_convention : str
        LLVM calling convention of an entry (``ptx_kernel``).
    record_space : str
        Address space of the exception record and the print buffer, with a trailing space.
    shared_space : str
        Address space of memory that a block shares, with a trailing space.
    """

    gathers_failures: bool = True
    adds_strides: bool = True
    guards_statements: bool = True
    entry_convention: str = ""
    record_space: str = ""
    shared_space: str = ""

    def device_frame(self, state: tuple[str, ...]) -> Frame:
        """The frame of a device function, made of its hidden parameters."""
        return device_frame(state)

    def argument_type(self, size: int) -> str:
        """LLVM type of the structure of all arguments, `size` bytes (a multiple of 8)."""
        return f"[{size} x i8]"

    def entry_parameters(self, state: tuple[str, ...]) -> str:
        """Further parameters of the entry behind the structure, with a leading comma each.

        Parameters
        ----------
        state : tuple of str
            State words that the module reads (`sterna.abi.STATE_WORDS`).
        """
        return ""

    def barrier(self, e: FunctionEmitter) -> None:
        """All threads of a block meet here, also those that have nothing to do any more (`stepped`)."""
        raise NotImplementedError

    def entry_attributes(self, options: CompileOptions) -> str:
        """Further attributes of the entry function, with a leading space each."""
        return ""

    def hardware_index(self, e: FunctionEmitter, name: str, axis: int) -> str:
        """``thread_idx``, ``block_idx``, ``block_dim`` or ``grid_dim`` along x, y or z, as int64."""
        raise NotImplementedError

    def announce_failure(self, e: FunctionEmitter) -> None:
        """Called where a failing thread records its failure, for launches whose threads wait for each other."""

    def dynamic_shared(self, e: FunctionEmitter) -> str:
        """Address of the launch's dynamic shared memory: a symbol that the launch gives a size."""
        e.context.helper("sterna_dynamic", f"@sterna_dynamic = external {self.shared_space}global [0 x i8], align 16")
        return e.b.op(f"addrspacecast ptr {self.shared_space}@sterna_dynamic to ptr")

    def dynamic_shared_bytes(self, e: FunctionEmitter) -> str:
        """Bytes of dynamic shared memory of the launch, as int64."""
        raise NotImplementedError
