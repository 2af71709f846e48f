"""A thread's frame: its indices, its block's, and the launch state, as operands.

The common frame takes them as hidden parameters (device functions); an entry of a target makes its own.
The launch state of the CPU is a structure of 64-bit fields (`sterna.abi`); a GPU target overrides the reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.abi import LAUNCH_FIELDS
from sterna.frozen import frozen

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter

__all__ = ["Frame"]


@frozen
class Frame:
    """Where a thread finds its indices: operands of the launch structure, block and thread."""

    launch: str = "%launch"
    block: tuple[str, str, str] = ("%block.x", "%block.y", "%block.z")
    thread: tuple[str, str, str] = ("%thread.x", "%thread.y", "%thread.z")
    dims: dict[str, tuple[str, str, str]] | None = None

    def blocks(self, e: FunctionEmitter) -> tuple[str, str, str]:
        """Block index, x, y, z."""
        return self.block

    def threads(self, e: FunctionEmitter) -> tuple[str, str, str]:
        """Thread index in the block, x, y, z."""
        return self.thread

    def dim(self, e: FunctionEmitter, name: str, axis: int) -> str:
        """Component of ``grid_dim``, ``block_dim`` or ``extents``."""
        if self.dims is not None:
            return self.dims[name][axis]
        return self.field(e, LAUNCH_FIELDS[name] + axis)

    def field(self, e: FunctionEmitter, index: int, llvm_type: str = "i64") -> str:
        """A field of the launch structure."""
        place = e.b.op(f"getelementptr inbounds i64, ptr {self.launch}, i64 {index}")
        return e.b.op(f"load {llvm_type}, ptr {place}, !invariant.load !1")

    def table(self, e: FunctionEmitter) -> str:
        """Address of the relocation table."""
        return self.field(e, LAUNCH_FIELDS["table"], "ptr")

    def seed(self, e: FunctionEmitter) -> str:
        """Key of the launch's random numbers."""
        return self.field(e, LAUNCH_FIELDS["seed"])

    def record_failure(self, e: FunctionEmitter, error: str, details: tuple[str, str, str]) -> None:
        """Call the function that fills the exception record."""
        if not e.context.has_helper("sterna_raise"):
            e.context.helper("sterna_raise", e.context.raise_text())
        where = ", ".join(f"i64 {x}" for x in (*self.blocks(e), *self.threads(e), *details))
        e.b.emit(f"call void @sterna_raise(ptr {self.launch}, i32 {error}, {where})")

    def hidden(self) -> str:
        """Arguments for a callee's hidden parameters; of a device function's own frame: these parameters."""
        return f"ptr {self.launch}, " + ", ".join(f"i64 {x}" for x in (*self.block, *self.thread))
