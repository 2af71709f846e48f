"""OpenCL devices as a target of the LLVM code generator: SPIR-V's address spaces, entry, indices, function names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sterna.compiler.codegen.simt.profile import SimtProfile
from sterna.targets.opencl import operations
from sterna.targets.opencl.legalise import legalise
from sterna.targets.opencl.mathematics import builtin
from sterna.types import Type

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
    from sterna.compiler.codegen.llvm.intrinsics import Emit

__all__ = ["PROFILE", "OpenclProfile"]


@dataclass(frozen=True)
class OpenclProfile(SimtProfile):
    """SPIR-V for OpenCL devices."""

    def math_function(self, name: str, llvm_type: str) -> str:
        """A built-in function of OpenCL C."""
        return builtin(name, llvm_type)

    def call_attributes(self) -> str:
        """Device functions may hold barriers; loops and tables stay what they are."""
        return 'convergent nounwind "no-builtins" "no-jump-tables"="true"'

    def argument_type(self, size: int) -> str:
        """A structure: drivers take an array for a pointer."""
        return f"{{ [{size // 8} x i64] }}"

    def entry_parameters(self, state: tuple[str, ...]) -> str:
        """Dynamic shared memory is a parameter of its own."""
        return ", ptr addrspace(3) %dynamic" if "dynamic" in state else ""

    def dynamic_shared(self, e: FunctionEmitter) -> str:
        """The parameter."""
        return e.b.op("addrspacecast ptr addrspace(3) %dynamic to ptr")

    def dynamic_shared_bytes(self, e: FunctionEmitter) -> str:
        """A word of the launch's state."""
        return e.frame.words["dynamic"]  # type: ignore[attr-defined, no-any-return]

    def atomic_float_in_hardware(self, op: str, t: Type) -> bool:
        """None: only an extension has them."""
        return False

    def atomic_integer_in_hardware(self, op: str, t: Type) -> bool:
        """All but those that wrap around at a value."""
        return op not in ("inc", "dec")

    def hardware_index(self, e: FunctionEmitter, name: str, axis: int) -> str:
        """A built-in function, as int64."""
        return operations.hardware_index(e, name, axis)

    def barrier(self, e: FunctionEmitter) -> None:
        """All threads of the block meet."""
        operations.barrier(e)

    def operations(self) -> tuple[Mapping[str, Emit], ...]:
        """Fences and operations of the hardware."""
        return (operations.OPERATIONS,)

    def legalise(self, text: str) -> str:
        """With SPIR-V's address spaces."""
        return legalise(text)


PROFILE = OpenclProfile(
    triple="spirv64-unknown-unknown", native_half=False, returns_once=True, slot_space="addrspace(1) ",
    atomic_scope='syncscope("device") ', entry_convention="spir_kernel ", record_space="addrspace(1) ",
    shared_space="addrspace(3) ",
)  # fmt: skip
