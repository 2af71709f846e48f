"""What a captured value is to device code, decided by the live value alone.

The frontend and the key both take the answer from here, so they cannot disagree.  What a job's method tables put in
a function's place is not decided here: the scan asks them first (`sterna.source.captures`).
"""

from __future__ import annotations

import builtins
import dataclasses
import enum
import sys
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from sterna.frozen import frozen
from sterna.overlays import stub_name
from sterna.source.constants import MAX_LEAVES, constant_text, is_struct, leaf_count, shape_text
from sterna.source.paths import underlying_function
from sterna.types import OPAQUE, TYPE_TAG, ArrayType, RecordRefType, Scalar, Type, from_dtype

__all__ = ["CaptureKind", "Classified", "classify", "intrinsic"]


class CaptureKind(Enum):
    """What becomes of a capture."""

    CONSTANT = "constant"
    """A number, string, None, dtype, or tuple of such: part of the code and of the key."""
    TUPLE = "tuple"
    """A tuple, named tuple or frozen dataclass with other captures among its items (`Capture.items`)."""
    FUNCTION = "function"
    """A Python function or another kernel: device code, scanned as well."""
    STUB = "stub"
    """A function that exists on devices only, and not on this job's."""
    INTRINSIC = "intrinsic"
    """Something the compiler knows by name: the language's own, a built-in, `math`, NumPy."""
    TYPE = "type"
    """A class: a type tag, or a constructor of named tuples and frozen dataclasses."""
    OBJECT = "object"
    """An opaque object."""
    BUFFER = "buffer"
    """An array or structured scalar in memory."""
    GLOBAL = "global"
    """A `sterna.Global`."""
    SYMBOL = "symbol"
    """A data symbol of the Python runtime."""
    MODULE = "module"
    """A module, used otherwise than by an attribute it has."""


@frozen
class Classified:
    """Kind, device type if it has one, key text, and a reason where something else could be expected."""

    kind: CaptureKind
    type: Type | None
    key: str
    note: str = ""


_OBJECT = Classified(CaptureKind.OBJECT, OPAQUE, "object")
_CONSTANT_TYPES = frozenset({int, float, bool, complex, str, type(None)})
_LIBRARIES = ("math", "cmath")
_ARRAYS = (np.ndarray, np.memmap, np.recarray)
_ABSTRACT = (
    np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact, np.floating,
    np.complexfloating, np.flexible, np.character,
)  # fmt: skip
_KNOWN: dict[object, Classified] = {}


def classify(value: Any) -> Classified:
    """Classify one captured value."""
    cls = type(value)
    if cls in _CONSTANT_TYPES:
        return _constant(value, constant_text(value) or "")
    stub = stub_name(value)
    if stub:
        return Classified(CaptureKind.STUB, None, f"stub:{stub}")
    if cls is FunctionType:
        return _classify_function(value)
    if cls is ModuleType or isinstance(value, ModuleType):
        return Classified(CaptureKind.MODULE, None, f"module:{value.__name__}")
    if isinstance(value, type):
        return _classify_class(value)
    if cls is BuiltinFunctionType or cls is np.ufunc:
        return _known_name(value)
    if issubclass(cls, np.ndarray | np.generic):  # not isinstance: a mock may claim to be one
        return _classify_numpy(value)
    if underlying_function(value) is not None:
        return Classified(CaptureKind.FUNCTION, None, "function")
    try:
        text = constant_text(value)
        if text is not None:
            return _constant(value, text)
        if cls is tuple or is_struct(value):
            return _classify_tuple(value)
    except AttributeError as error:  # a frozen dataclass with a field that was never set
        return Classified(CaptureKind.OBJECT, OPAQUE, "object", str(error))
    return _OBJECT if isinstance(value, enum.Enum) else _classify_protocol(value)


def _constant(value: Any, text: str) -> Classified:
    from sterna.typeof import type_of

    try:
        found: Type | None = type_of(value)
    except (TypeError, KeyError):
        found = None
    if isinstance(value, np.dtype):
        found = None
    return Classified(CaptureKind.CONSTANT, found, text)


