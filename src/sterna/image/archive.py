"""`Archive`: machine code that a device's own driver made of an image, kept so that it is made once.

An image of a target whose driver is a compiler (SPIR-V, Metal's language) still costs a build in every process.  The
result is valid on one kind of device under one driver and one build of the system, so it is kept apart from the stores
of images, which travel.  Layout, below the archive's folder::

    opencl/<device>/<driver and system>/<kernel key>.code     one blob: a checked header, then what the driver gave
    opencl/<device>/<driver and system>/used-<host>           when this machine last used the folder; what it is for

A blob is found by name and believed only if its header names this device, driver, system and the very code it was
made from, and its digest is right; anything else is a miss, and the next `Archive.put` replaces it.  Nothing here
raises for trouble of the file system and nothing warns: an archive is a shortcut, never a need.
"""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from typing import Any

from sterna.digest import sha256_hex
from sterna.frozen import frozen
from sterna.image import files
from sterna.image.files import WriteOutcome
from sterna.image.format import canonical_json
from sterna.image.places import user_cache

__all__ = ["Archive", "ArchivePlace", "default_archive", "describe_archive", "machine_code_archive"]

FOLDER = "archive"
"""Name of the archive's folder in the user's cache."""
LIMIT_MIB = 256
"""Size the archive is kept under by default (``STERNA_ARCHIVE_LIMIT``, in MiB)."""
UNUSED_SECONDS = 30 * 24 * 3600
"""Age after which the code of another driver that other machines have used is taken for abandoned."""

_MAGIC = b"sterna machine code 1\n"
_SUFFIX = ".code"
_MARK = "used-"
_SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_FIELDS = ("hits", "misses", "stored", "refused", "evicted", "cleaned")


@frozen
class ArchivePlace:
    """What machine code is valid for.

    Attributes
    ----------
    target : str
        ``opencl``, ``metal``.
    device : str
        Kind of device, as its driver names it; two equal devices share their code.
    driver : str
        Version of the driver.
    system : str
        Build of the operating system.
    """

    target: str
    device: str
    driver: str
    system: str

    def facts(self) -> dict[str, str]:
        """The fields by name."""
        return {"target": self.target, "device": self.device, "driver": self.driver, "system": self.system}

    @property
    def device_folder(self) -> str:
        """Folder of the device, relative to the archive's."""
        return os.path.join(self.target, _digest(self.device))

    @property
    def folder(self) -> str:
        """Folder of this driver and system, relative to the archive's."""
        return os.path.join(self.device_folder, _digest(f"{self.driver}\n{self.system}"))


def _digest(text: str) -> str:
    return sha256_hex(text.encode("utf-8", "surrogateescape"))[:24]


