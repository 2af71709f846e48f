"""CPU objects made from LLVM IR by hand, and images around them: a runtime to test with no front end."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import llvmlite.binding as llvm

from sterna.abi import BLOCK_RANGES, LAUNCH_FIELDS
from sterna.compiler.codegen.cpu.host import host_text
from sterna.compiler.codegen.cpu.profile import CpuProfile
from sterna.image.format import KernelImage
from sterna.relocation.record import Manifest
from sterna.targets.cpu.device import CpuModule
from sterna.targets.registry import target

__all__ = ["X86_64", "build_object", "call_entry", "grid_kernel", "load_kernel", "host_object"]

X86_64 = "x86_64-unknown-linux-elf"

_GRID = """
{globals}
define void @entry(ptr %args, ptr %launch, i64 %part) {{
  %parts.p = getelementptr i64, ptr %launch, i64 {fields[parts]}
  %parts = load i64, ptr %parts.p
  %threads.p = getelementptr i64, ptr %launch, i64 {fields[block_dim]}
  %threads = load i64, ptr %threads.p
  %record.p = getelementptr i64, ptr %launch, i64 {fields[exception]}
  %record = load ptr, ptr %record.p
  %table.p = getelementptr i64, ptr %launch, i64 {fields[table]}
  %table = load ptr, ptr %table.p
  %out = load ptr, ptr %args
  br label %range
range:
  %n = phi i64 [0, %0], [%n.next, %exhausted]
  %n.next = add i64 %n, 1
  %all = icmp eq i64 %n, %parts
  br i1 %all, label %exit, label %turn
turn:
  %number = add i64 %n, %part
  %own = urem i64 %number, %parts
  %at.words = mul i64 %own, {ranges[1]}
  %at.range = add i64 %at.words, {ranges[0]}
  %counter = getelementptr i64, ptr %launch, i64 %at.range
  %end.p = getelementptr i64, ptr %counter, i64 1
  %end = load i64, ptr %end.p
  br label %take
take:
  %block = atomicrmw add ptr %counter, i64 1 seq_cst
  %done = icmp uge i64 %block, %end
  br i1 %done, label %exhausted, label %first
exhausted:
  br label %range
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


@functools.cache
def host_object() -> bytes:
    """The host functions."""
    return build_object(host_text(CpuProfile(triple=X86_64)))


def grid_kernel(body: str, declared: str = "") -> str:
    """A kernel by the CPU ABI: `body` runs per thread.

    It sees ``%out`` (first argument, a pointer), ``%i`` (global thread number), ``%block``, ``%t``, ``%record``,
    ``%table``, and ends in a branch to ``%latch`` (next thread).
    """
    return _GRID.format(body=body, globals=declared, fields=LAUNCH_FIELDS, ranges=BLOCK_RANGES)


def load_kernel(ir: str, **changes: Any) -> CpuModule:
    """Compile, wrap in an image, load on the CPU."""
    cpu = target("cpu")
    fields: dict[str, Any] = {
        "key": "00" * 32, "name": "hand_made", "module": "tests", "target": cpu.name, "arch": cpu.arch,
        "entry": "entry", "signature": "()", "manifest": Manifest("patch"),
        "payloads": {"object": build_object(ir), "host": host_object()},
    }  # fmt: skip
    device = cpu.runtime().device(0)
    module = device.load(KernelImage(**(fields | changes)), None)  # type: ignore[arg-type]
    assert isinstance(module, CpuModule)
    return module


def call_entry(address: int, args: int, threads: int = 1, record: int = 0) -> None:
    """Call a kernel's entry function for one block of `threads` threads along x."""
    launch = (ctypes.c_uint64 * 64)()
    for name, value in (("exception", record), ("parts", 1), ("chunk", 1)):
        launch[LAUNCH_FIELDS[name]] = value
    for name, x in (("grid_dim", 1), ("block_dim", threads), ("extents", 1)):
        at = LAUNCH_FIELDS[name]
        launch[at : at + 3] = [x, 1, 1]
    launch[BLOCK_RANGES[0] + 1] = 1
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)
    entry(args, ctypes.addressof(launch), 0)
