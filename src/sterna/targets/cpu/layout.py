"""Where the parts of an object go: one mapping of three page-aligned parts.

Between reading an object and filling memory (`elf` → `layout` → `fixups` → `loader`)::

    executable   text, stubs for calls out of the object
    read-only    constants, global offset table (GOT)
    writable     words of host references, other data

The layout depends on the object and its machine alone, so distances within an object are known before there is any
memory: the compiler settles them (`prelink`), and the loader checks that it would lay the object out in the same way.
"""

from __future__ import annotations

from sterna.errors import LinkError
from sterna.relocation.record import WORD_BYTES
from sterna.targets.cpu.elf import SHN_COMMON, SHN_UNDEF, ObjectFile, Section
from sterna.targets.cpu.fixups import Machine

__all__ = ["Layout", "lay_out"]


class Layout:
    """Offsets in the mapping: sections, common symbols, stubs, GOT entries (by symbol number), part limits."""

    __slots__ = ("commons", "constants", "got", "sections", "size", "stubs", "writable")

    def __init__(self) -> None:
        self.sections: dict[int, int] = {}
        self.commons: dict[int, int] = {}
        self.stubs: dict[int, int] = {}
        self.got: dict[int, int] = {}
        self.constants = self.writable = self.size = 0


def lay_out(parsed: ObjectFile, machine: Machine) -> Layout:
    """Give every section, stub and GOT entry of an object its offset.

    Raises
    ------
    LinkError
        When a section wants a larger alignment than pages have.
    """
    plan, page = Layout(), machine.page
    symbols = parsed.symbols
    outside = {number for number, symbol in enumerate(symbols) if symbol[3] == SHN_UNDEF} - {0}
    for _, _, fixups in parsed.fixups:
        for _, kind, number, _ in [f for f in fixups if f[2] in outside or f[1] in machine.via_got]:
            if kind in machine.via_got:
                plan.got[number] = -1
            elif kind in machine.calls:
                plan.stubs[number] = plan.got[number] = -1
    at = 0
    at = _place_sections(plan, at, page, [s for s in parsed.sections if s.executable])
    at = -(-at // 16) * 16
    for number in plan.stubs:
        plan.stubs[number] = at
        at += machine.stub_size
    at = plan.constants = _next_page(at, page)
    at = _place_sections(plan, at, page, [s for s in parsed.sections if not s.executable and not s.writable])
    at = -(-at // WORD_BYTES) * WORD_BYTES
    for number in plan.got:
        plan.got[number] = at
        at += WORD_BYTES
    at = plan.writable = _next_page(at, page)
    at = _place_sections(plan, at, page, [s for s in parsed.sections if s.writable])
    for number in [number for number, symbol in enumerate(symbols) if symbol[3] == SHN_COMMON]:
        _, _, _, _, value, size = symbols[number]
        align = max(value, 1)  # a common symbol's value is its alignment
        at = plan.commons[number] = -(-at // align) * align
        at += size
    plan.size = at
    return plan


def _next_page(at: int, page: int) -> int:
    return -(-at // page) * page


def _place_sections(plan: Layout, at: int, page: int, sections: list[Section]) -> int:
    for section in sections:
        if section.align > page:
            raise LinkError(f"section {section.name!r} of the stored object wants alignment {section.align}")
        at = -(-at // section.align) * section.align
        plan.sections[section.number] = at
        at += section.size
    return at
