"""Launch arguments: their types, a cheap dispatch key, and packing into the argument layout.

The key of an argument decides which specialisation runs; it is equal for two values exactly when their
device types are equal, and is found without building a type for the common cases.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from sterna.abi import KEY_FLAGS, ArgLayout, arg_layout
from sterna.errors import SignatureError
from sterna.relocation.roots import note_argument
from sterna.runtime.foreign import adopt, is_foreign
from sterna.typeof import type_of
from sterna.types import (
    BFLOAT16,
    OPAQUE,
    PYINT,
    TYPE_TAG,
    ArrayType,
    Scalar,
    StructType,
    TupleType,
    Type,
)

__all__ = [
    "ArgumentPacker", "adapt_argument", "address_of", "are_plain", "argument_key", "common_device",
    "first_byte", "signature_text",
]  # fmt: skip

_PLAIN = frozenset({int, float, bool, complex, type(None)})
_HOST = _PLAIN | {np.ndarray, np.bool_, *(np.dtype(code).type for code in "bhilqBHILQefdFD")}
address_of = ctypes.addressof
first_byte: Callable[[Any], Any] = ctypes.c_char.from_buffer
"""With `address_of`, where a writable array in one piece is: in a fifth of the time of the array interface."""
Put = Callable[[Any, list[Any]], None]


def are_plain(args: Sequence[Any]) -> bool:
    """True for NumPy arrays and numbers only: they go as they are, to the current device."""
    return _HOST.issuperset(map(type, args))


def common_device(args: Sequence[Any]) -> Any:
    """The one device of Sterna arrays among numbers; None for any other arguments, and without an array."""
    device = None
    for arg in args:
        cls = type(arg)
        if cls is np.ndarray:
            return None
        if getattr(cls, "__sterna_array__", False):
            if device is None:
                device = arg.device
            elif arg.device is not device:
                return None
        elif cls not in _HOST:
            return None
    return device


def argument_key(value: Any) -> Hashable:
    """A hashable that is equal for values of one device type; cheap for arrays and numbers."""
    cls: Any = type(value)
    if cls is np.ndarray:
        return value.dtype, value.ndim, value.flags.num & KEY_FLAGS
    if cls in _PLAIN:
        return cls  # type: ignore[no-any-return]
    found: Hashable = getattr(value, "__sterna_key__", None)
    return type_of(value) if found is None else found


def adapt_argument(value: Any) -> Any:
    """Turn an array of another library into one of ours, or a NumPy view if it is on the host; the rest stays as it is.

    Raises
    ------
    SignatureError
        For a masked array, whose mask a kernel would ignore; for a foreign array that cannot be shared.
    """
    cls = type(value)
    if cls in _HOST or getattr(cls, "__sterna_array__", False):
        return value
    if isinstance(value, np.generic | str | tuple):
        return np.asarray(value) if isinstance(value, np.void) else value
    if isinstance(value, np.ma.MaskedArray):
        raise SignatureError(
            "a masked array was given, and kernels ignore masks; pass array.filled(value) or array.data"
        )
    if isinstance(value, np.ndarray):
        return value
    if is_foreign(value):
        try:
            return adopt(value)
        except (TypeError, RuntimeError) as error:
            raise SignatureError(f"a {cls.__name__} cannot be passed to a kernel: {error}") from None
    return np.from_dlpack(value) if hasattr(cls, "__dlpack__") else value


def signature_text(types: Sequence[Type]) -> str:
    """The signature as keys, images and messages show it: ``(array(float32, 1, C), int)``."""
    return f"({', '.join(map(str, types))})"


class ArgumentPacker:
    """Packs the arguments of one signature into bytes.

    Parameters
    ----------
    kernel : str
        For messages.
    names : sequence of str
        Parameter names, for messages.
    types : tuple of Type
        The signature.

    Attributes
    ----------
    checks : bool
        Whether `check` has something to look at.
    """

    checks = False

    def __init__(self, kernel: str, names: Sequence[str], types: tuple[Type, ...]) -> None:
        self.layout: ArgLayout = arg_layout(types)
        self._struct = struct.Struct(self.layout.format)
        self.pack_values: Callable[..., bytes] = self._struct.pack
        self._puts = tuple(_put(t) for t in types)
        self._kernel, self._names, self._types = kernel, tuple(names), types
        self._is_words = bool(types) and all(isinstance(t, ArrayType) and t.layout == "C" for t in types)

    def pack(self, args: Sequence[Any]) -> bytes:
        """Arguments (already checked to be of this signature) as bytes.

        Raises
        ------
        SignatureError
            For a Python int that does not fit 64 bits.
        """
        values: list[Any] = []
        if self._is_words and type(args[0]) is not np.ndarray:
            for arg in args:
                values += getattr(arg, "__sterna_words__", None) or (_address(arg), *arg.shape)
        else:
            for put, arg in zip(self._puts, args, strict=True):
                put(arg, values)
        try:
            return self._struct.pack(*values)
        except struct.error:
            raise self._explain(args) from None

    def check(self, args: Sequence[Any]) -> None:
        """Hold arguments to what the kernel was promised, which is nothing here; part of `pack`."""

    def _explain(self, args: Sequence[Any]) -> SignatureError:
        for name, t, arg in zip(self._names, self._types, args, strict=True):
            try:
                ArgumentPacker(self._kernel, (name,), (t,))._struct.pack(*_values(t, arg))
            except struct.error:
                given = f"{arg!r:.60}"
                return SignatureError(
                    f"kernel {self._kernel}: argument {name} = {given} does not fit {t}"
                    + (" (64-bit signed)" if t == PYINT else "")
                )
        return SignatureError(f"kernel {self._kernel}: the arguments cannot be packed as {self._types}")


def _values(t: Type, arg: Any) -> list[Any]:
    values: list[Any] = []
    _put(t)(arg, values)
    return values


def _put(t: Type) -> Put:
    """The function that appends the fields of a value of type `t`, in layout order."""
    if isinstance(t, ArrayType):
        return _put_array if t.layout == "C" else _put_strided
    if isinstance(t, Scalar):
        if t == BFLOAT16:
            return _put_bits16
        return _put_complex if t.kind == "c" else _put_scalar
    if isinstance(t, TupleType):
        return _put_items(tuple(_put(item) for item in t.items))
    if isinstance(t, StructType):
        return _put_fields(t.names, tuple(_put(item) for item in t.items))
    if t == OPAQUE:
        return _put_object
    return _put_class if t == TYPE_TAG else _put_nothing


def _address(value: Any) -> int:
    try:
        return address_of(first_byte(value))
    except (TypeError, ValueError, BufferError):  # read-only, empty, or not in one piece
        address: int = value.__array_interface__["data"][0]
        return address


def _put_array(value: Any, out: list[Any]) -> None:
    if isinstance(value, np.ndarray):
        out.append(_address(value))
        out += value.shape
    else:
        out += value.__sterna_words__


def _put_strided(value: Any, out: list[Any]) -> None:
    _put_array(value, out)
    out += value.strides


def _put_scalar(value: Any, out: list[Any]) -> None:
    out.append(value)


def _put_bits16(value: Any, out: list[Any]) -> None:
    out.append(int(value))


def _put_complex(value: Any, out: list[Any]) -> None:
    out.append(value.real)
    out.append(value.imag)


def _put_object(value: Any, out: list[Any]) -> None:
    out.append(note_argument(value))
    out.append(note_argument(type(value)))


def _put_class(value: Any, out: list[Any]) -> None:
    out.append(note_argument(value))


def _put_nothing(value: Any, out: list[Any]) -> None:
    return


def _put_items(puts: tuple[Put, ...]) -> Put:
    def put(value: Any, out: list[Any]) -> None:
        for item_put, item in zip(puts, value, strict=True):
            item_put(item, out)

    return put


def _put_fields(names: tuple[str, ...], puts: tuple[Put, ...]) -> Put:
    def put(value: Any, out: list[Any]) -> None:
        for name, item_put in zip(names, puts, strict=True):
            item_put(getattr(value, name), out)

    return put
