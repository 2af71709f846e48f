"""Text of LLVM IR, one function at a time: temporaries, blocks, stack slots.

LLVM IR is written as text, since a parse by LLVM is faster than building objects in Python.
Operands are strings without their type; names are numbered, so equal input gives equal text (I4).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

__all__ = ["Builder", "float_text", "int_text"]


def float_text(value: float, llvm_type: str) -> str:
    """An LLVM constant of type ``float`` or ``double``, exact to the bit."""
    if llvm_type == "float":
        value = struct.unpack("<f", struct.pack("<I", _float_bits(value)))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _float_bits(value: float) -> int:
    try:
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    except OverflowError:
        return 0xFF800000 if value < 0 else 0x7F800000


def int_text(value: int, bits: int) -> str:
    """An integer constant of `bits` bits, wrapped to the signed range; an i1 is true or false."""
    if bits == 1:
        return "true" if value & 1 else "false"
    value &= (1 << bits) - 1
    return str(value - (1 << bits) if value >> (bits - 1) else value)


class Builder:
    """Collects the lines of one function.

    `note` goes behind every instruction (a debug location).
    Stack slots go to a prologue ahead of the first block, so that LLVM turns them into registers
    wherever they were asked for.
    """

    def __init__(self) -> None:
        self.prologue: list[str] = []
        self.lines: list[str] = []
        self.count = 0
        self.open = True
        self.current = "entry"
        self.note = ""

    def temp(self) -> str:
        """A fresh name."""
        self.count += 1
        return f"%v{self.count}"

    def op(self, text: str) -> str:
        """Append an instruction; gives the name of its result."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}{self.note}")
        return name

    def emit(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {text}{self.note}")

    def label(self, hint: str) -> str:
        """A fresh block name; `place` starts it."""
        self.count += 1
        return f"{hint}{self.count}"

    def place(self, label: str) -> None:
        """Start the block `label`, falling into it when the previous block has no end yet."""
        if self.open:
            self.lines.append(f"  br label %{label}{self.note}")
        self.lines.append(f"{label}:")
        self.open = True
        self.current = label

    def jump(self, label: str, note: str = "") -> None:
        """End the block with a jump, unless it has ended already; `note` may be ``, !llvm.loop !n``."""
        if self.open:
            self.lines.append(f"  br label %{label}{note}{self.note}")
        self.open = False

    def branch(self, test: str, then: str, orelse: str, weights: str = "") -> None:
        """End the block with a conditional jump; `weights` may be ``, !prof !n``."""
        self.lines.append(f"  br i1 {test}, label %{then}, label %{orelse}{weights}{self.note}")
        self.open = False

    def end(self, text: str) -> None:
        """End the block with another terminator (``ret``…)."""
        if self.open:
            self.lines.append(f"  {text}{self.note}")
        self.open = False

    def slot(self, llvm_type: str, align: int = 0, count: int = 1) -> str:
        """A stack slot, allocated once per call of the function."""
        self.count += 1
        name = f"%s{self.count}"
        kind = llvm_type if count == 1 else f"[{count} x {llvm_type}]"
        self.prologue.append(f"  {name} = alloca {kind}" + (f", align {align}" if align else ""))
        return name

    def count_loop(self, count: str, hint: str, body: Callable[[str], None], notes: str = "") -> None:
        """``for index in range(count): body(index)``; `count` is at least 1, so the test is at the end."""
        if count == "1":
            body("0")
            return
        slot, turn, done = self.slot("i64"), self.label(hint), self.label(f"{hint}.done")
        self.emit(f"store i64 0, ptr {slot}")
        self.place(turn)
        index = self.op(f"load i64, ptr {slot}")
        body(index)
        following = self.op(f"add nuw nsw i64 {index}, 1")
        self.emit(f"store i64 {following}, ptr {slot}")
        self.branch(self.icmp("eq", 64, following, count), done, turn, notes)
        self.place(done)

    def select(self, test: str, llvm_type: str, then: str, orelse: str) -> str:
        """``select``."""
        return self.op(f"select i1 {test}, {llvm_type} {then}, {llvm_type} {orelse}")

    def phi(self, llvm_type: str, arms: Sequence[tuple[str, str]]) -> str:
        """``phi`` of (value, block) pairs."""
        return self.op(f"phi {llvm_type} " + ", ".join(f"[ {v}, %{b} ]" for v, b in arms))

    def icmp(self, op: str, bits: int, left: str, right: str) -> str:
        """Integer comparison."""
        return self.op(f"icmp {op} i{bits} {left}, {right}")

    def both(self, left: str, right: str) -> str:
        """Logical and of two i1."""
        return self.op(f"and i1 {left}, {right}")

    def either(self, left: str, right: str) -> str:
        """Logical or of two i1."""
        return self.op(f"or i1 {left}, {right}")

    def call(self, llvm_type: str, name: str, args: str) -> str:
        """Call of a function that gives a value."""
        return self.op(f"call {llvm_type} @{name}({args})")

    def body(self) -> str:
        """All lines, prologue first."""
        return "\n".join(["entry:", *self.prologue, *self.lines])
