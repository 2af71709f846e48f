"""Device types: the vocabulary shared by signatures, kernel IR, keys and argument layouts.

Every type is a frozen value with a string form (`str(t)`); the string is what keys and
images hold, so it depends on nothing of one session.  Python numbers are *weak* (NEP 50):
`PYINT`, `PYFLOAT` and `PYCOMPLEX` take the other operand's type in arithmetic.
"""

from __future__ import annotations

from typing import Any
from typing import Literal as OneOf

import numpy as np

from sterna.frozen import frozen

__all__ = [
    "BOOL", "FLOAT16", "FLOAT32", "FLOAT64", "COMPLEX64", "COMPLEX128", "BFLOAT16",
    "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
    "NONE", "OPAQUE", "PYCOMPLEX", "PYFLOAT", "PYINT", "TYPE_TAG", "VOID",
    "ArrayType", "Field", "LiteralType", "RecordRefType", "RecordType", "Scalar", "StructType",
    "SimpleType", "TupleType", "Type", "field_align", "from_dtype", "itemsize",
    "natural_align", "scalar_named", "to_dtype",
]  # fmt: skip

Layout = OneOf["C", "F", "A"]
Space = OneOf["global", "shared", "local"]


@frozen
class Scalar:
    """A number or boolean.

    Attributes
    ----------
    kind : str
        ``b`` bool, ``i`` signed, ``u`` unsigned, ``f`` IEEE float, ``e`` bfloat16, ``c`` complex.
    bits : int
        Width in bits of the value; a bool is 8 bits in memory.
    weak : bool
        True for a Python number, which takes the other operand's type.
    """

    kind: OneOf["b", "i", "u", "f", "e", "c"]
    bits: int
    weak: bool = False

    def __str__(self) -> str:
        if self.weak:
            return {"i": "int", "f": "float", "c": "complex"}[self.kind]
        if self.kind == "e":
            return "bfloat16"
        prefix = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}[self.kind]
        return prefix if self.kind == "b" else f"{prefix}{self.bits}"


@frozen
class SimpleType:
    """A type with nothing to vary: ``none``, ``object``, ``type``, ``void``."""

    name: str

    def __str__(self) -> str:
        return self.name


@frozen
class LiteralType:
    """A compile-time constant argument (a `str`); its value is part of the signature."""

    value: str

    def __str__(self) -> str:
        return f"literal({self.value!r})"


@frozen
class Field:
    """One field of a structured dtype: name, element type, byte offset, sub-array shape."""

    name: str
    type: Type
    offset: int
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        shape = "".join(f"[{n}]" for n in self.shape)
        return f"{self.name}: {self.type}{shape}@{self.offset}"


@frozen
class RecordType:
    """A NumPy structured dtype, packed or aligned; lives in memory only."""

    fields: tuple[Field, ...]
    itemsize: int

    def __str__(self) -> str:
        return f"record({', '.join(map(str, self.fields))}; {self.itemsize})"


@frozen
class RecordRefType:
    """A reference to one record in memory: what ``a[i]`` of a structured array is; `align` as for arrays."""

    record: RecordType
    space: Space = "global"
    readonly: bool = False
    align: int = 0

    def __str__(self) -> str:
        suffix = "" if self.space == "global" else f", {self.space}"
        suffix += f", align {self.align}" if self.align else ""
        return f"ref({self.record}{suffix}{', readonly' if self.readonly else ''})"


@frozen
class ArrayType:
    """An array: element type, number of axes, layout (``C``, ``F`` or ``A`` any), memory space.

    `align` is what the addresses of its elements certainly are a multiple of, where that is less than
    `natural_align`; else 0.
    """

    dtype: Scalar | RecordType
    ndim: int
    layout: Layout = "C"
    readonly: bool = False
    space: Space = "global"
    align: int = 0

    def __str__(self) -> str:
        suffix = "" if self.space == "global" else f", {self.space}"
        suffix += f", align {self.align}" if self.align else ""
        suffix += ", readonly" if self.readonly else ""
        return f"array({self.dtype}, {self.ndim}, {self.layout}{suffix})"


@frozen
class TupleType:
    """A tuple by value."""

    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple({', '.join(map(str, self.items))})"


