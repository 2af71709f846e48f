"""What differs between targets of the LLVM code generator, as a small value with overridable hooks.

The defaults suit a CPU; a GPU target derives from `LLVMProfile` and overrides what it must.  Nothing in this
package asks which target it generates code for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.frame import Frame
from sterna.types import Type

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
    from sterna.compiler.codegen.llvm.intrinsics import Emit
    from sterna.compiler.codegen.llvm.mathops import Emit as EmitNumber

__all__ = ["LLVMProfile"]


@dataclass(frozen=True)
class LLVMProfile:
    """Facts and hooks of one LLVM target.

    Attributes
    ----------
    triple, cpu, features : str
        As LLVM names them.
    data_layout : str
        LLVM's data layout string, which says how values are aligned; empty for LLVM's defaults.
    native_half : bool
        Whether float16 converts to and from float32 in one instruction.
    slot_space : str
        Address space of what arguments and references point to, and of the slots unless `slots_in` says another,
        with a trailing space (``addrspace(1) ``), or empty.
    atomic_scope : str
        Scope of atomic operations, with a trailing space (``syncscope("device") ``), or empty for the system's.
    gathers_failures : bool
        Whether all failures of a function go to one place that records them, which keeps the code at each small.
    adds_strides : bool
        Whether element addresses of C-ordered arrays are sums over strides, which all accesses of a loop share.
    guards_statements : bool
        Whether straight code with several index checks is emitted twice, one copy without them behind one test.
    line_info : bool
        Whether instructions say which source line they come from.
    returns_once : bool
        Whether a function puts a result of several parts together in one place, where phis of structures are no use.
    intrinsic_spaces : tuple of str
        Targets whose LLVM intrinsics it has, as in ``llvm.nvvm.…``.
    """

    triple: str
    cpu: str = ""
    features: str = ""
    data_layout: str = ""
    native_half: bool = True
    slot_space: str = ""
    atomic_scope: str = ""
    gathers_failures: bool = False
    adds_strides: bool = False
    guards_statements: bool = False
    line_info: bool = False
    returns_once: bool = False
    intrinsic_spaces: tuple[str, ...] = ()

    def device_frame(self, state: tuple[str, ...]) -> Frame:
        """The frame of a device function, made of its hidden parameters.

        Parameters
        ----------
        state : tuple of str
            State words that the module reads (`sterna.abi.STATE_WORDS`).
        """
        return Frame()

    def slots_in(self, words: int) -> str:
        """Address space of the global that holds the words of references, with a trailing space."""
        return self.slot_space

    def legalise(self, text: str) -> str:
        """The text of a module, with what the target cannot do replaced by what it can."""
        return text

    def math_function(self, name: str, llvm_type: str) -> str:
        """Symbol that computes `name` on ``float`` or ``double``: C's by default."""
        return name + ("f" if llvm_type == "float" else "")

    def float32_functions(self) -> Mapping[str, EmitNumber]:
        """Functions of the mathematical library that the target computes otherwise, by name, for float32."""
        return {}

    def call_attributes(self) -> str:
        """Attributes of every function defined."""
        return "nounwind"

    def rare_attributes(self) -> str:
        """Attributes of functions that run once in a launch if at all; those of every function without."""
        return ""

    def atomic_float_in_hardware(self, op: str, t: Type) -> bool:
        """Whether ``atomicrmw`` knows this operation on floats; else a compare-and-swap loop is made."""
        return op in ("add", "sub", "exch", "max", "min")

    def atomic_integer_in_hardware(self, op: str, t: Type) -> bool:
        """Whether ``atomicrmw`` knows this operation on integers; else a compare-and-swap loop is made."""
        return True

    def shared_is_private(self) -> bool:
        """Whether one hardware thread runs a whole block, so that atomics on shared memory need not be atomic."""
        return False

    def keep_in_place(self, e: FunctionEmitter, kind: str, value: str) -> None:
        """A value is stored to an array of a thread: a target may have it computed here, not where it is used."""

    def operations(self) -> tuple[Mapping[str, Emit], ...]:
        """The target's own ways to compute operations: tables, operation → emitter, the most specific first."""
        return ()
