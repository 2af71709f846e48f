"""`SearchPath`: where an image is looked for, in which order, and where a new one is saved.

In memory → the bundle of the kernel's own package → registered folders → the user's cache → entry points, which
come last because all installed metadata is read for them.  The last stop before a compilation.

Which compiler versions?  They are part of the key.  A store that ships on purpose is asked under this
environment's versions first and then under those it declares, so that a bundle is found on a machine without
a compiler, or with another one.  The user's cache is asked only under this environment's, unless no compiler is
installed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sterna.frozen import frozen
from sterna.image.counters import Counters
from sterna.image.files import WriteOutcome
from sterna.image.format import KernelImage
from sterna.image.history import record_at_exit
from sterna.image.notices import warn_once
from sterna.image.places import (
    CachePlace,
    bundle_folder,
    entry_point_folders,
    environment_folders,
    registered_folders,
    user_cache,
)  # fmt: skip
from sterna.image.store import Store

__all__ = ["KeyOf", "Outcome", "Request", "SearchPath", "default_search_path"]

KeyOf = Callable[[str, Mapping[str, str]], str]
"""Full key from the base key and a set of compiler versions: `sterna.image.key.kernel_key`."""

_MEMORY_ENTRIES = 512
_VARIABLES = ("STERNA_CACHE", "STERNA_CACHE_DIR", "STERNA_STORE_PATH", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA")


@frozen
class Request:
    """What is looked for.

    Attributes
    ----------
    module, name : str
        The kernel function's module and qualified name.
    target : str
        Target and architecture: ``cpu-x86-64-v3``.
    base : str
        Key of everything but the compiler's versions.
    versions : mapping of str to str, or None
        This environment's compiler versions; None when no compiler is installed.
    signature : str
        String form of the argument types, for messages.
    """

    module: str
    name: str
    target: str
    base: str
    versions: Mapping[str, str] | None
    signature: str = ""


@frozen
class Miss:
    """A place that had no fitting image; `reason` is empty when it has no file of that name."""

    store: Store
    reason: str


@frozen
class Outcome:
    """Result of a search.

    Attributes
    ----------
    image : KernelImage or None
        What was found.
    label, path : str
        Kind of place it was found in (``memory``, ``bundle``, ``registered``, ``user cache``, ``entry point``) and its
        file.
    misses : tuple of Miss
        Places asked before, in order.
    key : str
        Full key under this environment's versions, under which to compile; empty without a compiler.
    """

    request: Request
    image: KernelImage | None
    label: str = ""
    path: str = ""
    misses: tuple[Miss, ...] = ()
    key: str = ""
    cache_reason: str = ""

    def __bool__(self) -> bool:
        return self.image is not None

    def explain(self) -> str:
        """Where was searched and what was there, one line a place; lists folders, so not for the launch path."""
        request = self.request
        lines = [f"{miss.store.label} {miss.store.path}: {_reason(miss, request)}" for miss in self.misses]
        if self.image is not None:
            lines.append(f"{self.label} {self.path}".rstrip() + ": found")
        elif self.cache_reason:
            lines.append(f"user cache: {self.cache_reason}")
        return "\n".join(lines) if lines else "no store to search"


def _reason(miss: Miss, request: Request) -> str:
    return miss.reason or miss.store.why_missing(request.target, request.name)


class _Memory:
    """Images of this process by target and base key, the oldest dropped first."""

    def __init__(self) -> None:
        self.images: dict[tuple[str, str], tuple[KernelImage, str]] = {}
        self.lock = threading.Lock()

    def get(self, request: Request) -> tuple[KernelImage, str] | None:
        return self.images.get((request.target, request.base))

    def put(self, request: Request, image: KernelImage, path: str) -> None:
        with self.lock:
            self.images[request.target, request.base] = image, path
            while len(self.images) > _MEMORY_ENTRIES:
                del self.images[next(iter(self.images))]


class SearchPath:
    """An ordered list of places to look for images, and the one place to save them.

    Parameters
    ----------
    registered : sequence of str
        Folders asked after the kernel's own bundle.
    cache : CachePlace
        The user's cache: the only place ever written.
    bundles, entry_points : bool
        Whether bundles of the kernels' packages and entry points are asked.
    key_of : callable, optional
        By default `sterna.image.key.kernel_key`.
    """

    def __init__(
        self,
        registered: tuple[str, ...] = (),
        cache: CachePlace | None = None,
        *,
        bundles: bool = True,
        entry_points: bool = True,
        key_of: KeyOf | None = None,
    ) -> None:
        self.counters = Counters()
        self.cache_place = cache or CachePlace("", reason="this search path has none", disabled=True)
        self.cache = self._user_store(self.cache_place)
        self._registered = tuple(self._shipped(folder, "registered") for folder in registered)
        self._use_bundles = bundles
        self._use_entry_points = entry_points
        self._key_of = key_of
        self._bundles: dict[str, Store | None] = {}
        self._entry_points: tuple[Store, ...] | None = None
        self._memory = _Memory()

    def _user_store(self, place: CachePlace) -> Store | None:
        if not place.path:
            return None
        return Store(place.path, "user cache", anchor=place.anchor, private=True, counters=self.counters)

    def _shipped(self, folder: str, label: str) -> Store:
        return Store(folder, label, writable=False, counters=self.counters)

    # ---- images --------------------------------------------------------------------------------

    def find(self, request: Request) -> Outcome:
        """Look for an image everywhere; says where it was found or what was asked.

        Raises nothing for trouble of the file system.
        """
        key_of = self._key_of or _default_key_of()
        key = key_of(request.base, request.versions) if request.versions is not None else ""
        remembered = self._memory.get(request)
        if remembered is not None:
            self.counters.add_hit("memory")
            return Outcome(request, remembered[0], "memory", remembered[1], key=key)
        misses: list[Miss] = []
        for stores in (self._near_stores, self._entry_point_stores):
            for store in stores(request.module):
                found = self._ask(store, request, key, key_of, misses)
                if found is not None:
                    image, path = found
                    self._memory.put(request, image, path)
                    self.counters.add_hit(store.label)
                    return Outcome(request, image, store.label, path, tuple(misses), key)
        self.counters.add("misses")
        return Outcome(request, None, "", "", tuple(misses), key, self.cache_place.reason)

    def _ask(
        self, store: Store, request: Request, key: str, key_of: KeyOf, misses: list[Miss]
    ) -> tuple[KernelImage, str] | None:
        reasons, tried = [], set()
        for candidate in self._keys(store, request, key, key_of):
            if candidate not in tried:
                tried.add(candidate)
                result = store.lookup(request.target, candidate, request.name)
                if result.image is not None:
                    return result.image, result.path
                if result.reason:
                    reasons.append(result.reason)
        misses.append(Miss(store, "; ".join(reasons)))
        return None

    def _keys(self, store: Store, request: Request, key: str, key_of: KeyOf) -> Iterator[str]:
        """Keys to ask a store for: this environment's, then those of the versions it declares where that is right."""
        if key:
            yield key
        if not key or store is not self.cache:
            for versions in store.declared_versions(request.target):
                yield key_of(request.base, versions)

    def save(self, request: Request, image: KernelImage) -> str | None:
        """Keep a newly compiled image: in memory, and in the user's cache.

        Returns
        -------
        str or None
            Why it was not stored; None when it was.
        """
        outcome = self._store(image, request.versions)
        self._memory.put(request, image, outcome.path if outcome else "")
        if outcome:
            return None
        if not self.cache_place.disabled:
            where = self.cache_place.path or "the user cache"
            warn_once(
                "cannot write",
                where,
                f"compiled kernels are kept in memory only: {where} cannot be used: {outcome.reason}. "
                "Set STERNA_CACHE_DIR to a folder that can be written, or STERNA_CACHE=0 to do without.",
            )
        return outcome.reason

    def _store(self, image: KernelImage, versions: Mapping[str, str] | None) -> WriteOutcome:
        if self.cache is None:
            return WriteOutcome(False, self.cache_place.reason)
        return self.cache.put(image, versions)

    def remember(self, request: Request, image: KernelImage) -> None:
        """Keep an image in memory only: one whose references cannot all be named again (I7)."""
        self._memory.put(request, image, "")

    def forget(self) -> None:
        """Drop the images held in memory, so that the next search reads files."""
        self._memory = _Memory()

    # ---- source facts --------------------------------------------------------------------------

    def get_facts(self, fingerprint: str, module: str = "", entry_points: bool = False) -> dict[str, Any] | None:
        """Source facts of a code object from the first store that has them.

        Parameters
        ----------
        fingerprint : str
            Of the code object.
        module : str
            Name of the function's module, whose bundle is asked first; empty for all bundles met so far.
        entry_points : bool
            Ask the stores of entry points too: for a function whose source cannot be had.
        """
        stores = [*self._near_stores(module), *(self._entry_points or ())]
        if not module:
            stores[:0] = [bundle for bundle in self._bundles.values() if bundle is not None]
        if entry_points and self._entry_points is None:
            stores += self._entry_point_stores(module)
        for store in stores:
            facts = store.get_facts(fingerprint)
            if facts is not None:
                self.counters.add("facts_hits")
                return facts
        self.counters.add("facts_misses")
        return None

    def put_facts(self, fingerprint: str, facts: Mapping[str, Any]) -> None:
        """Keep source facts in the user's cache, if there is one; silent when that fails."""
        if self.cache is not None:
            self.cache.put_facts(fingerprint, facts)

    # ---- places --------------------------------------------------------------------------------

    def stores(self, module: str = "") -> tuple[Store, ...]:
        """All stores in the order they are asked for a kernel of `module`; reads entry points."""
        return (*self._near_stores(module), *self._entry_point_stores(module))

    def _near_stores(self, module: str) -> tuple[Store, ...]:
        bundle = self._bundle(module) if module and self._use_bundles else None
        return tuple(store for store in (bundle, *self._registered, self.cache) if store is not None)

    def _bundle(self, module: str) -> Store | None:
        if module not in self._bundles:
            folder = bundle_folder(module)
            self._bundles[module] = self._shipped(folder, "bundle") if folder else None
        return self._bundles[module]

    def _entry_point_stores(self, module: str) -> tuple[Store, ...]:
        if not self._use_entry_points:
            return ()
        if self._entry_points is None:
            self._entry_points = tuple(self._shipped(folder, "entry point") for _, folder in entry_point_folders())
        return self._entry_points


def _default_key_of() -> KeyOf:
    from sterna.image.key import kernel_key

    return kernel_key


_default: list[tuple[tuple[Any, ...], SearchPath]] = []
_default_lock = threading.Lock()


def default_search_path() -> SearchPath:
    """The search path by this process's environment variables and registered folders.

    The same object until one of them changes.
    """
    state = (*map(os.environ.get, _VARIABLES), registered_folders())
    with _default_lock:
        if not _default or _default[0][0] != state:
            path = SearchPath((*registered_folders(), *environment_folders()), user_cache())
            record_at_exit(path)
            _default[:] = [(state, path)]
        return _default[0][1]
