"""Identifiers of a SPIR-V module, numbered anew in the order in which they appear.

LLVM's back end numbers some of what it makes in the order of addresses of its own objects, and names basic blocks by
what it remembers of such addresses.  The same job must give the same bytes (I4), so every identifier is counted from 1
as it is met, and the module's variables come in the order of their first use.  Labels stand in places of their own and
are told from values by that; where two labels of a function are one, nothing can tell them apart
(`SharedIdentifier`).  Names are left out.

The layout of instructions is that of Khronos, "SPIR-V Specification", section 3.49, of those that kernels have.
"""

from __future__ import annotations

import struct

__all__ = ["SharedIdentifier", "UnknownInstruction", "renumbered"]

_HEADER_WORDS = 5
_NAMES = (5, 6)
"""Names for people; those of labels stand far from them."""
_DECORATE, _VARIABLE, _ENTRY_POINT, _TYPES = 71, 59, 15, range(19, 40)
_LABEL, _FUNCTION, _PHI, _SWITCH, _TYPE_INT = 248, 54, 245, 251, 21


class SharedIdentifier(Exception):
    """Two things have one identifier, and cannot be told apart."""


class UnknownInstruction(Exception):
    """An instruction whose operands are not known here; the argument is its number."""


def _layouts() -> dict[int, str]:
    """Operation → its operands: t type, r result, i identifier, l literal, s string, b label; the last but one of a
    layout that ends in ``*`` is repeated."""
    found = {
        0: "", 1: "tr", 3: "ll", 4: "s", 5: "is", 6: "ils", 7: "rs", 8: "ill", 10: "s", 11: "rs", 12: "trili*",
        14: "ll", 15: "lisi*", 16: "il*", 17: "l", 21: "rll", 22: "rl*", 23: "ril", 28: "rii", 29: "ri", 30: "ri*",
        31: "rs", 32: "rli", 33: "ri*", 43: "trl*", 44: "tri*", 54: "trli", 56: "", 57: "tri*", 59: "trli*",
        61: "tril*", 62: "iil*", 63: "iil*", 64: "iiil*", 71: "il*", 72: "ill*", 79: "triil*", 81: "tril*",
        82: "triil*", 123: "tril", 224: "iii", 225: "ii", 228: "iiii", 246: "bbl*", 247: "bl", 248: "", 249: "b",
        250: "ibbl*", 253: "", 254: "i", 255: "", 256: "il", 257: "il", 317: "", 330: "s", 331: "il*", 332: "ili*",
        5630: "i",
    }  # fmt: skip
    found.update(dict.fromkeys((19, 20, 73), "r"))
    found.update(dict.fromkeys((41, 42, 46, 55), "tr"))
    arithmetic = (
        *range(65, 71), *range(77, 79), 80, 83, *range(109, 123), 124, *range(126, 206), *range(227, 228),
        *range(229, 243), 400, 401, 402, 403, 5631,
    )  # fmt: skip
    found.update(dict.fromkeys(arithmetic, "tri*"))
    return found


_LAYOUTS = _layouts()


class _Numbers:
    """New identifiers, as they are met."""

    def __init__(self) -> None:
        self.last = 0
        self.values: dict[int, int] = {}
        self.labels: dict[int, int] = {}
        self._defined: set[int] = set()

    def define(self, new: int) -> int:
        """Note a definition; gives the identifier."""
        if new in self._defined:
            raise SharedIdentifier(new)
        self._defined.add(new)
        return new

    def value(self, old: int) -> int:
        return self._of(self.values, old)

    def label(self, old: int) -> int:
        """Of a label of the current function."""
        return self._of(self.labels, old)

    def _of(self, known: dict[int, int], old: int) -> int:
        found = known.get(old)
        if found is None:
            self.last += 1
            found = known[old] = self.last
        return found


def renumbered(code: bytes) -> bytes:
    """The same module with identifiers counted in order of appearance.

    Raises
    ------
    UnknownInstruction
        For an operation that is not known here.
    SharedIdentifier
        Where the module does not say what is meant.
    """
    words = struct.unpack(f"<{len(code) // 4}I", code)
    out = list(words[:_HEADER_WORDS])
    numbers = _Numbers()
    widths: dict[int, int] = {}
    types: dict[int, int] = {}
    for operation, operands in _ordered(_instructions(words)):
        if operation == _TYPE_INT:
            widths[operands[0]] = operands[1]
        layout = _LAYOUTS.get(operation)
        if operation == _PHI or (layout is not None and layout.startswith("tr")):
            types[operands[1]] = operands[0]
        if operation == _FUNCTION:
            numbers.labels = {}
        if operation == _LABEL:
            changed = [numbers.define(numbers.label(operands[0]))]
        elif operation == _PHI:
            pairs = [numbers.label(x) if n % 2 else numbers.value(x) for n, x in enumerate(operands[2:])]
            changed = [numbers.value(operands[0]), numbers.define(numbers.value(operands[1])), *pairs]
        elif operation == _SWITCH:
            changed = _switch(operands, numbers, widths.get(types.get(operands[0], 0), 32))
        elif layout is None:
            raise UnknownInstruction(operation)
        else:
            changed = _changed(operands, layout, numbers)
        out += (len(operands) + 1 << 16 | operation, *changed)
    out[3] = numbers.last + 1  # the bound
    return struct.pack(f"<{len(out)}I", *out)


