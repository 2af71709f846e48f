"""Versions and entry points of installed distributions, read without `importlib.metadata`.

Importing `importlib.metadata` takes tens of milliseconds (it pulls in the e-mail, CSV and ZIP packages), more than a
whole first launch from a store may take.  What is needed here, names of folders and one small file of each, is
read directly.  Only folders on `sys.path` are looked at: a distribution in a ZIP archive or behind a custom finder
is not seen.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator

__all__ = ["distribution_files", "entry_points", "installed_version"]

_SEPARATORS = re.compile(r"[-_.]+")
_STANDARD = os.path.dirname(os.__file__)
"""The standard library, which holds no distributions but in its ``site-packages``."""
_listings: dict[str, tuple[str, ...]] = {}


def _metadata_folders() -> Iterator[tuple[str, str]]:
    """Folder and name of every distribution's metadata, in the order in which imports look."""
    for place in sys.path:
        folder = place or os.curdir
        if folder.startswith(_STANDARD) and "-packages" not in folder:
            continue
        if folder not in _listings:
            try:
                names = os.listdir(folder)
            except OSError:
                names = []
            _listings[folder] = tuple(sorted([n for n in names if n.endswith((".dist-info", ".egg-info"))]))
        for name in _listings[folder]:
            yield folder, name


def _normal(name: str) -> str:
    return _SEPARATORS.sub("_", name).lower()


def installed_version(name: str) -> str | None:
    """Version of an installed distribution, or None; nothing is imported.

    Parameters
    ----------
    name : str
        Name of the distribution, in any of its spellings (``llvmlite``, ``cuda-bindings``, ``cuda_bindings``).

    Examples
    --------
    >>> installed_version("no-such-distribution") is None
    True
    """
    wanted = _normal(name)
    first = wanted[:1], wanted[:1].upper()
    for folder, entry in _metadata_folders():
        if not entry.startswith(first):  # nearly all
            continue
        stem, _, kind = entry.rpartition(".")
        found, _, rest = stem.partition("-")
        if _normal(found) == wanted:
            version = rest.partition("-")[0] if kind == "egg-info" else rest
            version = version or _version_line(os.path.join(folder, entry, "PKG-INFO"))
            if version:
                return version
    return None


def distribution_files(name: str) -> list[str]:
    """Paths of the files that an installed distribution recorded, as they are on this machine; none if it is not there.

    Parameters
    ----------
    name : str
        Name of the distribution, in any of its spellings.
    """
    wanted = _normal(name)
    for folder, entry in _metadata_folders():
        if _normal(entry.rpartition(".")[0].partition("-")[0]) == wanted:
            lines = _lines(os.path.join(folder, entry, "RECORD"))
            return [os.path.normpath(os.path.join(folder, line.partition(",")[0].strip('"'))) for line in lines]
    return []


def _version_line(path: str) -> str:
    for line in _lines(path):
        if line.startswith("Version:"):
            return line.partition(":")[2].strip()
    return ""


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def entry_points(group: str) -> list[tuple[str, str]]:
    """Name and value of every installed entry point of a group, sorted.

    Of several metadata folders of one distribution the first on `sys.path` counts.
    """
    found, seen = set(), set()
    for folder, entry in _metadata_folders():
        distribution = _normal(entry.rpartition(".")[0].partition("-")[0])
        if distribution in seen:
            continue
        seen.add(distribution)
        section = ""
        for line in map(str.strip, _lines(os.path.join(folder, entry, "entry_points.txt"))):
            if line.startswith("["):
                section = line.strip("[] ")
            elif section == group and "=" in line and not line.startswith(("#", ";")):
                name, _, value = line.partition("=")
                found.add((name.strip(), value.strip()))
    return sorted(found)
