"""Reading ELF64 relocatable objects: sections, symbols and relocations as plain values.

First step of loading a stored CPU object (`elf` → `fixups` → `loader`).  Nothing is mapped or executed
here, and nothing in the file is trusted: every offset is checked against the file's size, so a damaged object
gives a `LinkError`, never a fault.

Format: System V ABI, *Object Files*; only little-endian ELF64 of type ``ET_REL`` is accepted.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from sterna.errors import LinkError

__all__ = ["Fixup", "ObjectFile", "Section", "Symbol", "read_object"]

EM_X86_64, EM_AARCH64 = 62, 183
SHN_UNDEF, SHN_LORESERVE, SHN_ABS, SHN_COMMON = 0, 0xFF00, 0xFFF1, 0xFFF2
STT_OBJECT, STT_FUNC, STT_TLS = 1, 2, 6
_ET_REL = 1
_SHT_PROGBITS, _SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS, _SHT_REL = 1, 2, 4, 8, 9
_SHT_INIT_ARRAY = 14
_SHF_WRITE, _SHF_ALLOC, _SHF_EXEC, _SHF_TLS = 1, 2, 4, 0x400
_FILE_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QIIq")


class Section(NamedTuple):
    """A section that takes memory: file range (empty for zero-initialised ones), size, alignment, access."""

    number: int
    name: str
    start: int
    stored: int
    size: int
    align: int
    executable: bool
    writable: bool


class Symbol(NamedTuple):
    """A symbol: name, defining section (or a reserved index), offset in it, size in bytes, ELF type, binding."""

    name: str
    section: int
    value: int
    size: int
    kind: int
    local: bool
    weak: bool


class Fixup(NamedTuple):
    """One relocation: where (section, offset), its ELF type, symbol number and addend."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


class ObjectFile(NamedTuple):
    """What a loader needs of one object; `sections` holds only sections that take memory."""

    machine: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    fixups: tuple[Fixup, ...]


def read_object(data: bytes) -> ObjectFile:
    """Read an ELF64 little-endian relocatable object.

    Parameters
    ----------
    data : bytes
        The whole file.

    Raises
    ------
    LinkError
        When the bytes are not such an object, or one of their tables reaches outside the file.
    """
    try:
        headers, names, machine = _section_headers(data)
        sections = tuple(_memory_sections(data, headers, names))
        symbols, table = _symbols(data, headers)
        kept = {s.number: s for s in sections}
        fixups = tuple(_fixups(data, headers, kept, len(symbols), table))
    except (struct.error, IndexError, ValueError) as error:
        raise LinkError(f"the stored object is damaged: {error}") from error
    return ObjectFile(machine, sections, symbols, fixups)


def _section_headers(data: bytes) -> tuple[list[tuple[int, ...]], bytes, int]:
    ident, kind, machine, _, _, _, table, _, _, _, _, size, count, strings = _FILE_HEADER.unpack_from(data)
    if ident[:6] != b"\x7fELF\x02\x01" or kind != _ET_REL:
        raise LinkError("the stored code is not a 64-bit little-endian relocatable ELF object")
    if size != _SECTION_HEADER.size or table + count * size > len(data):
        raise LinkError("the stored object is damaged: its section table reaches outside the file")
    headers = list(_SECTION_HEADER.iter_unpack(data[table : table + count * size]))
    return headers, _bytes_of(data, headers[strings]), machine


def _bytes_of(data: bytes, header: tuple[int, ...]) -> bytes:
    start, size = header[4], header[5]
    if start + size > len(data):
        raise ValueError("a section reaches outside the file")
    return data[start : start + size]


def _text_at(names: bytes, start: int) -> str:
    return names[start : names.index(b"\0", start)].decode("ascii", "backslashreplace")


def _memory_sections(data: bytes, headers: list[tuple[int, ...]], names: bytes) -> list[Section]:
    found = []
    for index, header in enumerate(headers):
        name_at, kind, flags, _, start, size, _, _, align, _ = header
        if not flags & _SHF_ALLOC or kind not in (_SHT_PROGBITS, _SHT_NOBITS, _SHT_INIT_ARRAY):
            continue
        name = _text_at(names, name_at)
        if name == ".eh_frame":  # for unwinders only; kernels never throw
            continue
        if flags & _SHF_TLS or kind == _SHT_INIT_ARRAY:
            raise LinkError(f"the stored object has a section {name!r}, which kernels cannot have")
        stored = 0 if kind == _SHT_NOBITS else size
        if start + stored > len(data):
            raise ValueError(f"section {name!r} reaches outside the file")
        if align & (align - 1):
            raise ValueError(f"section {name!r} has alignment {align}")
        executable, writable = bool(flags & _SHF_EXEC), bool(flags & _SHF_WRITE)
        if executable and writable:
            raise LinkError(f"section {name!r} of the stored object is writable and executable")
        found.append(Section(index, name, start, stored, size, max(align, 1), executable, writable))
    return found


def _symbols(data: bytes, headers: list[tuple[int, ...]]) -> tuple[tuple[Symbol, ...], int]:
    for index, header in enumerate(headers):
        if header[1] != _SHT_SYMTAB:
            continue
        names = _bytes_of(data, headers[header[6]])
        found = [
            Symbol(_text_at(names, name), section, value, size, info & 15, info >> 4 == 0, info >> 4 == 2)
            for name, info, _, section, value, size in _SYMBOL.iter_unpack(_bytes_of(data, header))
        ]
        for symbol in found:
            if symbol.kind == STT_TLS:
                raise LinkError(f"the stored object has a thread-local symbol {symbol.name!r}")
        return tuple(found), index
    return (), -1


def _fixups(
    data: bytes, headers: list[tuple[int, ...]], kept: dict[int, Section], symbols: int, table: int
) -> list[Fixup]:
    found = []
    for header in headers:
        kind, target = header[1], header[7]
        if kind not in (_SHT_RELA, _SHT_REL) or target not in kept:
            continue
        if kind == _SHT_REL or header[6] != table:
            raise LinkError("the stored object has a relocation table of an unknown form")
        size = kept[target].stored
        for offset, code, symbol, addend in _RELA.iter_unpack(_bytes_of(data, header)):
            if offset >= size or symbol >= symbols:
                raise ValueError("a relocation reaches outside its section")
            found.append(Fixup(target, offset, code, symbol, addend))
    return found
