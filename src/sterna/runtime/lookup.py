"""Finding the image of a specialisation, and telling where it came from.

Between dispatch and the stores: computes the key, asks the search path, and keeps new images.  Every
decision becomes a `CacheEvent`, which is what `Kernel.explain_cache` shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from sterna.frozen import frozen
from sterna.image.format import KernelImage
from sterna.image.key import base_key
from sterna.image.search import Outcome, Request, SearchPath, default_search_path
from sterna.options import CompileOptions
from sterna.overlays import tables_for
from sterna.runtime import stats
from sterna.runtime.signature import signature_text
from sterna.source.captures import Scan, scan
from sterna.source.index import set_stores
from sterna.targets.base import Target
from sterna.targets.registry import compiler_versions
from sterna.targets.registry import target as find_target
from sterna.types import Type

__all__ = ["CacheEvent", "CacheReport", "Found", "find_image", "keep_image"]


@frozen
class CacheEvent:
    """Where one specialisation came from.

    Attributes
    ----------
    signature : str
        Argument types.
    target : str
        Target and architecture.
    outcome : str
        ``hit`` (found stored or in memory), ``compiled`` (and stored) or ``memory-only`` (compiled, not stored).
    where : str
        The place of a hit, or the file a new image was stored in.
    reason : str
        Why it had to be compiled, or why it could not be stored.
    """

    signature: str
    target: str
    outcome: str
    where: str = ""
    reason: str = ""

    def __str__(self) -> str:
        text = f"{self.signature} for {self.target}: {self.outcome}"
        text += f" ({self.where})" if self.where else ""
        return text + "".join(f"\n    {line}" for line in self.reason.splitlines())


@frozen
class CacheReport:
    """All cache events of one kernel in this process; ``str()`` gives lines for people."""

    kernel: str
    events: tuple[CacheEvent, ...]

    def __str__(self) -> str:
        if not self.events:
            return f"kernel {self.kernel}: not launched or specialised in this process"
        return "\n".join([f"kernel {self.kernel}", *(f"  {event}" for event in self.events)])

    __repr__ = __str__


@frozen
class Found:
    """Result of a search: the image if there is one, and what is needed to keep a new one."""

    image: KernelImage | None
    event: CacheEvent
    request: Request
    search: SearchPath
    outcome: Outcome | None

    @property
    def key(self) -> str:
        """Key to compile under; the base key where the compiler's versions are not known."""
        return (self.outcome.key if self.outcome is not None else "") or self.request.base


def find_image(
    function: FunctionType,
    captures: Scan,
    types: tuple[Type, ...],
    target: Target,
    options: CompileOptions,
    storable: bool,
) -> Found:
    """Look for the image of one specialisation in memory and in the stores."""
    signature = signature_text(types)
    search = default_search_path()
    base = base_key(captures, types, target, options)
    module = function.__module__ or ""
    request = Request(module, function.__qualname__, str(target), base, compiler_versions(target), signature)
    if not storable:
        reason = "words are baked into the code (strategy 'bake'), which is valid in this session only"
        return Found(None, CacheEvent(signature, str(target), "miss", "", reason), request, search, None)
    outcome = search.find(request)
    if outcome.image is None:
        other = _find_older(search, request, captures, types, target, options)
        if other is not None:
            return other
        stats.count("misses")
        return Found(None, CacheEvent(signature, str(target), "miss"), request, search, outcome)
    stats.count_hit(outcome.label)
    where = f"{outcome.label} {outcome.path}".rstrip()
    return Found(outcome.image, CacheEvent(signature, str(target), "hit", where), request, search, outcome)


def _find_older(
    search: SearchPath,
    request: Request,
    captures: Scan,
    types: tuple[Type, ...],
    target: Target,
    options: CompileOptions,
) -> Found | None:
    """An image that was shipped for an older architecture and runs on this one too (I10)."""
    if not target.fallbacks:
        return None
    shipped = {
        arch for store in search.stores(request.module) if store is not search.cache for arch in store.architectures()
    }
    for arch in target.fallbacks:
        place = f"{target.name}-{arch}"
        if place not in shipped:
            continue
        older = find_target(place)
        tables = tables_for(older)
        theirs = captures if tables.in_use == captures.tables.in_use else scan(captures.kernel.function, None, tables)
        base = base_key(theirs, types, older, options)
        outcome = search.find(
            Request(request.module, request.name, place, base, compiler_versions(older), request.signature)
        )
        if outcome.image is not None and outcome.label != "user cache":
            stats.count_hit(outcome.label)
            where = f"{outcome.label} {outcome.path}".rstrip()
            event = CacheEvent(request.signature, place, "hit", where, f"runs on {target} too")
            return Found(outcome.image, event, request, search, outcome)
    return None


def keep_image(image: KernelImage, found: Found, captures: Scan) -> CacheEvent:
    """Store a newly compiled image, in memory only if its references cannot be named again (I7)."""
    event, search = found.event, found.search
    if found.outcome is None:
        return CacheEvent(event.signature, event.target, "memory-only", "", event.reason)
    why = found.outcome.explain()
    unnamed = captures.unnameable
    if unnamed:
        search.remember(found.request, image)
        return CacheEvent(event.signature, event.target, "memory-only", "", "\n".join(unnamed))
    refused = search.save(found.request, image)
    if refused is not None:
        return CacheEvent(event.signature, event.target, "memory-only", "", f"{refused}\n{why}")
    stats.count("stored")
    cache = search.cache
    path = cache.image_path(image.place, image.key, image.name) if cache is not None else ""
    return CacheEvent(event.signature, event.target, "compiled", path, why)


def _get_facts(fingerprint: str, module: str) -> Mapping[str, Any] | None:
    return default_search_path().get_facts(fingerprint, module)


def _put_facts(fingerprint: str, facts: dict[str, Any]) -> None:
    default_search_path().put_facts(fingerprint, facts)


set_stores(_get_facts, _put_facts)
