"""DLPack on CUDA devices: capsules of our arrays (unversioned ``dltensor``, as every consumer takes), arrays of theirs.

A capsule's tensor keeps the array alive until the consumer calls its deleter.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from sterna.dlpack import CAPSULE, CODES, DELETER, DLManagedTensor, ImportedTensor
from sterna.runtime.devices import active_stream, device_named
from sterna.targets.cuda.interop import shadow
from sterna.targets.cuda.memory import ForeignMemory
from sterna.targets.cuda.streams import Event, relaxed_capture

__all__ = ["adopt_dlpack", "to_dlpack"]

_LEGACY, _NO_WAIT = 1, -1
_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_alive: dict[int, tuple[Any, ...]] = {}
"""Address of an exported structure → what must live as long as it."""


@DELETER  # type: ignore[untyped-decorator]
def _delete(address: int) -> None:
    _alive.pop(address, None)


@_DESTRUCTOR  # type: ignore[untyped-decorator]
def _destroy(capsule: int) -> None:
    """A capsule nobody consumed: its tensor goes with it."""
    api = ctypes.pythonapi
    if api.PyCapsule_IsValid(ctypes.c_void_p(capsule), CAPSULE):
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        _alive.pop(api.PyCapsule_GetPointer(ctypes.c_void_p(capsule), CAPSULE), None)


def to_dlpack(array: Any, options: dict[str, Any]) -> Any:
    """A capsule of `array`.

    Parameters
    ----------
    array : Array
        On a CUDA device.
    options : dict
        DLPack's keywords: ``stream`` is the consumer's, which then waits for the array's contents; ``copy``.

    Raises
    ------
    BufferError
        For a dtype that DLPack has not, or another device asked for.
    """
    wanted = options.get("dl_device")
    if wanted is not None and tuple(wanted) != array.device.dlpack_device:
        raise BufferError(f"{array!r} cannot be exported to DLPack device {tuple(wanted)}; copy it there first")
    if array.dtype.kind not in CODES:
        raise BufferError(f"DLPack has no dtype {array.dtype}")
    if not array._view.flags.writeable and not options.get("copy"):
        raise BufferError(
            f"{array!r} is read-only, which DLPack's capsules of this version cannot say; copy=True works"
        )
    if options.get("copy"):
        array = array.copy()
    _order(array.device, options.get("stream"))
    n, size = len(array.shape), array.itemsize
    shape, strides = (ctypes.c_int64 * n)(*array.shape), (ctypes.c_int64 * n)(*(s // size for s in array.strides))
    managed = DLManagedTensor()
    tensor = managed.tensor
    tensor.data, tensor.ndim = array.address, n
    tensor.device_type, tensor.device_id = array.device.dlpack_device
    tensor.code, tensor.bits, tensor.lanes = CODES[array.dtype.kind], 8 * size, 1
    tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _delete
    address = ctypes.addressof(managed)
    _alive[address] = managed, shape, strides, array
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(address, CAPSULE, ctypes.cast(_destroy, ctypes.c_void_p))


def _order(device: Any, consumer: Any) -> None:
    """Let the consumer's stream wait for what was put into the current one."""
    if consumer == _NO_WAIT:
        return
    theirs = 0 if consumer is None or consumer == _LEGACY else int(consumer)  # none named: the default stream
    ours = device.handle_of(None)
    if theirs != ours:
        event = Event(device, timing=False)
        cu = device.context.enter()
        cu.cuEventRecord(event.handle, ours)
        cu.cuStreamWaitEvent(theirs, event.handle, 0)


def adopt_dlpack(value: Any) -> Any:
    """A Sterna array that shares the memory of another library's array, which has DLPack alone.

    Raises
    ------
    TypeError
        For a dtype no device has, or an array that its library does not share.
    """
    from sterna.array.array import Array, checked_dtype

    device: Any = device_named(f"cuda:{value.__dlpack_device__()[1]}")
    records = getattr(active_stream(device), "is_capturing", False)
    ours = device.loader if records else device.handle_of(None)  # a recording cannot wait for what is outside of it
    try:
        tensor = ImportedTensor(value, ours or _LEGACY)
    except (BufferError, ValueError) as error:
        raise TypeError(f"DLPack gives no access to it: {error}") from None
    if records:
        cu = device.context.enter()
        with relaxed_capture(cu):
            cu.cuStreamSynchronize(ours)
    dtype = checked_dtype(tensor.dtype)
    nbytes = int(np.prod(tensor.shape, dtype=np.int64)) * dtype.itemsize
    memory = ForeignMemory(tensor, tensor.address, nbytes)
    return Array(shadow(tensor, tensor.address, tensor.shape, tensor.strides, dtype), memory, device)
