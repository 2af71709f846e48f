"""The entry function of a CPU kernel: take blocks from the launch's ranges, run each.

::

    void entry(args, launch, part)
        read arguments and launch extents
        for each range of blocks, `part` first, then the ones after it, round
            loop: take a share of the blocks that are left from the range's atomic counter, at least `chunk`
                for each block: run the kernel's regions (`regions`), each a loop over the block's threads

So a thread begins with blocks that are next to each other and, launch after launch, the same, which its own caches may
still hold; and then it helps the others.

In an ``over`` launch the blocks are ours, and a kernel that keeps nothing for a block cannot tell them apart: then
the blocks of a chunk run together, a row or several rows as one.

Every pool thread of a launch calls the entry once, with its own stack: shared memory and per-thread state of a
block live there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sterna.abi import BLOCK_RANGES, arg_layout
from sterna.compiler.codegen.cpu.kernel import KernelEmitter
from sterna.compiler.codegen.cpu.regions import emit_block, prepare_block
from sterna.compiler.codegen.llvm.frame import Frame
from sterna.compiler.codegen.llvm.module import ModuleContext, entry_symbol
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk_function

if TYPE_CHECKING:
    from sterna.compiler.passes.placement import Program

__all__ = ["emit_entry"]

_OF_BLOCKS = ("thread_idx.", "block_idx.", "laneid", "lanemask", "activemask")
Triple = tuple[str, str, str]
Dims = dict[str, Triple]
ONES = ("1", "1", "1")
_SHARE_BITS = 4
"""A share is what is left of a range divided by two to this power."""


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
        "extents": _triple(e, "extents", ", !range !4") if context.options.over else ONES,
    }
    prepare_block(e, program, dims)
    _each_range(e, lambda counter, end: _block_loop(e, program, dims, counter, end))
    e.release()
    e.b.end("ret void")
    attributes = context.profile.call_attributes()
    parameters = "ptr noalias readonly %args, ptr %launch, i64 %part"
    return f"define void @{entry_symbol(context.module.entry)}({parameters}) {attributes} {{\n{e.b.body()}\n}}"


def _triple(e: KernelEmitter, name: str, note: str) -> Triple:
    """Extents along x, y, z; an ``over`` launch has one block and one thread along the axes that it does not have."""
    axes = e.context.options.over or 3
    x, y, z = (e.launch_value(name, axis, note=note) if axis < axes else "1" for axis in range(3))
    return x, y, z


def _each_range(e: KernelEmitter, body: Callable[[str, str], None]) -> None:
    """``body(counter, end)`` for every range of blocks, from the thread's own on, round."""
    b = e.b
    start, words = BLOCK_RANGES
    parts = e.launch_value("parts")

    def turn(number: str) -> None:
        reached = b.op(f"add nuw nsw i64 %part, {number}")
        around = b.op(f"sub i64 {reached}, {parts}")
        own = b.select(b.icmp("ult", 64, reached, parts), "i64", reached, around)
        place = b.op(f"add nuw nsw i64 {b.op(f'mul nuw nsw i64 {own}, {words}')}, {start}")
        counter = b.op(f"getelementptr inbounds i64, ptr %launch, i64 {place}")
        body(counter, b.op(f"load i64, ptr {b.op(f'getelementptr inbounds i64, ptr {counter}, i64 1')}"))

    b.count_loop(parts, "range", turn)


def _block_loop(e: KernelEmitter, program: Program, dims: Dims, counter: str, end: str) -> None:
    """Take blocks from one range until none are left.

    Shares shrink with what is left, so that the first run long and the threads of a launch end together.
    """
    b = e.b
    least = e.launch_value("chunk")
    look, take, run, done = b.label("look"), b.label("take"), b.label("run"), b.label("taken")
    b.place(look)
    seen = b.op(f"load atomic i64, ptr {counter} monotonic, align 8")
    b.branch(b.icmp("ult", 64, seen, end), take, done)
    b.place(take)
    share = b.op(f"lshr i64 {b.op(f'sub i64 {end}, {seen}')}, {_SHARE_BITS}")
    chunk = b.call("i64", "llvm.umax.i64", f"i64 {share}, i64 {least}")
    first = b.op(f"atomicrmw add ptr {counter}, i64 {chunk} monotonic")
    b.branch(b.icmp("ult", 64, first, end), run, done)
    b.place(run)
    rest = b.op(f"sub i64 {end}, {first}")
    count = b.call("i64", "llvm.umin.i64", f"i64 {rest}, i64 {chunk}")

    last = b.op(f"add nuw nsw i64 {first}, {count}")
    if _is_blind_to_blocks(e, program):
        _runs(e, program, dims, first, last)
    else:

        def block(number: str) -> None:
            place = _place(e, dims, b.op(f"add nuw nsw i64 {first}, {number}"))
            _emit(e, program, dims, place, ("1", "1"))

        e.b.count_loop(count, "block", block)
    b.jump(look)
    b.place(done)


