"""Loading a stored CPU object: layout, symbols, relocations, protection; no LLVM anywhere.

Last step of loading (`elf` → `layout` → `fixups` → `loader`).  An object becomes one mapping of the parts that `layout`
gives it.

Invariants: no page is writable and executable; the only outside names are functions of the C and maths
libraries (anything else is a `LinkError`); slots are writable, named data symbols whose sizes come from the
symbol table, so that code and manifest can be compared (I5).
"""

from __future__ import annotations

import ctypes
import functools
import platform
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from sterna.errors import LinkError
from sterna.targets.cpu.codemem import READ, READ_EXECUTE, CodeMemory
from sterna.targets.cpu.elf import (
    EM_AARCH64,
    EM_X86_64,
    SHN_ABS,
    SHN_COMMON,
    SHN_UNDEF,
    STT_FUNC,
    STT_OBJECT,
    Fixup,
    ObjectFile,
    Symbol,
    is_weak,
    read_object,
)
from sterna.targets.cpu.fixups import MACHINES, Machine
from sterna.targets.cpu.layout import Layout, lay_out

__all__ = ["LoadedObject", "load_object"]

_S32 = struct.Struct("<i")
_WORD = 8
_GLOBAL = 1 << 4
"""First value of a symbol's info byte that is not local."""


class LoadedObject:
    """An object in memory: entry points to call, slots to write.

    Parameters
    ----------
    memory : CodeMemory
        The mapping that holds it.
    functions : mapping of str to int
        Name → address of each global function.
    slots : mapping of str to (int, int)
        Name → (address, size in bytes) of each global writable data symbol.
    """

    def __init__(self, memory: CodeMemory, functions: Mapping[str, int], slots: Mapping[str, tuple[int, int]]) -> None:
        self._memory, self._functions, self._slots = memory, functions, slots

    def entry(self, name: str) -> int:
        """Address of the function `name`.

        Raises
        ------
        LinkError
            When the object has no such function.
        """
        try:
            return self._functions[name]
        except KeyError:
            known = ", ".join(sorted(self._functions)) or "none"
            raise LinkError(f"the stored object has no function {name!r}; it has: {known}") from None

    def slot(self, name: str) -> tuple[int, int] | None:
        """Address and size in bytes of the writable data symbol `name`, or None."""
        return self._slots.get(name)

    def write(self, name: str, words: Sequence[int]) -> None:
        """Write words (unsigned 64-bit) into the slot `name`, all in one copy.

        Raises
        ------
        LinkError
            For a slot that is missing or has another size; nothing is written then.
        """
        slot = self._slots.get(name)
        if slot is None:
            raise LinkError(f"the code has no slot {name!r}")
        if slot[1] != _WORD * len(words):
            raise LinkError(f"slot {name!r} has {slot[1]} bytes in the code and is given {len(words)} words")
        ctypes.memmove(slot[0], struct.pack(f"={len(words)}Q", *words), slot[1])

    def unload(self) -> None:
        """Unmap the code; no launch may be running or follow."""
        self._functions, self._slots = {}, {}
        self._memory.close()


def load_object(data: bytes, host: int | None = None) -> LoadedObject:
    """Load an ELF relocatable object made for this machine.

    Parameters
    ----------
    data : bytes
        The object file; position-independent or small-model code.
    host : int, optional
        ELF machine number to accept; this machine's without it.

    Raises
    ------
    LinkError
        When it is damaged, for another machine, or needs something that is not there.
    """
    parsed = read_object(data)
    machine = MACHINES.get(parsed.machine)
    if machine is None or parsed.machine != (host_machine() if host is None else host):
        name = f"machine number {parsed.machine}" if machine is None else machine.name
        raise LinkError(f"the stored object is for {name}, and this machine is {platform.machine() or 'unknown'}")
    plan = lay_out(parsed, machine)
    _check_places(parsed, plan)
    memory = CodeMemory(plan.size)
    try:
        _fill(memory, data, parsed, machine, plan)
        memory.protect(0, plan.constants, READ_EXECUTE)
        memory.protect(plan.constants, plan.writable, READ)
        if parsed.machine != EM_X86_64:
            memory.flush(0, plan.constants)
        return _loaded(memory, parsed, plan)
    except BaseException:
        memory.close()
        raise


@functools.cache
def host_machine() -> int | None:
    """ELF machine number of this process, or None where objects cannot be loaded."""
    name = platform.machine().lower()
    return {"x86_64": EM_X86_64, "amd64": EM_X86_64, "aarch64": EM_AARCH64, "arm64": EM_AARCH64}.get(name)


def _fill(memory: CodeMemory, data: bytes, parsed: ObjectFile, machine: Machine, plan: Layout) -> None:
    view = memory.view
    for section in parsed.sections:
        if section.stored:
            at = plan.sections[section.number]
            view[at : at + section.stored] = data[section.start : section.start + section.stored]
    address = _Addresses(parsed, memory.address, plan)
    for number, at in plan.got.items():
        struct.pack_into("<Q", view, at, address[number])
    for number, at in plan.stubs.items():
        machine.stub(view, at, memory.address + at, memory.address + plan.got[number])
    for section, _, fixups in parsed.fixups:
        _apply(memory, machine, plan, plan.sections[section.number], fixups, address)


