"""Arrays and the rest of the world: making them, and NumPy's and DLPack's protocols.

The only place that tells memory the host can read from other memory: `read`, `write` and the protocols use
the NumPy view directly for the former and the device's copies for the latter.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from sterna.array.memory import HostMemory
from sterna.runtime.devices import current_device, device_named, device_of
from sterna.runtime.foreign import adopt, is_foreign

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

    from sterna.array.array import Array
    from sterna.targets.base import Device

__all__ = ["empty", "empty_like", "from_dlpack", "full", "read", "to_device", "write", "zeros"]

_DLPACK_CPU = 1


# ---- making arrays -------------------------------------------------------------------------------


def empty(shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, device: Device | str | None = None) -> Array:
    """A new array on a device, not initialised.

    Parameters
    ----------
    shape : int or tuple of int
        Extents.
    dtype : dtype
        Element type.
    device : Device or str, optional
        Where; the current device without it.
    """
    from sterna.array.array import Array

    extents = shape if isinstance(shape, tuple | list) else (shape,)
    return Array.allocate(tuple(operator.index(n) for n in extents), np.dtype(dtype), _device(device))


def full(
    shape: int | tuple[int, ...], value: ArrayLike, dtype: DTypeLike | None = None, device: Device | str | None = None
) -> Array:
    """A new array filled with `value`, whose dtype it has unless one is given."""
    made = empty(shape, np.asarray(value).dtype if dtype is None else dtype, device)
    made.fill(value)
    return made


def zeros(shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, device: Device | str | None = None) -> Array:
    """A new array of zeros (every byte is 0)."""
    made = empty(shape, dtype, device)
    fill = getattr(made.device, "fill_bytes", None)
    if fill is None:
        write(made, np.zeros((), made.dtype))
    else:
        fill(made.address, made.nbytes)
    return made


def empty_like(other: Any, device: Device | str | None = None) -> Array:
    """A new C-ordered array with the shape and dtype of `other`."""
    return empty(tuple(other.shape), other.dtype, device)


def to_device(values: Any, device: Device | str | None = None) -> Array:
    """Copy values to a device.

    Parameters
    ----------
    values : array_like or Array
        NumPy array, nested sequence, number, or an array of another library that NumPy can read.
    device : Device or str, optional
        Where; the current device without it.

    Returns
    -------
    Array
        A new array, C-ordered; later changes of `values` do not reach it.

    Raises
    ------
    TypeError
        For a dtype no device has.
    """
    if is_foreign(values):
        values = adopt(values)
    if not getattr(type(values), "__sterna_array__", False):
        values = np.asarray(values)
    else:
        values.device.synchronize()
    made = empty(values.shape, values.dtype, device)
    write(made, values)
    return made


def from_dlpack(source: Any) -> Array:
    """An array that shares the memory of another library's array (no copy).

    Raises
    ------
    ValueError
        When the memory is read-only, which kernels could not respect.
    BufferError
        When `source` is on a device that Sterna cannot use.
    """
    from sterna.array.array import Array, checked_dtype

    if is_foreign(source):
        adopted: Array = adopt(source)
        return adopted
    view = source if type(source) is np.ndarray else _imported(source)
    if not view.flags.writeable:
        raise ValueError("the array is read-only and its memory cannot be shared; sterna.to_device(…) copies it")
    checked_dtype(view.dtype)
    return Array(view, _BorrowedMemory(view), device_named("cpu"))


def _imported(source: Any) -> np.ndarray:
    """NumPy's view of a DLPack exporter's memory.

    Before 2.1 NumPy marks every such view read-only, because DLPack could not say then: it is writable here.
    """
    view = np.from_dlpack(source)
    if view.flags.writeable or np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        return view
    return np.asarray(_Writable(view))


class _Writable:
    """Carrier of a view's array interface without its read-only flag."""

    def __init__(self, view: np.ndarray) -> None:
        self.view = view
        interface = view.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