def _place(e: KernelEmitter, dims: Dims, index: str) -> Triple:
    """Indices of the block with a linear number."""
    gx, gy, gz = dims["grid_dim"]
    if gy == "1":
        return index, "0", "0"
    x, rows = e.b.op(f"urem i64 {index}, {gx}"), e.b.op(f"udiv i64 {index}, {gx}")
    if gz == "1":
        return x, rows, "0"
    return x, e.b.op(f"urem i64 {rows}, {gy}"), e.b.op(f"udiv i64 {rows}, {gy}")


def _emit(e: KernelEmitter, program: Program, dims: Dims, place: Triple, blocks: tuple[str, str]) -> None:
    """The kernel for a box of blocks from `place`: so many along x and y."""
    e.frame = Frame("%launch", place, ("0", "0", "0"), dims)
    e.counts = _counts(e, dims, place, blocks)
    emit_block(e, program)


def _runs(e: KernelEmitter, program: Program, dims: Dims, first: str, last: str) -> None:
    """Blocks from `first` to `last` in boxes as large as can be: the rest of a row, or whole rows.

    A box at which a guard fails runs again block by block, so that an edge costs no more than its own blocks.
    """
    b = e.b
    current, narrow = b.slot("i64"), b.slot("i64")
    turn, done = b.label("box"), b.label("box.done")
    b.emit(f"store i64 {first}, ptr {current}")
    b.emit(f"store i64 0, ptr {narrow}")
    b.place(turn)
    index = b.op(f"load i64, ptr {current}")
    place = _place(e, dims, index)
    columns, rows = _box(e, dims, place, b.op(f"sub i64 {last}, {index}"))
    single = b.icmp("ult", 64, index, b.op(f"load i64, ptr {narrow}"))
    columns, rows = (n if n == "1" else b.op(f"select i1 {single}, i64 1, i64 {n}") for n in (columns, rows))
    size = columns if rows == "1" else b.op(f"mul nuw nsw i64 {columns}, {rows}")
    following = b.op(f"add nuw nsw i64 {index}, {size}")
    divide = b.label("divide")
    e.alone = b.icmp("eq", 64, size, "1"), divide
    _emit(e, program, dims, place, (columns, rows))
    e.alone = None
    b.emit(f"store i64 {following}, ptr {current}")
    b.branch(b.icmp("ult", 64, following, last), turn, done)
    b.place(divide)
    b.emit(f"store i64 {following}, ptr {narrow}")
    b.jump(turn)
    b.place(done)


def _box(e: KernelEmitter, dims: Dims, place: Triple, left: str) -> tuple[str, str]:
    """Columns and rows of the largest box of at most `left` blocks from `place` that is in linear order."""
    b = e.b
    gx, gy, _ = dims["grid_dim"]
    if gy == "1":
        return left, "1"
    columns = b.call("i64", "llvm.umin.i64", f"i64 {b.op(f'sub i64 {gx}, {place[0]}')}, i64 {left}")
    rows = b.call(
        "i64", "llvm.umin.i64", f"i64 {b.op(f'sub i64 {gy}, {place[1]}')}, i64 {b.op(f'udiv i64 {left}, {gx}')}"
    )
    whole = b.icmp("eq", 64, columns, gx)
    return columns, b.op(f"select i1 {whole}, i64 {rows}, i64 1")


def _is_blind_to_blocks(e: KernelEmitter, program: Program) -> bool:
    """Whether no thread can tell which block it is in."""
    if not e.context.options.over or program.divided:
        return False
    functions = e.context.module.functions.values()
    nodes = (node for function in functions for node in walk_function(function))
    return not any(
        isinstance(n, ir.SharedArray) or (isinstance(n, ir.Intrinsic) and n.name.startswith(_OF_BLOCKS)) for n in nodes
    )


def _counts(e: KernelEmitter, dims: Dims, place: Triple, blocks: tuple[str, str]) -> Triple:
    """Threads of a box of blocks along each axis: clipped to the extents of an ``over`` launch."""
    if not e.context.options.over:
        return dims["block_dim"]
    counts = []
    for axis, many in enumerate((*blocks, "1")):
        if axis >= e.context.options.over:
            counts.append("1")
            continue
        size = dims["block_dim"][axis]
        rest = e.b.op(f"sub nsw i64 {dims['extents'][axis]}, {e.b.op(f'mul nuw nsw i64 {place[axis]}, {size}')}")
        most = size if many == "1" else e.b.op(f"mul nuw nsw i64 {many}, {size}")
        counts.append(e.b.call("i64", "llvm.smin.i64", f"i64 {rest}, i64 {most}"))
    return counts[0], counts[1], counts[2]
