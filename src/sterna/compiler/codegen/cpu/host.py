"""Host functions: native code that the launching side calls, the same for all kernels of an architecture.

Every CPU image carries them as an object of their own, since a machine that only runs kernels has no compiler to make
them; a process uses those of the first image that it meets.  Their text is as LLVM's optimiser would leave it.
"""

from __future__ import annotations

from sterna.compiler.codegen.cpu.packing import pack_text
from sterna.compiler.codegen.cpu.profile import CpuProfile
from sterna.compiler.codegen.cpu.team import team_text

__all__ = ["host_text"]


def host_text(profile: CpuProfile) -> str:
    """LLVM IR of the module for a kind of processor."""
    head = f'source_filename = "host"\ntarget triple = "{profile.triple}"\n'
    return head + team_text(profile) + pack_text(profile)
