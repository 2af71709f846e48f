"""The CUDA target's compiler: lowered kernel IR → LLVM IR → PTX → cubin; needs no GPU and no driver.

The same job gives the same bytes in every process (I4): text, PTX and cubin name no file of this machine and
depend on the IR alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm

from sterna.compiler.codegen.llvm.inline import problem_of
from sterna.compiler.codegen.llvm.module import entry_symbol
from sterna.compiler.codegen.llvm.parsing import parse_module
from sterna.compiler.codegen.simt.entry import SimtContext, emit_entry
from sterna.compiler.deep import with_deep_stack
from sterna.compiler.frontend.recursion import MAX_DEPTH
from sterna.compiler.ir.nodes import Intrinsic, Module
from sterna.errors import CompileError, UnsupportedError
from sterna.options import CompileOptions
from sterna.targets.base import Target
from sterna.targets.cuda.cubin import read_cubin
from sterna.targets.cuda.disassemble import disassemble
from sterna.targets.cuda.libdevice import link_libdevice
from sterna.targets.cuda.linker import link_ptx
from sterna.targets.cuda.profile import cuda_profile
from sterna.targets.cuda.repair import guard_narrow_stores, keep_signed_zeros
from sterna.targets.cuda.target import STACK_BYTES, compiler_versions

__all__ = ["COMPILER", "CudaCompiler", "generate", "make_ptx"]

_CALL_NUMBER = re.compile(r" // callseq \d+, \d+")
"""A comment that counts calls over all modules of a process."""

_STACK = 1024
"""Bytes of a thread's stack beside what recursion takes."""

Text = str | Callable[[], str]


class CudaCompiler:
    """Compiler half of the CUDA target."""

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
            ``cubin``, and the ``ptx`` it was made from, for drivers that refuse the former.
        facts : dict
            ``entry``, ``registers``, ``local_bytes``, ``shared_bytes``, ``max_threads``, ``state``…
        texts : dict of str to str or callable
            ``llvm``: as generated; ``llvm-opt``: after the optimiser; ``ptx`` (also as ``asm``); ``sass``.
        """
        text, facts = with_deep_stack(generate, module, target, options)
        level = options.level
        ptx = make_ptx(text, target.arch, level)
        cubin = link_ptx(ptx.encode(), target.arch, True, level)
        found = read_cubin(cubin)
        entry = found.entries.get(facts["entry"])
        if entry is None:
            raise CompileError(f"the linker made a cubin without the kernel {facts['entry']}")
        facts |= {
            "registers": entry.registers,
            "local_bytes": entry.local_bytes,
            "shared_bytes": entry.shared_bytes,
        }
        if facts.pop("recursive"):  # a call deeper takes a frame, and the depth is limited
            stack = _STACK + 2 * found.largest_frame + min(MAX_DEPTH * found.largest_frame, 2 * STACK_BYTES)
            facts["stack_bytes"] = facts["local_bytes"] = stack
        texts: dict[str, Text] = {
            "llvm": text,
            "llvm-opt": lambda: str(_optimised(text, target.arch, level)),
            "asm": ptx,
            "ptx": ptx,
            "sass": lambda: disassemble(cubin),
        }
        return {"cubin": cubin, "ptx": ptx.encode()}, facts, texts

    def inline_problem(self, call: Intrinsic, target: Target) -> str:
        """Why an LLVM intrinsic or inline assembly cannot be compiled; empty if it can."""
        return problem_of(cuda_profile(target.arch, False, False), call)


COMPILER = CudaCompiler()


def generate(module: Module, target: Target, options: CompileOptions) -> tuple[str, dict[str, Any]]:
    """LLVM IR of a module, as text, and its launch facts."""
    if options.cluster and int(target.arch[3:]) < 90:
        raise UnsupportedError(f"a cluster on {target.arch}", hint="clusters exist from sm_90 on")
    layout = str(_machine(target.arch, options.level).target_data)
    profile = replace(cuda_profile(target.arch, options.fastmath, bool(module.places)), data_layout=layout)
    context = SimtContext(module, profile, options, str(target))
    parts = [emit_entry(context)]
    body = context.text(parts)
    facts = {
        "entry": entry_symbol(module.entry),
        "state": list(context.state),
        "raises": context.has_helper("sterna_raise"),
        "prints": context.prints,
        "cooperative": options.cooperative,
        "cluster": list(options.cluster),
        "recursive": any(info.recursive for info in context.infos.values()),
    }
    return link_libdevice(body, target.arch), facts


def make_ptx(text: str, arch: str, level: int) -> str:
    """PTX from the text of an LLVM module."""
    ptx: str = _machine(arch, level).emit_assembly(_optimised(text, arch, level))
    return keep_signed_zeros(guard_narrow_stores(_CALL_NUMBER.sub("", ptx)))


def _optimised(text: str, arch: str, level: int) -> llvm.ModuleRef:
    parsed = parse_module(text)
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = tuning.slp_vectorization = False
    builder = llvm.create_pass_builder(_machine(arch, level), tuning)
    builder.getModulePassManager().run(parsed, builder)
    return parsed


@lru_cache(maxsize=64)
def _machine(arch: str, level: int) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    profile = cuda_profile(arch, False, False)
    found = llvm.Target.from_triple(profile.triple)
    return found.create_target_machine(cpu=profile.cpu, features=profile.features, opt=level)
