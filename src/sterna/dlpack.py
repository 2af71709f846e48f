"""DLPack's structures, and reading what a capsule of another library holds (dlpack.h, the unversioned ``dltensor``).

The bottom of the package: the type of a captured array, and sharing its memory, both begin with it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

__all__ = ["CAPSULE", "CODES", "DELETER", "DEVICES", "DLManagedTensor", "DLTensor", "ImportedTensor"]

CAPSULE, _USED = b"dltensor", b"used_dltensor"
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
"""Kind of a NumPy dtype → DLPack's type code."""
DEVICES = {2: "cuda", 13: "cuda"}
"""DLPack's device types of GPU memory → the target that shares it: CUDA's own, and managed."""


class DLTensor(ctypes.Structure):
    """An array."""

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


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""What the consumer of a tensor calls when it needs it no more."""


class DLManagedTensor(ctypes.Structure):
    """An array that somebody owns."""

    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER))


_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))


class ImportedTensor:
    """An array of another library, taken over from its capsule; given back when nothing refers to this any more.

    Parameters
    ----------
    value : object
        With ``__dlpack__``.
    stream : int, optional
        Passed on: the stream that will wait for the contents (1: the default one, -1: none).

    Attributes
    ----------
    address : int
        Of the first element.
    shape, strides : tuple of int
        Extents, and steps in bytes.
    dtype : numpy.dtype
        Of the elements.

    Raises
    ------
    TypeError
        For elements that NumPy has no dtype for.
    BufferError
        When `value` cannot be exported.
    """

    def __init__(self, value: Any, stream: int | None) -> None:
        self._managed: Any = None
        capsule = value.__dlpack__() if stream is None else value.__dlpack__(stream=stream)
        address = _get_pointer(capsule, CAPSULE)  # ValueError for anything else
        tensor = DLManagedTensor.from_address(address).tensor
        kind = next((kind for kind, code in CODES.items() if code == tensor.code), None)
        if kind is None or tensor.lanes != 1 or tensor.bits % 8:
            raise TypeError(f"elements of DLPack's type code {tensor.code}, {tensor.bits} bits, are not supported")
        self.dtype = np.dtype(np.bool_ if kind == "b" else f"{kind}{tensor.bits // 8}")
        self.shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
        if tensor.ndim and tensor.strides:
            self.strides = tuple(n * self.dtype.itemsize for n in tensor.strides[: tensor.ndim])
        else:
            self.strides = _c_strides(self.shape, self.dtype.itemsize)
        self.address = (tensor.data or 0) + tensor.byte_offset
        _set_name(capsule, _USED)
        self._managed = address

    def __del__(self) -> None:
        address, self._managed = self._managed, None
        if address is not None:
            deleter = DLManagedTensor.from_address(address).deleter
            if deleter:
                deleter(address)


def _c_strides(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    steps = []
    for extent in reversed(shape):
        steps.append(size)
        size *= extent
    return tuple(reversed(steps))
