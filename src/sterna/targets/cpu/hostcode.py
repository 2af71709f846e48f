"""Host functions in this process: loaded once, from the first image that is asked for them."""

from __future__ import annotations

from sterna.targets.cpu.loader import LoadedObject, load_object

__all__ = ["host_functions"]

_loaded: list[LoadedObject] = []


def host_functions(data: bytes) -> LoadedObject:
    """The host functions; `data` is an image's object of them (payload ``host``), used by the first call alone."""
    if not _loaded:
        _loaded.append(load_object(data))  # two threads may both do so; one of the objects is then never used
    return _loaded[0]
