"""The device type of a Python value: one function for launch arguments and captures alike.

Recognises values by small protocols instead of imports, so that it stays at the bottom of the package:
``__sterna_array__`` marks a Sterna array (it then has `dtype`, `shape` and `strides`).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from sterna.types import (
    BOOL,
    NONE,
    OPAQUE,
    PYCOMPLEX,
    PYFLOAT,
    PYINT,
    TYPE_TAG,
    ArrayType,
    Layout,
    LiteralType,
    StructType,
    TupleType,
    Type,
    from_dtype,
    itemsize,
    natural_align,
)

__all__ = ["array_layout", "array_type", "is_aligned", "is_struct_class", "struct_fields", "type_of"]

_PYTHON_NUMBERS: dict[type, Type] = {
    bool: BOOL, int: PYINT, float: PYFLOAT, complex: PYCOMPLEX, type(None): NONE,
}  # fmt: skip


def array_layout(shape: Sequence[int], strides: Sequence[int], size: int) -> Layout:
    """``C`` or ``F`` when elements are contiguous in that order (C wins a tie), else ``A``."""
    if 0 in shape:
        return "C"
    for name, axes in (("C", range(len(shape) - 1, -1, -1)), ("F", range(len(shape)))):
        expected = size
        for axis in axes:
            if shape[axis] != 1 and strides[axis] != expected:
                break
            expected *= shape[axis]
        else:
            return name  # type: ignore[return-value]
    return "A"


def array_type(value: Any) -> ArrayType:
    """Type of a NumPy or Sterna array.

    Raises
    ------
    TypeError
        For a dtype no device has, or elements of a NumPy array that are not aligned.
    """
    try:
        element = from_dtype(value.dtype)
    except KeyError:
        raise TypeError(
            f"arrays of dtype {value.dtype} are not supported; allowed are bool, (u)int8-64, float16/32/64, "
            "complex64/128 in native byte order, and structured dtypes of these"
        ) from None
    if isinstance(value, np.ndarray):
        flags = value.flags
        if not flags.aligned and value.dtype.names is None:
            raise TypeError("the array's elements are not aligned in memory; pass a copy: array.copy()")
        if flags.c_contiguous:
            layout: Layout = "C"
        else:
            layout = "F" if flags.f_contiguous else "A"
        return ArrayType(element, value.ndim, layout, readonly=not flags.writeable)
    shape, strides = value.shape, value.strides
    layout = array_layout(shape, strides, itemsize(element))
    return ArrayType(element, len(shape), layout, align=0 if getattr(value, "aligned", True) else 1)


def is_aligned(view: np.ndarray) -> bool:
    """Whether every element of an array lies where its type wants it (`sterna.types.natural_align`)."""
    if view.dtype.names is None:
        return view.flags.aligned
    try:
        align = natural_align(from_dtype(view.dtype))
    except KeyError:
        return True
    return not any(place % align for place in (view.__array_interface__["data"][0], *view.strides))


def is_struct_class(cls: type) -> bool:
    """True for a named tuple class or a frozen dataclass: values of it travel by value."""
    if issubclass(cls, tuple):
        return hasattr(cls, "_fields")
    parameters = getattr(cls, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


def struct_fields(cls: type) -> tuple[str, ...]:
    """Field names of a class for which `is_struct_class` is true, in order."""
    if issubclass(cls, tuple):
        return tuple(cls._fields)  # type: ignore[attr-defined]
    return tuple(f.name for f in dataclasses.fields(cls))  # type: ignore[arg-type]


def _struct_type(value: Any) -> StructType:
    cls = type(value)
    names = struct_fields(cls)
    items = tuple(type_of(getattr(value, name)) for name in names)
    return StructType(cls.__name__, names, items, is_tuple=isinstance(value, tuple))


def type_of(value: Any) -> Type:
    """Device type of `value`.

    Python numbers are weak; an `enum.IntEnum` member is an int, any other enum member an object; a `str` is
    a literal; tuples, named tuples and frozen dataclasses go by value; classes are type tags; everything
    else is an opaque object.

    Raises
    ------
    TypeError
        For an array whose dtype or alignment no device has, with what is allowed.
    """
    cls = type(value)
    found = _PYTHON_NUMBERS.get(cls)
    if found is not None:
        return found
    if isinstance(value, np.ndarray):
        return array_type(value)
    if isinstance(value, np.generic):
        try:
            return from_dtype(value.dtype) if value.dtype.names is None else array_type(np.asarray(value))
        except KeyError:
            raise TypeError(
                f"NumPy scalars of dtype {value.dtype} are not supported; allowed are bool, (u)int8-64, float16/32/64 "
                "and complex64/128"
            ) from None
    if getattr(cls, "__sterna_array__", False):
        return array_type(value)
    if isinstance(value, enum.Enum) and not isinstance(value, int):
        return OPAQUE
    if isinstance(value, str):
        return LiteralType(str(value))
    if isinstance(value, type):
        return TYPE_TAG
    if is_struct_class(cls):
        return _struct_type(value)
    if isinstance(value, tuple):
        return TupleType(tuple(type_of(item) for item in value))
    for number, t in ((int, PYINT), (float, PYFLOAT), (complex, PYCOMPLEX)):
        if isinstance(value, number):
            return t
    return OPAQUE