class Archive:
    """A folder of machine code, which need not exist; any number of processes may share it.

    Parameters
    ----------
    path : str or path-like
        The folder; made by the first write.
    limit : int
        Bytes that all blobs together may take; what was used longest ago goes first.
    anchor : str
        A folder that must exist for writes to be tried (a home folder, which is not ours to make).

    Attributes
    ----------
    counters : dict of str to int
        Of this process: ``hits``, ``misses``, ``stored``, ``refused`` (damaged, or not taken by the driver),
        ``evicted`` (for room) and ``cleaned`` (of another driver).

    Examples
    --------
    >>> from sterna.image.archive import Archive, ArchivePlace
    >>> place = ArchivePlace("opencl", "some CPU", "2025.1", "Linux 6.1")
    >>> Archive("no/such/folder", 1 << 20).get(place, "00ff", b"spirv") is None
    True
    """

    def __init__(self, path: str | os.PathLike[str], limit: int, anchor: str = "") -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.limit = limit
        self.counters = dict.fromkeys(_FIELDS, 0)
        self._anchor = anchor
        self._lock = threading.Lock()
        self._cleaned: set[str] = set()
        self._used: set[str] = set()

    def __repr__(self) -> str:
        return f"Archive({self.path!r}, {self.limit})"

    # ---- one blob ------------------------------------------------------------------------------

    def get(self, place: ArchivePlace, key: str, code: bytes) -> bytes | None:
        """Machine code of a kernel, or None.

        Parameters
        ----------
        place : ArchivePlace
            The device, driver and system that will run it.
        key : str
            The kernel's key.
        code : bytes
            The payload it was made from; a blob made from another is a miss.
        """
        path = self._path(place, key)
        data = files.read_file(path).data
        if data is None:
            self._add("misses")
            return None
        blob = _unframed(data, _header(place, key, code))
        if blob is None:
            self._add("misses")
            self._refuse(path, data)
            return None
        self._add("hits")
        _touch(path)
        folder = os.path.dirname(path)
        if folder not in self._used:
            self._used.add(folder)
            _touch(os.path.join(folder, _own_mark()))
        return blob

    def put(self, place: ArchivePlace, key: str, code: bytes, blob: bytes) -> WriteOutcome:
        """Keep machine code; makes room, and says in the outcome why it could not be kept."""
        path = self._path(place, key)
        data = _framed(_header(place, key, code), blob)
        if len(data) > self.limit:
            return WriteOutcome(False, f"{len(data)} bytes are more than the archive may hold ({self.limit})", path)
        if self._anchor and not os.path.isdir(self._anchor):
            return WriteOutcome(False, f"there is no folder {self._anchor}", path)
        folder = os.path.dirname(path)
        ready = files.ensure_folder(self.path, 0o700)
        if ready:
            ready = self._mark(place, folder)
        outcome = files.atomic_write(path, data, durable=False) if ready else WriteOutcome(False, ready.reason, path)
        if outcome:
            self._add("stored")
            self._tidy(place, folder, path)
        return outcome

    def reject(self, place: ArchivePlace, key: str) -> None:
        """The driver did not take this kernel's machine code: it goes, and will be made anew."""
        path = self._path(place, key)
        data = files.read_file(path).data
        if data is not None:
            self._refuse(path, data)

    def _refuse(self, path: str, data: bytes) -> None:
        self._add("refused")
        if files.read_file(path).data == data:  # else another process has repaired it already
            files.remove(path)

    def _path(self, place: ArchivePlace, key: str) -> str:
        return os.path.join(self.path, place.folder, f"{_digest(key)}{_SUFFIX}")

    def _add(self, name: str, amount: int = 1) -> None:
        with self._lock:
            self.counters[name] += amount

    # ---- room ----------------------------------------------------------------------------------

    def _mark(self, place: ArchivePlace, folder: str) -> WriteOutcome:
        """Note in a folder that this machine uses it, and what it is for; once a process."""
        if folder in self._cleaned:
            return WriteOutcome(True)
        return files.atomic_write(os.path.join(folder, _own_mark()), canonical_json(place.facts()), durable=False)

    def _tidy(self, place: ArchivePlace, folder: str, written: str) -> None:
        """Remove what is of no use any more, once a process, and what there is no room for."""
        if folder not in self._cleaned:
            self._cleaned.add(folder)
            files.sweep_temporaries(folder, written)
            self._clean(os.path.join(self.path, place.device_folder), os.path.basename(folder), written)
        entries = self._entries()
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit:
                break
            if path != written and files.remove(path):
                self._add("evicted")
                total -= size

    def _clean(self, device_folder: str, own: str, written: str) -> None:
        """Remove code of other drivers and systems that only this machine used, or nobody for a month.

        Machines that share an archive and differ in their drivers so leave each other's code alone.
        """
        now = _modified(written)
        for name in files.list_folder(device_folder):
            folder = os.path.join(device_folder, name)
            names = files.list_folder(folder)
            marks = [n for n in names if n.startswith(_MARK)]
            others = [_modified(os.path.join(folder, n)) for n in marks if n != _own_mark()]
            if name == own or not marks or any(now - used < UNUSED_SECONDS for used in others):
                continue
            codes = [n for n in names if n.endswith(_SUFFIX)]
            self._add("cleaned", sum(files.remove(os.path.join(folder, n)) for n in codes))
            for mark in marks:
                files.remove(os.path.join(folder, mark))
            try:
                os.rmdir(folder)
            except OSError:
                continue  # another process has just written here

    def _entries(self) -> list[tuple[float, int, str]]:
        """Time of last use, size and path of every blob."""
        found = []
        for folder, _, names in os.walk(self.path):
            for name in names:
                path = os.path.join(folder, name)
                if name.endswith(_SUFFIX):
                    try:
                        facts = os.stat(path)
                    except OSError:
                        continue
                    found.append((facts.st_mtime, facts.st_size, path))
        return found

    # ---- for people ----------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Folder, limit, entries and bytes, and this process's counters."""
        entries = self._entries()
        facts = {"path": self.path, "limit": self.limit, "entries": len(entries)}
        return {**facts, "bytes": sum(size for _, size, _ in entries), **self.counters}

    def clear(self) -> int:
        """Remove every blob; the number removed."""
        return sum(files.remove(path) for _, _, path in self._entries())


