"""Captured values that are constants of the code: their exact, deterministic text for the key.

Two values have the same text only if no kernel can tell them apart: the type is part of it (``1``, ``1.0`` and
``True`` differ), floats are written by their bits (so do ``0.0`` and ``-0.0``), and no text depends on
the session.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from sterna.types import Scalar, from_dtype

__all__ = ["MAX_LEAVES", "constant_text", "fields_of", "is_struct", "leaf_count", "shape_text"]

MAX_LEAVES = 64
"""Values that a captured tuple may hold, nested ones included, to be taken by value."""
_MAX_DEPTH = 16


def constant_text(value: Any) -> str | None:
    """Key text of a constant; None if the value is not one."""
    exact = _EXACT.get(type(value))
    if exact is not None:
        return exact(value)
    if isinstance(value, enum.Enum):
        return _int(value.value) if isinstance(value, int) and isinstance(value.value, int) else None
    if isinstance(value, np.generic):
        return _numpy_scalar(value)
    if isinstance(value, np.dtype):
        return _dtype(value)
    if isinstance(value, tuple) or is_struct(value):
        return _container(value)
    return None


def is_struct(value: Any) -> bool:
    """True for an instance of a named tuple class or of a frozen dataclass."""
    cls = type(value)
    if isinstance(value, tuple):
        return hasattr(cls, "_fields")
    parameters = getattr(cls, "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def fields_of(value: Any) -> list[tuple[str, Any]]:
    """Steps and values of the items of a tuple, named tuple or frozen dataclass."""
    if isinstance(value, tuple):
        return [(f"item:{number}", item) for number, item in enumerate(value)]
    return [(f"attr:{f.name}", getattr(value, f.name)) for f in dataclasses.fields(value)]


def leaf_count(value: Any, limit: int = MAX_LEAVES) -> int:
    """Values in nested tuples and structs; more than `limit` if there are more, or if they nest too deep."""
    total, stack = 0, [(value, 0)]
    while stack and total <= limit:
        item, depth = stack.pop()
        if type(item) is tuple or is_struct(item):
            children = [child for _, child in fields_of(item)]
            total += limit + 1 if depth > _MAX_DEPTH else not children
            stack.extend((child, depth + 1) for child in children[: limit + 1])
        else:
            total += 1
    return total


def shape_text(value: Any) -> str:
    """What kind of tuple `value` is: class name and field names, without the items."""
    cls = type(value)
    if cls is tuple:
        return f"tuple[{len(value)}]"
    kind = "namedtuple" if isinstance(value, tuple) else "struct"
    names = cls._fields if isinstance(value, tuple) else tuple(f.name for f in dataclasses.fields(value))
    return f"{kind}[{cls.__name__}({','.join(names)})]"


def _container(value: Any) -> str | None:
    if (type(value) is not tuple and not is_struct(value)) or leaf_count(value) > MAX_LEAVES:
        return None
    texts = [constant_text(item) for _, item in fields_of(value)]
    if any(text is None for text in texts):
        return None
    return f"{shape_text(value)}({','.join(text for text in texts if text is not None)})"


def _none(value: Any) -> str:
    return "none"


def _bool(value: Any) -> str:
    return f"bool:{value}"


def _int(value: Any) -> str:
    return f"int:{int(value):#x}"


def _float(value: Any) -> str:
    return f"float:{_bits(value)}"


def _complex(value: Any) -> str:
    return f"complex:{_bits(value.real)}:{_bits(value.imag)}"


def _str(value: Any) -> str:
    return f"str:{len(value)}:{value}"


def _bits(value: float) -> str:
    return np.float64(value).tobytes().hex()


def _numpy_scalar(value: np.generic) -> str | None:
    try:
        found = from_dtype(value.dtype)
    except KeyError:
        return None
    return f"numpy.{found}:{value.tobytes().hex()}" if isinstance(found, Scalar) else None


def _dtype(value: np.dtype[Any]) -> str | None:
    try:
        return f"dtype:{from_dtype(value)}"
    except KeyError:
        return None


_EXACT: dict[type, Callable[[Any], str]] = {
    type(None): _none,
    bool: _bool,
    int: _int,
    float: _float,
    complex: _complex,
    str: _str,
}
