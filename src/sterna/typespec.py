"""Types written down: what `Kernel.specialize` and the command line accept instead of real arguments.

``"float32"``, ``"int"`` (a Python int), ``"float32[:]"``, ``"float32[:, :]"`` (C-ordered), ``"float32[:, :, A]"`` (any
strides), ``"object"``, ``"none"``; NumPy dtypes and scalar classes, Python's ``int``/``float``/``bool``/
``complex``; a `sterna.types` value; or a value whose type is meant.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sterna.errors import SignatureError
from sterna.typeof import type_of
from sterna.types import (
    BOOL,
    NONE,
    OPAQUE,
    PYCOMPLEX,
    PYFLOAT,
    PYINT,
    TYPE_TAG,
    ArrayType,
    LiteralType,
    RecordRefType,
    RecordType,
    Scalar,
    SimpleType,
    StructType,
    TupleType,
    Type,
    from_dtype,
    scalar_named,
)

__all__ = ["parse_type", "type_from"]

_CLASSES: dict[Any, Type] = {bool: BOOL, int: PYINT, float: PYFLOAT, complex: PYCOMPLEX, type(None): NONE}
_NAMED: dict[str, Type] = {"none": NONE, "object": OPAQUE, "type": TYPE_TAG}
_TYPE_CLASSES = (
    Scalar, SimpleType, LiteralType, RecordType, RecordRefType, ArrayType, TupleType, StructType,
)  # fmt: skip
_ARRAY = re.compile(r"(?P<element>\w+)\[(?P<axes>[:,\s]*?)(,\s*(?P<layout>[CFA]))?\]")


def parse_type(text: str) -> Type:
    """The type that `text` spells.

    Raises
    ------
    SignatureError
        With the spellings that are allowed.
    """
    text = text.strip()
    if text in _NAMED:
        return _NAMED[text]
    try:
        return scalar_named(text)
    except KeyError:
        pass
    found = _ARRAY.fullmatch(text)
    if found:
        try:
            element = scalar_named(found["element"])
        except KeyError:
            pass
        else:
            axes = [axis.strip() for axis in found["axes"].split(",")]
            if all(axis == ":" for axis in axes) and not element.weak:
                return ArrayType(element, len(axes), found["layout"] or "C")  # type: ignore[arg-type]
    raise SignatureError(
        f"{text!r} is not a type; write a scalar (float32, int64, bool, int, float), an array (float32[:], "
        "float32[:, :], int64[:, A] for any strides), object or none"
    )


def type_from(given: Any) -> Type:
    """The type meant by `given`: a type, its spelling, a dtype or scalar class, or a sample value."""
    if isinstance(given, _TYPE_CLASSES):
        return given
    if isinstance(given, str):
        return parse_type(given)
    if given in _CLASSES if isinstance(given, type) else False:
        return _CLASSES[given]
    if isinstance(given, np.dtype) or (isinstance(given, type) and issubclass(given, np.generic)):
        try:
            found = from_dtype(np.dtype(given))
        except (KeyError, TypeError):
            raise SignatureError(f"dtype {given} is not supported on any device") from None
        if isinstance(found, RecordType):
            raise SignatureError(f"a structured dtype is passed in arrays only; give an array of {given}")
        return found
    return type_of(given)
