"""The entry function of a CPU kernel: take blocks from the launch's counter, run each.

::

    void entry(args, launch)
        read arguments and launch extents
        loop: take `chunk` blocks from the atomic counter, until none are left
            for each block: run the kernel's regions (`regions`), each a loop over the block's threads

Every pool thread of a launch calls the entry once, with its own stack: shared memory and per-thread state of a
block live there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.abi import arg_layout
from sterna.compiler.codegen.cpu.kernel import KernelEmitter
from sterna.compiler.codegen.cpu.regions import emit_block, prepare_block
from sterna.compiler.codegen.llvm.frame import Frame
from sterna.compiler.codegen.llvm.module import ModuleContext, entry_symbol

if TYPE_CHECKING:
    from sterna.compiler.passes.placement import Program

__all__ = ["emit_entry"]


def emit_entry(context: ModuleContext, program: Program) -> str:
    """Text of the entry function."""
    e = KernelEmitter(context)
    kernel = context.module.functions[context.module.entry]
    e.types = kernel.locals
    layout = arg_layout(tuple(t for _, t in kernel.params))
    e.fixed = e.load_arguments(kernel.params, [f.offset for f in layout.fields])
    dims = {
        "grid_dim": _triple(e, "grid_dim", ", !range !4"),
        "block_dim": _triple(e, "block_dim", ", !range !3"),
        "extents": _triple(e, "extents", ", !range !4") if context.options.over else ("1", "1", "1"),
    }
    total, chunk = e.launch_value("total_blocks"), e.launch_value("chunk")
    prepare_block(e, program, dims)
    _block_loop(e, program, dims, total, chunk)
    e.release()
    e.b.end("ret void")
    attributes = context.profile.call_attributes()
    parameters = "ptr noalias readonly %args, ptr %launch"
    return f"define void @{entry_symbol(context.module.entry)}({parameters}) {attributes} {{\n{e.b.body()}\n}}"


def _triple(e: KernelEmitter, name: str, note: str) -> tuple[str, str, str]:
    x, y, z = (e.launch_value(name, axis, note=note) for axis in range(3))
    return x, y, z


def _block_loop(
    e: KernelEmitter, program: Program, dims: dict[str, tuple[str, str, str]], total: str, chunk: str
) -> None:
    b = e.b
    take, run, done = b.label("take"), b.label("run"), b.label("finished")
    counter = b.op("getelementptr inbounds i64, ptr %launch, i64 0")
    b.place(take)
    first = b.op(f"atomicrmw add ptr {counter}, i64 {chunk} monotonic")
    b.branch(b.icmp("ult", 64, first, total), run, done)
    b.place(run)
    rest = b.op(f"sub i64 {total}, {first}")
    count = b.call("i64", "llvm.umin.i64", f"i64 {rest}, i64 {chunk}")

    def block(number: str) -> None:
        index = b.op(f"add nuw nsw i64 {first}, {number}")
        gx, gy, _ = dims["grid_dim"]
        x, rows = b.op(f"urem i64 {index}, {gx}"), b.op(f"udiv i64 {index}, {gx}")
        place = x, b.op(f"urem i64 {rows}, {gy}"), b.op(f"udiv i64 {rows}, {gy}")
        e.frame = Frame("%launch", place, ("0", "0", "0"), dims)
        e.counts = _counts(e, dims, place)
        emit_block(e, program)

    e.count_loop(count, "block", block)
    b.jump(take)
    b.place(done)


def _counts(
    e: KernelEmitter, dims: dict[str, tuple[str, str, str]], block: tuple[str, str, str]
) -> tuple[str, str, str]:
    """Threads of the block along each axis: clipped to the extents of an ``over`` launch."""
    if not e.context.options.over:
        return dims["block_dim"]
    counts = []
    for axis in range(3):
        size = dims["block_dim"][axis]
        if axis >= e.context.options.over:
            counts.append("1")
            continue
        begin = e.b.op(f"mul nuw nsw i64 {block[axis]}, {size}")
        rest = e.b.op(f"sub nsw i64 {dims['extents'][axis]}, {begin}")
        counts.append(e.b.call("i64", "llvm.smin.i64", f"i64 {rest}, i64 {size}"))
    return counts[0], counts[1], counts[2]
