"""Give the threads of a kernel that draws random numbers their generator, started before the first statement.

The frontend leaves a marker (the intrinsic ``state.generator``) where device code asks for the thread's generator; it
names the device function that starts one, found through the job's tables.  Here the generator becomes a local array
of the kernel, its prologue calls that function, and every device function that draws, or calls one that does, takes
the array as one more argument.  After this pass there is no marker left; a module without any is given back as it is.

This is the default of the targets' ``finish`` hook (`sterna.targets.base.TargetCompiler`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import rewrite_function, walk_function
from sterna.language.random import STATE_WORDS
from sterna.types import UINT32, VOID, ArrayType

__all__ = ["GENERATOR", "GENERATOR_TYPE", "start_generator"]

GENERATOR = "state.generator"
"""Name of the marker; its one attribute is the name of the function that starts a generator."""
GENERATOR_TYPE = ArrayType(UINT32, 1, "C", False, "local")
_NAME = ".generator"


def start_generator(module: ir.Module) -> ir.Module:
    """Replace every marker of `module` (*typed* or *lowered*)."""
    starts, drawing = _drawing(module)
    if not starts:
        return module
    (start,) = sorted(starts)
    functions = {}
    for name, function in module.functions.items():
        if name == module.entry:
            array = ir.LocalArray(_NAME, (STATE_WORDS,), GENERATOR_TYPE)
            function = rewrite_function(function, partial(_changed, drawing=drawing, generator=array))
            prologue = ir.ExprStatement(ir.Call(start, (array,), VOID))
            function = replace(function, body=(prologue, *function.body))
        elif name in drawing:
            local = ir.Local(_NAME, GENERATOR_TYPE)
            function = rewrite_function(function, partial(_changed, drawing=drawing, generator=local))
            function = replace(
                function, params=(*function.params, (_NAME, GENERATOR_TYPE)),
                locals={**function.locals, _NAME: GENERATOR_TYPE},
            )  # fmt: skip
        functions[name] = function
    return replace(module, functions=functions)


def _changed(node: Any, drawing: frozenset[str], generator: ir.Expr) -> Any:
    if isinstance(node, ir.Intrinsic) and node.name == GENERATOR:
        return generator
    if isinstance(node, ir.Call) and node.function in drawing:
        return replace(node, args=(*node.args, generator))
    return node


def _drawing(module: ir.Module) -> tuple[frozenset[str], frozenset[str]]:
    """The functions that start a generator, and those that draw, themselves or through a call."""
    starts: set[str] = set()
    drawing: list[str] = []
    callers: dict[str, list[str]] = {}
    for name, function in module.functions.items():
        for node in walk_function(function):
            if isinstance(node, ir.Intrinsic) and node.name == GENERATOR:
                starts.update(node.attrs)
                drawing.append(name)
            elif isinstance(node, ir.Call):
                callers.setdefault(node.function, []).append(name)
    found: set[str] = set()
    while drawing:
        name = drawing.pop()
        if name not in found:
            found.add(name)
            drawing += callers.get(name, ())
    return frozenset(starts), frozenset(found)
