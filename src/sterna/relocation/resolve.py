"""Resolving: each record of a manifest becomes this session's words (stage 3 of the life in `record`).

The path of a record is walked from the live kernel function, so nothing is unpickled, evaluated or
imported (I2); every object found is rooted in the caller's `Holder` (I6); a value that is not what the code
was compiled for is refused (I5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Protocol

import numpy as np

from sterna.errors import LinkError
from sterna.relocation.record import Manifest, RefKind, RelocationRecord
from sterna.relocation.roots import Holder
from sterna.source.paths import walk
from sterna.typeof import array_type

__all__ = ["BufferSource", "Resolution", "resolve_manifest"]

_MASK = 2**64 - 1


class BufferSource(Protocol):
    """What resolving needs of a device: captured arrays, present in its memory."""

    def capture(self, value: Any) -> Any:
        """An array on this device (`address`, `shape`, `strides`, `dtype`) for a captured one.

        A NumPy array is copied, C-ordered; an array of this device is returned as it is; one that lives on
        another device is refused with a `LinkError` naming both.
        """
        ...


@dataclass(slots=True)
class Resolution:
    """Words by slot, the `Global` objects behind `global` records, and what must stay alive."""

    words: dict[str, tuple[int, ...]] = field(default_factory=dict)
    globals: list[tuple[Any, RelocationRecord]] = field(default_factory=list)
    holder: Holder = field(default_factory=Holder)

    def table(self, manifest: Manifest) -> list[int]:
        """All words in table order."""
        return [word for record in manifest for word in self.words[record.slot]]


def resolve_manifest(manifest: Manifest, function: FunctionType, device: BufferSource, kernel: str) -> Resolution:
    """Resolve every record of `manifest` against the live `function`.

    Raises
    ------
    LinkError
        When a path leads nowhere, or to a value the code was not compiled for.
    """
    resolution = Resolution()
    buffers: dict[int, Any] = {}
    for record in manifest:
        try:
            value = walk(function, record.path)
        except (LookupError, AttributeError, ValueError, TypeError) as error:
            raise _mismatch(kernel, record, f"the path leads nowhere in this session ({error})") from None
        words = _RESOLVERS[record.kind](value, record, _Session(resolution, device, buffers, kernel))
        if len(words) != record.words:
            raise _mismatch(kernel, record, f"it needs {record.words} words and the value gives {len(words)}")
        resolution.words[record.slot] = tuple(word & _MASK for word in words)
    return resolution


@dataclass(frozen=True, slots=True)
class _Session:
    resolution: Resolution
    device: BufferSource
    buffers: dict[int, Any]
    kernel: str


def _mismatch(kernel: str, record: RelocationRecord, what: str) -> LinkError:
    return LinkError(
        f"kernel {kernel}: reference {record.path!r} ({record.kind.value}, slot {record.slot}): {what}. "
        "The image does not fit this program; delete it or compile again."
    )


def _type_words(value: Any, record: RelocationRecord, session: _Session) -> tuple[int, ...]:
    if not isinstance(value, type):
        raise _mismatch(session.kernel, record, f"a class is expected, found {type(value).__name__}")
    return (session.resolution.holder.hold(value),)


def _object_words(value: Any, record: RelocationRecord, session: _Session) -> tuple[int, ...]:
    return (session.resolution.holder.hold(value),)


def _symbol_words(value: Any, record: RelocationRecord, session: _Session) -> tuple[int, ...]:
    if not hasattr(type(value), "__sterna_symbol__"):
        raise _mismatch(session.kernel, record, f"a runtime_global is expected, found {type(value).__name__}")
    return (int(value.address),)


def _global_words(value: Any, record: RelocationRecord, session: _Session) -> tuple[int, ...]:
    if not getattr(type(value), "__sterna_global__", False):
        raise _mismatch(session.kernel, record, f"a sterna.Global is expected, found {type(value).__name__}")
    if record.type and str(value.type) != record.type:
        raise _mismatch(session.kernel, record, f"compiled for {record.type}, found {value.type}")
    session.resolution.holder.hold(value)
    session.resolution.globals.append((value, record))
    return (int(value.word),)


def _buffer_words(value: Any, record: RelocationRecord, session: _Session) -> tuple[int, ...]:
    array = session.buffers.get(id(value))
    if array is None:
        array = session.buffers[id(value)] = session.device.capture(value)
        session.resolution.holder.hold(value)
        session.resolution.holder.hold(array)
    live = array_type(array)
    size = int(np.dtype(array.dtype).itemsize)
    nbytes = size * int(np.prod(array.shape, dtype=np.int64))
    addend = record.addend
    if record.extent and addend + record.extent > nbytes:
        raise _mismatch(session.kernel, record, f"offset {addend} (+{record.extent}) is outside its {nbytes} bytes")
    address = int(array.address) + min(addend, nbytes)
    if record.words == 1:
        return (address,)
    shape = [int(n) for n in array.shape]
    if addend and shape:
        shape[0] = max(0, shape[0] - addend // size)
    words = (address, *shape, *(int(n) for n in array.strides))
    if record.type and not addend and not _same_element(record.type, live):
        raise _mismatch(session.kernel, record, f"compiled for {record.type}, found {live}")
    return words


def _same_element(expected: str, live: Any) -> bool:
    """Element type and axes agree (layout and read-only are settled by the key and by `capture`)."""
    return expected.startswith(f"array({live.dtype}, {live.ndim}, ")


_RESOLVERS: dict[RefKind, Callable[[Any, RelocationRecord, _Session], tuple[int, ...]]] = {
    RefKind.TYPE: _type_words,
    RefKind.OBJECT: _object_words,
    RefKind.SYMBOL: _symbol_words,
    RefKind.GLOBAL: _global_words,
    RefKind.BUFFER: _buffer_words,
}
