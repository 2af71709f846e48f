"""Compiler half of the toy target: lowered IR as JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from helpers.toy.target import compiler_versions
from sterna.compiler.ir.nodes import Module
from sterna.compiler.passes.inline_calls import inline_calls
from sterna.compiler.passes.kernel_state import kernel_state
from sterna.options import CompileOptions
from sterna.targets.base import Target


def encode(node: Any) -> Any:
    """An IR tree as plain data: a node is its class name and fields, a type its string form."""
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        if type(node).__module__ == "sterna.types":
            return str(node)
        fields = {f.name: encode(getattr(node, f.name)) for f in dataclasses.fields(node)}
        return {"node": type(node).__name__, **fields}
    if isinstance(node, tuple):
        return [encode(item) for item in node]
    return node


class ToyCompiler:
    """Lowered IR → payload ``tree``."""

    def versions(self) -> dict[str, str]:
        """Versions that influence the code."""
        return compiler_versions()

    def compile(
        self, module: Module, target: Target, options: CompileOptions
    ) -> tuple[dict[str, bytes], dict[str, Any], dict[str, str]]:
        """The kernel function's statements, with all device functions inlined, and the state words that it reads."""
        state = kernel_state(module, options.over)
        module = inline_calls(module, frozenset(module.functions) - {module.entry})
        kernel = module.functions[module.entry]
        tree = {"params": [name for name, _ in kernel.params], "body": encode(kernel.body)}
        data = json.dumps(tree, sort_keys=True).encode()
        return {"tree": data}, {"state": list(state)}, {"tree": data.decode()}


COMPILER = ToyCompiler()
