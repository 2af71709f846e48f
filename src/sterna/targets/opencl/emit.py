"""SPIR-V of a module: LLVM's back end, until what it gives is whole.

The back end keeps something of every module it has seen in the process (`sterna.targets.opencl.renumber`), by the
addresses of its own objects.  Where that spoils a module, it is emitted again at other addresses, and in the end by a
process that has seen no other.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import llvmlite.binding as llvm

from sterna.errors import CompileError
from sterna.targets.opencl.renumber import SharedIdentifier, UnknownInstruction, renumbered

__all__ = ["emit_spirv"]

_ATTEMPTS = 4
_SIZES = range(256, 8192, 16)
"""Sizes, in bytes, among which those of the back end's objects are."""

_ALONE = """
import sys, llvmlite.binding as llvm
llvm.initialize_all_targets(); llvm.initialize_all_asmprinters()
machine = llvm.Target.from_triple(sys.argv[1]).create_target_machine(opt=int(sys.argv[2]))
module = llvm.parse_assembly(sys.stdin.buffer.read().decode())
sys.stdout.buffer.write(machine.emit_object(module))
"""


def emit_spirv(text: str, triple: str, level: int, machine: Callable[[], llvm.TargetMachine]) -> bytes:
    """The SPIR-V of a module's text, the same in every process.

    Parameters
    ----------
    text : str
        LLVM IR that the back end can select.
    triple : str
        Of the target.
    level : int
        Optimisation level of the back end.
    machine : callable
        Makes a new target machine.
    """
    in_the_way: list[bytearray] = []
    for attempt in range(_ATTEMPTS):
        try:
            return renumbered(bytes(machine().emit_object(llvm.parse_assembly(text))))
        except SharedIdentifier:
            in_the_way += [bytearray(size) for size in _SIZES for _ in range(8 << attempt)]
        except UnknownInstruction:
            break
    found = subprocess.run(
        [sys.executable, "-c", _ALONE, triple, str(level)], input=text.encode(), capture_output=True, check=False
    )
    if found.returncode or not found.stdout:
        raise CompileError(f"LLVM cannot make SPIR-V of this kernel: {found.stderr.decode(errors='replace')[-300:]}")
    try:
        return renumbered(found.stdout)
    except UnknownInstruction:
        return found.stdout
