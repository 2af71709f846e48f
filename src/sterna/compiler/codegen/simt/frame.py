"""A GPU thread's frame: indices from the hardware, launch state from hidden parameters.

The hidden state lies behind the kernel's arguments, as 64-bit words (`STATE_WORDS`)::

    0 exception record     1 relocation table     2 print buffer
    3-5 extents x y z      6-7 blocks along x and y if the grid is flat, else 0      (only of an ``over`` launch)

The grid of an ``over`` launch with more blocks along y or z than the hardware counts is *flat*: all blocks lie
along x, and the kernel takes its block index apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.frame import Frame

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter

__all__ = ["HIDDEN_PARAMETERS", "STATE_WORDS", "SimtFrame", "state_words"]

STATE_WORDS = {"record": 0, "table": 1, "print": 2, "extents": 3, "flat": 6}
_NAMES = ("%record", "%table", "%print")
_TRIPLES = ("block", "extents")
HIDDEN_PARAMETERS = ", ".join(
    [f"ptr {name}" for name in _NAMES] + [f"i64 %{name}.{axis}" for name in _TRIPLES for axis in "xyz"]
)


def state_words(over: int) -> int:
    """Number of hidden words of a kernel."""
    return 8 if over else 3


@dataclass(frozen=True, slots=True)
class SimtFrame(Frame):
    """Launch state as operands; `launch` is the exception record."""

    launch: str = "%record"
    table_word: str = "%table"
    print_word: str = "%print"
    block: tuple[str, str, str] = ("%block.x", "%block.y", "%block.z")
    extents: tuple[str, str, str] = ("%extents.x", "%extents.y", "%extents.z")

    def threads(self, e: FunctionEmitter) -> tuple[str, str, str]:
        """Thread index in the block, x, y, z."""
        x, y, z = (e.profile.hardware_index(e, "thread_idx", axis) for axis in range(3))  # type: ignore[attr-defined]
        return x, y, z

    def dim(self, e: FunctionEmitter, name: str, axis: int) -> str:
        """Component of ``grid_dim``, ``block_dim`` or ``extents``."""
        if name == "extents":
            return self.extents[axis]
        found: str = e.profile.hardware_index(e, name, axis)  # type: ignore[attr-defined]
        return found

    def table(self, e: FunctionEmitter) -> str:
        """Address of the relocation table."""
        return self.table_word

    def record_failure(self, e: FunctionEmitter, error: str, details: tuple[str, str, str]) -> None:
        """Call the function that fills the exception record."""
        e.context.helper("sterna_raise", e.context.raise_text())  # type: ignore[attr-defined]
        e.profile.announce_failure(e)  # type: ignore[attr-defined]
        where = ", ".join(f"i64 {x}" for x in (*self.block, *details))
        e.b.emit(f"call void @sterna_raise(ptr {self.launch}, i32 {error}, {where})")

    def hidden(self) -> str:
        """Arguments for a callee's hidden parameters."""
        words = [f"ptr {x}" for x in (self.launch, self.table_word, self.print_word)]
        return ", ".join(words + [f"i64 {x}" for x in (*self.block, *self.extents)])
