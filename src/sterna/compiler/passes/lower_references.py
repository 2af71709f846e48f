"""Lower host references: symbolic `HostRef` nodes become loads of words, by the job's strategy.

Equal references (kind, path, addend, type) share one record; records are numbered in the order the code first
uses them, which is the same in every process (I4), and frozen as the module's manifest (I5).  After this
pass no `HostRef` is left: ``patch`` reads `SlotWord`, ``table`` reads `TableWord`, ``bake`` holds constants, except
that a `Global`, which the host rewrites in place, keeps its slot under ``bake`` too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sterna.compiler.ir.nodes import (
    ArrayOf,
    Const,
    Expr,
    HostRef,
    Module,
    RefWord,
    SlotWord,
    TableWord,
    TypeOf,
)
from sterna.compiler.ir.rewrite import replace_functions, rewrite_function, walk_function
from sterna.relocation.record import Manifest, RefKind, RelocationRecord
from sterna.relocation.resolve import Resolution
from sterna.source.paths import type_of_path
from sterna.types import OPAQUE, PYINT, ArrayType, RecordRefType

__all__ = ["lower_references"]

Resolve = Callable[[Manifest], Resolution]


class _Records:
    """Collects records in order of first use."""

    def __init__(self) -> None:
        self._by_reference: dict[tuple[object, ...], RelocationRecord] = {}
        self._words = 0

    def record(
        self, kind: RefKind, path: str, words: int, type_text: str, addend: int = 0, extent: int = 0
    ) -> RelocationRecord:
        key = (kind, path, addend, words, type_text)
        found = self._by_reference.get(key)
        if found is None:
            slot = f"sterna_ref_{len(self._by_reference)}"
            found = RelocationRecord(slot, self._words, kind, path, addend, extent, words, type_text)
            self._by_reference[key] = found
            self._words += words
        return found

    def all(self) -> tuple[RelocationRecord, ...]:
        return tuple(self._by_reference.values())


def _records_of(ref: HostRef, records: _Records, class_words: bool) -> tuple[RelocationRecord, ...]:
    words = 1 + 2 * ref.type.ndim if isinstance(ref.type, ArrayType) else 1
    first = records.record(ref.kind, ref.path, words, str(ref.type), ref.addend, ref.extent)
    if ref.type == OPAQUE and class_words:
        return first, records.record(RefKind.TYPE, type_of_path(ref.path), 1, "type")
    return (first,)


def lower_references(module: Module, strategy: str, resolve: Resolve) -> Module:
    """Replace every `HostRef` of `module` and freeze its manifest.

    Parameters
    ----------
    module : Module
        *typed* IR.
    strategy : str
        ``bake``, ``patch`` or ``table``.
    resolve : callable
        Gives this session's words for a manifest; asked only for ``bake``.
    """
    records = _Records()
    nodes = [node for function in module.functions.values() for node in walk_function(function)]
    class_words = any(isinstance(node, TypeOf) for node in nodes)
    found: dict[HostRef, tuple[RelocationRecord, ...]] = {}
    for node in nodes:
        if isinstance(node, HostRef) and node not in found:
            found[node] = _records_of(node, records, class_words)
    manifest = Manifest(strategy, records.all())
    words = resolve(manifest).words if strategy == "bake" else {}

    def word(record: RelocationRecord, index: int) -> Expr:
        if strategy == "table":
            return TableWord(record.index + index)
        if strategy == "bake" and record.kind is not RefKind.GLOBAL:
            value = words[record.slot][index]
            return Const(value - 2**64 if value >= 2**63 else value, PYINT)
        return SlotWord(record.slot, index)

    def lower(node: Expr) -> Expr:
        if not isinstance(node, HostRef):
            return node
        return _value(node, [word(r, k) for r in found[node] for k in range(r.words)])

    lowered = replace_functions(module, partial(rewrite_function, change=lower))
    return replace(lowered, manifest=manifest)


def _value(ref: HostRef, words: list[Expr]) -> Expr:
    if isinstance(ref.type, RecordRefType):
        return ArrayOf(words[0], (), (), ref.type)
    if isinstance(ref.type, ArrayType):
        end = 1 + ref.type.ndim
        strides = () if ref.type.layout == "C" else tuple(words[end:])
        return ArrayOf(words[0], tuple(words[1:end]), strides, ref.type)
    if ref.type == OPAQUE and len(words) == 1:
        words.append(Const(0, PYINT))
    return RefWord(tuple(words), ref.type)
