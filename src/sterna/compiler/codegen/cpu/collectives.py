"""Collective operations on the CPU: steps between regions that read and write per-thread arrays.

A barrier is the boundary of two regions and needs no code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sterna.compiler.codegen.cpu.kernel import MAX_THREADS
from sterna.compiler.codegen.llvm.warps import OPERATIONS, argument_of, warp_operation
from sterna.errors import UnsupportedError

if TYPE_CHECKING:
    from sterna.compiler.codegen.cpu.kernel import KernelEmitter
    from sterna.compiler.passes.split_regions import Collective

__all__ = ["emit_collective"]

Emit = Callable[["KernelEmitter", "Collective"], None]


def emit_collective(e: KernelEmitter, step: Collective) -> None:
    """Emit one collective for the current block."""
    emit = _COLLECTIVES.get(step.operation.name)
    if emit is None:
        raise UnsupportedError(f"operation {step.operation.name!r} is not available on the CPU")
    emit(e, step)


def _nothing(e: KernelEmitter, step: Collective) -> None:
    """A barrier: the boundary of two regions."""


def _of_warps(e: KernelEmitter, step: Collective) -> None:
    """A collective of each warp; threads that have not returned answer `activemask`, whatever the masks say."""
    taking, target = _taking_part(e, step.operation.name == "activemask"), step.target
    if target is None:
        return

    def thread() -> None:
        go = e.b.label("active")
        e.b.branch(e.is_active(e.position), go, e.leave)
        e.b.place(go)
        e.write_kept(target, e.position, warp_operation(e, step.operation, taking))

    e.thread_loop(thread)


# ---- the whole block ---------------------------------------------------------------------------


def _vote(e: KernelEmitter, step: Collective) -> None:
    """``syncthreads_count``, ``_and``, ``_or``: count the threads that say yes (or no, for ``and``)."""
    kind = step.operation.name.rpartition("_")[2]
    total = e.b.slot("i64")
    e.b.emit(f"store i64 0, ptr {total}")

    def thread() -> None:
        (vote,) = argument_of(e, step.operation.args[0], e.position)
        if kind == "and":
            vote = e.b.op(f"xor i1 {vote}, true")
        bit = e.b.op(f"zext i1 {e.b.both(e.is_active(e.position), vote)} to i64")
        before = e.b.op(f"load i64, ptr {total}")
        e.b.emit(f"store i64 {e.b.op(f'add i64 {before}, {bit}')}, ptr {total}")

    e.thread_loop(thread)
    count = e.b.op(f"load i64, ptr {total}")
    if kind != "count":
        count = e.b.op(f"zext i1 {e.b.icmp('eq' if kind == 'and' else 'ne', 64, count, '0')} to i64")
    target = step.target
    if target is None:
        return
    if target not in e.kept:
        e.write(target, (count,))
        return

    def give() -> None:
        go = e.b.label("active")
        e.b.branch(e.is_active(e.position), go, e.leave)
        e.b.place(go)
        e.write_kept(target, e.position, (count,))

    e.thread_loop(give)


# ---- warps -------------------------------------------------------------------------------------


def _taking_part(e: KernelEmitter, alive: bool) -> str:
    """A byte for each thread of the block's warps: whether it takes part.  Threads that do not exist do not."""
    array = e.b.slot("i8", 64, MAX_THREADS)
    e.b.emit(f"call void @llvm.memset.p0.i64(ptr {array}, i8 0, i64 {MAX_THREADS}, i1 false)")

    def thread() -> None:
        test = e.is_active(e.position)
        if alive and e.masks.stack:
            test = "true" if e.masks.alive is None else e.mask_at(e.masks.alive, e.position)
        e.set_mask(array, e.position, e.b.op(f"or i1 {test}, false"))

    e.thread_loop(thread)
    return array


_COLLECTIVES: dict[str, Emit] = {
    **dict.fromkeys(("syncthreads", "syncwarp"), _nothing),
    **dict.fromkeys(("syncthreads_count", "syncthreads_and", "syncthreads_or"), _vote),
    **dict.fromkeys(OPERATIONS, _of_warps),
}
"""Operation → how its step is emitted."""