def _own_mark() -> str:
    return f"{_MARK}{files.host_digest()}"


def _touch(path: str) -> None:
    """Note that a file was used; it may be on a file system that is only read."""
    try:
        os.utime(path)
    except OSError:
        return


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _header(place: ArchivePlace, key: str, code: bytes) -> bytes:
    return canonical_json({**place.facts(), "key": key, "code": sha256_hex(code)})


def _framed(header: bytes, blob: bytes) -> bytes:
    digest = sha256_hex(header + b"\0" + blob).encode()
    return b"".join((_MAGIC, digest, b"\n%d\n" % len(header), header, blob))


def _unframed(data: bytes, header: bytes) -> bytes | None:
    """What the driver gave, if the file is whole and has the header it must have."""
    start = _MAGIC + data[len(_MAGIC) : len(_MAGIC) + 64] + b"\n%d\n" % len(header) + header
    if not data.startswith(start):
        return None
    blob = data[len(start) :]
    return blob if data[len(_MAGIC) : len(_MAGIC) + 64] == sha256_hex(header + b"\0" + blob).encode() else None


# ---- the archive of this process -----------------------------------------------------------------

_chosen: list[bool | None] = [None]
_made: list[Archive] = []


def machine_code_archive(enabled: bool | None = None) -> None:
    """Switch the archive of drivers' machine code on or off for the rest of this process.

    Parameters
    ----------
    enabled : bool, optional
        None leaves the choice to ``STERNA_ARCHIVE`` (1 or 0) and, where that is not set, to the target.

    Examples
    --------
    >>> import sterna
    >>> sterna.machine_code_archive(False)
    >>> sterna.machine_code_archive(None)
    """
    _chosen[0] = enabled


def default_archive(by_default: bool = True) -> Archive | None:
    """The archive in the user's cache, or None where it is switched off or there is no cache.

    Parameters
    ----------
    by_default : bool
        Whether a target uses it when nobody has said so.
    """
    switch = os.environ.get("STERNA_ARCHIVE", "").lower()
    enabled = _chosen[0] if _chosen[0] is not None else _SWITCH.get(switch, by_default)
    place = user_cache()
    if not enabled or not place.path:
        return None
    return _archive(place.path, place.anchor, _limit(os.environ.get("STERNA_ARCHIVE_LIMIT", "")))


def _limit(text: str) -> int:
    try:
        return max(int(float(text) * (1 << 20)), 0)
    except (ValueError, OverflowError):
        return LIMIT_MIB << 20


@lru_cache(maxsize=16)
def _archive(path: str, anchor: str, limit: int) -> Archive:
    made = Archive(os.path.join(path, FOLDER), limit, anchor)
    _made.append(made)
    return made


def counters_of(folder: str) -> dict[str, int]:
    """Sums of this process's counters over the archives in a cache's folder."""
    total: dict[str, int] = {}
    for archive in _made:
        if os.path.dirname(archive.path) == folder:
            for name, count in archive.counters.items():
                total[name] = total.get(name, 0) + count
    return total


def describe_archive() -> dict[str, Any]:
    """What `Archive.describe` says of this process's archive; nothing where there is none."""
    archive = default_archive()
    return {} if archive is None else archive.describe()
