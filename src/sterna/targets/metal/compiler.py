"""The Metal target's compiler: lowered kernel IR → text in Metal's language; needs no Apple hardware.

The same job gives the same bytes in every process (I4).
"""

from __future__ import annotations

from typing import Any

from sterna.compiler.codegen.msl.module import emit_module, entry_name
from sterna.compiler.deep import with_deep_stack
from sterna.compiler.ir.nodes import Module
from sterna.options import CompileOptions
from sterna.targets.base import Target
from sterna.targets.metal import toolchain
from sterna.targets.metal.target import compiler_versions

__all__ = ["COMPILER", "MetalCompiler"]


class MetalCompiler:
    """Compiler half of the Metal target."""

    def versions(self) -> dict[str, str]:
        """Versions that influence the code."""
        return compiler_versions() or {}

    def compile(
        self, module: Module, target: Target, options: CompileOptions
    ) -> tuple[dict[str, bytes], dict[str, Any], dict[str, Any]]:
        """Compile a lowered module.

        Returns
        -------
        payloads : dict of str to bytes
            ``msl``: the text, in UTF-8; ``metallib`` beside it where Apple's tools are asked for.
        facts : dict
            ``entry``; ``state``, names of the state words that it reads; ``shared``, whether the kernel takes a
            threadgroup buffer, and ``shared_bytes`` of it beside dynamic memory; ``raises``; ``prints``;
            ``max_threads``; ``language``, the lowest version of Metal that will do; ``fastmath``, for the options that
            the device compiles the text with.
        texts : dict of str to str
            ``msl``, also as ``asm``.
        """
        text, context = with_deep_stack(emit_module, module, options)
        facts: dict[str, Any] = {
            "entry": entry_name(module.entry),
            "state": list(context.state),
            "shared": context.uses_shared,
            "shared_bytes": context.shared_bytes,
            "raises": context.raises,
            "prints": context.prints,
            "max_threads": options.launch_bounds[0] if options.launch_bounds else 0,
            "language": context.language,
            "fastmath": options.fastmath,
        }
        payloads = {"msl": text.encode()}
        if toolchain.is_wanted():
            payloads["metallib"] = toolchain.make_metallib(text, context.language, module.entry, fast=options.fastmath)
        return payloads, facts, {"msl": text, "asm": text}


COMPILER = MetalCompiler()
