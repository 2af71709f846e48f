"""`Array`: an n-dimensional array in the memory of one device.

Indexing, reshaping and transposing give views by NumPy's own rules (they are computed on the NumPy view
that `sterna.array.memory` explains).  Reading and writing from the host go through the device's copies, after
waiting for its kernels; a kernel's pending exception is raised there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sterna.array import interop
from sterna.array.memory import Memory, view_of
from sterna.typeof import is_aligned
from sterna.types import from_dtype

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

    from sterna.targets.base import Device

__all__ = ["Array"]

_KEY_FLAGS = 0x1 | 0x2 | 0x100 | 0x400  # as sterna.runtime.signature: contiguous C and F, aligned, writeable


class Array:
    """An array on a device.

    Made by `sterna.to_device`, `sterna.empty`, `sterna.zeros`, `sterna.full` and `sterna.from_dlpack`.
    Kernels take it as an argument or capture it; NumPy reads it through `numpy.asarray`.

    Attributes
    ----------
    device : Device
        Where it lives.
    address : int
        Device address of its first element.
    shape, strides : tuple of int
        Extents, and steps in bytes.
    dtype : numpy.dtype
        Element type; may be structured.
    aligned : bool
        Whether every element lies where its type wants it; a view on packed records may not.

    Examples
    --------
    >>> import numpy as np, sterna
    >>> a = sterna.to_device(np.arange(6.0).reshape(2, 3))
    >>> a[1, ::2].copy_to_host()
    array([3., 5.])
    """

    __sterna_array__ = True
    __slots__ = (
        "__sterna_key__", "__sterna_words__", "__weakref__", "_memory", "_view",
        "address", "aligned", "device", "dtype", "shape", "strides",
    )  # fmt: skip

    def __init__(self, view: np.ndarray, memory: Memory, device: Device) -> None:
        self._view, self._memory, self.device = view, memory, device
        self.address = int(view.__array_interface__["data"][0]) + getattr(memory, "shift", 0)
        self.shape: tuple[int, ...] = view.shape
        self.strides: tuple[int, ...] = view.strides
        self.__sterna_words__ = (self.address, *self.shape)
        self.dtype: np.dtype[Any] = view.dtype
        self.aligned = is_aligned(view)
        key = (view.dtype, view.ndim, view.flags.num & _KEY_FLAGS)
        self.__sterna_key__ = key if self.aligned else (*key, "unaligned")

    @classmethod
    def allocate(cls, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Array:
        """A new C-ordered array, not initialised.

        Raises
        ------
        TypeError
            For a dtype no device has.
        ValueError
            For a negative extent.
        """
        checked_dtype(dtype)
        if any(extent < 0 for extent in shape):
            raise ValueError(f"shape = {shape} has a negative extent")
        memory = device.allocate(math.prod(shape) * dtype.itemsize)
        return cls(view_of(memory, shape, dtype), memory, device)

    # ---- facts -------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._view.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._view.nbytes

    @property
    def is_contiguous(self) -> bool:
        """True when elements lie in C order without gaps."""
        return self._view.flags.c_contiguous

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array with no axes")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<sterna.Array {self.dtype} {self.shape} on {self.device.name}>"

    # ---- views -------------------------------------------------------------------------------

    def _derive(self, view: np.ndarray) -> Array:
        return Array(view, self._memory, self.device)

    def __getitem__(self, index: Any) -> Any:
        """A view for basic indices, a field's view for a field name, the element when every axis is given."""
        if isinstance(index, str):
            return self._derive(self._view[index])
        items = _basic(index)
        view = self._view[(*items, ...)] if Ellipsis not in items else self._view[items]
        found = self._derive(view)
        if view.ndim == 0 and Ellipsis not in items:
            return found.copy_to_host()[()]
        return found

    def __setitem__(self, index: Any, value: ArrayLike | Array) -> None:
        """Copy values from the host, or from another array, into elements."""
        target = self[index] if isinstance(index, str) else self._derive(self._view[_with_rest(_basic(index))])
        target.fill(value)

    def __iter__(self) -> Iterator[Any]:
        for position in range(len(self)):
            yield self[position]

    def reshape(self, *shape: Any) -> Array:
        """A view of another shape (one extent may be -1).

        Raises
        ------
        ValueError
            When the sizes differ, or elements are laid out so that only a copy could have this shape.
        """
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        view = self._view.view()
        try:
            view = _reshaped(view, tuple(wanted))
        except (AttributeError, ValueError) as error:
            raise ValueError(
                f"cannot view {self!r} with strides {self.strides} as shape {tuple(wanted)} ({error}); "
                "a copy can have any shape of the same size: array.copy().reshape(…)"
            ) from None
        return self._derive(view)

    def ravel(self) -> Array:
        """All elements along one axis: a view where that is possible, else a copy."""
        return self.reshape(-1) if self.is_contiguous else self.copy().reshape(-1)

    def transpose(self, *axes: Any) -> Array:
        """A view with permuted axes; reversed without arguments."""
        return self._derive(self._view.transpose(*axes))

    @property
    def T(self) -> Array:
        """A view with reversed axes."""
        return self._derive(self._view.T)

    def view(self, dtype: DTypeLike) -> Array:
        """The same bytes read as another dtype, by NumPy's rules."""
        return self._derive(self._view.view(checked_dtype(np.dtype(dtype))))

    # ---- values ------------------------------------------------------------------------------

    def copy_to_host(self, out: np.ndarray | None = None) -> np.ndarray:
        """Wait for the device's kernels and copy the elements to a NumPy array.

        Parameters
        ----------
        out : numpy.ndarray, optional
            Filled and returned; same shape and dtype.

        Raises
        ------
        ValueError
            When `out` does not fit.
        Exception
            What a kernel raised since the last synchronise.
        """
        if out is not None and (out.shape != self.shape or out.dtype != self.dtype):
            raise ValueError(f"out is {out.dtype} {out.shape}; needed is {self.dtype} {self.shape}")
        self.device.synchronize()
        host = interop.read(self)
        if out is None:
            return host
        out[...] = host
        return out

    def copy_from_host(self, values: ArrayLike) -> Array:
        """Copy `values` (same shape) into this array, converting the dtype as assignment does; gives the array."""
        host = np.asarray(values)
        if host.shape != self.shape:
            raise ValueError(f"values have shape {host.shape}; the array has {self.shape}")
        self.fill(host)
        return self

    copy_to_device = copy_from_host

    def fill(self, value: ArrayLike | Array) -> None:
        """Set every element to `value`, which may be anything that broadcasts to the array's shape."""
        self.device.synchronize()
        interop.write(self, value)

    def copy(self) -> Array:
        """A new C-ordered array on the same device with the same elements."""
        made = Array.allocate(self.shape, self.dtype, self.device)
        made.fill(self)
        return made

    def __copy__(self) -> Array:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.copy()

    def __reduce__(self) -> Any:
        raise TypeError("a device array cannot be pickled; pickle array.copy_to_host() instead")

    def item(self) -> Any:
        """The only element, as a Python number."""
        return self.copy_to_host().item()

    # ---- other libraries ---------------------------------------------------------------------

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """The elements as NumPy sees them: without a copy where the host can read the memory."""
        return interop.to_numpy(self, dtype, copy)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface, for memory that the host can read; waits for the device's kernels."""
        return interop.array_interface(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The array interface of CUDA libraries; AttributeError on any other device."""
        found: dict[str, Any] = self.device.array_interface(self)  # type: ignore[attr-defined]
        return found

    def __dlpack__(self, **options: Any) -> Any:
        """A DLPack capsule of this array (no copy); waits for the device's kernels."""
        return interop.dlpack(self, options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's (device type, index)."""
        return interop.dlpack_device(self)


def checked_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """`dtype`, if devices have it.

    Raises
    ------
    TypeError
        If not, with what is allowed.
    """
    try:
        from_dtype(dtype)
    except KeyError:
        raise TypeError(
            f"arrays of dtype {dtype} are not supported; allowed are bool, (u)int8-64, float16/32/64, complex64/128 "
            "in native byte order, and structured dtypes of these"
        ) from None
    return dtype


def _basic(index: Any) -> tuple[Any, ...]:
    """The items of a basic index.

    Raises
    ------
    TypeError
        For anything that would need a gather (lists, arrays, masks).
    """
    items = index if isinstance(index, tuple) else (index,)
    for item in items:
        if item is None or item is Ellipsis or isinstance(item, slice):
            continue
        if isinstance(item, bool | np.bool_) or not isinstance(item, int | np.integer):
            raise TypeError(
                f"an index of type {type(item).__name__} is not possible on a device array; allowed are integers, "
                "slices, None, … and a field name. For others use numpy.asarray(array)"
            )
    return items


def _with_rest(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index with an ellipsis, so that NumPy gives a view even where one element is meant."""
    return items if Ellipsis in items else (*items, ...)


def _reshaped(view: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Reshape without ever copying (a shadow cannot be read)."""
    size = math.prod(extent for extent in shape if extent != -1)
    if -1 in shape and size:
        position = shape.index(-1)
        shape = (*shape[:position], view.size // size, *shape[position + 1 :])
    if math.prod(shape) != view.size:
        raise ValueError(f"{view.size} elements do not fit")
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        return np.reshape(view, shape, copy=False)
    view.shape = shape
    return view