def _instructions(words: tuple[int, ...]) -> list[tuple[int, list[int]]]:
    """Operations with their operands; no names."""
    found, start = [], _HEADER_WORDS
    while start < len(words):
        count, operation = words[start] >> 16, words[start] & 0xFFFF
        if operation not in _NAMES:
            found.append((operation, list(words[start + 1 : start + count])))
        start += count
    return found


def _ordered(instructions: list[tuple[int, list[int]]]) -> list[tuple[int, list[int]]]:
    """With the module's variables in the order of their first use, where the back end has that of its objects."""
    code = next(n for n, (operation, _) in enumerate(instructions) if operation == _FUNCTION)
    head, body = instructions[:code], instructions[code:]
    variables = {operands[1] for operation, operands in head if operation == _VARIABLE}
    place: dict[int, int] = {}
    for operation, operands in body:
        for x in _values_of(operation, operands):
            if x in variables:
                place.setdefault(x, len(place))
    said: dict[int, list[list[int]]] = {x: [] for x in variables}
    for operation, operands in head:
        if operation == _DECORATE and operands[0] in variables:
            said[operands[0]].append(operands[1:])

    def order(x: int) -> tuple[int, list[list[int]]]:
        """First use; of those that are never used, what decorates them."""
        return place.get(x, len(place)), said.get(x, [])

    moved: dict[int, list[tuple[int, list[int]]]] = {_DECORATE: [], _VARIABLE: []}
    kept: list[tuple[int, list[int]]] = []
    for operation, operands in head:
        target = {_DECORATE: 0, _VARIABLE: 1}.get(operation)
        if target is not None and operands[target] in variables:
            moved[operation].append((operation, operands))
            continue
        if operation == _ENTRY_POINT:
            start = 2 + _string_words(operands[2:])
            operands = [*operands[:start], *sorted(operands[start:], key=order)]
        kept.append((operation, operands))
    moved[_DECORATE].sort(key=lambda item: order(item[1][0]))
    moved[_VARIABLE].sort(key=lambda item: order(item[1][1]))
    types = next(n for n, (operation, _) in enumerate(kept) if operation in _TYPES)
    return [*kept[:types], *moved[_DECORATE], *kept[types:], *moved[_VARIABLE], *body]


def _values_of(operation: int, operands: list[int]) -> list[int]:
    """Identifiers of values among the operands of an instruction."""
    if operation == _PHI:
        return operands[2::2]
    if operation in (_LABEL, _SWITCH):
        return operands[:1]
    layout = _LAYOUTS.get(operation, "")
    repeated = layout[-2:-1] if layout.endswith("*") else ""
    plain = layout.removesuffix("*")
    kinds = plain + repeated * (len(operands) - len(plain))
    return [x for x, kind in zip(operands, kinds, strict=False) if kind == "i"]


def _changed(operands: list[int], layout: str, numbers: _Numbers) -> list[int]:
    changed: list[int] = []
    place = position = 0
    while position < len(operands):
        if layout[place : place + 2] == "" or layout[place] == "*":
            place -= 1  # repeat the last one
        kind = layout[place]
        if kind == "s":
            size = _string_words(operands[position:])
            changed += operands[position : position + size]
            position += size
        else:
            word = operands[position]
            changed.append(_operand(kind, word, numbers))
            position += 1
        place += 1
    return changed


def _operand(kind: str, word: int, numbers: _Numbers) -> int:
    if kind == "l":
        return word
    if kind == "b":
        return numbers.label(word)
    return numbers.define(numbers.value(word)) if kind == "r" else numbers.value(word)


def _string_words(words: list[int]) -> int:
    """Words of a string: up to the one that holds its end."""
    for count, word in enumerate(words, 1):
        if 0 in word.to_bytes(4, "little"):
            return count
    return len(words)


def _switch(operands: list[int], numbers: _Numbers, width: int) -> list[int]:
    changed = [numbers.value(operands[0]), numbers.label(operands[1])]
    size = 2 if width > 32 else 1
    for position in range(2, len(operands), size + 1):
        changed += operands[position : position + size]
        changed.append(numbers.label(operands[position + size]))
    return changed
