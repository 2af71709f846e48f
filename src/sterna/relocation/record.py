"""Relocation records and manifests: one named host reference, and all of one image, in order.

The life of a host reference:

1. *captured*: the frontend meets a name whose value lives on the host and emits an IR `HostRef`;
2. *lowered* (`sterna.compiler.passes.lower_references`): equal references share a record; the ordered
   records are frozen as the image's `Manifest` (I5) and reads become loads by the job's strategy;
3. *resolved* (`sterna.relocation.resolve`, at link time): each record's path is walked from the live
   kernel function to this session's value, which becomes words;
4. *delivered*: the target's loader writes the words into the code's slots (``patch``) or a table (``table``);
5. *rooted* (`sterna.relocation.roots`): what a word names stays alive as long as a loaded kernel holds it.

This module is the part both halves share; it knows no target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from sterna.errors import LinkError
from sterna.frozen import frozen

__all__ = ["Manifest", "RefKind", "RelocationRecord", "SLOTS", "WORD_BYTES", "baked_word"]

WORD_BYTES = 8

SLOTS = "sterna_refs"
"""The one symbol of ``patch`` code that holds the words of all records, in the manifest's order: one look-up, one
check of its size and one copy serve any number of them."""


def baked_word(kernel: str, record: RelocationRecord, strategies: Sequence[str]) -> LinkError:
    """The error for a word that should be rewritten and is part of the code; `strategies` are the target's."""
    others = " or ".join(repr(name) for name in strategies if name != "bake")
    return LinkError(
        f"kernel {kernel}: the value of {record.path!r} is baked into the code and cannot be changed; "
        f"use the strategy {others}"
    )


class RefKind(StrEnum):
    """What the words of a record are."""

    TYPE = "type"
    """Identity of a class (1 word)."""
    OBJECT = "object"
    """Identity of an object (1 word)."""
    BUFFER = "buffer"
    """Address, then shape, then byte strides (1 + 2·ndim words)."""
    GLOBAL = "global"
    """The bits of a `sterna.Global` (1 word, rewritten in place)."""
    SYMBOL = "symbol"
    """Address of a data symbol of the Python runtime (1 word)."""


@frozen
class RelocationRecord:
    """One host reference of an image.

    Attributes
    ----------
    slot : str
        Name of the reference within its image.
    index : int
        Position of the first word: in the relocation table (``table``), in the symbol `SLOTS` (``patch``).
    kind : RefKind
        What the words are.
    path : str
        How to reach the value from the kernel function (`sterna.source.paths`).
    addend : int
        Bytes added to the address word: an interior reference.
    extent : int
        Bytes that must exist behind the addend; 0 when the reference may be empty (a slice).
    words : int
        Number of 64-bit words.
    type : str
        String form of the device type the code was compiled for; resolving checks the value against it.
    """

    slot: str
    index: int
    kind: RefKind
    path: str
    addend: int = 0
    extent: int = 0
    words: int = 1
    type: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for an image header."""
        return {
            "slot": self.slot, "index": self.index, "kind": self.kind.value, "path": self.path,
            "addend": self.addend, "extent": self.extent, "words": self.words, "type": self.type,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RelocationRecord:
        """The record that `to_json` wrote; KeyError, TypeError or ValueError for anything else."""
        return cls(**{**data, "kind": RefKind(data["kind"])})


@frozen
class Manifest:
    """The ordered, frozen records of one image (I5) and the strategy its code was lowered with."""

    strategy: str
    records: tuple[RelocationRecord, ...] = ()

    @property
    def table_words(self) -> int:
        """Words of all records together."""
        return sum([r.words for r in self.records])

    def __iter__(self) -> Iterator[RelocationRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)
