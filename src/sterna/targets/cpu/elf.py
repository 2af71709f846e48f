"""Reading ELF64 relocatable objects: sections, symbols and relocations as plain values.

First step of loading a stored CPU object (`elf` → `fixups` → `loader`).  Nothing is mapped or executed
here, and nothing in the file is trusted: every offset is checked against the file's size, so a damaged object
gives a `LinkError`, never a fault.

Format: System V ABI, *Object Files*; only little-endian ELF64 of type ``ET_REL`` is accepted.
"""

from __future__ import annotations

import struct

from sterna.errors import LinkError
from sterna.frozen import frozen

__all__ = ["Fixup", "ObjectFile", "Section", "Symbol", "is_weak", "read_object", "undefined_symbols"]

EM_X86_64, EM_AARCH64 = 62, 183
SHN_UNDEF, SHN_ABS, SHN_COMMON = 0, 0xFFF1, 0xFFF2
STT_OBJECT, STT_FUNC, STT_TLS = 1, 2, 6
STB_WEAK = 2
_ET_REL = 1
_SHT_PROGBITS, _SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS, _SHT_REL = 1, 2, 4, 8, 9
_SHT_INIT_ARRAY = 14
_SHF_WRITE, _SHF_ALLOC, _SHF_EXEC, _SHF_TLS = 1, 2, 4, 0x400
_FILE_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QIIq")


@frozen
class Section:
    """A section that takes memory: file range (empty for zero-initialised ones), size, alignment, access.

    `address` is its offset in the layout that distances to it were settled for (`prelink`); 0 before that.
    """

    number: int
    name: str
    start: int
    stored: int
    size: int
    align: int
    executable: bool
    writable: bool
    address: int = 0


Symbol = tuple[int, int, int, int, int, int]
"""A symbol as the file has it: where its name is, type and binding, visibility, section (or a reserved index), offset
in it, size.  There may be hundreds, so they stay plain tuples."""

Fixup = tuple[int, int, int, int]
"""One relocation: offset in its section, ELF type, symbol number, addend."""


@frozen
class ObjectFile:
    """What a loader needs of one object.

    Attributes
    ----------
    machine : int
        ELF machine number.
    sections : tuple of Section
        Those that take memory.
    symbols : list of Symbol
        All, by number.
    names : bytes
        Their names; see `name_of`.
    fixups : list of (Section, int, list of Fixup)
        Relocations by section, with the number of the table they are from.
    """

    machine: int
    sections: tuple[Section, ...]
    symbols: list[Symbol]
    names: bytes
    fixups: list[tuple[Section, int, list[Fixup]]]

    def name_of(self, symbol: Symbol) -> str:
        """Name of a symbol; `LinkError` when it lies outside the names."""
        try:
            return _text_at(self.names, symbol[0])
        except ValueError as error:
            raise LinkError(f"the stored object is damaged: {error}") from error


def undefined_symbols(data: bytes) -> tuple[str, ...]:
    """Names of the symbols that an object needs from outside, in the order of its symbol table."""
    found = read_object(data)
    return tuple(name for s in found.symbols if s[3] == SHN_UNDEF for name in (found.name_of(s),) if name)


def is_weak(symbol: Symbol) -> bool:
    """True for a symbol that may be missing."""
    return symbol[1] >> 4 == STB_WEAK


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
        symbols, symbol_names, table = _symbols(data, headers)
        kept = {s.number: s for s in sections}
        fixups = _fixups(data, headers, kept, len(symbols), table)
    except (struct.error, IndexError, ValueError) as error:
        raise LinkError(f"the stored object is damaged: {error}") from error
    return ObjectFile(machine, sections, symbols, symbol_names, fixups)


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
        name_at, kind, flags, address, start, size, _, _, align, _ = header
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
        found.append(Section(index, name, start, stored, size, max(align, 1), executable, writable, address))
    return found


def _symbols(data: bytes, headers: list[tuple[int, ...]]) -> tuple[list[Symbol], bytes, int]:
    for index, header in enumerate(headers):
        if header[1] != _SHT_SYMTAB:
            continue
        names = _bytes_of(data, headers[header[6]])
        found: list[Symbol] = list(_SYMBOL.iter_unpack(_bytes_of(data, header)))
        for name_at in [symbol[0] for symbol in found if symbol[1] & 15 == STT_TLS]:
            raise LinkError(f"the stored object has a thread-local symbol {_text_at(names, name_at)!r}")
        return found, names, index
    return [], b"", -1


def _fixups(
    data: bytes, headers: list[tuple[int, ...]], kept: dict[int, Section], symbols: int, table: int
) -> list[tuple[Section, int, list[Fixup]]]:
    found = []
    for index, header in enumerate(headers):
        kind, target = header[1], header[7]
        if kind not in (_SHT_RELA, _SHT_REL) or target not in kept:
            continue
        if kind == _SHT_REL or header[6] != table:
            raise LinkError("the stored object has a relocation table of an unknown form")
        section = kept[target]
        fixups: list[Fixup] = list(_RELA.iter_unpack(_bytes_of(data, header)))
        if fixups:
            offsets, _, numbers, _ = zip(*fixups, strict=True)
            if max(offsets) >= section.stored or max(numbers) >= symbols:
                raise ValueError("a relocation reaches outside its section")
        found.append((section, index, fixups))
    return found
