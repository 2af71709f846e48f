"""Settling the distances within an object when it is compiled, so that loading need not.

Compiler half of the CPU target, after LLVM.  The layout of an object depends on nothing of a session (`layout`), so a
32-bit distance between two places in it is a constant: nearly all relocations are such distances, above all the reads
of host references, and are applied here and dropped.  What is left (functions of the C and maths libraries, absolute
addresses) is the loader's.  The section headers say which layout it was (their address field, which is 0 in a
relocatable object), and the loader refuses an object that it would lay out otherwise.
"""

from __future__ import annotations

import struct

from sterna.targets.cpu.elf import Fixup, ObjectFile, Section, read_object
from sterna.targets.cpu.fixups import MACHINES, Machine
from sterna.targets.cpu.layout import Layout, lay_out

__all__ = ["prelink"]

_HEADERS_AT, _HEADER_BYTES = 0x28, 64
"""Where an ELF file says where its section headers are; bytes of one."""
_ADDRESS, _START = 16, 24
"""Offsets in a section header: address, place in the file (followed by the size)."""
_RELA = struct.Struct("<QIIq")
_S32 = struct.Struct("<i")


def prelink(data: bytes) -> bytes:
    """Apply the relocations of an object that depend on its layout alone.

    Parameters
    ----------
    data : bytes
        An ELF relocatable object as LLVM made it.

    Returns
    -------
    bytes
        The object with those relocations applied and dropped; `data` itself for a machine that has none.
    """
    parsed = read_object(data)
    machine = MACHINES[parsed.machine]
    if not machine.relative32:
        return data
    plan, settled = lay_out(parsed, machine), bytearray(data)
    headers = struct.unpack_from("<Q", data, _HEADERS_AT)[0]
    for section in parsed.sections:
        struct.pack_into(
            "<Q", settled, headers + section.number * _HEADER_BYTES + _ADDRESS, plan.sections[section.number]
        )
    for section, number, fixups in parsed.fixups:
        rest = _settle(settled, parsed, machine, plan, section, fixups)
        start, size = struct.unpack_from("<QQ", settled, headers + number * _HEADER_BYTES + _START)
        table = b"".join([_RELA.pack(*fixup) for fixup in rest])
        settled[start : start + size] = table.ljust(size, b"\0")
        struct.pack_into("<QQ", settled, headers + number * _HEADER_BYTES + _START, start, len(table))
    return bytes(settled)


def _settle(
    settled: bytearray, parsed: ObjectFile, machine: Machine, plan: Layout, section: Section, fixups: list[Fixup]
) -> list[Fixup]:
    """Write the distances of one section; what cannot be settled is returned."""
    rest, here = [], plan.sections[section.number]
    for fixup in fixups:
        offset, kind, number, addend = fixup
        symbol = parsed.symbols[number]
        place = plan.sections.get(symbol[3])
        if place is None or kind not in machine.relative32:
            rest.append(fixup)
            continue
        _S32.pack_into(settled, section.start + offset, place + symbol[4] + addend - here - offset)
    return rest