@frozen
class StructType:
    """A named tuple (``is_tuple``) or frozen dataclass by value; `name` is the class's name."""

    name: str
    names: tuple[str, ...]
    items: tuple[Type, ...]
    is_tuple: bool

    def __str__(self) -> str:
        fields = ", ".join(f"{n}: {t}" for n, t in zip(self.names, self.items, strict=True))
        return f"{'namedtuple' if self.is_tuple else 'struct'} {self.name}({fields})"


Type = Scalar | SimpleType | LiteralType | RecordType | RecordRefType | ArrayType | TupleType | StructType

BOOL = Scalar("b", 8)
INT8, INT16, INT32, INT64 = (Scalar("i", n) for n in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (Scalar("u", n) for n in (8, 16, 32, 64))
FLOAT16, FLOAT32, FLOAT64 = (Scalar("f", n) for n in (16, 32, 64))
BFLOAT16 = Scalar("e", 16)
COMPLEX64, COMPLEX128 = (Scalar("c", n) for n in (64, 128))
PYINT = Scalar("i", 64, weak=True)
PYFLOAT = Scalar("f", 64, weak=True)
PYCOMPLEX = Scalar("c", 128, weak=True)
NONE = SimpleType("none")
VOID = SimpleType("void")
OPAQUE = SimpleType("object")
"""A host object: its word (identity) and the word of its type."""
TYPE_TAG = SimpleType("type")
"""A class used as a value: one word."""

_STRONG = (
    BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64,
    FLOAT16, FLOAT32, FLOAT64, BFLOAT16, COMPLEX64, COMPLEX128,
)  # fmt: skip
_BY_NAME = {str(t): t for t in (*_STRONG, PYINT, PYFLOAT, PYCOMPLEX)}
_FROM_NUMPY = {np.dtype(str(t)): t for t in _STRONG if t is not BFLOAT16}


def scalar_named(name: str) -> Scalar:
    """The scalar type whose string form is `name` (``float32``, ``int``…); KeyError otherwise."""
    return _BY_NAME[name]


def from_dtype(dtype: np.dtype) -> Scalar | RecordType:
    """Map a NumPy dtype to a device type.

    Raises
    ------
    KeyError
        For a dtype no device has (object, string, datetime, extended or swapped-byte floats).
    """
    found = _FROM_NUMPY.get(dtype)
    if found is not None:
        return found
    if dtype.names is None:
        raise KeyError(dtype)
    fields = []
    for name in dtype.names:
        field_dtype, offset = dtype.fields[name][:2]  # type: ignore[index]
        base, shape = field_dtype.subdtype or (field_dtype, ())
        fields.append(Field(name, from_dtype(base), offset, tuple(shape)))
    return RecordType(tuple(fields), dtype.itemsize)


def to_dtype(t: Scalar | RecordType) -> np.dtype:
    """The NumPy dtype of a scalar or record type (a weak type gives its 64-bit or 128-bit one)."""
    if isinstance(t, Scalar):
        return np.dtype(str(Scalar(t.kind, t.bits)))
    layout: Any = {
        "names": [f.name for f in t.fields],
        "formats": [(to_dtype(f.type), f.shape) for f in t.fields],  # type: ignore[arg-type]
        "offsets": [f.offset for f in t.fields],
        "itemsize": t.itemsize,
    }
    dtype: np.dtype = np.dtype(layout)
    return dtype


def natural_align(t: Scalar | RecordType) -> int:
    """What the addresses of all elements of an array of `t` are a multiple of, if the first one is well aligned."""
    if isinstance(t, Scalar):
        return t.bits // (16 if t.kind == "c" else 8)
    fields = (natural_align(f.type) for f in t.fields if isinstance(f.type, Scalar | RecordType))
    return min(max(fields, default=1), t.itemsize & -t.itemsize or 1)


def field_align(record: RecordType, align: int, field: Field) -> int:
    """Alignment of a field in records of alignment `align`; for both, 0 is the natural one."""
    assert isinstance(field.type, Scalar | RecordType)
    found = align or natural_align(record)
    if field.offset:
        found = min(found, field.offset & -field.offset)
    return 0 if found >= natural_align(field.type) else found


def itemsize(t: Scalar | RecordType) -> int:
    """Bytes of one element in memory."""
    return t.bits // 8 if isinstance(t, Scalar) else t.itemsize
