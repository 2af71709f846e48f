"""CPU objects made from LLVM IR by hand, and images around them: a runtime to test with no front end."""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm

from sterna.image.format import KernelImage
from sterna.relocation.record import Manifest
from sterna.targets.cpu.device import CpuModule
from sterna.targets.registry import target

__all__ = ["X86_64", "build_object", "grid_kernel", "load_kernel"]

X86_64 = "x86_64-unknown-linux-elf"

_GRID = """
{globals}
define void @entry(ptr %args, ptr %launch) {{
  %total.p = getelementptr i64, ptr %launch, i64 1
  %total = load i64, ptr %total.p
  %threads.p = getelementptr i64, ptr %launch, i64 6
  %threads = load i64, ptr %threads.p
  %record.p = getelementptr i64, ptr %launch, i64 12
  %record = load ptr, ptr %record.p
  %table.p = getelementptr i64, ptr %launch, i64 13
  %table = load ptr, ptr %table.p
  %out = load ptr, ptr %args
  br label %take
take:
  %block = atomicrmw add ptr %launch, i64 1 seq_cst
  %done = icmp uge i64 %block, %total
  br i1 %done, label %exit, label %first
first:
  %base = mul i64 %block, %threads
  br label %thread
thread:
  %t = phi i64 [0, %first], [%next, %latch]
  %i = add i64 %base, %t
  br label %body
body:
{body}
latch:
  %next = add i64 %t, 1
  %more = icmp ult i64 %next, %threads
  br i1 %more, label %thread, label %take
exit:
  ret void
}}
"""


@functools.cache
def _machine(triple: str, reloc: str) -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc=reloc, codemodel="small")


def build_object(ir: str, triple: str = X86_64, reloc: str = "pic") -> bytes:
    """Compile LLVM IR to a relocatable ELF object."""
    machine = _machine(triple, reloc)
    module = llvm.parse_assembly(ir)
    module.triple = triple
    module.verify()
    return bytes(machine.emit_object(module))


def grid_kernel(body: str, declared: str = "") -> str:
    """A kernel by the CPU ABI: `body` runs per thread.

    It sees ``%out`` (first argument, a pointer), ``%i`` (global thread number), ``%block``, ``%t``, ``%record``,
    ``%table``, and ends in a branch to ``%latch`` (next thread).
    """
    return _GRID.format(body=body, globals=declared)


def load_kernel(ir: str, **changes: Any) -> CpuModule:
    """Compile, wrap in an image, load on the CPU."""
    cpu = target("cpu")
    fields: dict[str, Any] = {
        "key": "00" * 32, "name": "hand_made", "module": "tests", "target": cpu.name, "arch": cpu.arch,
        "entry": "entry", "signature": "()", "manifest": Manifest("patch"), "payloads": {"object": build_object(ir)},
    }  # fmt: skip
    device = cpu.runtime().device(0)
    module = device.load(KernelImage(**(fields | changes)), None)  # type: ignore[arg-type]
    assert isinstance(module, CpuModule)
    return module
