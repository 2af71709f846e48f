"""Runs a kernel's regions for one block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.guards import make_guard
from sterna.compiler.codegen.llvm.ranges import RangeAnalysis
from sterna.compiler.codegen.llvm.statements import emit_body
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk

if TYPE_CHECKING:
    from sterna.compiler.codegen.cpu.kernel import KernelEmitter
    from sterna.compiler.passes.split_regions import Program, Region

__all__ = ["emit_regions", "prepare_regions"]


def prepare_regions(e: KernelEmitter, program: Program, dims: dict[str, tuple[str, str, str]]) -> None:
    """What is set up once for all blocks that a hardware thread runs: stack slots, shared memory."""
    kernel = e.context.module.functions[e.context.module.entry]
    changed = {n.target for n in walk(kernel.body) if isinstance(n, ir.Assign | ir.ForRange)}
    params = {name for name, _ in kernel.params}
    e.copied = {name: e.fixed.pop(name) for name in params & changed}
    for name, t in kernel.locals.items():
        if name in changed:
            e.declare(name, t)


def emit_regions(e: KernelEmitter, program: Program) -> None:
    """Run all steps for the current block."""
    for step in program.steps:
        _region(e, step)


def _region(e: KernelEmitter, region: Region) -> None:
    analysis = RangeAnalysis(e, region.body, lambda name: name in e.fixed, lambda axis: e.counts[axis])
    guard = make_guard(analysis, frozenset())
    if guard is None or e.context.options.opt == 0:
        _threads(e, region.body)
        return
    fast, slow, done = e.b.label("fast"), e.b.label("slow"), e.b.label("ran")
    e.b.branch(guard.test, fast, slow)
    e.b.place(fast)
    e.proven = guard.proven
    _threads(e, region.body)
    e.proven = frozenset()
    e.b.jump(done)
    e.b.place(slow)
    _threads(e, region.body)
    e.b.place(done)


def _threads(e: KernelEmitter, body: tuple[ir.Stmt, ...]) -> None:
    def thread() -> None:
        for name in e.locals:
            e.clear(name)
        for name, value in e.copied.items():
            e.write(name, value)
        emit_body(e, body)

    e.thread_loop(thread)