def intrinsic(name: str) -> Classified:
    """What the compiler knows by this name."""
    found = _KNOWN.get(name)
    if found is None:
        found = _KNOWN[name] = Classified(CaptureKind.INTRINSIC, None, f"intrinsic:{name}")
    return found


def _classify_function(value: FunctionType) -> Classified:
    module = value.__module__
    if isinstance(module, str) and (module == "numpy" or module.startswith("numpy.")):
        return intrinsic(f"{module}.{value.__qualname__}")
    return Classified(CaptureKind.FUNCTION, None, "function")


def _known_name(value: Any) -> Classified:
    """A built-in function or NumPy ufunc, if it is the one its name says; else an object."""
    name = getattr(value, "__name__", "")
    if isinstance(value, np.ufunc):
        return intrinsic(f"numpy.{name}") if getattr(np, name, None) is value else _OBJECT
    module = getattr(value, "__module__", None)
    if module == "builtins" and getattr(builtins, name, None) is value:
        return intrinsic(f"builtins.{name}")
    if module in _LIBRARIES and getattr(value.__self__, name, None) is value:
        return intrinsic(f"{module}.{name}")
    return _OBJECT


def _classify_class(value: type) -> Classified:
    if issubclass(value, np.generic) and value not in _ABSTRACT:
        try:
            return Classified(CaptureKind.INTRINSIC, TYPE_TAG, f"intrinsic:numpy.{from_dtype(np.dtype(value))}")
        except (KeyError, TypeError):
            return Classified(CaptureKind.TYPE, TYPE_TAG, f"type:{value.__name__}")
    if value.__module__ == "builtins" and not issubclass(value, BaseException):
        if getattr(builtins, value.__name__, None) is value:
            return Classified(CaptureKind.INTRINSIC, TYPE_TAG, f"intrinsic:builtins.{value.__name__}")
        return Classified(CaptureKind.TYPE, TYPE_TAG, "type")
    return Classified(CaptureKind.TYPE, TYPE_TAG, f"type:{value.__qualname__}{_fields_text(value)}")


def _fields_text(cls: type) -> str:
    """Field names, annotations and defaults of a named tuple class or frozen dataclass; empty for others."""
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        names, defaults = tuple(cls._fields), dict(cls._field_defaults)  # type: ignore[attr-defined]
        kind = "namedtuple"
    elif getattr(getattr(cls, "__dataclass_params__", None), "frozen", False):
        fields = dataclasses.fields(cls)
        names = tuple(f.name for f in fields)
        defaults = {f.name: f.default for f in fields if f.default is not dataclasses.MISSING}
        defaults.update({f.name: f.default_factory for f in fields if f.default_factory is not dataclasses.MISSING})
        kind = "struct"
    else:
        return ""
    parts = []
    for name in names:
        default = constant_text(defaults[name]) or "object" if name in defaults else ""
        parts.append(f"{name}:{_annotation(cls, name)}={default}")
    return f" {kind}({','.join(parts)})"


def _annotation(cls: type, name: str) -> str:
    """A field's annotation as text, written the same on all Python versions; ``?`` for what is not a plain name."""
    for base in cls.__mro__:
        found = _own_annotations(base).get(name)
        found = getattr(found, "__forward_arg__", found)
        if found is not None:
            text = found.__qualname__ if isinstance(found, type) else found
            return text if isinstance(text, str) else "?"
    return ""


def _own_annotations(cls: type) -> dict[str, Any]:
    try:
        return dict(getattr(cls, "__annotations__", {}))
    except Exception:  # Python 3.14 evaluates annotations here; they may name what does not exist
        return {}


def _classify_numpy(value: Any) -> Classified:
    if isinstance(value, np.ndarray) and type(value) not in _ARRAYS:
        note = f"{type(value).__qualname__} may index otherwise than a plain array does; capture np.asarray(…) of it"
        return Classified(CaptureKind.OBJECT, OPAQUE, "object", note)
    try:
        element = from_dtype(value.dtype)
    except KeyError:
        return Classified(CaptureKind.OBJECT, OPAQUE, "object", f"its dtype {value.dtype} is none that devices have")
    if isinstance(value, np.generic):
        if isinstance(element, Scalar):
            return Classified(CaptureKind.CONSTANT, element, constant_text(value) or "")
        record = RecordRefType(element, readonly=True)
        return Classified(CaptureKind.BUFFER, record, f"buffer:{record}")
    # captured NumPy arrays are copied C-ordered to each device, whatever their own layout
    found = ArrayType(element, value.ndim, "C", readonly=True)
    return Classified(CaptureKind.BUFFER, found, f"buffer:{found}")


