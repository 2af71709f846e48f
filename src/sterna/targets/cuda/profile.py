"""NVIDIA GPUs as a target of the LLVM code generator: NVPTX's registers, address spaces, names of functions.

What LLVM's NVPTX back end cannot select (it would end the process) is replaced in `legalise`, before LLVM sees it:
transcendental functions and exact remainders become calls of NVIDIA's maths library (`libdevice`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from sterna.compiler.codegen.simt.profile import SimtProfile
from sterna.relocation.record import WORD_BYTES
from sterna.targets.cuda.operations import GRID_STATE, OPERATIONS
from sterna.targets.cuda.target import ptx_version
from sterna.types import Type

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
    from sterna.compiler.codegen.llvm.intrinsics import Emit
    from sterna.options import CompileOptions

__all__ = ["CudaProfile", "cuda_profile"]

_REGISTERS = {
    "thread_idx": ("tid", 0, 1024), "block_dim": ("ntid", 1, 1025), "block_idx": ("ctaid", 0, 2**31 - 1),
    "grid_dim": ("nctaid", 1, 2**31 - 1),
}  # fmt: skip
"""Operation → special register, and the range of its values (the end excluded)."""

_CONSTANT_BYTES = 32 * 1024
"""Most bytes of words that go to the constant bank, which has 64 KiB for a whole module."""

_REGISTER_KINDS = {"float": "f", "double": "d", "i32": "r", "i64": "l"}
"""LLVM type → constraint of an operand of inline PTX."""

_TRANSCENDENTAL = "sin|cos|tan|exp|exp2|exp10|log|log2|log10|pow|sinh|cosh|tanh|asin|acos|atan|atan2"
_MATH = re.compile(rf"@llvm\.({_TRANSCENDENTAL})\.(f32|f64)\b")
_FAST = frozenset({"sin", "cos", "tan", "exp", "exp10", "log", "log2", "log10", "pow"})
_REMAINDER = re.compile(r"= frem[a-z ]*? (float|double) ([^,\n]+), ([^,\n]+?)((?:, !dbg ![0-9]+)?)$", re.MULTILINE)


@dataclass(frozen=True)
class CudaProfile(SimtProfile):
    """One NVIDIA architecture.

    Attributes
    ----------
    fast : bool
        Whether float32 functions may be the approximate ones.
    """

    fast: bool = False
    intrinsic_spaces: tuple[str, ...] = ("nvvm",)

    @property
    def capability(self) -> int:
        """Compute capability times ten."""
        return int(self.cpu.removeprefix("sm_"))

    def math_function(self, name: str, llvm_type: str) -> str:
        """A function of libdevice."""
        if llvm_type != "float":
            return f"__nv_{name}"
        return f"__nv_fast_{name}f" if self.fast and name in _FAST else f"__nv_{name}f"

    def call_attributes(self) -> str:
        """Device functions may hold barriers."""
        return "convergent nounwind"

    def entry_attributes(self, options: CompileOptions) -> str:
        """Launch bounds and cluster size."""
        return "".join(f' "{name}"="{value}"' for name, value in _bounds(options))

    def slots_in(self, words: int) -> str:
        """The constant bank, which kernels read fastest and the driver writes as any memory, while they fit."""
        return "addrspace(4) " if WORD_BYTES * words <= _CONSTANT_BYTES else self.slot_space

    def atomic_float_in_hardware(self, op: str, t: Type) -> bool:
        """Addition; exchange is a move of bits; LLVM expands the others well."""
        return op in ("add", "exch")

    def hardware_index(self, e: FunctionEmitter, name: str, axis: int) -> str:
        """A special register, as int64."""
        register, low, high = _REGISTERS[name]
        intrinsic = f"llvm.nvvm.read.ptx.sreg.{register}.{'xyz'[axis]}"
        value = e.b.op(f"call range(i32 {low}, {high}) i32 @{intrinsic}()")
        return e.b.op(f"zext i32 {value} to i64")

    def announce_failure(self, e: FunctionEmitter) -> None:
        """Tell a cooperative grid, whose threads would wait for the failing one."""
        if e.context.options.cooperative:
            e.context.helper("sterna_grid", GRID_STATE)
            word = "ptr addrspace(1) getelementptr inbounds (i8, ptr addrspace(1) @sterna_grid, i64 4)"
            e.b.emit(f"store volatile i32 1, {word}")

    def keep_in_place(self, e: FunctionEmitter, kind: str, value: str) -> None:
        """Hold the value here, by an empty instruction, in code with index checks.

        LLVM would otherwise move the whole computation of an array that is kept in registers behind the checks of the
        last statement that uses it, and all its operands would wait in registers, or outside them.
        """
        constraint = _REGISTER_KINDS.get(kind)
        if constraint and e.context.options.boundscheck and e.context.options.opt >= 2:
            e.b.emit(f'call void asm sideeffect "", "{constraint}"({kind} {value}) nounwind memory(none)')

    def dynamic_shared_bytes(self, e: FunctionEmitter) -> str:
        """Bytes of dynamic shared memory of the launch: a special register that LLVM has no intrinsic for."""
        size = e.b.op('call i32 asm "mov.u32 $0, %dynamic_smem_size;", "=r"()')
        return e.b.op(f"zext i32 {size} to i64")

    def operations(self) -> tuple[Mapping[str, Emit], ...]:
        """Barriers, warp operations and fences, as instructions."""
        return (OPERATIONS,)

    def legalise(self, text: str) -> str:
        """Replace what the back end cannot select by calls of libdevice."""

        def function(match: re.Match[str]) -> str:
            return f"@{self.math_function(match[1], 'float' if match[2] == 'f32' else 'double')}"

        def remainder(match: re.Match[str]) -> str:
            kind, left, right, note = match.groups()
            return f"= call {kind} @{self.math_function('fmod', kind)}({kind} {left}, {kind} {right}){note}"

        return _REMAINDER.sub(remainder, _MATH.sub(function, text))


def _bounds(options: CompileOptions) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    bounds = options.launch_bounds
    if bounds:
        found.append(("nvvm.maxntid", bounds[0]))
        if len(bounds) > 1:
            found.append(("nvvm.minctasm", bounds[1]))
    cluster = options.cluster
    if cluster:
        found.append(("nvvm.cluster_dim", ",".join(map(str, cluster))))
    return found


@lru_cache(maxsize=64)
def cuda_profile(arch: str, fast: bool, line_info: bool) -> CudaProfile:
    """The profile of an architecture."""
    return CudaProfile(
        triple="nvptx64-nvidia-cuda", cpu=arch, features=f"+ptx{ptx_version(arch).replace('.', '')}",
        slot_space="addrspace(1) ", atomic_scope='syncscope("device") ', line_info=line_info,
        entry_convention="ptx_kernel ", record_space="addrspace(1) ", shared_space="addrspace(3) ", fast=fast,
    )  # fmt: skip
