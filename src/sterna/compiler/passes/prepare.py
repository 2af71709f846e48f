"""Passes that every block-at-a-time target (the CPU) runs between kernel IR and code."""

from __future__ import annotations

from sterna.compiler.ir import nodes as ir
from sterna.compiler.passes.split_regions import Program, split_regions
from sterna.options import CompileOptions

__all__ = ["prepare_kernel"]


def prepare_kernel(module: ir.Module, options: CompileOptions) -> tuple[ir.Module, Program]:
    """Ready a lowered module for block-at-a-time code: the module as changed, and the kernel's regions."""
    return module, split_regions(module.functions[module.entry])
