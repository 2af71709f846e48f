"""`KernelImage`: the persistent result of one compilation, and its bytes in a file.

A compiler makes an image, a store keeps it, a linker loads it; nothing else passes between the two halves.
The file, little-endian:

======  =====  ==========================================================
offset  bytes  what
======  =====  ==========================================================
0       8      magic ``\\x89STERNA\\n`` (spoilt by text-mode transfers)
8       4      format version
12      32     SHA-256 of everything after it
44      4      length of the header
48      …      header: canonical JSON (sorted keys, ASCII, no white space)
…       …      payloads, in the order of their names, with nothing between
======  =====  ==========================================================

Invariants: equal images give equal bytes (I4); no time, path or address of the making session is written
here (I3); any change of any bit is refused by `KernelImage.from_bytes`, and so is a well-digested file whose
manifest could not be linked (I5).
"""

from __future__ import annotations

import json
from typing import Any

from sterna.digest import sha256_bytes
from sterna.errors import ImageError
from sterna.frozen import field, frozen
from sterna.options import STRATEGIES
from sterna.relocation.record import Manifest, RefKind, RelocationRecord

__all__ = ["FORMAT_VERSION", "MAGIC", "KernelImage", "canonical_json"]

MAGIC = b"\x89STERNA\n"
FORMAT_VERSION = 1
"""Raised when the file layout or the meaning of a header field changes; also part of the key."""

_VERSION_END = 12
_DIGEST_END = 44
_HEADER_START = 48
_TEXTS = ("arch", "entry", "key", "module", "name", "signature", "target")
_HEADER = frozenset((*_TEXTS, "errors", "facts", "manifest", "payloads", "provenance", "sources"))
_RECORD = frozenset(("addend", "extent", "index", "kind", "path", "slot", "type", "words"))
_KINDS = {kind.value: kind for kind in RefKind}

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
_decode = json.JSONDecoder().decode


def canonical_json(value: Any) -> bytes:
    """Plain data as JSON with one possible spelling: sorted keys, ASCII, no white space, no NaN.

    Raises
    ------
    TypeError, ValueError
        For anything that is not plain data.
    """
    return _encode(value).encode("ascii")


@frozen
class KernelImage:
    """One compiled kernel, independent of the session that made it.

    Attributes
    ----------
    key : str
        Full kernel key, hexadecimal.
    name : str
        Qualified name of the kernel function.
    module : str
        Name of the module that defines it.
    target, arch : str
        Where the code runs: ``cpu`` and ``x86-64-v3``.
    entry : str
        Symbol of the entry point.
    signature : str
        String form of the argument types.
    manifest : Manifest
        The relocation records.
    facts : dict
        Launch facts: ``shared_bytes`` and others the target's loader wants.
    errors : tuple of dict
        Error sites, in the order of the indices that failing threads record.
    sources : tuple of (str, str)
        Path and source digest of every function compiled in.
    provenance : dict
        What made the image: versions (under ``versions``), options.
    payloads : dict of str to bytes
        The code: ``object``, ``ptx``, ``cubin`` …
    """

    key: str
    name: str
    module: str
    target: str
    arch: str
    entry: str
    signature: str
    manifest: Manifest
    facts: dict[str, Any] = field(default_factory=dict)
    errors: tuple[dict[str, Any], ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)
    payloads: dict[str, bytes] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Target and architecture as a store's folder is called: ``cpu-x86-64-v3``."""
        return f"{self.target}-{self.arch}"

    def to_bytes(self) -> bytes:
        """The image as one file.

        Raises
        ------
        ImageError
            If a field holds something else than plain data, or the manifest is malformed.
        """
        payloads = sorted(self.payloads.items())
        try:
            header = canonical_json(
                {
                    "arch": self.arch, "entry": self.entry, "errors": list(self.errors), "facts": self.facts,
                    "key": self.key,
                    "manifest": {
                        "records": [r.to_json() for r in self.manifest],
                        "strategy": self.manifest.strategy,
                    },
                    "module": self.module, "name": self.name,
                    "payloads": [[name, len(data)] for name, data in payloads],
                    "provenance": self.provenance, "signature": self.signature,
                    "sources": [list(pair) for pair in self.sources], "target": self.target,
                }
            )  # fmt: skip
            body = b"".join((len(header).to_bytes(4, "little"), header, *(data for _, data in payloads)))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ImageError(f"the image of kernel {self.name} cannot be written: {error}") from error
        _parse_header(header, len(body) - 4 - len(header))  # what cannot be read back is not written
        return b"".join((MAGIC, FORMAT_VERSION.to_bytes(4, "little"), sha256_bytes(body), body))

    @classmethod
    def from_bytes(cls, data: bytes) -> KernelImage:
        """The image that `to_bytes` wrote.

        Parameters
        ----------
        data : bytes
            Contents of one file.

        Raises
        ------
        ImageError
            If anything is off: says what.
        """
        length = _check_envelope(data)
        start = _HEADER_START + length
        fields = _parse_header(data[_HEADER_START:start], len(data) - start)
        payloads = {}
        for name, size in fields.pop("payloads"):
            payloads[name] = data[start : start + size]
            start += size
        return cls(payloads=payloads, **fields)

    def canonical(self) -> KernelImage:
        """This image as it is after being written and read: what a store would return for it.

        A fresh compilation that launches its canonical form cannot differ from a later hit.
        """
        return KernelImage.from_bytes(self.to_bytes())


