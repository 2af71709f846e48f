"""What there is and what happened, as data: the part of `sterna.stats` that needs looking around.

Nothing on the launch path imports this.
"""

from __future__ import annotations

import os
import platform
from typing import Any

from sterna.distributions import installed_version
from sterna.image.archive import describe_archive
from sterna.image.history import read_history
from sterna.image.search import default_search_path
from sterna.image.store import Store
from sterna.targets.registry import TARGETS, target

__all__ = ["describe"]

_PACKAGES = (
    "numpy", "llvmlite", "typer", "rich", "cuda-bindings", "nvidia-nvjitlink", "pyopencl", "pyobjc-framework-Metal",
)  # fmt: skip


def describe() -> dict[str, Any]:
    """Versions, targets, devices and stores of this process, as plain data.

    Returns
    -------
    dict
        ``versions`` (package → version or None), ``targets`` (name, architecture, strategies of each), ``devices``
        (names), ``stores`` (label, path, writable, images, bytes of each, in the order they are asked), ``history``
        (sums over the ended processes that used the user's cache: processes, hits, misses, writes, bad_files, and
        code_hits and code_misses of the archive),
        ``archive`` (of drivers' machine code: path, limit, entries, bytes, and this process's hits, misses, stored,
        refused, evicted, cleaned; empty where it is switched off).
    """
    from sterna import __version__
    from sterna.runtime.devices import devices

    search = default_search_path()
    versions = {"python": platform.python_version(), "sterna": __version__}
    return {
        "versions": {**versions, **{name: installed_version(name) for name in _PACKAGES}},
        "targets": [_target(name) for name in sorted(TARGETS)],
        "devices": [device.name for device in devices()],
        "stores": [_store(store) for store in search.stores()],
        "history": read_history(search.cache.path) if search.cache is not None else {},
        "archive": describe_archive(),
    }


def _target(name: str) -> dict[str, Any]:
    known = target(name)
    return {"name": known.name, "arch": known.arch, "strategies": list(known.strategies)}


def _store(store: Store) -> dict[str, Any]:
    names = [
        os.path.join(store.path, place, name) for place in store.architectures() for name in store.image_names(place)
    ]
    sizes = [os.path.getsize(name) for name in names if os.path.exists(name)]
    return {
        "label": store.label,
        "path": store.path,
        "writable": store.writable,
        "images": len(sizes),
        "bytes": sum(sizes),
    }
