"""The kernel's emitter on the CPU: loops over a block's threads, and what a block keeps for its threads.

Threads of a block are unordered between two barriers, so the accesses of such a loop to global and shared memory
are marked parallel: LLVM then needs no run-time tests for overlap.  Stack arrays of one thread are used again by
the next and are not marked.

State of a block, on the stack of the hardware thread that runs it: values of locals that cross regions, one
element for each thread; *masks*, one byte for each thread (`Masks`); shared memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sterna.abi import LAUNCH_FIELDS
from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
from sterna.compiler.codegen.llvm.frame import Frame
from sterna.compiler.codegen.llvm.layout import Value, components
from sterna.compiler.ir import nodes as ir
from sterna.types import Type, itemsize

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.module import ModuleContext

__all__ = ["MAX_THREADS", "KernelEmitter", "Masks"]

_ROLLED = '!{!"llvm.loop.unroll.disable"}'
MAX_THREADS = 1024
"""Threads of a block at most (`sterna.targets.base.Limits`)."""
_STACK_BYTES = 192 * 1024


@dataclass(slots=True)
class Masks:
    """Which threads take part, as byte arrays: `alive` (None when no thread can leave), `left` counts those gone,
    and a stack of (kind, array) for the divergent constructs around the current step (``if``, ``loop``, ``turn``)."""

    alive: str | None = None
    left: str = ""
    stack: list[tuple[str, str]] = field(default_factory=list)

    @property
    def current(self) -> str | None:
        """The array that says who runs now; None when only leaving counts."""
        return self.stack[-1][1] if self.stack else None


class KernelEmitter(FunctionEmitter):
    """Emits the entry function of a kernel.

    Attributes
    ----------
    fixed : dict
        Locals that never change in a launch (parameters), by value.
    copied : dict
        Arguments of parameters that the kernel assigns, by name.
    starts, counts : tuple of str
        The first thread that a loop over threads runs, and their number, along x, y, z.  The number is less than
        the block's extent at the edge of an ``over`` launch, and where a piece has work for some only (`clip`).
    kept : dict
        Arrays of the locals that cross regions: for each component address, type in memory, type in a register.
    alone : tuple of str, optional
        Whether what runs is a single block (an i1), and where to go with a failed guard when it is not.
    position : str
        Linear number of the running thread in its block.
    turn : str
        Number of the running thread in the loop over its row, or over a part of it.
    """

    def __init__(self, context: ModuleContext) -> None:
        super().__init__(context, Frame())
        self.fixed: dict[str, Value] = {}
        self.copied: dict[str, Value] = {}
        self.starts: tuple[str, str, str] = ("0", "0", "0")
        self.counts: tuple[str, str, str] = ("1", "1", "1")
        self.kept: dict[str, tuple[tuple[str, str, str], ...]] = {}
        self.masks = Masks()
        self.position = self.turn = "0"
        self.block_loops: list[tuple[str, str]] = []
        self.block_done = ""
        self.alone: tuple[str, str] | None = None
        self.threads_total = "0"
        self.arrays: dict[str, tuple[str, int]] = {}
        self.divided = False
        self.rarely = False
        self._allocated: list[str] = []
        self._stack_left = _STACK_BYTES

    # ---- locals ------------------------------------------------------------------------------

    def read(self, name: str) -> Value:
        """Value of a local."""
        found = self.fixed.get(name)
        return found if found is not None else super().read(name)

    def read_kept(self, name: str, position: str) -> Value:
        """Value that the thread number `position` has in a local, from outside its region."""
        if name not in self.kept:
            return self.read(name)
        parts = []
        for address, memory, kind in self.kept[name]:
            place = self.b.op(f"getelementptr inbounds {memory}, ptr {address}, i64 {position}")
            part = self.b.op(f"load {memory}, ptr {place}{self.access_note}")
            parts.append(part if memory == kind else self.b.op(f"trunc {memory} {part} to {kind}"))
        return tuple(parts)

    def write_kept(self, name: str, position: str, value: Value) -> None:
        """Set a local of the thread number `position`."""
        for (address, memory, kind), part in zip(self.kept[name], value, strict=True):
            place = self.b.op(f"getelementptr inbounds {memory}, ptr {address}, i64 {position}")
            if memory != kind:
                part = self.b.op(f"zext {kind} {part} to {memory}")
            self.b.emit(f"store {memory} {part}, ptr {place}{self.access_note}")

    def keep(self, name: str, t: Type) -> None:
        """Give a local one element for each thread of a block."""
        arrays = []
        for kind in components(t):
            memory = "i8" if kind == "i1" else kind
            arrays.append((self.per_thread(memory, 8 if memory == "ptr" else _bytes(memory)), memory, kind))
        self.kept[name] = tuple(arrays)

    def per_thread(self, memory: str, size: int) -> str:
        """Memory for one element of `size` bytes for each thread: on the stack while that is small."""
        total = MAX_THREADS * size
        if total <= self._stack_left:
            self._stack_left -= total
            return self.b.slot(memory, 64, MAX_THREADS)
        threads = self.b.op(f"add i64 {self.threads_total}, 31")  # lanes of the last warp that do not exist may be read
        return self._from_heap(self.b.op(f"mul i64 {threads}, {size}"))

    def _from_heap(self, size: str) -> str:
        self.context.declare("declare noalias ptr @malloc(i64) nounwind")
        self.context.declare("declare void @free(ptr) nounwind")
        address = self.b.call("ptr", "malloc", f"i64 {size}")
        self._allocated.append(address)
        return address

    def release(self) -> None:
        """Free what `per_thread` took from the heap."""
        for address in self._allocated:
            self.b.emit(f"call void @free(ptr {address})")

    def finish(self, value: Value) -> None:
        """The thread is done."""
        self.b.jump(self.leave)

    # ---- arrays of the kernel ----------------------------------------------------------------

    def place_arrays(self, nodes: Iterable[Any]) -> None:
        """Memory for the shared and local arrays among `nodes`: once for all blocks that a hardware thread runs."""
        dynamic = ""
        for node in nodes:
            if not isinstance(node, ir.SharedArray | ir.LocalArray) or node.name in self.arrays:
                continue
            size = max(math.prod(node.shape), 1) * itemsize(node.type.dtype)
            if isinstance(node, ir.LocalArray):
                self.arrays[node.name] = self._local_memory(node, size)
            elif node.shape or node.type.ndim != 1:
                self.context.shared_bytes += -(-size // 16) * 16
                self.arrays[node.name] = (self.stack_array(node.type, node.shape), 0)
            else:
                if not dynamic:
                    dynamic = self.b.op(f"alloca i8, i64 {self.launch_value('shared_bytes')}, align 64")
                self.arrays[node.name] = (dynamic, 0)

    def _local_memory(self, node: ir.LocalArray, size: int) -> tuple[str, int]:
        if self.divided:
            size = -(-size // 16) * 16
            return self.per_thread(f"[{size} x i8]", size), size
        if size <= _STACK_BYTES // 4:
            return self.stack_array(node.type, node.shape), 0
        return self._from_heap(str(size)), 0

    def shared_array(self, node: ir.SharedArray) -> Value:
        """The block's array."""
        address, _ = self.arrays[node.name]
        if node.shape or node.type.ndim != 1:
            return (address, *(str(n) for n in node.shape))
        count = self.b.op(f"udiv i64 {self.launch_value('shared_bytes')}, {itemsize(node.type.dtype)}")
        return address, count

    def local_array(self, node: ir.LocalArray) -> Value:
        """The running thread's array."""
        address, size = self.arrays[node.name]
        if size:
            address = self.b.op(f"getelementptr inbounds [{size} x i8], ptr {address}, i64 {self.position}")
        return (address, *(str(n) for n in node.shape))

    # ---- the launch --------------------------------------------------------------------------

    def load_arguments(self, params: tuple[tuple[str, Type], ...], offsets: list[int]) -> dict[str, Value]:
        """Read all arguments from the argument buffer; `offsets` has one entry for each component."""
        values, position = {}, 0
        for name, t in params:
            parts = []
            for number, kind in enumerate(components(t)):
                memory = "i8" if kind == "i1" else kind
                place = self.b.op(f"getelementptr inbounds i8, ptr %args, i64 {offsets[position]}")
                note = ", !range !4" if _is_extent(t, number) else ""
                value = self.b.op(f"load {memory}, ptr {place}, !invariant.load !1{note}")
                parts.append(self.b.icmp("ne", 8, value, "0") if kind == "i1" else value)
                position += 1
            values[name] = tuple(parts)
        return values

    def launch_value(self, name: str, axis: int = 0, kind: str = "i64", note: str = "") -> str:
        """A field of the launch structure."""
        place = self.b.op(f"getelementptr inbounds i64, ptr %launch, i64 {LAUNCH_FIELDS[name] + axis}")
        return self.b.op(f"load {kind}, ptr {place}{note}")

    # ---- loops -------------------------------------------------------------------------------

    def thread_loop(self, body: Callable[[], None]) -> None:
        """Run `body` for every thread of the block, x fastest.

        `body` may end its thread by jumping to ``self.leave``.
        """
        self.each_row(lambda z, y: self.row_loop(z, y, self.starts[0], self.counts[0], body))

    def each_row(self, row: Callable[[str, str], None]) -> None:
        """``row(z, y)`` for every row of threads."""
        _, first_y, first_z = self.starts
        _, ny, nz = self.counts

        def plane(z: str) -> None:
            self.b.count_loop(ny, "y", lambda y: row(z, self._after(first_y, y)))

        self.b.count_loop(nz, "z", lambda z: plane(self._after(first_z, z)))

    def row_loop(self, z: str, y: str, first: str, count: str, body: Callable[[], None], rolled: bool = False) -> None:
        """Run `body` for `count` threads of a row from `first` on; `rolled` keeps LLVM from unrolling the loop."""
        context = self.context
        group = context.metadata_node("distinct !{}")
        accesses = context.metadata_node(f'!{{!"llvm.loop.parallel_accesses", {group}}}')
        notes = f"{accesses}, {context.metadata_node(_ROLLED)}" if rolled else accesses
        loop = context.metadata_node(f"distinct !{{{{self}}, {notes}}}")
        if self.plain:
            loop = context.metadata_node(f"distinct !{{{{self}}, {_plain(context)}}}")
        outer = self.frame, self.leave, self.access_note, self.position, self.turn
        frame, start = self.frame, "0"
        if self.divided:
            _, rows, _ = frame.dims["block_dim"] if frame.dims else ("1", "1", "1")
            line = self.b.op(f"add nuw nsw i64 {self.b.op(f'mul nuw nsw i64 {z}, {rows}')}, {y}")
            start = self.b.op(f"mul nuw nsw i64 {line}, {frame.dim(self, 'block_dim', 0)}")

        def thread(turn: str) -> None:
            x = self._after(first, turn)
            self.frame, self.turn = Frame(frame.launch, frame.block, (x, y, z), frame.dims), turn
            if self.divided:
                self.position = self.b.op(f"add nuw nsw i64 {start}, {x}")
            self.leave = self.b.label("next")
            self.access_note = f", !llvm.access.group {group}"
            body()
            self.b.place(self.leave)

        self.b.count_loop(count, "x", thread, f", !llvm.loop {loop}")
        self.frame, self.leave, self.access_note, self.position, self.turn = outer

    def run_plain(self, emit: Callable[[], None]) -> None:
        """Emit a copy that is not optimised for speed: all checks, no second copies of loops in it."""
        outer, self.versions_loops, self.plain = (self.versions_loops, self.plain), False, True
        emit()
        self.versions_loops, self.plain = outer

    def loop_note(self, node: ir.ForRange | ir.While, bounds: tuple[str, str, str] | None) -> str:
        """Loops of a copy that is not optimised for speed are left as they are."""
        if not self.plain:
            return super().loop_note(node, bounds)
        return f", !llvm.loop {self.context.metadata_node(f'distinct !{{{{self}}, {_plain(self.context)}}}')}"

    def first_and_last(self, axis: int) -> tuple[str, str]:
        """The first and the last thread along an axis that a loop over threads runs."""
        first, count = self.starts[axis], self.counts[axis]
        last = self.b.op(f"add nsw i64 {count}, -1")
        return first, last if first == "0" else self.b.op(f"add nsw i64 {first}, {last}")

    def _after(self, first: str, turn: str) -> str:
        return turn if first == "0" else self.b.op(f"add nuw nsw i64 {first}, {turn}")

    # ---- masks -------------------------------------------------------------------------------

    def mask_at(self, array: str, position: str) -> str:
        """Whether a mask names the thread `position`."""
        place = self.b.op(f"getelementptr inbounds i8, ptr {array}, i64 {position}")
        return self.b.icmp("ne", 8, self.b.op(f"load i8, ptr {place}{self.access_note}"), "0")

    def set_mask(self, array: str, position: str, test: str) -> None:
        """Put a thread into a mask or take it out."""
        place = self.b.op(f"getelementptr inbounds i8, ptr {array}, i64 {position}")
        byte = test if test in ("0", "1") else self.b.op(f"zext i1 {test} to i8")
        self.b.emit(f"store i8 {byte}, ptr {place}{self.access_note}")

    def is_active(self, position: str) -> str:
        """Whether the thread `position` takes part in the current step."""
        current = self.masks.current or self.masks.alive
        return "true" if current is None else self.mask_at(current, position)

    def drop(self, kind: str) -> None:
        """The running thread leaves (``return``), breaks or continues: take it out of the masks concerned."""
        masks = self.masks
        for inner, array in reversed(masks.stack):
            self.set_mask(array, self.position, "0")
            if (kind, inner) in (("break", "loop"), ("continue", "turn")):
                return
        if masks.alive is not None:
            self.set_mask(masks.alive, self.position, "0")
            count = self.b.op(f"load i64, ptr {masks.left}")
            self.b.emit(f"store i64 {self.b.op(f'add i64 {count}, 1')}, ptr {masks.left}")


def _plain(context: ModuleContext) -> str:
    """Notes on a loop that is not worth optimising for speed."""
    names = (_ROLLED, '!{!"llvm.loop.vectorize.enable", i1 false}')
    return ", ".join(context.metadata_node(name) for name in names)


def _is_extent(t: Type, number: int) -> bool:
    ndim = getattr(t, "ndim", None)
    return ndim is not None and 1 <= number <= ndim


def _bytes(memory: str) -> int:
    return {"float": 4, "double": 8}.get(memory) or int(memory[1:]) // 8
