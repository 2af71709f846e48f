"""`Store`: a folder of kernel images; a *bundle* is one shipped inside a package.

Layout, below the store's folder::

    cpu-x86-64-v3/blur-<key>.image            one kernel image, found by name, never by listing
    cpu-x86-64-v3/versions/<digest>.json      one set of compiler versions that images here were made with
    facts/4f/<fingerprint>.json               source facts of one function
    refused/…                                 the last few files that were damaged

A set of versions is its own file, named by its content, so that racing writers cannot lose each other's.
Readers trust no file: images carry a digest and their full key, facts and version sets a digest.  A bad file is a
miss, reported once, moved to ``refused/`` where the store is writable, and replaced by the next `Store.put` (I9).
Nothing here raises for trouble of the file system.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from sterna.digest import sha256_hex
from sterna.errors import ImageError
from sterna.frozen import frozen
from sterna.image import files
from sterna.image.counters import Counters
from sterna.image.files import WriteOutcome
from sterna.image.format import KernelImage, canonical_json
from sterna.image.notices import warn_once

__all__ = ["Lookup", "Store", "image_file_name"]

KEEP_REFUSED = 8
"""Number of damaged files kept for inspection."""

_SUFFIX = ".image"
_FACTS_HEAD = b'{"sha256":"'
_FACTS_MIDDLE = b'","entry":'
_BODY_START = len(_FACTS_HEAD) + 64 + len(_FACTS_MIDDLE)
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_NOT_READABLE = re.compile(r"[^A-Za-z0-9]+")


@frozen
class Lookup:
    """Result of looking for one image in one store; `reason` is empty when no such file exists."""

    image: KernelImage | None
    reason: str = ""
    path: str = ""


def image_file_name(name: str, key: str) -> str:
    """File of a kernel's image: a short readable form of its name, then the full key."""
    return f"{_readable(name)}-{key}{_SUFFIX}"


def _readable(name: str) -> str:
    return _NOT_READABLE.sub("_", name.replace("<locals>", "")).strip("_")[:40] or "kernel"


