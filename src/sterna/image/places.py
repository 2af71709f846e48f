"""Where stores are: the user's cache, bundles inside packages, registered folders, entry points.

Imports nothing of the user's (I2): a bundle is found from modules that are already loaded, an entry point is read
as data (``package`` or ``package.folder``) and never loaded.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

from sterna.distributions import entry_points
from sterna.errors import BundleError
from sterna.frozen import frozen

__all__ = [
    "BUNDLE_FOLDER", "ENTRY_POINT_GROUP", "CachePlace", "bundle_folder", "entry_point_folders", "environment_folders",
    "register_store", "registered_folders", "unregister_store", "user_cache",
]  # fmt: skip

BUNDLE_FOLDER = "__sterna__"
ENTRY_POINT_GROUP = "sterna.stores"

_registered: list[str] = []


@frozen
class CachePlace:
    """The user's cache: its folder, or why there is none (`disabled`: because the user says so).

    `anchor` is a folder that must exist already: the home folder, which is not made by writing a cache.
    """

    path: str
    anchor: str = ""
    reason: str = ""
    disabled: bool = False


def user_cache() -> CachePlace:
    """The user's cache by ``STERNA_CACHE``, ``STERNA_CACHE_DIR`` or the platform's custom."""
    environment = os.environ
    if environment.get("STERNA_CACHE", "").lower() in ("0", "false", "no", "off"):
        return CachePlace("", reason="switched off by STERNA_CACHE", disabled=True)
    chosen = environment.get("STERNA_CACHE_DIR")
    if chosen:
        return CachePlace(os.path.abspath(os.path.expanduser(chosen)))
    if sys.platform == "win32":
        local = environment.get("LOCALAPPDATA")
        if local and os.path.isabs(local):
            return CachePlace(os.path.join(local, "sterna", "cache"), local)
        return CachePlace("", reason="LOCALAPPDATA is not set")
    xdg = environment.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):  # the specification has relative ones ignored
        return CachePlace(os.path.join(xdg, "sterna"))
    home = environment.get("HOME", "")
    if not os.path.isabs(home):
        return CachePlace("", reason="HOME is not set")
    middle = ("Library", "Caches") if sys.platform == "darwin" else (".cache",)
    return CachePlace(os.path.join(home, *middle, "sterna"), home)


def bundle_folder(module: str) -> str:
    """The bundle of the package that `module` belongs to, or empty; says nothing about whether it exists.

    It lies in the outermost regular package: ``<folder of package>/__sterna__``.  For a module outside any regular
    package it lies beside the module's file.
    """
    own = sys.modules.get(module)
    if module == "__main__":
        spec = getattr(own, "__spec__", None)  # of python -m package.module
        module = spec.name.removesuffix(".__main__") if spec is not None else module
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        package = sys.modules.get(".".join(parts[:end]))
        if hasattr(package, "__path__") and (folder := _folder_of(package)):
            return os.path.join(folder, BUNDLE_FOLDER)
    folder = _folder_of(own)
    return os.path.join(folder, BUNDLE_FOLDER) if folder else ""


def _folder_of(module: ModuleType | None) -> str:
    """Folder of a module's file; empty for a namespace package and for a module without a file."""
    file = getattr(module, "__file__", None)
    return os.path.dirname(os.path.abspath(file)) if isinstance(file, str) else ""


def register_store(path: str | os.PathLike[str]) -> None:
    """Have kernels also looked for in a folder of images, for the rest of this process.

    Parameters
    ----------
    path : str or path-like
        A store's folder; it is only read.

    Raises
    ------
    BundleError
        If there is no such folder.

    Examples
    --------
    >>> import sterna
    >>> sterna.register_store("no/such/folder")
    Traceback (most recent call last):
        ...
    sterna.errors.BundleError: cannot register 'no/such/folder' as a store: it is not a folder
    """
    folder = os.path.abspath(os.fspath(path))
    if not os.path.isdir(folder):
        raise BundleError(f"cannot register {os.fspath(path)!r} as a store: it is not a folder")
    if folder not in _registered:
        _registered.append(folder)


def unregister_store(path: str | os.PathLike[str]) -> None:
    """Undo `register_store`; nothing happens for a folder that is not registered."""
    folder = os.path.abspath(os.fspath(path))
    if folder in _registered:
        _registered.remove(folder)


def registered_folders() -> tuple[str, ...]:
    """Folders given to `register_store`, in order."""
    return tuple(_registered)


def environment_folders() -> tuple[str, ...]:
    """Folders named by ``STERNA_STORE_PATH``, in order."""
    text = os.environ.get("STERNA_STORE_PATH", "")
    return tuple(os.path.abspath(p) for p in text.split(os.pathsep) if p.strip())


def entry_point_folders() -> tuple[tuple[str, str], ...]:
    """Name and folder of every entry point of the group ``sterna.stores``; reads a file of each distribution.

    The value names a package or a folder in one: ``sunlight`` is ``<sunlight>/__sterna__``, and ``sunlight.kernels``
    is ``<sunlight>/kernels/__sterna__`` or, where that does not exist, ``<sunlight>/kernels``.
    """
    from importlib.util import find_spec

    found = []
    for name, value in entry_points(ENTRY_POINT_GROUP):
        top, *inner = value.partition(":")[0].strip().split(".")
        try:
            spec = find_spec(top)  # a top-level name: nothing is imported
        except (ImportError, ValueError, AttributeError):
            continue
        for location in (spec.submodule_search_locations or ()) if spec is not None else ():
            folder = os.path.join(location, *inner)
            inside = os.path.join(folder, BUNDLE_FOLDER)
            if os.path.isdir(inside) or os.path.isdir(folder):
                found.append((name, inside if os.path.isdir(inside) else folder))
                break
    return tuple(found)
