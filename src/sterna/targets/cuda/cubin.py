"""Reading cubins: the ELF files that hold a GPU's machine code.

Gives what linking and launching need and the driver would have to be asked for one by one: where each slot of
a host reference lies, which functions are entries, how many registers and bytes of memory a kernel uses.  Nothing in
the file is trusted: every offset is checked.

Format: ELF64, little-endian, machine 190 (``EM_CUDA``); attributes of a kernel are the records of its
``.nv.info`` sections (format byte, attribute byte, then a value, or a length and bytes).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from sterna.errors import LinkError
from sterna.frozen import frozen

__all__ = ["Cubin", "Entry", "Slot", "is_whole", "read_cubin"]

_FILE_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_EM_CUDA = 190
_SHT_SYMTAB, _SHT_NOBITS = 2, 8
_STT_OBJECT, _STT_FUNC = 1, 2
_STB_GLOBAL = 1
_STO_ENTRY = 0x10
_REGCOUNT, _FRAME_SIZE, _MAX_THREADS, _MIN_STACK = 0x2F, 0x11, 0x05, 0x12
_SIZED = 4


@frozen
class Slot:
    """A visible variable: section, offset in it, size in bytes."""

    section: int
    offset: int
    size: int


@frozen
class Entry:
    """A kernel: registers of a thread, bytes of local memory a thread and of static shared memory a block.

    `max_threads` is the bound that the code was compiled for, 0 without one.
    """

    name: str
    registers: int
    local_bytes: int
    shared_bytes: int
    max_threads: int


@frozen
class Cubin:
    """What a loader needs of one cubin; `largest_frame` is the most stack that one call of a function takes."""

    arch: int
    largest_frame: int
    entries: dict[str, Entry]
    variables: dict[str, Slot]


@frozen
class _Section:
    name: str
    kind: int
    start: int
    size: int
    link: int
    info: int


def read_cubin(data: bytes) -> Cubin:
    """Read a cubin.

    Raises
    ------
    LinkError
        When the bytes are no cubin, or one of its tables reaches outside the file.
    """
    try:
        sections, flags, version = _sections(data)
        symbols = list(_symbols(data, sections))
        return Cubin(
            _arch(flags, version),
            _largest_frame(data, sections),
            _entries(data, sections, symbols),
            _variables(symbols),
        )
    except (struct.error, IndexError, ValueError) as error:
        raise LinkError(f"the stored cubin is damaged: {error}") from error


def is_whole(data: bytes) -> bool:
    """Whether the bytes are a cubin of which nothing is cut off: the driver itself does not survive some that are."""
    if len(data) < _FILE_HEADER.size:
        return False
    header = _FILE_HEADER.unpack_from(data)
    table, size, count = header[6], header[11], header[12]
    if header[0][:6] != b"\x7fELF\x02\x01" or size != _SECTION_HEADER.size or table + count * size > len(data):
        return False
    sections = _SECTION_HEADER.iter_unpack(data[table : table + count * size])
    return all(kind == _SHT_NOBITS or start + length <= len(data) for _, kind, _, _, start, length, *_ in sections)


def _arch(flags: int, version: int) -> int:
    """Compute capability times ten: in the second byte of the flags since ELF version 8, in the first before."""
    return (flags >> 8) & 0xFF if version >= 8 else flags & 0xFF


def _sections(data: bytes) -> tuple[list[_Section], int, int]:
    header = _FILE_HEADER.unpack_from(data)
    ident, machine, table, flags = header[0], header[2], header[6], header[7]
    size, count, strings = header[11], header[12], header[13]
    if ident[:6] != b"\x7fELF\x02\x01" or machine != _EM_CUDA:
        raise LinkError("the stored code is not a cubin (a 64-bit ELF file for CUDA)")
    if size != _SECTION_HEADER.size or table + count * size > len(data):
        raise ValueError("the section table reaches outside the file")
    raw = list(_SECTION_HEADER.iter_unpack(data[table : table + count * size]))
    names = data[raw[strings][4] : raw[strings][4] + raw[strings][5]]
    found = []
    for name, kind, _, _, start, length, link, info, _, _ in raw:
        if kind != _SHT_NOBITS and start + length > len(data):
            raise ValueError("a section reaches outside the file")
        found.append(_Section(_text(names, name), kind, start, length, link, info))
    return found, flags, ident[8]


def _text(names: bytes, start: int) -> str:
    return names[start : names.index(b"\0", start)].decode("ascii", "backslashreplace")


Symbol = tuple[str, int, int, int, int, int]


def _symbols(data: bytes, sections: list[_Section]) -> Iterator[Symbol]:
    """(name, info, other, section, value, size) of each symbol."""
    for section in sections:
        if section.kind != _SHT_SYMTAB:
            continue
        strings = sections[section.link]
        names = data[strings.start : strings.start + strings.size]
        for name, *rest in _SYMBOL.iter_unpack(data[section.start : section.start + section.size]):
            yield (_text(names, name), *rest)


def _variables(symbols: list[Symbol]) -> dict[str, Slot]:
    return {
        name: Slot(section, value, size)
        for name, info, _, section, value, size in symbols
        if info & 15 == _STT_OBJECT and info >> 4 == _STB_GLOBAL and section
    }


def _attributes(data: bytes, section: _Section) -> Iterator[tuple[int, bytes]]:
    place, end = section.start, section.start + section.size
    while place + 4 <= end:
        form, attribute = data[place], data[place + 1]
        if form == _SIZED:
            (size,) = struct.unpack_from("<H", data, place + 2)
            if place + 4 + size > end:
                raise ValueError("an attribute reaches outside its section")
            yield attribute, data[place + 4 : place + 4 + size]
            place += 4 + size
        else:
            yield attribute, data[place + 2 : place + 4]
            place += 4


def _largest_frame(data: bytes, sections: list[_Section]) -> int:
    found = [
        struct.unpack_from("<II", value)[1]
        for section in sections
        if section.name == ".nv.info"
        for attribute, value in _attributes(data, section)
        if attribute == _FRAME_SIZE and len(value) >= 8
    ]
    return max(found, default=0)


def _entries(data: bytes, sections: list[_Section], symbols: list[Symbol]) -> dict[str, Entry]:
    registers: dict[int, int] = {}
    frames: dict[int, int] = {}
    bounds: dict[str, int] = {}
    for section in sections:
        if section.name == ".nv.info":
            for attribute, value in _attributes(data, section):
                if attribute in (_REGCOUNT, _FRAME_SIZE, _MIN_STACK) and len(value) >= 8:
                    symbol, number = struct.unpack_from("<II", value)
                    table = registers if attribute == _REGCOUNT else frames
                    table[symbol] = max(table.get(symbol, 0), number)
        elif section.name.startswith(".nv.info."):
            for attribute, value in _attributes(data, section):
                if attribute == _MAX_THREADS and len(value) >= 12:
                    x, y, z = struct.unpack_from("<III", value)
                    bounds[section.name.removeprefix(".nv.info.")] = x * y * z
    shared = {s.name.removeprefix(".nv.shared."): s.size for s in sections if s.name.startswith(".nv.shared.")}
    return {
        name: Entry(name, registers.get(n, 0), frames.get(n, 0), shared.get(name, 0), bounds.get(name, 0))
        for n, (name, info, other, _, _, _) in enumerate(symbols)
        if info & 15 == _STT_FUNC and other & _STO_ENTRY
    }