def _classify_tuple(value: Any) -> Classified:
    if leaf_count(value) > MAX_LEAVES:
        note = f"it holds more than {MAX_LEAVES} values; make it a NumPy array"
        return Classified(CaptureKind.OBJECT, OPAQUE, "object", note)
    return Classified(CaptureKind.TUPLE, None, shape_text(value))


def _classify_protocol(value: Any) -> Classified:
    """Objects known by a marker or an array protocol on their class; anything else is opaque."""
    cls = type(value)
    if getattr(cls, "__sterna_global__", False) is True:
        found = _global_type(value)
        return Classified(CaptureKind.GLOBAL, found, f"global:{found}")
    symbol = _marker(value, "__sterna_symbol__")
    if isinstance(symbol, str):
        return Classified(CaptureKind.SYMBOL, TYPE_TAG, f"symbol:{symbol}")
    module = getattr(value, "__module__", None)
    if isinstance(module, str) and module.split(".")[0] == "numpy" and callable(value):
        name = _marker(value, "__qualname__") or _marker(value, "__name__")
        own = isinstance(name, str) and _marker(sys.modules.get(module), name) is value
        return intrinsic(f"{module}.{name}") if own else _OBJECT
    if getattr(cls, "__sterna_array__", False) is True:
        return _buffer(value)
    if hasattr(cls, "__cuda_array_interface__"):
        return _cuda_buffer(value)
    if hasattr(cls, "__dlpack__"):
        return _dlpack_buffer(value)
    return _OBJECT


def _global_type(value: Any) -> Type | None:
    found = getattr(value, "type", None)
    if isinstance(found, Scalar):
        return found
    dtype = value.dtype
    return dtype if isinstance(dtype, Scalar) else from_dtype(np.dtype(dtype))


def _buffer(value: Any) -> Classified:
    from sterna.typeof import type_of

    try:
        found = type_of(value)
    except (TypeError, KeyError) as error:
        return Classified(CaptureKind.OBJECT, OPAQUE, "object", str(error))
    if not isinstance(found, ArrayType | RecordRefType):
        return _OBJECT
    return Classified(CaptureKind.BUFFER, found, f"buffer:{found}")


def _cuda_buffer(value: Any) -> Classified:
    from sterna.typeof import array_layout

    try:
        interface = value.__cuda_array_interface__
        dtype = np.dtype(interface.get("descr") if interface["typestr"][1] == "V" else interface["typestr"])
        element = from_dtype(dtype)
        shape, strides = interface["shape"], interface.get("strides")
    except (KeyError, TypeError, AttributeError) as error:
        return Classified(CaptureKind.OBJECT, OPAQUE, "object", f"its __cuda_array_interface__ is unusable: {error}")
    layout = "C" if strides is None else array_layout(shape, strides, dtype.itemsize)
    found = ArrayType(element, len(shape), layout, readonly=bool(interface["data"][1]))
    return Classified(CaptureKind.BUFFER, found, f"buffer:{found}")


def _dlpack_buffer(value: Any) -> Classified:
    """An array that says what it is by DLPack alone; its memory is not touched."""
    from sterna.dlpack import DEVICES, ImportedTensor
    from sterna.typeof import array_layout

    try:
        if int(value.__dlpack_device__()[0]) not in DEVICES:
            return _buffer(value)
        tensor = ImportedTensor(value, -1)
        element = from_dtype(tensor.dtype)
    except Exception as error:  # another library's code may raise anything
        return Classified(CaptureKind.OBJECT, OPAQUE, "object", f"its __dlpack__ is unusable: {error}")
    layout = array_layout(tensor.shape, tensor.strides, tensor.dtype.itemsize)
    found = ArrayType(element, len(tensor.shape), layout)
    return Classified(CaptureKind.BUFFER, found, f"buffer:{found}")


def _marker(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # a property of the user's object may raise anything
        return None
