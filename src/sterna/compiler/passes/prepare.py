"""Passes between kernel IR and the code of targets whose threads do not meet by themselves: the CPU, OpenCL."""

from __future__ import annotations

from dataclasses import replace

from sterna.compiler.ir import nodes as ir
from sterna.compiler.passes.collectives import contains_collective, functions_with_block_state, is_collective
from sterna.compiler.passes.inline_calls import inline_calls, small_functions
from sterna.compiler.passes.interchange import loops_to_interchange
from sterna.compiler.passes.lift import Lifter, as_statement
from sterna.compiler.passes.placement import Placement, Program, place
from sterna.compiler.passes.propagate import propagate
from sterna.compiler.passes.split_regions import Region, split
from sterna.compiler.passes.strided import TURN, block_strided_loops
from sterna.options import CompileOptions

__all__ = ["prepare_kernel", "prepare_steps"]


def prepare_kernel(module: ir.Module, options: CompileOptions) -> tuple[ir.Module, Program]:
    """Ready a lowered module for block-at-a-time code.

    Returns
    -------
    module : Module
        With functions that need the block's state inlined.
    program : Program
        The kernel as steps.
    """
    wanted = functions_with_block_state(module)
    if options.opt >= 2:
        wanted |= small_functions(module)
    module = inline_calls(module, wanted)
    kernel = propagate(module.functions[module.entry])
    collective = contains_collective(kernel.body)
    types = dict(kernel.locals)
    strided = False
    if options.opt >= 2:
        kernel, strided = block_strided_loops(kernel, types, options.over)
    if not collective and (options.opt < 2 or not (strided or loops_to_interchange(kernel, options.over))):
        module = _with_kernel(module, kernel)
        return module, Program((Region(kernel.body),), Placement(frozenset(), (), False), dict(kernel.locals), False)
    lifter = Lifter(types, is_collective, as_statement("arg", "got"))
    kernel = replace(kernel, body=lifter.statements(kernel.body), locals=types)
    also = loops_to_interchange(kernel, options.over) if options.opt >= 2 else frozenset()
    also |= frozenset(id(n) for n in kernel.body if isinstance(n, ir.ForRange) and n.target.startswith(TURN))
    steps, uniformity = split(kernel, types, also)
    module = _with_kernel(module, kernel)
    return module, place(steps, uniformity, kernel, types)


def prepare_steps(module: ir.Module) -> tuple[ir.Module, Program | None]:
    """Ready a lowered module for hardware whose barriers need every thread of the block, also one that has returned.

    Returns
    -------
    module : Module
        With functions that need the block's state inlined.
    program : Program or None
        The kernel as steps, if its threads meet at all.
    """
    module = inline_calls(module, functions_with_block_state(module))
    kernel = module.functions[module.entry]
    if not contains_collective(kernel.body):
        return module, None
    kernel = propagate(kernel)
    types = dict(kernel.locals)
    lifter = Lifter(types, is_collective, as_statement("arg", "got"))
    kernel = replace(kernel, body=lifter.statements(kernel.body), locals=types)
    steps, uniformity = split(kernel, types)
    return _with_kernel(module, kernel), place(steps, uniformity, kernel, types)


def _with_kernel(module: ir.Module, kernel: ir.Function) -> ir.Module:
    return replace(module, functions={**module.functions, module.entry: kernel})
