"""Streams, events, graphs and host memory of devices, by the names users write.

Each asks the device; one that has none of it says so, and who has.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from numpy.typing import DTypeLike

from sterna.errors import UnsupportedError
from sterna.runtime.devices import current_device, device_of
from sterna.targets.base import Device

__all__ = ["capture", "event", "mapped", "pinned", "stream"]

_QUEUES, _CUDA = "devices of CUDA, OpenCL and Metal have", "CUDA devices have"
_WHO = {"streams": _QUEUES, "events": _QUEUES, "mapped memory": "devices of CUDA and Metal have"}


def _ask(where: Device | str | None, name: str, what: str) -> Any:
    device = current_device() if where is None else device_of(where)
    found = getattr(device, name, None)
    if found is None:
        raise UnsupportedError(
            f"device {device.name} has no {what}; {_WHO.get(what, _CUDA)} (sterna.devices() lists yours)"
        )
    return found


def stream(device: Device | str | None = None, *, priority: int = 0, blocking: bool = True) -> Any:
    """A new stream: launches and copies in it are in order, and run beside other streams.

    Parameters
    ----------
    device : Device or str, optional
        Default: the current device.
    priority : int
        Lower numbers first (0, or negative).
    blocking : bool
        Whether it waits for the default stream and is waited for by it, as code that names no stream expects.

    Examples
    --------
    >>> import sterna  # doctest: +SKIP
    >>> with sterna.on("cuda", sterna.stream("cuda")):
    ...     kernel[blocks, threads](array)
    """
    return _ask(device, "stream", "streams")(priority, blocking)


def event(device: Device | str | None = None, *, timing: bool = True) -> Any:
    """A new event, to be recorded in a stream; two give the time between them (`elapsed_ms`)."""
    return _ask(device, "event", "events")(timing)


def capture(device: Device | str | None = None) -> AbstractContextManager[Any]:
    """Record launches instead of running them: ``with sterna.capture() as graph: …``, then ``graph.launch()``.

    ``with graph.record():`` replaces the recording, updating the graph in place where that is possible.
    """
    found: AbstractContextManager[Any] = _ask(device, "record_graph", "graphs")()
    return found


def pinned(shape: int | tuple[int, ...], dtype: DTypeLike = "float64", device: Device | str | None = None) -> Any:
    """A NumPy array in page-locked memory, which copies to and from devices fastest; not initialised."""
    return _ask(device, "pinned", "pinned memory")(shape, dtype)


def mapped(shape: int | tuple[int, ...], dtype: DTypeLike = "float64", device: Device | str | None = None) -> Any:
    """An array in page-locked host memory that kernels use in place; ``numpy.asarray`` sees it without a copy."""
    return _ask(device, "mapped", "mapped memory")(shape, dtype)