class _BorrowedMemory(HostMemory):
    """Host memory that belongs to another library; the view keeps it alive."""

    __slots__ = ("owner",)

    def __init__(self, owner: np.ndarray) -> None:
        self.owner = owner
        self.address, self.nbytes = int(owner.__array_interface__["data"][0]), owner.nbytes
        self.buffer = np.empty(0, np.uint8)


def _device(given: Device | str | None) -> Device:
    return current_device() if given is None else device_of(given)


# ---- values (the caller has synchronised) --------------------------------------------------------


def _is_host(array: Array) -> bool:
    return array._memory.buffer is not None


def read(array: Array) -> np.ndarray:
    """A new NumPy array with the elements."""
    if _is_host(array):
        return array._view.copy()
    if array.is_contiguous:
        host = np.empty(array.shape, array.dtype)
        array.device.copy_out(host, array.address)
        return host
    _, _, view = _staged(array)
    return view.copy()


def write(array: Array, value: ArrayLike | Array) -> None:
    """Assign `value` (broadcast) to the elements."""
    if getattr(type(value), "__sterna_array__", False):
        if _copied_on_device(array, value):
            return
        value = value.copy_to_host()  # type: ignore[union-attr]
    if _is_host(array):
        array._view[...] = value
    elif array.is_contiguous:
        host = np.empty(array.shape, array.dtype)
        host[...] = value
        array.device.copy_in(array.address, host)
    else:
        start, staging, view = _staged(array)
        view[...] = value
        array.device.copy_in(start, staging)


def _copied_on_device(array: Array, value: Any) -> bool:
    """Copy between devices without the host, where both arrays allow it."""
    copy = getattr(array.device, "copy_device", None)
    if copy is None or array.dtype != value.dtype or array.shape != value.shape:
        return False
    if not (array.is_contiguous and value.is_contiguous) or _is_host(array) or _is_host(value):
        return False
    copied: bool = array.nbytes == 0 or copy(array.address, value.device, value.address, array.nbytes)
    return copied


def _staged(array: Array) -> tuple[int, np.ndarray, np.ndarray]:
    """Device address, host copy of the bytes that a strided array spans, and the array's view of that copy."""
    steps = [stride * (extent - 1) for stride, extent in zip(array.strides, array.shape, strict=True)]
    low = sum(step for step in steps if step < 0)
    high = sum(step for step in steps if step > 0) + array.itemsize
    staging = np.empty(high - low if array.size else 0, np.uint8)
    if array.size:
        array.device.copy_out(staging, array.address + low)
    view: np.ndarray = np.ndarray(array.shape, array.dtype, staging, -low if array.size else 0, array.strides)
    return array.address + low, staging, view


# ---- protocols -----------------------------------------------------------------------------------


def to_numpy(array: Array, dtype: DTypeLike | None, copy: bool | None) -> np.ndarray:
    """What `numpy.asarray` and `numpy.array` get."""
    if not _is_host(array):
        if copy is False:
            raise ValueError(f"{array!r} is not in host memory; numpy can only have a copy")
        host = array.copy_to_host()
        return host if dtype is None else host.astype(dtype, copy=False)
    array.device.synchronize()
    return np.array(array._view, dtype, copy=copy)


def array_interface(array: Array) -> dict[str, Any]:
    """NumPy's array interface; AttributeError (as if there were none) where it cannot say the truth."""
    names = array.dtype.names
    if not _is_host(array) or names is not None:  # padding would become fields of its own: __array__ serves those
        raise AttributeError("__array_interface__")
    array.device.synchronize()
    return {**array._view.__array_interface__}


def dlpack(array: Array, options: dict[str, Any]) -> Any:
    """A DLPack capsule, made by NumPy for host memory."""
    export = getattr(array.device, "to_dlpack", None)
    if export is not None:
        return export(array, options)
    if not _is_host(array):
        raise BufferError(f"{array!r} cannot be exported by DLPack")
    array.device.synchronize()
    return array._view.__dlpack__(**options)


def dlpack_device(array: Array) -> tuple[int, int]:
    """DLPack's device of the array."""
    kind, index = getattr(array.device, "dlpack_device", (_DLPACK_CPU, 0))
    return kind, index
