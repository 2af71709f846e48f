"""Launch arguments packed by native code: the runtime half of `sterna.compiler.codegen.cpu.packing`.

A kernel that has swept through memory leaves nothing of Python in the processor's caches, and each attribute of an
array that the next launch asks for costs a microsecond then; the native function reads the same in a few lines of
memory.  It relies on where CPython and NumPy keep things, so `_is_as_expected` first compares some objects' memory
with what Python says of them; on any difference the arguments are packed in Python.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from sterna.abi import KEY_FLAGS, ArgLayout, flat_codes
from sterna.host_abi import PACK, PACK_KINDS, PACK_WORDS
from sterna.targets.cpu.hostcode import host_functions
from sterna.types import ArrayType, Type

__all__ = ["NativePacker", "native_packer"]

_PROTOTYPE = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p)
_KINDS = {name: n for n, name in enumerate(PACK_KINDS)}


class NativePacker:
    """Packs arguments like those it was made for.

    Attributes
    ----------
    function : callable
        ``function(args, plan, out)`` fills the bytes object `out`, which nobody else has yet, and gives 0; or it gives
        1 because an argument is of another kind.
    plan : int
        Its second argument.
    size : int
        Bytes of `out`.
    """

    __slots__ = ("_kept", "_words", "function", "plan", "size")

    def __init__(self, function: Any, arguments: Sequence[Sequence[int]], size: int, kept: Any) -> None:
        integer = ctypes.cast(ctypes.pythonapi.PyLong_AsLongLongAndOverflow, ctypes.c_void_p).value or 0
        words = [len(arguments), tuple.__basicsize__, integer]  # as `PACK_HEAD` has them
        for argument in arguments:
            words += [0] * (-len(words) % PACK_WORDS)
            words += argument
        self._kept = kept  # the objects whose addresses are in the plan
        self._words = (ctypes.c_uint64 * len(words))(*words)
        self.function, self.plan, self.size = function, ctypes.addressof(self._words), size


def native_packer(host: bytes, layout: ArgLayout, types: Sequence[Type], args: Sequence[Any]) -> NativePacker | None:
    """A packer for arguments like these, or None where only Python can pack them.

    Parameters
    ----------
    host : bytes
        Object of the host functions.
    layout : ArgLayout
        Of the signature.
    types : sequence of Type
        The signature.
    args : sequence
        Arguments of that signature.
    """
    if not _is_as_expected():
        return None
    arguments, field = [], 0
    for arg, t in zip(args, types, strict=True):
        codes = flat_codes(t)
        words = _words_of(arg, t, codes, layout.fields[field].offset if codes else 0)
        if words is None:
            return None
        arguments.append(words)
        field += len(codes)
    kept = [arg.dtype for arg in args if type(arg) is np.ndarray]
    return NativePacker(_function(host), arguments, layout.size, kept)


def _words_of(arg: Any, t: Type, codes: str, offset: int) -> tuple[int, ...] | None:
    """Words of the plan for one argument, in the order of `PACK_ARGUMENT`."""
    cls = type(arg)
    if isinstance(t, ArrayType) and cls is np.ndarray:
        kind = _KINDS["array" if t.layout == "C" else "strided"]
        return kind, id(np.ndarray), id(arg.dtype), arg.ndim, arg.flags.num & KEY_FLAGS, offset
    if (cls, codes) in ((float, "d"), (int, "q")):
        return _KINDS[cls.__name__], id(cls), 0, 0, 0, offset
    return None


@cache
def _function(host: bytes) -> Any:
    return _PROTOTYPE(host_functions(host).entry(PACK))


@cache
def _is_as_expected() -> bool:
    """Whether objects lie in memory as the native function reads them."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8 or ctypes.sizeof(ctypes.c_int) != 4:
        return False
    arrays = (np.zeros((3, 5), np.float32)[:, ::2], np.arange(7), np.array(2.5), np.zeros((0, 2), np.int8).T)
    return _number_is_as_expected() and all(_array_is_as_expected(array) for array in arrays)


def _number_is_as_expected() -> bool:
    items = 1.5, -(2**40)
    address = id(items)
    return (
        _word(address + 16) == len(items)
        and _word(address + tuple.__basicsize__) == id(items[0])
        and _word(address + tuple.__basicsize__ + 8) == id(items[1])
        and _word(address + 8) == id(tuple)
        and ctypes.c_double.from_address(id(items[0]) + 16).value == items[0]
    )


def _array_is_as_expected(array: np.ndarray) -> bool:
    address, n = id(array), array.ndim
    return (
        _word(address + 8) == id(np.ndarray)
        and _word(address + 16) == array.__array_interface__["data"][0]
        and ctypes.c_int.from_address(address + 24).value == n
        and (ctypes.c_int64 * n).from_address(_word(address + 32))[:] == list(array.shape)
        and (ctypes.c_int64 * n).from_address(_word(address + 40))[:] == list(array.strides)
        and _word(address + 56) == id(array.dtype)
        and ctypes.c_int.from_address(address + 64).value & KEY_FLAGS == array.flags.num & KEY_FLAGS
    )


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value
