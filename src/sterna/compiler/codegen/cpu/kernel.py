"""The kernel's emitter on the CPU: loops over a block's threads around the code of one thread.

Threads of a block are unordered between two barriers, so the accesses of such a loop to global and shared memory
are marked parallel: LLVM then needs no run-time tests for overlap.  Stack arrays of one thread are used again by
the next and are not marked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
from sterna.compiler.codegen.llvm.frame import LAUNCH_FIELDS, Frame
from sterna.compiler.codegen.llvm.layout import Value, components
from sterna.types import Type

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.module import ModuleContext

__all__ = ["KernelEmitter"]


class KernelEmitter(FunctionEmitter):
    """Emits the entry function of a kernel.

    Attributes
    ----------
    fixed : dict
        Locals that never change in a launch (parameters), by value.
    counts : tuple of str
        Number of threads of the current block along x, y, z (fewer than the block's extents at the edge of
        an ``over`` launch).
    position : str
        Address of the slot that holds the linear number of the running thread, for per-thread arrays.
    """

    def __init__(self, context: ModuleContext) -> None:
        super().__init__(context, Frame())
        self.fixed: dict[str, Value] = {}
        self.counts: tuple[str, str, str] = ("1", "1", "1")
        self.on_leave: Callable[[], None] | None = None
        self.shared: dict[str, str] = {}
        self.copied: dict[str, Value] = {}

    # ---- locals ------------------------------------------------------------------------------

    def read(self, name: str) -> Value:
        """Value of a local."""
        found = self.fixed.get(name)
        return found if found is not None else super().read(name)

    def finish(self, value: Value) -> None:
        """The thread is done."""
        self.b.jump(self.leave)

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

    def count_loop(self, count: str, hint: str, body: Callable[[str], None], parallel: str = "") -> None:
        """``for index in range(count): body(index)``."""
        b = self.b
        slot, test, turn, done = b.slot("i64"), b.label(hint), b.label(f"{hint}.do"), b.label(f"{hint}.done")
        b.emit(f"store i64 0, ptr {slot}")
        b.place(test)
        index = b.op(f"load i64, ptr {slot}")
        b.branch(b.icmp("ult", 64, index, count), turn, done)
        b.place(turn)
        body(index)
        b.emit(f"store i64 {b.op(f'add nuw nsw i64 {index}, 1')}, ptr {slot}")
        b.lines.append(f"  br label %{test}{parallel}")
        b.open = False
        b.place(done)

    def thread_loop(self, body: Callable[[], None]) -> None:
        """Run `body` for every thread of the block, x fastest.

        `body` leaves its thread by jumping to ``self.leave``.
        """
        group = self.context.metadata_node("distinct !{}")
        accesses = self.context.metadata_node(f'!{{!"llvm.loop.parallel_accesses", {group}}}')
        loop = self.context.metadata_node(f"distinct !{{{{self}}, {accesses}}}")
        nx, ny, nz = self.counts
        outer_frame, outer_leave, outer_note = self.frame, self.leave, self.access_note

        def row(z: str, y: str) -> None:
            def thread(x: str) -> None:
                self.frame = Frame(outer_frame.launch, outer_frame.block, (x, y, z), outer_frame.dims)
                self.leave = self.b.label("next")
                self.access_note = f", !llvm.access.group {group}"
                body()
                self.b.place(self.leave)

            self.count_loop(nx, "x", thread, f", !llvm.loop {loop}")

        self.count_loop(nz, "z", lambda z: self.count_loop(ny, "y", lambda y: row(z, y)))
        self.frame, self.leave, self.access_note = outer_frame, outer_leave, outer_note


def _is_extent(t: Type, number: int) -> bool:
    ndim = getattr(t, "ndim", None)
    return ndim is not None and 1 <= number <= ndim


