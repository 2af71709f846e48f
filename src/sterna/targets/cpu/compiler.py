"""The CPU target's compiler: lowered kernel IR → LLVM IR → an ELF object for Sterna's loader.

Text of the module (`sterna.compiler.codegen`) → LLVM's parser and verifier → optimiser → object.  The same job gives
the same bytes in every process (I4): the text depends on the IR alone and names no file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm

from sterna.compiler.codegen.cpu.entry import emit_entry
from sterna.compiler.codegen.cpu.host import host_text
from sterna.compiler.codegen.cpu.profile import CpuProfile
from sterna.compiler.codegen.llvm.inline import has_assembly, object_apart, problem_of
from sterna.compiler.codegen.llvm.module import ModuleContext, entry_symbol
from sterna.compiler.codegen.llvm.parsing import parse_module
from sterna.compiler.deep import with_deep_stack
from sterna.compiler.ir.nodes import Intrinsic, Module
from sterna.compiler.passes.prepare import prepare_kernel
from sterna.errors import CompileError
from sterna.options import CompileOptions
from sterna.targets.base import Target
from sterna.targets.cpu.prelink import prelink
from sterna.targets.cpu.target import compiler_versions

__all__ = ["COMPILER", "CpuCompiler"]

Text = str | Callable[[], str]


class CpuCompiler:
    """Compiler half of the CPU target."""

    def versions(self) -> dict[str, str]:
        """Versions that influence the code."""
        return {**(compiler_versions() or {}), "llvm": ".".join(map(str, llvm.llvm_version_info))}

    def compile(
        self, module: Module, target: Target, options: CompileOptions
    ) -> tuple[dict[str, bytes], dict[str, Any], dict[str, Any]]:
        """Compile a lowered module.

        Returns
        -------
        payloads : dict of str to bytes
            ``object``: the ELF object; ``host``: that of the host functions.
        facts : dict
            ``entry`` symbol, ``shared_bytes``, ``prints`` (whether any thread may print), ``state`` (words read).
        texts : dict of str to (str or callable)
            ``llvm``: the module as generated; ``llvm-opt``: after the optimiser; ``asm``: assembly (made on demand).
        """
        text, facts = with_deep_stack(generate, module, target, options)
        level = options.level
        machine = _machine(target.arch, level)
        parsed = parse_module(text)
        _optimise(parsed, machine, level)
        if has_assembly(text):
            data = prelink(object_apart(_profile(target.arch), min(level, 2), str(parsed)))
        else:
            data = prelink(machine.emit_object(parsed))
        texts: dict[str, Text] = {
            "llvm": text,
            "llvm-opt": lambda: _again(text, target, options, "llvm-opt"),
            "asm": lambda: _again(text, target, options, "asm"),
        }
        return {"object": data, "host": _host(target.arch)}, facts, texts

    def inline_problem(self, call: Intrinsic, target: Target) -> str:
        """Why an LLVM intrinsic or inline assembly cannot be compiled; empty if it can."""
        return problem_of(_profile(target.arch), call)


COMPILER = CpuCompiler()


def generate(module: Module, target: Target, options: CompileOptions) -> tuple[str, dict[str, Any]]:
    """LLVM IR of a module, as text, and its launch facts."""
    prepared, program = prepare_kernel(module, options)
    context = ModuleContext(prepared, _profile(target.arch), options, str(target))
    entry = emit_entry(context, program)
    text = context.text([entry])
    if context.shared_bytes > target.limits.shared_bytes:
        limit = target.limits.shared_bytes
        raise CompileError(
            f"the kernel's shared arrays take {context.shared_bytes} bytes; {target} allows {limit}",
            kernel=module.entry, hint="use smaller tiles or a narrower element type",
        )  # fmt: skip
    facts = {
        "entry": entry_symbol(module.entry), "shared_bytes": context.shared_bytes, "prints": bool(context.prints),
        "state": list(context.state),
    }  # fmt: skip
    return text, facts


@lru_cache(maxsize=16)
def _profile(arch: str) -> CpuProfile:
    machine = "aarch64" if arch == "aarch64" else "x86_64"
    cpu = "generic" if arch == "aarch64" else arch
    native_half = arch in ("aarch64", "x86-64-v3", "x86-64-v4")
    spaces = ("aarch64",) if arch == "aarch64" else ("x86",)
    pause = ("llvm.aarch64.isb", "i32 15") if arch == "aarch64" else ("llvm.x86.sse2.pause", "")
    return CpuProfile(
        triple=f"{machine}-unknown-linux-gnu", cpu=cpu, native_half=native_half, intrinsic_spaces=spaces, pause=pause
    )


@lru_cache(maxsize=16)
def _machine(arch: str, level: int) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()  # for inline assembly
    profile = _profile(arch)
    found = llvm.Target.from_triple(profile.triple)
    return found.create_target_machine(
        cpu=profile.cpu, features=profile.features, opt=min(level, 2), reloc="pic", codemodel="small"
    )


@lru_cache(maxsize=16)
def _host(arch: str) -> bytes:
    """Object of the host functions: the same in all images of an architecture."""
    return prelink(_machine(arch, 2).emit_object(parse_module(host_text(_profile(arch)))))


def _optimise(parsed: llvm.ModuleRef, machine: llvm.TargetMachine, level: int) -> None:
    # level 3 adds loop unswitching, which doubles code that exists twice already
    tuning = llvm.create_pipeline_tuning_options(speed_level=min(level, 2))
    tuning.loop_vectorization = level >= 2
    tuning.slp_vectorization = False  # costs a tenth of the time and finds next to nothing in loops over threads
    tuning.loop_interleaving = tuning.loop_unrolling = level >= 2
    builder = llvm.create_pass_builder(machine, tuning)
    manager = builder.getModulePassManager()
    manager.run(parsed, builder)


def _again(text: str, target: Target, options: CompileOptions, what: str) -> str:
    machine = _machine(target.arch, options.level)
    parsed = parse_module(text)
    _optimise(parsed, machine, options.level)
    return str(parsed) if what == "llvm-opt" else machine.emit_assembly(parsed)
