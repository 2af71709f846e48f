"""Kernel images: the persistent result of a compilation, its file format, key, stores and search path.

The compiler makes images, the linker loads them; this package knows neither, nor any target.
"""

from __future__ import annotations

from sterna.image.counters import Counters
from sterna.image.files import WriteOutcome
from sterna.image.format import FORMAT_VERSION, KernelImage
from sterna.image.places import register_store, unregister_store
from sterna.image.search import Outcome, Request, SearchPath, default_search_path
from sterna.image.store import Lookup, Store

__all__ = [
    "FORMAT_VERSION", "Counters", "KernelImage", "Lookup", "Outcome", "Request", "SearchPath", "Store", "WriteOutcome",
    "default_search_path", "register_store", "unregister_store",
]  # fmt: skip
