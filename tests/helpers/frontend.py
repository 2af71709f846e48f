"""Builds typed IR from a Python function for a toy target, and its text without headings."""

from __future__ import annotations

from typing import Any

from sterna.compiler.frontend import build_module
from sterna.compiler.ir.nodes import Module
from sterna.compiler.ir.text import module_text
from sterna.compiler.ir.verify import verify
from sterna.options import CompileOptions
from sterna.source.captures import scan
from sterna.targets.base import Limits, Target
from sterna.types import Type

__all__ = ["TOY", "body_of", "build", "lines_of"]

TOY = Target("toy", "v1", ("patch",), Limits())


def build(function: Any, *types: Type, target: Target = TOY, **options: Any) -> Module:
    """Typed and verified IR of a kernel."""
    module = build_module(scan(function), types, CompileOptions(**options), target)
    verify(module, "typed")
    return module


def lines_of(module: Module) -> list[str]:
    """The module's text, line by line, without indentation, locals and error sites."""
    text = module_text(module).partition("\nerrors\n")[0]
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("local ")]


def body_of(function: Any, *types: Type, marks: bool = False, **options: Any) -> list[str]:
    """Text of the kernel's own body: bounds checks off unless asked for, marks of non-negative indices left out."""
    module = build(function, *types, **{"boundscheck": False, **options})
    lines = lines_of(module)
    ends = [k for k, line in enumerate(lines) if line.startswith(("function ", "references"))]
    body = lines[1 : ends[0] if ends else None]
    return body if marks else [line.replace(" +]", "]") for line in body]
