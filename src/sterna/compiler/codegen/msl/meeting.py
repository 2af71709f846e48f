"""Kernels whose threads meet at barriers although some may leave early.

Metal wants every thread of a block at every barrier, also one that has failed, has returned, or is past the extents of
an ``over`` launch.  So such a kernel is cut at its barriers: what lies between (`Region`) is run by the threads that
are still live, while all threads walk from barrier to barrier together, through the conditions and loops that hold one.

That needs conditions that are the same for the whole block.  Where a barrier stands under another one, the kernel is
emitted as it is written, and its early leavers are Metal's affair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import map_statements, walk
from sterna.compiler.passes.collectives import BLOCK_WIDE
from sterna.compiler.passes.inline_calls import inline_calls
from sterna.compiler.passes.lift import Lifter, as_statement
from sterna.compiler.passes.uniformity import Uniformity
from sterna.frozen import frozen

__all__ = ["Meeting", "Region", "Step", "Together", "leaves", "meeting_steps"]


@frozen
class Region:
    """Statements for the threads that are still live."""

    body: tuple[ir.Stmt, ...]


@frozen
class Meeting:
    """A barrier; its result, if any, goes to the local `target`."""

    operation: ir.Intrinsic
    target: str | None


@frozen
class Together:
    """A statement that all threads execute: a uniform assignment, a jump, or control flow around `parts`."""

    node: Any
    parts: tuple[tuple[Step, ...], ...] = ()


Step = Region | Meeting | Together


class _Apart(Exception):
    """A barrier under a condition that may differ between threads."""


def meeting_steps(module: ir.Module, over: int) -> tuple[ir.Module, tuple[Step, ...] | None]:
    """Cut a kernel at its barriers, if it has some and its threads may leave early.

    Returns
    -------
    module : Module
        With functions that hold barriers inlined, if so.
    steps : tuple or None
        None: the kernel may be emitted as it is written.
    """
    holders = _holding_barriers(module)
    kernel = module.functions[module.entry]
    if module.entry not in holders and not _holds_barrier(kernel.body):
        return module, None
    body = kernel.body[:-1] if kernel.body and isinstance(kernel.body[-1], ir.Return) else kernel.body
    if not over and not leaves(body):
        return module, None
    within = holders - {module.entry}
    unlined = {name: _without_lines(f) if name in within else f for name, f in module.functions.items()}
    changed = inline_calls(replace(module, functions=unlined), frozenset(within))
    kernel = changed.functions[module.entry]
    types = dict(kernel.locals)
    kernel = replace(
        kernel, body=Lifter(types, _is_barrier, as_statement("vote", "votes")).statements(kernel.body), locals=types
    )
    try:
        steps = _Cutter(Uniformity(kernel)).sequence(kernel.body, False)
    except _Apart:
        return module, None
    return replace(changed, functions={**changed.functions, module.entry: kernel}), steps


def _without_lines(function: ir.Function) -> ir.Function:
    """A function to be inlined: its statements count as the line of the call."""

    def unlined(node: Any) -> tuple[Any]:
        return (replace(node, line=0) if getattr(node, "line", 0) else node,)

    return replace(function, body=map_statements(function.body, unlined))


def leaves(body: Sequence[ir.Stmt]) -> bool:
    """Whether a thread may leave the function in `body`."""
    return any(_leaves(node) for node in walk(body))


def _leaves(node: Any) -> bool:
    if isinstance(node, ir.Return | ir.Raise | ir.Call):
        return True
    return isinstance(node, ir.Element | ir.Store | ir.View | ir.Atomic) and node.check is not None


def _is_barrier(node: Any) -> bool:
    return isinstance(node, ir.Intrinsic) and node.name in BLOCK_WIDE


def _holds_barrier(nodes: Sequence[Any]) -> bool:
    return any(_is_barrier(node) for node in walk(nodes))


def _holding_barriers(module: ir.Module) -> set[str]:
    """Functions with a barrier, at any depth."""
    found = {name for name, f in module.functions.items() if _holds_barrier(f.body)}
    while True:
        more = {
            name
            for name, f in module.functions.items()
            if name not in found and any(isinstance(n, ir.Call) and n.function in found for n in walk(f.body))
        }
        if not more:
            return found
        found |= more


class _Cutter:
    def __init__(self, uniformity: Uniformity) -> None:
        self.uniformity = uniformity

    def sequence(self, body: Sequence[ir.Stmt], in_loop: bool) -> tuple[Step, ...]:
        """Steps of a sequence that all threads come to."""
        steps: list[Step] = []
        pending: list[ir.Stmt] = []
        for node in body:
            step = self._step(node, in_loop)
            if step is None:
                pending.append(node)
                continue
            if pending:
                steps.append(Region(tuple(pending)))
                pending = []
            steps.append(step)
            if isinstance(node, ir.Break | ir.Continue | ir.Return):
                break
        if pending:
            steps.append(Region(tuple(pending)))
        return tuple(steps)

    def _step(self, node: Any, in_loop: bool) -> Step | None:
        """What all threads do at a statement; None if it is for the live ones alone."""
        known = self.uniformity
        if isinstance(node, ir.Assign | ir.ExprStatement) and _is_barrier(node.value):
            assert isinstance(node.value, ir.Intrinsic)
            return Meeting(node.value, getattr(node, "target", None))
        if isinstance(node, ir.Assign):
            return Together(node) if known.is_uniform_local(node.target) else None
        if isinstance(node, ir.Break | ir.Continue | ir.Return):
            return Together(node)
        if not isinstance(node, ir.If | ir.While | ir.ForRange):
            return None
        holds = _holds_barrier([node])
        if not holds and not known.at_block_level(node, in_loop):
            return None
        return self._control(node, in_loop, holds)

    def _control(self, node: Any, in_loop: bool, holds: bool) -> Step | None:
        known = self.uniformity
        if isinstance(node, ir.If):
            if known.is_uniform(node.test):
                return Together(node, (self.sequence(node.then, in_loop), self.sequence(node.orelse, in_loop)))
        elif id(node) not in known.divergent_loops:
            bounds = (node.test,) if isinstance(node, ir.While) else (node.start, node.stop, node.step)
            if all(map(known.is_uniform, bounds)):
                return Together(node, (self.sequence(node.body, True),))
        if holds or _jumps(node):
            raise _Apart
        return None


def _jumps(node: Any) -> bool:
    """Whether a statement breaks or continues a loop around it."""
    if isinstance(node, ir.Break | ir.Continue):
        return True
    if isinstance(node, ir.If):
        return any(map(_jumps, (*node.then, *node.orelse)))
    return False
