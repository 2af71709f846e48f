"""The OpenCL target's compiler: lowered kernel IR → LLVM IR → SPIR-V; needs no device and no driver.

The same job gives the same bytes in every process (I4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm

from sterna.abi import STATE_WORDS
from sterna.compiler.codegen.llvm.inline import problem_of
from sterna.compiler.codegen.llvm.module import entry_symbol
from sterna.compiler.codegen.llvm.parsing import parse_module
from sterna.compiler.codegen.simt.entry import SimtContext, emit_entry
from sterna.compiler.codegen.simt.stepped import emit_stepped
from sterna.compiler.deep import with_deep_stack
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk_function
from sterna.compiler.passes.prepare import prepare_steps
from sterna.errors import SourceLocation, UnsupportedError
from sterna.options import CompileOptions
from sterna.targets.base import Target
from sterna.targets.opencl.emit import disassemble, emit_spirv
from sterna.targets.opencl.expand import expand, settle
from sterna.targets.opencl.legalise import check, unfold
from sterna.targets.opencl.profile import PROFILE
from sterna.targets.opencl.target import compiler_versions

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter

__all__ = ["COMPILER", "OpenclCompiler", "generate"]

Text = str | Callable[[], str]


class OpenclContext(SimtContext):
    """Shared state of emitting one module: slots are words of the table, and dynamic memory is told its size."""

    def __init__(self, module: ir.Module, options: CompileOptions, target: Target, layout: str) -> None:
        super().__init__(module, replace(PROFILE, data_layout=layout), options, str(target))
        nodes = [node for function in module.functions.values() for node in walk_function(function)]
        more = {"table" for n in nodes if isinstance(n, ir.SlotWord)}
        more |= {"dynamic" for n in nodes if isinstance(n, ir.SharedArray) and not n.shape and n.type.ndim == 1}
        self.state = tuple(name for name in STATE_WORDS if name in {*self.state, *more})
        self._index = {record.slot: record.index for record in module.manifest or ()}

    def slot_word(self, e: FunctionEmitter, slot: str, index: int) -> str:
        """A word of a relocation slot, from the table: the host cannot write into loaded code."""
        place = e.b.op(f"getelementptr inbounds i64, ptr {e.frame.table(e)}, i64 {self._index[slot] + index}")
        return e.b.op(f"load i64, ptr {place}, !invariant.load !1")


class OpenclCompiler:
    """Compiler half of the OpenCL target."""

    def versions(self) -> dict[str, str]:
        """Versions that influence the code."""
        return {**(compiler_versions() or {}), "llvm": ".".join(map(str, llvm.llvm_version_info))}

    def compile(
        self, module: ir.Module, target: Target, options: CompileOptions
    ) -> tuple[dict[str, bytes], dict[str, Any], dict[str, Any]]:
        """Compile a lowered module.

        Returns
        -------
        payloads : dict of str to bytes
            ``spirv``.
        facts : dict
            ``entry``, ``state``, ``shared_bytes``, ``float64`` (whether the device must have it) …
        texts : dict of str to str or callable
            ``llvm``: as generated; ``llvm-opt``: after the optimiser; ``spirv`` (also as ``asm``): as text.
        """
        text, facts = with_deep_stack(generate, module, target, options)
        level = options.level
        final = _ready(text, level)
        facts["float64"] = "double" in final
        texts: dict[str, Text] = {
            "llvm": text,
            "llvm-opt": final,
            "asm": lambda: disassemble(final, PROFILE.triple, level),
            "spirv": lambda: disassemble(final, PROFILE.triple, level),
        }
        code = emit_spirv(final, PROFILE.triple, level)
        return {"spirv": code}, facts, texts

    def inline_problem(self, call: ir.Intrinsic, target: Target) -> str:
        """Why an LLVM intrinsic or inline assembly cannot be compiled; empty if it can."""
        return "OpenCL has no inline assembly" if call.name == "inline.asm" else problem_of(PROFILE, call)


COMPILER = OpenclCompiler()


def generate(module: ir.Module, target: Target, options: CompileOptions) -> tuple[str, dict[str, Any]]:
    """LLVM IR of a module, as text, and its launch facts.

    Raises
    ------
    UnsupportedError
        For what OpenCL devices cannot do: recursion, clusters, cooperative launches.
    """
    if options.cluster or options.cooperative:
        what = "a cluster" if options.cluster else "a cooperative launch"
        kernel = _shown(module, module.functions[module.entry])
        hint = "leave the option out; both are of CUDA devices"
        raise UnsupportedError(f"{what} on opencl", kernel=kernel, hint=hint)
    module, program = prepare_steps(module)
    context = OpenclContext(module, options, target, _data_layout())
    for name, info in context.infos.items():
        if info.recursive:
            raise _recursion(module, module.functions[name])
    entry = emit_entry(context) if program is None else emit_stepped(context, program)
    text = context.text([entry])
    facts = {
        "entry": entry_symbol(module.entry),
        "state": list(context.state),
        "raises": context.has_helper("sterna_raise"),
        "prints": context.prints,
        "shared_bytes": context.shared_bytes,
    }
    return text, facts


def _shown(module: ir.Module, function: ir.Function) -> str:
    return module.sources[function.ordinal][1].rpartition(".")[2] if module.sources else function.name


def _recursion(module: ir.Module, function: ir.Function) -> UnsupportedError:
    name, place = _shown(module, function), None
    if function.ordinal < len(module.places):
        place = SourceLocation(*module.places[function.ordinal], function=name)
    return UnsupportedError(
        f"a recursive function on opencl: {name} calls itself", place, _shown(module, module.functions[module.entry]),
        "write it as a loop with a stack of its own",
    )  # fmt: skip


def _ready(text: str, level: int) -> str:
    """The module as the back end takes it, checked."""
    for lower in sorted({level, min(level, 1), 0}, reverse=True):
        optimised = expand(str(_optimised(text, lower)))
        try:
            check(optimised)
        except UnsupportedError:
            if lower:
                continue  # the optimiser may have made it: it makes less at a lower level
            raise
        break
    ready = settle(unfold(optimised))
    parse_module(ready)
    return ready


def _optimised(text: str, level: int) -> llvm.ModuleRef:
    parsed = parse_module(text)
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = tuning.slp_vectorization = False
    builder = llvm.create_pass_builder(_machine(level), tuning)
    builder.getModulePassManager().run(parsed, builder)
    return parsed


@cache
def _data_layout() -> str:
    return str(_machine(3).target_data)


@cache
def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def _machine(level: int) -> llvm.TargetMachine:
    """For the optimiser; a new one each time, since it keeps what it knows of a module."""
    _initialise()
    return llvm.Target.from_triple(PROFILE.triple).create_target_machine(opt=level)
