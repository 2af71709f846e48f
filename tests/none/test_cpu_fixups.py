"""Relocation formulas one by one, against encodings worked out by hand from the manuals."""

from __future__ import annotations

import struct

import pytest

from sterna.errors import LinkError
from sterna.targets.cpu.elf import EM_AARCH64, EM_X86_64
from sterna.targets.cpu.fixups import MACHINES

AT = 0x7F00_0000_1000


def apply(machine: int, kind: int, value: int, old: int = 0, size: int = 8) -> int:
    memory = bytearray(struct.pack("<Q", old))
    MACHINES[machine].apply[kind](memoryview(memory), 0, AT, value)
    return int.from_bytes(memory[:size], "little")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (1, AT + 5, AT + 5),  # R_X86_64_64
        (1, -1, 2**64 - 1),
        (2, AT + 0x10, 0x10),  # PC32
        (4, AT - 4, 0xFFFFFFFC),  # PLT32
        (9, AT + 2**31 - 1, 0x7FFFFFFF),  # GOTPCREL
        (10, 0xFFFFFFFF, 0xFFFFFFFF),  # 32
        (11, -1, 0xFFFFFFFF),  # 32S
        (11, 0x7FFFFFFF, 0x7FFFFFFF),
        (24, AT - 1, 2**64 - 1),  # PC64
    ],
)
def test_x86(kind: int, value: int, expected: int) -> None:
    assert apply(EM_X86_64, kind, value) == expected


@pytest.mark.parametrize(
    ("kind", "value"), [(2, AT + 2**31), (2, AT - 2**31 - 1), (10, -1), (10, 2**32), (11, 2**31), (11, -(2**31) - 1)]
)
def test_x86_out_of_range(kind: int, value: int) -> None:
    with pytest.raises(LinkError, match="does not reach"):
        apply(EM_X86_64, kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "old", "expected"),
    [
        (257, AT, 0, AT),  # ABS64
        (258, 0xFFFFFFFF, 0, 0xFFFFFFFF),  # ABS32
        (258, -(2**31), 0, 0x80000000),
        (260, AT - 2, 0, 2**64 - 2),  # PREL64
        (261, AT - 2, 0, 0xFFFFFFFE),  # PREL32
        (263, 0xBEEF, 0xD2800001, 0xD2800001 | 0xBEEF << 5),  # MOVZ x1, #0xbeef
        (264, 0x1_0002_BEEF, 0xF2800001, 0xF2800001 | 0xBEEF << 5),
        (266, 0x1_0002_BEEF, 0xF2A00001, 0xF2A00001 | 2 << 5),
        (268, 0x1_0002_BEEF, 0xF2C00001, 0xF2C00001 | 1 << 5),
        (269, 0x1234 << 48, 0xF2E00001, 0xF2E00001 | 0x1234 << 5),
        (274, AT + 0x101, 0x10000000, 0x10000000 | 1 << 29 | 0x40 << 5),  # ADR x0, .+0x101
        (275, AT + 0x3000, 0x90000010, 0x90000010 | 3 << 29),  # ADRP x16, three pages on
        (275, AT - 0x1000, 0x90000010, 0xF0FFFFF0),  # one page back
        (277, 0x12ABC, 0x91000000, 0x91000000 | 0xABC << 10),  # ADD
        (278, 0x12ABD, 0x39400000, 0x39400000 | 0xABD << 10),  # LDRB
        (284, 0x12ABE, 0x79400000, 0x79400000 | 0xABE >> 1 << 10),  # LDRH
        (285, 0x12ABC, 0xB9400000, 0xB9400000 | 0xABC >> 2 << 10),  # LDR w
        (286, 0x12AB8, 0xF9400000, 0xF9400000 | 0xAB8 >> 3 << 10),  # LDR x
        (299, 0x12AB0, 0x3DC00000, 0x3DC00000 | 0xAB0 >> 4 << 10),  # LDR q
        (283, AT + 8, 0x94000000, 0x94000002),  # BL .+8
        (282, AT - 4, 0x14000000, 0x17FFFFFF),  # B .-4
    ],
)
def test_arm(kind: int, value: int, old: int, expected: int) -> None:
    size = 8 if kind in (257, 260) else 4
    assert apply(EM_AARCH64, kind, value, old, size) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (258, 2**32),
        (263, 0x10000),
        (265, 2**32),
        (274, AT + 2**20),
        (275, AT + 2**33),
        (283, AT + 2**27),
        (283, AT + 2),
    ],
)
def test_arm_out_of_range(kind: int, value: int) -> None:
    with pytest.raises(LinkError, match="does not reach"):
        apply(EM_AARCH64, kind, value)


def test_arm_misaligned() -> None:
    with pytest.raises(LinkError, match="misaligned"):
        apply(EM_AARCH64, 286, 0x12AB9)


def test_stubs() -> None:
    memory = bytearray(16)
    MACHINES[EM_X86_64].stub(memoryview(memory), 8, AT + 8, AT + 0x2000)
    assert memory[8:14] == b"\xff\x25" + struct.pack("<i", 0x2000 - 8 - 6)
    memory = bytearray(12)
    MACHINES[EM_AARCH64].stub(memoryview(memory), 0, AT, AT + 0x2018)
    adrp = 0x90000010 | 2 << 29
    assert struct.unpack("<III", memory) == (adrp, 0xF9400211 | 3 << 10, 0xD61F0220)
