"""A GPU thread's frame: indices from the hardware, launch state from hidden parameters.

The state lies behind the kernel's arguments, as 64-bit words (`sterna.abi.STATE_WORDS`).  The entry reads the words
that the module uses (`sterna.compiler.passes.kernel_state`), and device functions take them as parameters.

The grid of an ``over`` launch with more blocks along y or z than the hardware counts is *flat*: all blocks lie
along x, and the kernel takes its block index apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.frame import Frame

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter

__all__ = ["STATE_TYPES", "SimtFrame", "device_frame"]

STATE_TYPES = {"record": "ptr", "table": "ptr", "print": "ptr", "dynamic": "i64", "seed": "i64"}
"""State word → LLVM type, of those that the frame hands on as they are."""
_NO_EXTENTS = ("1", "1", "1")


@dataclass(frozen=True, slots=True)
class SimtFrame(Frame):
    """Launch state as operands.

    Attributes
    ----------
    words : mapping of str to str
        State word (`STATE_TYPES`) → operand, of those that the module reads.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    extents: tuple[str, str, str] = _NO_EXTENTS

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
        return self.words["table"]

    def seed(self, e: FunctionEmitter) -> str:
        """Key of the launch's random numbers."""
        return self.words["seed"]

    def record_failure(self, e: FunctionEmitter, error: str, details: tuple[str, str, str]) -> None:
        """Call the function that fills the exception record."""
        e.context.helper("sterna_raise", e.context.raise_text())
        e.profile.announce_failure(e)  # type: ignore[attr-defined]
        where = ", ".join(f"i64 {x}" for x in (*self.block, *details))
        e.b.emit(f"call void @sterna_raise(ptr {self.words['record']}, i32 {error}, {where})")

    def hidden(self) -> str:
        """Arguments for a callee's hidden parameters."""
        words = [f"{STATE_TYPES[name]} {value}" for name, value in self.words.items()]
        extents = () if self.extents is _NO_EXTENTS else self.extents
        return ", ".join(words + [f"i64 {x}" for x in (*self.block, *extents)])


def device_frame(state: tuple[str, ...]) -> SimtFrame:
    """The frame of a device function in a module that reads these state words; `hidden` are its parameters too."""
    words = {name: f"%{name}" for name in state if name in STATE_TYPES}
    extents = ("%extents.x", "%extents.y", "%extents.z") if "extents" in state else _NO_EXTENTS
    return SimtFrame(words=words, extents=extents)
