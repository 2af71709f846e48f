"""Applying ELF relocations of CPU objects: one table of small functions per machine.

Second step of loading (`elf` → `fixups` → `loader`).  A function gets the memory image, the place and the
value of the relocation formula (S symbol, A addend, P place, G its GOT entry) and writes the field; a value
that does not fit its field is a `LinkError`.  (A kernel's own *relocation records* are another matter:
`sterna.relocation`.)

Formulas: *System V ABI, AMD64 supplement*, table 4.9; *ELF for the Arm 64-bit Architecture*, 5.7.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from sterna.errors import LinkError
from sterna.frozen import frozen
from sterna.targets.cpu.codemem import PAGE
from sterna.targets.cpu.elf import EM_AARCH64, EM_X86_64

__all__ = ["MACHINES", "Apply", "Machine"]

_MASK64 = 2**64 - 1
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


Apply = Callable[[memoryview, int, int, int], None]
"""``(memory, offset, at, value)``: write the field at `offset`; `at` is its address (P), `value` is S + A."""


@frozen
class Machine:
    """What a loader must know of one machine.

    Attributes
    ----------
    name : str
        Name in messages.
    apply : mapping of int to function
        ELF relocation type → how its field is written.
    relative32 : frozenset of int
        Types whose field is the signed 32-bit distance to the symbol: nearly all, so the loader does them itself.
    page : int
        Bytes of a page: a layout's parts begin at multiples of it.
    calls : frozenset of int
        Types that may go through a stub when their symbol is outside the object.
    via_got : frozenset of int
        Types whose value is the address of the symbol's GOT entry.
    stub_size : int
        Bytes of a stub.
    stub : function
        ``(memory, offset, address of the stub, address of the GOT entry)``: write a jump through the entry.
    """

    name: str
    apply: Mapping[int, Apply]
    relative32: frozenset[int]
    page: int
    calls: frozenset[int]
    via_got: frozenset[int]
    stub_size: int
    stub: Callable[[memoryview, int, int, int], None]


def _out_of_range(at: int, value: int, bits: int) -> LinkError:
    return LinkError(
        f"the stored object needs a {bits}-bit reference that does not reach {value & _MASK64:#x} "
        f"from {at:#x}; it was not compiled as position-independent code"
    )


def _fits_signed(value: int, bits: int) -> bool:
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


# ---- x86-64 ------------------------------------------------------------------------------------


def _word64(memory: memoryview, offset: int, at: int, value: int) -> None:
    _U64.pack_into(memory, offset, value & _MASK64)


def _relative64(memory: memoryview, offset: int, at: int, value: int) -> None:
    _U64.pack_into(memory, offset, (value - at) & _MASK64)


def _relative32(memory: memoryview, offset: int, at: int, value: int) -> None:
    distance = value - at
    if not -0x80000000 <= distance <= 0x7FFFFFFF:
        raise _out_of_range(at, value, 32)
    _U32.pack_into(memory, offset, distance & 0xFFFFFFFF)


def _unsigned32(memory: memoryview, offset: int, at: int, value: int) -> None:
    if not 0 <= value < 1 << 32:
        raise _out_of_range(at, value, 32)
    _U32.pack_into(memory, offset, value)


def _signed32(memory: memoryview, offset: int, at: int, value: int) -> None:
    if not _fits_signed(value, 32):
        raise _out_of_range(at, value, 32)
    _U32.pack_into(memory, offset, value & 0xFFFFFFFF)


def _x86_stub(memory: memoryview, offset: int, at: int, entry: int) -> None:
    memory[offset : offset + 8] = b"\xff\x25" + struct.pack("<i", entry - (at + 6)) + b"\xcc\xcc"  # jmp [rip + entry]


_X86_64 = Machine(
    name="x86-64",
    apply={
        1: _word64,  # R_X86_64_64
        2: _relative32,  # R_X86_64_PC32
        4: _relative32,  # R_X86_64_PLT32
        9: _relative32,  # R_X86_64_GOTPCREL
        10: _unsigned32,  # R_X86_64_32
        11: _signed32,  # R_X86_64_32S
        24: _relative64,  # R_X86_64_PC64
        41: _relative32,  # R_X86_64_GOTPCRELX
        42: _relative32,  # R_X86_64_REX_GOTPCRELX
    },
    relative32=frozenset({2, 4}),
    page=4096,
    calls=frozenset({2, 4}),
    via_got=frozenset({9, 41, 42}),
    stub_size=8,
    stub=_x86_stub,
)

# ---- aarch64 -----------------------------------------------------------------------------------


def _insert(memory: memoryview, offset: int, clear: int, bits: int) -> None:
    old = _U32.unpack_from(memory, offset)[0]
    _U32.pack_into(memory, offset, (old & ~clear & 0xFFFFFFFF) | bits)


def _word32(memory: memoryview, offset: int, at: int, value: int) -> None:
    if not -(1 << 31) <= value < 1 << 32:
        raise _out_of_range(at, value, 32)
    _U32.pack_into(memory, offset, value & 0xFFFFFFFF)


def _branch26(memory: memoryview, offset: int, at: int, value: int) -> None:
    distance = value - at
    if not _fits_signed(distance, 28) or distance & 3:
        raise _out_of_range(at, value, 28)
    _insert(memory, offset, 0x03FFFFFF, (distance >> 2) & 0x03FFFFFF)


def _page21(memory: memoryview, offset: int, at: int, value: int) -> None:
    pages = (value >> 12) - (at >> 12)
    if not _fits_signed(pages, 21):
        raise _out_of_range(at, value, 33)
    _insert(memory, offset, 0x60FFFFE0, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)


def _adr21(memory: memoryview, offset: int, at: int, value: int) -> None:
    distance = value - at
    if not _fits_signed(distance, 21):
        raise _out_of_range(at, value, 21)
    _insert(memory, offset, 0x60FFFFE0, (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5)


def _low12(scale: int) -> Apply:
    """Low 12 bits of the address in an ADD (scale 0) or in a load or store of ``2**scale`` bytes."""

    def apply(memory: memoryview, offset: int, at: int, value: int) -> None:
        low = value & 0xFFF
        if low & ((1 << scale) - 1):
            raise LinkError(f"the stored object has a misaligned access to {value & _MASK64:#x}")
        _insert(memory, offset, 0xFFF << 10, low >> scale << 10)

    return apply


def _move16(shift: int, checked: bool) -> Apply:
    """Sixteen bits of the address in a MOVZ or MOVK."""

    def apply(memory: memoryview, offset: int, at: int, value: int) -> None:
        word = value & _MASK64
        if checked and word >> (shift + 16):
            raise _out_of_range(at, value, shift + 16)
        _insert(memory, offset, 0xFFFF << 5, (word >> shift & 0xFFFF) << 5)

    return apply


def _arm_stub(memory: memoryview, offset: int, at: int, entry: int) -> None:
    memory[offset : offset + 12] = struct.pack("<III", 0x90000010, 0xF9400211, 0xD61F0220)
    _page21(memory, offset, at, entry)  # adrp x16, entry
    _low12(3)(memory, offset + 4, at + 4, entry)  # ldr x17, [x16, :lo12:entry]; br x17


_AARCH64 = Machine(
    name="aarch64",
    apply={
        257: _word64,  # R_AARCH64_ABS64
        258: _word32,  # R_AARCH64_ABS32
        260: _relative64,  # R_AARCH64_PREL64
        261: _relative32,  # R_AARCH64_PREL32
        263: _move16(0, True),  # R_AARCH64_MOVW_UABS_G0
        264: _move16(0, False),  # … _G0_NC
        265: _move16(16, True),  # … _G1
        266: _move16(16, False),  # … _G1_NC
        267: _move16(32, True),  # … _G2
        268: _move16(32, False),  # … _G2_NC
        269: _move16(48, True),  # … _G3
        274: _adr21,  # R_AARCH64_ADR_PREL_LO21
        275: _page21,  # R_AARCH64_ADR_PREL_PG_HI21
        276: _page21,  # … _NC
        277: _low12(0),  # R_AARCH64_ADD_ABS_LO12_NC
        278: _low12(0),  # R_AARCH64_LDST8_ABS_LO12_NC
        282: _branch26,  # R_AARCH64_JUMP26
        283: _branch26,  # R_AARCH64_CALL26
        284: _low12(1),  # R_AARCH64_LDST16_ABS_LO12_NC
        285: _low12(2),  # R_AARCH64_LDST32_ABS_LO12_NC
        286: _low12(3),  # R_AARCH64_LDST64_ABS_LO12_NC
        299: _low12(4),  # R_AARCH64_LDST128_ABS_LO12_NC
        311: _page21,  # R_AARCH64_ADR_GOT_PAGE
        312: _low12(3),  # R_AARCH64_LD64_GOT_LO12_NC
        314: _relative32,  # R_AARCH64_PLT32
    },
    relative32=frozenset(),
    page=PAGE,
    calls=frozenset({282, 283, 314}),
    via_got=frozenset({311, 312}),
    stub_size=12,
    stub=_arm_stub,
)

MACHINES: dict[int, Machine] = {EM_X86_64: _X86_64, EM_AARCH64: _AARCH64}
"""ELF machine number → how its relocations are applied."""
