"""Scalar types by name: NumPy's own, so ``sterna.float32 is numpy.float32``, plus the storage-only bfloat16."""

from __future__ import annotations

import numpy as np

from sterna.language.context import overlay_operation

__all__ = [
    "StorageType", "bfloat16", "bool_", "complex128", "complex64", "float16", "float32", "float64", "int16", "int32",
    "int64", "int8", "uint16", "uint32", "uint64", "uint8",
]  # fmt: skip


class StorageType:
    """An element type that NumPy has no scalar of: loaded as float32, rounded to nearest even when stored.

    Attributes
    ----------
    name : str
        The device type's name (`sterna.types.scalar_named`).
    itemsize : int
        Bytes of one element.
    """

    __slots__ = ("itemsize", "name")

    def __init__(self, name: str, itemsize: int) -> None:
        self.name, self.itemsize = name, itemsize
        overlay_operation(self, name)  # to the compiler it is a name of the language, as the functions are

    def __repr__(self) -> str:
        return f"sterna.{self.name}"


bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float16, float32, float64 = np.float16, np.float32, np.float64
complex64, complex128 = np.complex64, np.complex128
bfloat16 = StorageType("bfloat16", 2)
"""Upper half of a float32, for memory only (``shared.array(64, sterna.bfloat16)``)."""
