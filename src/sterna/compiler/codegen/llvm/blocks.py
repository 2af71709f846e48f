"""Control flow that all threads of a block take together, written the same whatever runs the threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sterna.compiler.codegen.llvm.integers import range_count
from sterna.compiler.passes import split_regions as S

__all__ = ["block_assign", "block_for", "block_if"]

Steps = Callable[[Sequence[S.Step]], None]


def block_assign(e: Any, step: S.BlockAssign) -> None:
    """An assignment of one value for the whole block."""
    e.write(step.target, e.value(step.value))


def block_if(e: Any, step: S.BlockIf, emit: Steps) -> None:
    """An ``if`` whose test is the same for the whole block; `emit` writes the steps within."""
    then, orelse, done = e.b.label("block.then"), e.b.label("block.else"), e.b.label("block.endif")
    e.b.branch(e.one(step.test), then, orelse)
    e.b.place(then)
    emit(step.then)
    e.b.jump(done)
    e.b.place(orelse)
    emit(step.orelse)
    e.b.place(done)


def block_for(e: Any, step: S.BlockFor, emit: Steps) -> None:
    """A ``for`` over a range that is the same for the whole block."""
    b = e.b
    start, stop, by = (e.one(x) for x in (step.start, step.stop, step.step))
    left, current = b.slot("i64"), b.slot("i64")
    b.emit(f"store i64 {range_count(b, start, stop, by)}, ptr {left}")
    b.emit(f"store i64 {start}, ptr {current}")
    test, turn, following, done = (b.label(h) for h in ("block.for", "block.do", "block.next", "block.done"))
    b.place(test)
    remaining = b.op(f"load i64, ptr {left}")
    b.branch(b.icmp("ne", 64, remaining, "0"), turn, done)
    b.place(turn)
    index = b.op(f"load i64, ptr {current}")
    e.write(step.target, (index,))
    e.block_loops.append((done, following))
    emit(step.body)
    e.block_loops.pop()
    b.place(following)
    b.emit(f"store i64 {b.op(f'sub i64 {remaining}, 1')}, ptr {left}")
    b.emit(f"store i64 {b.op(f'add i64 {index}, {by}')}, ptr {current}")
    b.jump(test)
    b.place(done)