class Store:
    """A folder of kernel images, which need not exist.

    Parameters
    ----------
    path : str or path-like
        The folder; made by the first write.
    label : str
        What kind of place it is, for people and counters: ``bundle``, ``user cache`` …
    writable : bool
        False for a store that is only read: nothing in it is ever changed.
    anchor : str
        A folder that must exist for writes to be tried (a home folder, which is not ours to make).
    private : bool
        Make the store's folder readable by its owner only.
    counters : Counters, optional
        Where events are counted.

    Examples
    --------
    >>> from sterna.image import Store
    >>> Store("no/such/folder").get("cpu-x86-64-v3", "00ff", "blur") is None
    True
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        label: str = "store",
        writable: bool = True,
        *,
        anchor: str = "",
        private: bool = False,
        counters: Counters | None = None,
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.label = label
        self.writable = writable
        self.counters = counters or Counters()
        self._anchor = anchor
        self._private = private
        self._declared: dict[str, dict[str, dict[str, str] | None]] = {}
        self._swept: set[str] = set()

    def __repr__(self) -> str:
        return f"Store({self.path!r}, {self.label!r}, writable={self.writable})"

    # ---- images --------------------------------------------------------------------------------

    def image_path(self, target: object, key: str, name: str) -> str:
        """Where the image of this target, key and kernel name is or would be."""
        return os.path.join(self.path, _folder(target), image_file_name(name, key))

    def get(self, target: object, key: str, name: str) -> KernelImage | None:
        """The stored image, or None.

        Parameters
        ----------
        target : str or Target
            ``cpu-x86-64-v3``.
        key : str
            Full kernel key.
        name : str
            Qualified name of the kernel.
        """
        return self.lookup(target, key, name).image

    def lookup(self, target: object, key: str, name: str) -> Lookup:
        """Like `get`, and says why there is no image."""
        path = self.image_path(target, key, name)
        read = files.read_file(path)
        if read.data is None:
            return Lookup(None, f"cannot be read: {read.reason}" if read.reason else "", path)
        try:
            image = KernelImage.from_bytes(read.data)
            if image.key != key:
                raise ImageError("it holds another kernel's key")
            if image.place != str(target):
                raise ImageError(f"it was made for {image.place}")
        except ImageError as error:
            self._refuse(path, read.data, str(error))
            return Lookup(None, f"refused: {error}", path)
        return Lookup(image, "", path)

    def put(self, image: KernelImage, versions: Mapping[str, str] | None = None) -> WriteOutcome:
        """Store an image; says in the outcome why it could not.

        Parameters
        ----------
        image : KernelImage
            What to store; replaces a file of the same key.
        versions : mapping of str to str, optional
            The compiler versions in its key; by default those of ``image.provenance["versions"]``.  They are
            declared in the store, so that a process without a compiler can work the key out.

        Returns
        -------
        WriteOutcome
            True in a condition when the image was stored.
        """
        path = self.image_path(image.place, image.key, image.name)
        outcome = self._put(image, path, image.provenance.get("versions") if versions is None else versions)
        self.counters.add("writes" if outcome else "write_failures")
        return outcome

    def _put(self, image: KernelImage, path: str, versions: Any) -> WriteOutcome:
        try:
            data = image.to_bytes()
        except ImageError as error:
            return WriteOutcome(False, str(error), path)
        ready = self._make_ready()
        if ready and isinstance(versions, Mapping):
            ready = self._declare(image.place, versions)  # first, so that no image is ever without its versions
        if not ready:
            return WriteOutcome(False, ready.reason, path)
        return self._commit(path, data)

    def _commit(self, path: str, data: bytes, durable: bool = True) -> WriteOutcome:
        """Write a file; the first time in a folder, also sweep it."""
        outcome = files.atomic_write(path, data, durable=durable)
        if outcome:
            self._sweep_beside(path)
        return outcome

    def _sweep_beside(self, written: str) -> None:
        """Remove what killed writers left beside a file that is whole; once a folder."""
        folder = os.path.dirname(written)
        if folder not in self._swept:
            self._swept.add(folder)
            files.sweep_temporaries(folder, written)

    def _make_ready(self) -> WriteOutcome:
        if not self.writable:
            return WriteOutcome(False, "the store is only read", self.path)
        if self._anchor and not os.path.isdir(self._anchor):
            return WriteOutcome(False, f"there is no folder {self._anchor}", self.path)
        return files.ensure_folder(self.path, 0o700 if self._private else 0o777)

    def _refuse(self, path: str, data: bytes, reason: str) -> None:
        """A damaged file: out of the way if we may, counted, and reported once."""
        self.counters.add("bad_files")
        kept = ""
        if self.writable and files.read_file(path).data == data:  # else another process has repaired it already
            kept = files.move_aside(path, os.path.join(self.path, "refused"), KEEP_REFUSED) or ""
        remedy = f"kept as {kept}; it will be made anew" if kept else "it is ignored"
        warn_once("bad file", path, f"damaged file in the {self.label}: {path}: {reason} ({remedy})")

    # ---- version sets --------------------------------------------------------------------------

    def declared_versions(self, target: object) -> tuple[dict[str, str], ...]:
        """The sets of compiler versions that images for `target` here were made with."""
        folder = os.path.join(self.path, _folder(target), "versions")
        known = self._declared.setdefault(str(target), {})
        names = [n for n in files.list_folder(folder) if n.endswith(".json")]
        for name in names:
            if known.get(name) is None:
                known[name] = _read_versions(os.path.join(folder, name), name)
        return tuple(found for name in names if (found := known[name]) is not None)

    def _declare(self, target: str, versions: Mapping[str, str]) -> WriteOutcome:
        try:
            data = canonical_json(dict(versions))
        except (TypeError, ValueError) as error:
            return WriteOutcome(False, f"versions are not plain data: {error}", self.path)
        path = os.path.join(self.path, _folder(target), "versions", f"{sha256_hex(data)[:32]}.json")
        if files.read_file(path).data == data:
            self._sweep_beside(path)
            return WriteOutcome(True, "", path)
        return self._commit(path, data)

    # ---- source facts --------------------------------------------------------------------------

    def get_facts(self, fingerprint: str) -> dict[str, Any] | None:
        """The source facts stored for a code object's fingerprint, or None."""
        path = self._facts_path(fingerprint)
        data = files.read_file(path).data if path else None
        if data is None:
            return None
        body = data[_BODY_START:-1]
        if data == _framed(body):
            try:
                entry = json.loads(body)
                if entry["fingerprint"] == fingerprint and type(entry["facts"]) is dict:
                    facts: dict[str, Any] = entry["facts"]
                    return facts
            except (ValueError, RecursionError, TypeError, KeyError):
                pass
        self._refuse(path, data, "not the source facts of this function, or damaged")
        return None

    def put_facts(self, fingerprint: str, facts: Mapping[str, Any]) -> WriteOutcome:
        """Store the source facts of a code object; `facts` is plain data."""
        path = self._facts_path(fingerprint)
        if not path:
            return WriteOutcome(False, f"{fingerprint!r} is not a fingerprint")
        try:
            body = canonical_json({"facts": dict(facts), "fingerprint": fingerprint})
        except (TypeError, ValueError, RecursionError) as error:
            return WriteOutcome(False, f"facts are not plain data: {error}", path)
        ready = self._make_ready()
        if not ready:
            return WriteOutcome(False, ready.reason, path)
        return self._commit(path, _framed(body), durable=False)

    def _facts_path(self, fingerprint: str) -> str:
        if not _PLAIN.fullmatch(fingerprint):
            return ""
        return os.path.join(self.path, "facts", fingerprint[:2], f"{fingerprint}.json")

    # ---- for people ----------------------------------------------------------------------------

    def architectures(self) -> tuple[str, ...]:
        """Targets and architectures the store has images for, by listing it."""
        return tuple(name for name in files.list_folder(self.path) if self.image_names(name))

    def image_names(self, target: object) -> tuple[str, ...]:
        """File names of all images for a target and architecture, by listing the folder."""
        names = files.list_folder(os.path.join(self.path, _folder(target)))
        return tuple(n for n in names if n.endswith(_SUFFIX))

    def why_missing(self, target: object, name: str) -> str:
        """What to tell a person who expected an image of kernel `name` here; lists the folder."""
        if not os.path.isdir(self.path):
            return "no such folder"
        here = self.image_names(target)
        if not here:
            others = self.architectures()
            return f"has nothing for {target}; it holds {', '.join(others)}" if others else "holds no images"
        prefix = f"{_readable(name)}-"
        same = sum(n.startswith(prefix) for n in here)
        if same:
            return f"holds {same} image{'s' * (same > 1)} named {name} for {target}, none with this key"
        return f"holds {len(here)} image{'s' * (len(here) > 1)} for {target}, none named {name}"


def _folder(target: object) -> str:
    name = str(target)
    return name if _PLAIN.fullmatch(name) else f"other-{sha256_hex(name.encode('utf-8', 'surrogateescape'))[:16]}"


def _framed(body: bytes) -> bytes:
    return b"".join((_FACTS_HEAD, sha256_hex(body).encode(), _FACTS_MIDDLE, body, b"}"))


def _read_versions(path: str, name: str) -> dict[str, str] | None:
    """A version set whose file name is its digest; None for a damaged one, which is simply not tried."""
    data = files.read_file(path).data
    if data is None or sha256_hex(data)[:32] != name.removesuffix(".json"):
        return None
    try:
        versions = json.loads(data)
    except ValueError:
        return None
    plain = type(versions) is dict and all(type(value) is str for value in versions.values())
    return versions if plain else None
