"""What compiled kernels and launches agree on: how arguments lie in memory, and what goes beside them.

Compiler and runtime both compute it from the signature, so an image needs no copy of it beyond a
check.  A layout is a flat list of fields in C struct order and natural alignment:

========== ================================================================
scalar     one field of its own width (weak numbers 8 or 16 bytes; bool 1 byte; complex two halves)
array      address (u64), `ndim` extents (i64), then, unless layout is ``C``, `ndim` byte strides (i64)
tuple      its items, in order, recursively; a named tuple or frozen dataclass likewise
object     two words: identity, identity of its class
type       one word
none, literal   nothing
========== ================================================================

A GPU kernel's *state words* lie behind its arguments, in the order of `STATE_WORDS`; a kernel has only those that it
reads, and its image names them (launch fact ``state``).  A CPU kernel is given a structure in memory instead
(`LAUNCH_FIELDS`, `BLOCK_RANGES`).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from sterna.frozen import frozen
from sterna.types import (
    NONE,
    OPAQUE,
    TYPE_TAG,
    ArrayType,
    LiteralType,
    Scalar,
    StructType,
    TupleType,
    Type,
)  # fmt: skip

__all__ = [
    "BLOCK_RANGES", "KEY_FLAGS", "LAUNCH_FIELDS", "STATE_WORDS", "ArgField", "ArgLayout", "arg_layout", "flat_codes",
    "pack_state", "scalar_code", "state_offsets", "state_padding", "words_of_array",
]  # fmt: skip

STATE_WORDS = {"record": 1, "table": 1, "print": 1, "extents": 3, "flat": 2, "dynamic": 1, "seed": 1}
"""State word → number of 64-bit words, in their order.

``record``: address of the exception record; ``table``: of the relocation table; ``print``: of the print buffer;
``extents``: x, y, z of an ``over`` launch; ``flat``: blocks along x and y if all lie along x, else 0; ``dynamic``:
bytes of dynamic shared memory, where the hardware does not say; ``seed``: key of the launch's random numbers, last
because it is another one at every launch.
"""

LAUNCH_FIELDS = {
    "exception": 0, "table": 1, "seed": 2, "shared_bytes": 3, "print": 4, "entry": 5,
    "parts": 16, "chunk": 17, "grid_dim": 18, "block_dim": 21, "extents": 24, "zero": 27,
}  # fmt: skip
"""A CPU launch's structure: index of each 64-bit field; three-component ones start there (x, y, z).

``exception``: address of the exception record, which may lie behind the fields that stay; ``entry``: address of the
kernel's entry function; ``parts``: how many ranges the blocks are divided into; ``chunk``: blocks taken at
least; ``zero``: 0, which the optimiser does not know.
"""
BLOCK_RANGES = (32, 8)
"""Where the ranges of blocks begin in it and how many words each has: the next block to take, the end, padding."""
KEY_FLAGS = 0x1 | 0x2 | 0x100 | 0x400
"""Flags of a NumPy array that its device type depends on: C-contiguous, F-contiguous, aligned, writeable."""


def state_offsets(names: Iterable[str]) -> tuple[dict[str, int], int]:
    """Where each of some state words lies, counted in words, and how many words there are.

    Parameters
    ----------
    names : iterable of str
        Keys of `STATE_WORDS`, in any order.
    """
    found, offset = {}, 0
    wanted = frozenset(names)
    for name, words in STATE_WORDS.items():
        if name in wanted:
            found[name] = offset
            offset += words
    return found, offset


def pack_state(names: Collection[str], values: Mapping[str, Sequence[int]]) -> bytes:
    """The state words `names`, in their order; those without a value are left out."""
    words = [word for name in STATE_WORDS if name in names for word in values.get(name, ())]
    return struct.pack(f"={len(words)}Q", *words)


def state_padding(size: int, names: Collection[str]) -> bytes:
    """What lies between `size` bytes of arguments and the state words; a kernel without either is given one word."""
    return bytes(-size % 8 if size or names else 8)


@frozen
class ArgField:
    """One field: byte offset, `struct` format character (native sizes), scalar type (None: a word)."""

    offset: int
    code: str
    size: int


@frozen
class ArgLayout:
    """All fields of a signature, the `struct` format that packs them, and the total size in bytes."""

    fields: tuple[ArgField, ...]
    format: str
    size: int


_CODES = {
    ("b", 8): "?", ("i", 8): "b", ("i", 16): "h", ("i", 32): "i", ("i", 64): "q",
    ("u", 8): "B", ("u", 16): "H", ("u", 32): "I", ("u", 64): "Q",
    ("f", 16): "e", ("f", 32): "f", ("f", 64): "d", ("e", 16): "H",
    ("c", 64): "ff", ("c", 128): "dd",
}  # fmt: skip
_SIZES = {"?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "e": 2, "i": 4, "I": 4, "f": 4, "q": 8, "Q": 8, "d": 8}


def scalar_code(t: Scalar) -> str:
    """`struct` characters of a scalar: one, or two for a complex number."""
    return _CODES[t.kind, t.bits]


def words_of_array(t: ArrayType) -> int:
    """Words of an array in an argument list: address, extents, and strides unless C-ordered."""
    return 1 + t.ndim * (1 if t.layout == "C" else 2)


def flat_codes(t: Type) -> str:
    """`struct` characters of one argument of type `t`, in order, without padding."""
    if isinstance(t, Scalar):
        return scalar_code(t)
    if isinstance(t, ArrayType):
        return "Q" + "q" * (words_of_array(t) - 1)
    if isinstance(t, TupleType | StructType):
        return "".join(flat_codes(item) for item in t.items)
    if t == OPAQUE:
        return "QQ"
    if t == TYPE_TAG:
        return "Q"
    if t == NONE or isinstance(t, LiteralType):
        return ""
    raise TypeError(f"a value of type {t} cannot be a launch argument")


@lru_cache(maxsize=4096)
def arg_layout(types: tuple[Type, ...]) -> ArgLayout:
    """Lay out arguments of these types."""
    offset, parts, fields = 0, ["="], []
    for code in "".join(flat_codes(t) for t in types):
        size = _SIZES[code]
        pad = -offset % size
        if pad:
            parts.append(f"{pad}x")
        offset += pad
        fields.append(ArgField(offset, code, size))
        parts.append(code)
        offset += size
    return ArgLayout(tuple(fields), "".join(parts), offset)