def _check_envelope(data: bytes) -> int:
    """Check all but the header's content; the header's length."""
    if data[:8] != MAGIC:
        raise ImageError("empty file" if not data else "not a kernel image (wrong first bytes)")
    if len(data) < _HEADER_START:
        raise ImageError(f"cut short: {len(data)} bytes, fewer than any image has")
    version = int.from_bytes(data[8:_VERSION_END], "little")
    if version != FORMAT_VERSION:
        raise ImageError(f"image format {version}, this Sterna reads format {FORMAT_VERSION}")
    if sha256_bytes(memoryview(data)[_DIGEST_END:]) != data[_VERSION_END:_DIGEST_END]:
        raise ImageError("damaged or cut short: the content does not have the digest it was written with")
    length = int.from_bytes(data[_DIGEST_END:_HEADER_START], "little")
    if length > len(data) - _HEADER_START:
        raise ImageError("the header is longer than the file")
    return length


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ImageError(f"malformed header: {what}")


def _parse_header(header: bytes, available: int) -> dict[str, Any]:
    """Constructor fields from the header's bytes; `available` is the number of bytes of payload."""
    try:
        fields = _decode(header.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise ImageError(f"malformed header: not JSON ({type(error).__name__})") from None
    _require(type(fields) is dict and fields.keys() == _HEADER, "wrong fields")
    for name in _TEXTS:
        _require(type(fields[name]) is str, f"{name} is not text")
    for name in ("facts", "provenance"):
        _require(type(fields[name]) is dict, f"{name} is not an object")
    for name in ("errors", "payloads", "sources"):
        _require(type(fields[name]) is list, f"{name} is not a list")
    _require(all(type(site) is dict for site in fields["errors"]), "an error site is not an object")
    fields["errors"] = tuple(fields["errors"])
    fields["sources"] = tuple(map(_source, fields["sources"]))
    fields["manifest"] = _manifest(fields["manifest"])
    _check_payloads(fields["payloads"], available)
    return fields  # type: ignore[no-any-return]


def _source(pair: Any) -> tuple[str, str]:
    _require(type(pair) is list and len(pair) == 2, "a source is not a pair")
    path, digest = pair
    _require(type(path) is str and type(digest) is str, "a source is not two texts")
    return path, digest


def _check_payloads(table: list[Any], available: int) -> None:
    previous, total = None, 0
    for item in table:
        _require(type(item) is list and len(item) == 2, "a payload is not a pair")
        name, size = item
        _require(type(name) is str and type(size) is int and size >= 0, "a payload is not a name and a size")
        _require(previous is None or previous < name, "payloads are not in order")
        previous, total = name, total + size
    _require(total == available, f"payloads have {available} bytes, the table says {total}")


def _manifest(data: Any) -> Manifest:
    """The manifest, checked: known strategy and kinds, unique slots, words one after another (I5)."""
    _require(type(data) is dict and data.keys() == {"records", "strategy"}, "manifest has wrong fields")
    strategy, items = data["strategy"], data["records"]
    _require(strategy in STRATEGIES, f"unknown strategy {strategy!r}")
    _require(type(items) is list, "records are not a list")
    records, slots, index = [], set(), 0
    for item in items:
        record = _record(item)
        _require(record.index == index, "a record is not where those before it end")
        index += record.words
        slots.add(record.slot)
        records.append(record)
    _require(len(slots) == len(records), "two records share a slot")
    return Manifest(strategy, tuple(records))


def _record(item: Any) -> RelocationRecord:
    _require(type(item) is dict and item.keys() == _RECORD, "a record has wrong fields")
    slot, path, type_ = item["slot"], item["path"], item["type"]
    _require(type(slot) is type(path) is type(type_) is str and slot != "", "a record's slot, path or type is not text")
    index, words, addend, extent = item["index"], item["words"], item["addend"], item["extent"]
    whole = type(index) is type(words) is type(addend) is type(extent) is int
    _require(whole and min(index, addend, extent) >= 0, "a record's number is not a count")
    kind = _KINDS.get(item["kind"]) if type(item["kind"]) is str else None
    if kind is None:
        raise ImageError(f"malformed header: unknown record kind {item['kind']!r}")
    if words < 1 or words % 2 == 0 or (words > 1 and kind is not RefKind.BUFFER):
        raise ImageError(f"malformed header: record {slot} of kind {item['kind']} has {words} words")
    return RelocationRecord(slot, index, kind, path, addend, extent, words, type_)
