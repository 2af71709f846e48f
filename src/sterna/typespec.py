"""Types written down: what `Kernel.specialize` and the command line accept instead of real arguments.

``"float32"``, ``"int"`` (a Python int), ``"float32[:]"``, ``"float32[:, :]"`` (C-ordered), ``"float32[:, :, A]"`` (any
strides), ``"object"``, ``"none"``; NumPy dtypes and scalar classes, Python's ``int``/``float``/``bool``/
``complex``; a `sterna.types` value; or a value whose type is meant.
"""

from __future__ import annotations

import inspect
import re
from types import FunctionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from sterna.errors import SignatureError
from sterna.typeof import is_struct_class, struct_fields, type_of
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

__all__ = ["annotated_type", "parse_type", "signature_types", "type_from"]

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


def signature_types(function: FunctionType) -> dict[str, Type]:
    """Device types of the parameters whose annotations name one; the others are left out.

    Annotations may be anything `type_from` takes (``np.float32``, ``"float32[:]"``, ``int``), named tuple classes and
    frozen dataclasses with such fields, ``tuple[int, float]``, or text of these.
    """
    found = {}
    try:
        annotations = inspect.get_annotations(function)
    except Exception:  # Python 3.14 evaluates them here; they may name what does not exist
        return {}
    for name, given in annotations.items():
        if name != "return":
            t = annotated_type(given, function.__globals__)
            if t is not None:
                found[name] = t
    return found


def annotated_type(given: Any, names: dict[str, Any]) -> Type | None:
    """The device type that an annotation names, or None.

    Parameters
    ----------
    given : object
        The annotation.
    names : dict
        Where names in a text are looked up.
    """
    if isinstance(given, str):
        try:
            return parse_type(given)
        except SignatureError:
            pass
        try:
            given = eval(given, dict(names))
        except Exception:  # what an annotation says need not exist outside type checking
            return None
    if given is None:
        return NONE
    if get_origin(given) is tuple:
        items = [annotated_type(item, names) for item in get_args(given)]
        return TupleType(tuple(items)) if items and None not in items else None  # type: ignore[arg-type]
    if isinstance(given, type) and is_struct_class(given):
        return _struct_type(given)
    is_spelling = isinstance(given, (*_TYPE_CLASSES, str, np.dtype))
    if not is_spelling and not (isinstance(given, type) and (given in _CLASSES or issubclass(given, np.generic))):
        return None
    try:
        return type_from(given)
    except SignatureError:
        return None


def _struct_type(cls: type[Any]) -> Type | None:
    """A named tuple class or frozen dataclass whose fields are all annotated with device types."""
    try:
        hints = get_type_hints(cls)
    except Exception:  # as above
        return None
    names = struct_fields(cls)
    items = [annotated_type(hints.get(name, "?"), {}) for name in names]
    if None in items:
        return None
    return StructType(cls.__name__, names, tuple(items), issubclass(cls, tuple))  # type: ignore[arg-type]
