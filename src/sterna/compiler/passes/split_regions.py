"""Region splitting: a kernel with collectives as a tree of block-level steps.

A *region* is a run of statements without collectives; it becomes a loop over the block's threads.  What contains a
collective runs at block level: once, when its condition is uniform; else under *masks*, by which any divergence is
well defined: both arms of an `If` run one after the other for the threads that take them, a loop turns until no
thread is left in it, and threads that have returned or failed take part in nothing.

Karrenberg and Hack, "Whole-function vectorization" (2011), and Jääskeläinen et al., "pocl" (2015), describe the
two halves of the method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk
from sterna.compiler.passes.collectives import is_collective
from sterna.compiler.passes.uniformity import Uniformity
from sterna.frozen import frozen
from sterna.types import BOOL, PYINT, Type

__all__ = [
    "BlockAssign", "BlockFor", "BlockIf", "BlockWhile", "Collective", "Jump", "MaskedIf", "MaskedLoop", "Region",
    "Step", "split",
]  # fmt: skip


@frozen
class Region:
    """Statements that every active thread runs from start to end, in any order of threads."""

    body: tuple[ir.Stmt, ...]


@frozen
class Collective:
    """A collective operation; its arguments are locals or constants."""

    target: str | None
    operation: ir.Intrinsic


@frozen
class BlockAssign:
    """A uniform local is assigned, once for the block."""

    target: str
    value: ir.Expr


@frozen
class BlockIf:
    """An `If` with a uniform test."""

    test: ir.Expr
    then: tuple[Step, ...]
    orelse: tuple[Step, ...]


@frozen
class BlockFor:
    """A counted loop with uniform bounds; `target` is uniform."""

    target: str
    start: ir.Expr
    stop: ir.Expr
    step: ir.Expr
    body: tuple[Step, ...]


@frozen
class BlockWhile:
    """A loop with a uniform test."""

    test: ir.Expr
    body: tuple[Step, ...]


@frozen
class MaskedIf:
    """An `If` whose test, the local `test`, differs between threads."""

    test: str
    then: tuple[Step, ...]
    orelse: tuple[Step, ...]


@frozen
class MaskedLoop:
    """A loop that threads leave at different turns; `head` computes the local `test` before each."""

    head: tuple[Step, ...]
    test: str
    body: tuple[Step, ...]


@frozen
class Jump:
    """``break``, ``continue`` or ``return`` of all active threads at once."""

    kind: str


Step = Region | Collective | BlockAssign | BlockIf | BlockFor | BlockWhile | MaskedIf | MaskedLoop | Jump


def split(
    function: ir.Function, types: dict[str, Type], also: frozenset[int] = frozenset()
) -> tuple[tuple[Step, ...], Uniformity]:
    """Split a kernel whose collectives are statements of their own.

    Parameters
    ----------
    function : Function
        The kernel.
    types : dict
        Types of its locals; new ones are added.
    also : frozenset of int
        Loops to run at block level although they have no collective.

    Returns
    -------
    tuple
        The steps, and the uniformity they rest on.
    """
    splitter = _Splitter(Uniformity(function, also), types)
    steps = splitter.sequence(function.body, in_loop=False)
    return steps, splitter.uniformity


class _Splitter:
    def __init__(self, uniformity: Uniformity, types: dict[str, Type]) -> None:
        self.uniformity, self.types = uniformity, types
        self._count = 0

    def sequence(self, body: Sequence[ir.Stmt], in_loop: bool) -> tuple[Step, ...]:
        """Steps of a block-level sequence."""
        steps: list[Step] = []
        pending: list[ir.Stmt] = []
        for node in body:
            if isinstance(node, ir.Assign) and not is_collective(node.value):
                self._assign(node, steps, pending)
            elif isinstance(node, ir.Assign | ir.ExprStatement) and is_collective(node.value):
                _flush(steps, pending)
                assert isinstance(node.value, ir.Intrinsic)
                steps.append(Collective(getattr(node, "target", None), node.value))
            elif isinstance(node, ir.Break | ir.Continue | ir.Return):
                _flush(steps, pending)
                steps.append(Jump(type(node).__name__.lower()))
                break
            elif isinstance(node, ir.If | ir.While | ir.ForRange) and self.uniformity.at_block_level(node, in_loop):
                self._control(node, steps, pending, in_loop)
            else:
                pending.append(node)
        _flush(steps, pending)
        return tuple(steps)

    def _assign(self, node: ir.Assign, steps: list[Step], pending: list[ir.Stmt]) -> None:
        if not self.uniformity.is_uniform_local(node.target):
            pending.append(node)
            return
        if mentions(pending, node.target):
            _flush(steps, pending)
        steps.append(BlockAssign(node.target, node.value))

    def _control(self, node: Any, steps: list[Step], pending: list[ir.Stmt], in_loop: bool) -> None:
        if isinstance(node, ir.If):
            then, orelse = self.sequence(node.then, in_loop), self.sequence(node.orelse, in_loop)
            if self.uniformity.is_uniform(node.test):
                _flush(steps, pending)
                steps.append(BlockIf(node.test, then, orelse))
                return
            test = self._temporary(BOOL)
            pending.append(ir.Assign(test, node.test))
            _flush(steps, pending)
            steps.append(MaskedIf(test, then, orelse))
        elif id(node) in self.uniformity.divergent_loops:
            self._masked_loop(node, steps, pending)
        elif isinstance(node, ir.While):
            _flush(steps, pending)
            steps.append(BlockWhile(node.test, self.sequence(node.body, True)))
        else:
            self._block_for(node, steps, pending)

    def _block_for(self, node: ir.ForRange, steps: list[Step], pending: list[ir.Stmt]) -> None:
        _flush(steps, pending)
        body: Sequence[ir.Stmt] = node.body
        target = node.target
        if not self.uniformity.is_uniform_local(target):
            target = self._temporary(PYINT, varying=False)
            body = (ir.Assign(node.target, ir.Local(target, PYINT)), *body)
        steps.append(BlockFor(target, node.start, node.stop, node.step, self.sequence(body, True)))

    def _masked_loop(self, node: Any, steps: list[Step], pending: list[ir.Stmt]) -> None:
        test = self._temporary(BOOL)
        if isinstance(node, ir.While):
            _flush(steps, pending)
            head = Region((ir.Assign(test, node.test),))
            steps.append(MaskedLoop((head,), test, self.sequence(node.body, True)))
            return
        left, current, by = (self._temporary(PYINT) for _ in range(3))
        turns = ir.Intrinsic("range.count", (ir.Local(current, PYINT), node.stop, ir.Local(by, PYINT)), PYINT)
        pending += [ir.Assign(current, node.start), ir.Assign(by, node.step), ir.Assign(left, turns)]
        _flush(steps, pending)
        head = Region((ir.Assign(test, ir.Compare("ne", ir.Local(left, PYINT), ir.Const(0, PYINT))),))
        advance = (
            ir.Assign(left, ir.Binary("sub", ir.Local(left, PYINT), ir.Const(1, PYINT), PYINT)),
            ir.Assign(node.target, ir.Local(current, PYINT)),
            ir.Assign(current, ir.Binary("add", ir.Local(current, PYINT), ir.Local(by, PYINT), PYINT)),
        )
        steps.append(MaskedLoop((head,), test, self.sequence((*advance, *node.body), True)))

    def _temporary(self, t: Type, varying: bool = True) -> str:
        while True:
            self._count += 1
            name = f".split{self._count}"
            if name not in self.types:
                self.types[name] = t
                if varying:
                    self.uniformity.mark_varying(name)
                return name


def _flush(steps: list[Step], pending: list[ir.Stmt]) -> None:
    if pending:
        steps.append(Region(tuple(pending)))
        pending.clear()


def mentions(nodes: Sequence[Any], name: str) -> bool:
    """Whether a local is read or assigned below `nodes`."""
    return any(
        (isinstance(n, ir.Local) and n.name == name) or (isinstance(n, ir.Assign | ir.ForRange) and n.target == name)
        for n in walk(nodes)
    )