def _apply(
    memory: CodeMemory, machine: Machine, plan: Layout, start: int, fixups: list[Fixup], address: Mapping[int, int]
) -> None:
    """Apply the relocations of the section that starts at offset `start`."""
    view, base = memory.view, memory.address
    plain, pack = machine.relative32, _S32.pack_into
    stubs, got, via_got = plan.stubs, plan.got, machine.via_got
    here = base + start
    try:
        for offset, kind, number, addend in fixups:
            if kind in plain and number not in stubs:  # nearly all of them
                pack(view, start + offset, address[number] + addend - here - offset)
                continue
            apply = machine.apply.get(kind)
            if apply is None:
                raise LinkError(f"the stored object has a {machine.name} relocation of type {kind}, which is unknown")
            if kind in via_got:
                value = base + got[number]
            elif number in stubs and kind in machine.calls:
                value = base + stubs[number]
            else:
                value = address[number]
            apply(view, start + offset, here + offset, value + addend)
    except (struct.error, ValueError) as error:
        raise LinkError(f"the stored object is damaged, or its parts are too far apart: {error}") from error


def _check_places(parsed: ObjectFile, plan: Layout) -> None:
    """Refuse an object whose distances were settled (`sterna.targets.cpu.prelink`) for another layout than this one."""
    places = [section.address for section in parsed.sections]
    if any(places) and places != [plan.sections[section.number] for section in parsed.sections]:
        raise LinkError("the stored object was laid out by another version; delete it or compile again")


class _Addresses(dict[int, int]):
    """Address of each symbol by number; one outside is looked for when first asked for, and refused if not found."""

    def __init__(self, parsed: ObjectFile, base: int, plan: Layout) -> None:
        starts = {number: base + at for number, at in plan.sections.items()}
        placed = enumerate(parsed.symbols)
        super().__init__({n: starts[s[3]] + s[4] for n, s in placed if s[3] in starts})
        self[0] = 0
        self._find = functools.partial(_address, parsed, base=base, plan=plan)

    def __missing__(self, number: int) -> int:
        value = self[number] = self._find(number)
        return value


def _address(parsed: ObjectFile, number: int, base: int, plan: Layout) -> int:
    """Address of a symbol that is in no section that was placed."""
    symbol = parsed.symbols[number]
    section = symbol[3]
    if section == SHN_ABS:
        return symbol[4]
    if section == SHN_COMMON:
        return base + plan.commons[number]
    name = parsed.name_of(symbol) or f"number {number}"
    value = _external(name) if section == SHN_UNDEF else None
    if value is None and not (is_weak(symbol) and section == SHN_UNDEF):
        raise LinkError(
            f"the stored object needs the symbol {name!r}, which is not a function of the C or maths library here"
        )
    return value or 0


def _loaded(memory: CodeMemory, parsed: ObjectFile, plan: Layout) -> LoadedObject:
    functions: dict[str, int] = {}
    slots: dict[str, tuple[int, int]] = {}
    starts = {number: memory.address + at for number, at in plan.sections.items()}
    writable = {s.number: s.size for s in parsed.sections if s.writable}
    visible: list[Symbol] = [symbol for symbol in parsed.symbols if symbol[1] >= _GLOBAL]
    for symbol in visible:
        _, info, _, section, value, size = symbol
        if info & 15 == STT_OBJECT and section in writable:
            if value + size > writable[section]:
                raise LinkError(f"slot {parsed.name_of(symbol)!r} reaches outside its section")
            slots[parsed.name_of(symbol)] = (starts[section] + value, size)
        elif info & 15 == STT_FUNC and section in starts:
            functions[parsed.name_of(symbol)] = starts[section] + value
    for number, at in plan.commons.items():
        symbol = parsed.symbols[number]
        if symbol[1] >= _GLOBAL:
            slots[parsed.name_of(symbol)] = (memory.address + at, symbol[5])
    return LoadedObject(memory, functions, slots)


# ---- names outside the object --------------------------------------------------------------------

_LIBRARIES = {
    "darwin": ("/usr/lib/libSystem.B.dylib",),
    "linux": ("libm.so.6", "libc.so.6", "libgcc_s.so.1"),
}
"""Where outside names may come from; libgcc has conversions (float16, 128-bit) that compilers call."""


@functools.cache
def _library(name: str | None) -> Any:
    """A library by name, or None when there is none; each is opened when it is first asked for a name."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


@functools.cache
def _external(name: str) -> int | None:
    """Address of a C or maths library function, or None."""
    names: tuple[str | None, ...] = _LIBRARIES.get(sys.platform, ())
    if not any(_library(library) for library in names[:2]):
        names = (None,)  # another C library (musl): what the process has loaded
    for library in names:
        try:
            return ctypes.cast(_library(library)[name], ctypes.c_void_p).value
        except (AttributeError, TypeError):  # not in this one, or no such library
            continue
    return None
