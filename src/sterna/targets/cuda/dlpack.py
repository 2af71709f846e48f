"""DLPack capsules of arrays on CUDA devices (unversioned ``dltensor``, as every consumer takes).

The structures are those of dlpack.h; a capsule's tensor keeps the array alive until the consumer calls its deleter.
"""

from __future__ import annotations

import ctypes
from typing import Any

from sterna.targets.cuda.streams import Event

__all__ = ["to_dlpack"]

_NAME = b"dltensor"
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_LEGACY, _NO_WAIT = 1, -1


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER))


_alive: dict[int, tuple[Any, ...]] = {}
"""Address of an exported structure → what must live as long as it."""


@_DELETER  # type: ignore[untyped-decorator]
def _delete(address: int) -> None:
    _alive.pop(address, None)


@_DESTRUCTOR  # type: ignore[untyped-decorator]
def _destroy(capsule: int) -> None:
    """A capsule nobody consumed: its tensor goes with it."""
    api = ctypes.pythonapi
    if api.PyCapsule_IsValid(ctypes.c_void_p(capsule), _NAME):
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        _alive.pop(api.PyCapsule_GetPointer(ctypes.c_void_p(capsule), _NAME), None)


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
    if array.dtype.kind not in _CODES:
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
    managed = _Managed()
    tensor = managed.tensor
    tensor.data, tensor.ndim = array.address, n
    tensor.device_type, tensor.device_id = array.device.dlpack_device
    tensor.code, tensor.bits, tensor.lanes = _CODES[array.dtype.kind], 8 * size, 1
    tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _delete
    address = ctypes.addressof(managed)
    _alive[address] = managed, shape, strides, array
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(address, _NAME, ctypes.cast(_destroy, ctypes.c_void_p))


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
