"""Resolving: each record of a manifest becomes this session's words (stage 3 of the life in `record`).

The path of a record is walked from the live kernel function, so nothing is unpickled, evaluated or
imported (I2); every object found is rooted in the caller's `Holder` (I6); a value that is not what the code
was compiled for is refused (I5).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import FunctionType
from typing import Any, Protocol

import numpy as np

from sterna.errors import LinkError
from sterna.relocation.record import Manifest, RefKind, RelocationRecord
from sterna.relocation.roots import Holder
from sterna.source.paths import walk
from sterna.types import Type, from_dtype

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


class Resolution:
    """The words of a manifest, the `Global` objects behind `global` records, and what must stay alive.

    Attributes
    ----------
    flat : list of int
        All words, unsigned 64-bit, in the manifest's order: what is delivered, in one copy.
    globals : list of (Global, RelocationRecord)
        What the host may rewrite in place.
    holder : Holder
        Keeps every object that a word names alive.
    """

    __slots__ = ("_manifest", "flat", "globals", "holder")

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self.flat: list[int] = []
        self.globals: list[tuple[Any, RelocationRecord]] = []
        self.holder = Holder()

    @property
    def words(self) -> dict[str, tuple[int, ...]]:
        """Words by the name of their slot."""
        return {r.slot: tuple(self.flat[r.index : r.index + r.words]) for r in self._manifest}


def resolve_manifest(
    manifest: Manifest,
    function: FunctionType,
    device: BufferSource,
    kernel: str,
    known: Mapping[str, Any] | None = None,
) -> Resolution:
    """Resolve every record of `manifest` against the live `function`.

    Parameters
    ----------
    manifest : Manifest
        The records of the image.
    function : function
        Where paths start.
    device : BufferSource
        Where captured arrays must be.
    kernel : str
        For messages.
    known : mapping of str to object, optional
        Values by path that a scan of the same function has just found; other paths are walked.

    Raises
    ------
    LinkError
        When a path leads nowhere, or to a value the code was not compiled for.
    """
    resolution = Resolution(manifest)
    session = _Session(resolution, device, kernel)
    found, flat = known or {}, resolution.flat
    last, words_of = RefKind.OBJECT, _RESOLVERS[RefKind.OBJECT]
    for record in manifest.records:
        path, kind = record.path, record.kind
        value = found[path] if path in found else _walked(function, record, kernel)
        if record.index != len(flat):
            raise _mismatch(kernel, record, f"its words are at {record.index} and {len(flat)} come before it")
        if kind is not last:
            last, words_of = kind, _RESOLVERS[kind]
        flat += words_of(value, record, session)
        if len(flat) != record.index + record.words:
            given = len(flat) - record.index
            raise _mismatch(kernel, record, f"it needs {record.words} words and the value gives {given}")
    resolution.holder.hold(session.kept)
    return resolution


def _walked(function: FunctionType, record: RelocationRecord, kernel: str) -> Any:
    try:
        return walk(function, record.path)
    except (LookupError, AttributeError, ValueError, TypeError) as error:
        raise _mismatch(kernel, record, f"the path leads nowhere in this session ({error})") from None


class _Session:
    """What resolving one manifest shares between its records; `kept` is rooted at the end."""

    __slots__ = ("buffers", "device", "globals", "kept", "kernel")

    def __init__(self, resolution: Resolution, device: BufferSource, kernel: str) -> None:
        self.globals, self.device, self.kernel = resolution.globals, device, kernel
        self.buffers: dict[int, Any] = {}
        self.kept: list[Any] = []


def _mismatch(kernel: str, record: RelocationRecord, what: str) -> LinkError:
    return LinkError(
        f"kernel {kernel}: reference {record.path!r} ({record.kind.value}, slot {record.slot}): {what}. "
        "The image does not fit this program; delete it or compile again."
    )


def _type_words(value: Any, record: RelocationRecord, session: _Session) -> tuple[int, ...]:
    if not isinstance(value, type):
        raise _mismatch(session.kernel, record, f"a class is expected, found {type(value).__name__}")
    session.kept.append(value)
    return (id(value),)


def _object_words(value: Any, record: RelocationRecord, session: _Session) -> tuple[int, ...]:
    session.kept.append(value)
    return (id(value),)


def _symbol_words(value: Any, record: RelocationRecord, session: _Session) -> tuple[int, ...]:
    if not hasattr(type(value), "__sterna_symbol__"):
        raise _mismatch(session.kernel, record, f"a runtime_global is expected, found {type(value).__name__}")
    return (value.address,)


def _global_words(value: Any, record: RelocationRecord, session: _Session) -> tuple[int, ...]:
    if not getattr(type(value), "__sterna_global__", False):
        raise _mismatch(session.kernel, record, f"a sterna.Global is expected, found {type(value).__name__}")
    wanted = record.type
    if wanted and value.type_name != wanted:
        raise _mismatch(session.kernel, record, f"compiled for {record.type}, found {value.type_name}")
    session.kept.append(value)
    session.globals.append((value, record))
    return (value.word,)


def _buffer_words(value: Any, record: RelocationRecord, session: _Session) -> tuple[int, ...]:
    array = session.buffers.get(id(value))
    if array is None:
        array = session.buffers[id(value)] = session.device.capture(value)
        session.kept += (value, array)
    dtype, ndim = array.dtype, len(array.shape)
    addend = record.addend
    if addend == 0 and record.type and (str(dtype_type(dtype)), ndim) != _element(record.type):
        raise _mismatch(session.kernel, record, f"compiled for {record.type}, found {ndim} axes of {dtype}")
    nbytes = int(array.nbytes)
    if record.extent and addend + record.extent > nbytes:
        raise _mismatch(session.kernel, record, f"offset {addend} (+{record.extent}) is outside its {nbytes} bytes")
    address = address_of(array) + min(addend, nbytes)
    if record.words == 1:
        return (address,)
    shape = array.shape
    if addend and shape:
        shape = (max(0, shape[0] - addend // dtype.itemsize), *shape[1:])
    return (address, *shape, *(stride & _MASK for stride in array.strides))


@lru_cache(maxsize=256)
def dtype_type(dtype: np.dtype[Any]) -> Type:
    """Device type of a dtype, remembered."""
    return from_dtype(dtype)


@lru_cache(maxsize=256)
def _element(text: str) -> tuple[str, int]:
    """Element type and axes in the text of an array or record reference type; layout is settled by the key."""
    inner = text.removesuffix(")").removeprefix("array(").removeprefix("ref(").removesuffix(", readonly")
    inner = re.sub(r", align \d+$", "", inner)
    if text.startswith("ref("):
        return inner, 0
    element, axes, _ = inner.rsplit(", ", 2)
    return element, int(axes)


def address_of(array: Any) -> int:
    """Address of the first element of a NumPy or Sterna array."""
    if isinstance(array, np.ndarray):
        return int(array.__array_interface__["data"][0])
    return int(array.address)


_RESOLVERS: dict[RefKind, Callable[[Any, RelocationRecord, _Session], tuple[int, ...]]] = {
    RefKind.TYPE: _type_words,
    RefKind.OBJECT: _object_words,
    RefKind.SYMBOL: _symbol_words,
    RefKind.GLOBAL: _global_words,
    RefKind.BUFFER: _buffer_words,
}
