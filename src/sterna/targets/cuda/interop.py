"""Arrays of CuPy, PyTorch, numba and others, in place, by ``__cuda_array_interface__`` (version 3); ours for them.

The stream an array's contents were made in is waited for by the current stream.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from sterna.runtime.devices import active_stream, device_named
from sterna.targets.cuda.driver import DriverError, driver
from sterna.targets.cuda.memory import ForeignMemory
from sterna.targets.cuda.streams import Event, relaxed_capture, stream_handle

__all__ = ["adopt", "array_interface", "shadow"]

_POINTER_DEVICE = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_LEGACY, _PER_THREAD = 1, 2


def adopt(value: Any) -> Any:
    """A Sterna array that shares the memory of `value`.

    Raises
    ------
    TypeError
        For a dtype no device has, or an interface that cannot be read.
    """
    from sterna.array.array import Array, checked_dtype

    try:
        interface = value.__cuda_array_interface__
    except AttributeError:
        from sterna.targets.cuda.dlpack import adopt_dlpack

        return adopt_dlpack(value)
    try:
        text, (address, readonly) = interface["typestr"], interface["data"]
        dtype = checked_dtype(np.dtype(interface["descr"] if text[1] == "V" and interface.get("descr") else text))
        shape = tuple(int(n) for n in interface["shape"])
        strides = interface.get("strides")
    except (KeyError, IndexError, ValueError) as error:
        raise TypeError(f"its __cuda_array_interface__ cannot be read: {error}") from None
    if interface.get("mask") is not None:
        raise TypeError("it has a mask, which kernels would ignore")
    address = int(address or 0)
    memory = ForeignMemory(value, address, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
    view = shadow(value, address, shape, strides, dtype)
    if readonly:
        view.flags.writeable = False
    device = _device_of(address)
    _wait(device, interface.get("stream"))
    return Array(view, memory, device)


def shadow(owner: Any, address: int, shape: tuple[int, ...], strides: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """NumPy's view of memory at a device address: for shapes and strides, never read; keeps `owner` alive."""
    return np.asarray(_Carrier(owner, address, shape, strides, dtype))


class _Carrier:
    """Carrier of an array interface with a device address: a shadow that the host never reads."""

    def __init__(self, owner: Any, address: int, shape: tuple[int, ...], strides: Any, dtype: np.dtype[Any]) -> None:
        self.owner = owner
        described = {"descr": dtype.descr} if dtype.names is not None else {}
        self.__array_interface__ = {
            "data": (address or 64, False),
            "shape": shape,
            "strides": None if strides is None else tuple(strides),
            "typestr": dtype.str,
            "version": 3,
            **described,
        }


def _device_of(address: int) -> Any:
    """The device whose memory an address is in; the first for an empty array."""
    if not address:
        return device_named("cuda:0")
    ordinal = ctypes.c_int()
    try:
        driver().cuPointerGetAttribute(ctypes.byref(ordinal), _POINTER_DEVICE, address)
    except DriverError as error:
        raise TypeError(f"its address {address:#x} is not in the memory of a CUDA device ({error.name})") from None
    return device_named(f"cuda:{ordinal.value}")


def _wait(device: Any, stream: int | None) -> None:
    """Let the current stream wait for the stream that made the contents."""
    if stream is None:
        return
    theirs = 0 if stream == _LEGACY else int(stream)
    ours = device.handle_of(None)
    if theirs == ours:
        return
    cu = device.context.enter()
    if getattr(active_stream(device), "is_capturing", False):  # a recording cannot wait for what is outside of it
        with relaxed_capture(cu):
            cu.cuStreamSynchronize(theirs)
        return
    event = Event(device, timing=False)
    cu.cuEventRecord(event.handle, theirs)
    cu.cuStreamWaitEvent(ours, event.handle, 0)


def array_interface(array: Any) -> dict[str, Any]:
    """``__cuda_array_interface__`` of a Sterna array on a CUDA device."""
    stream = active_stream(array.device)
    handle = 0 if stream is None else stream_handle(stream)
    found: dict[str, Any] = {
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (array.address if array.size else 0, not array._view.flags.writeable),
        "version": 3,
        "strides": None if array.is_contiguous else array.strides,
        "stream": handle or _LEGACY,
    }
    if array.dtype.names is not None:
        found["descr"] = array.dtype.descr
    return found
