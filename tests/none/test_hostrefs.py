"""`Global` and `runtime_global`: bit patterns, what is refused, where words are written."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import struct

import numpy as np
import pytest

from sterna.errors import LinkError
from sterna.relocation.record import RefKind, RelocationRecord
from sterna.runtime.hostrefs import Global, bit_pattern, from_bit_pattern, runtime_global
from sterna.types import BOOL, FLOAT16, FLOAT64, INT64, UINT8

RECORD = RelocationRecord("slot_0", 0, RefKind.GLOBAL, "globals:G")


class Module:
    """Stands for a loaded module: remembers what is written."""

    def __init__(self) -> None:
        self.written: list[tuple[RelocationRecord, int, object]] = []

    def write_word(self, record: RelocationRecord, word: int, stream: object = None) -> None:
        self.written.append((record, word, stream))


@pytest.mark.parametrize(
    ("value", "dtype", "word"),
    [
        (-1, "int8", 0xFF),
        (-2, "int64", 2**64 - 2),
        (2**64 - 1, "uint64", 2**64 - 1),
        (True, "bool", 1),
        (1.0, "float16", 0x3C00),
        (-0.0, "float32", 0x80000000),
        (1.0, "float64", struct.unpack("=Q", struct.pack("=d", 1.0))[0]),
        (3, "float32", 0x40400000),
        (True, "int32", 1),
        (np.array(7), "uint16", 7),
    ],
)
def test_bit_patterns(value, dtype: str, word: int) -> None:
    assert bit_pattern(value, np.dtype(dtype)) == word
    back = from_bit_pattern(word, np.dtype(dtype))
    assert back == value and back.dtype == dtype
    assert math.copysign(1, back) == math.copysign(1, value)


def test_dtypes_without_being_told() -> None:
    for value, expected in ((3, INT64), (2.5, FLOAT64), (True, BOOL), (np.uint8(3), UINT8), (np.float16(1), FLOAT16)):
        found = Global(value)
        assert found.type == expected
        assert found.value == value and type(found.value) is found.dtype.type


def test_nan_keeps_its_bits() -> None:
    assert math.isnan(Global(math.nan, "float32").value)


@pytest.mark.parametrize(
    ("value", "dtype", "error", "words"),
    [
        (1j, None, TypeError, "complex128"),
        (1.0, "complex64", TypeError, "complex64"),
        ("x", None, TypeError, "allowed are"),
        (None, None, TypeError, "allowed are"),
        (1.5, "int32", TypeError, "not an integer"),
        (1, "bool", TypeError, "not a bool"),
        (1j, "float32", TypeError, "not a number"),
        (256, "uint8", OverflowError, "0 to 255"),
        (-1, "uint64", OverflowError, "-1 does not fit"),
        (2**63, None, OverflowError, "int64"),
        ([1, 2], "int32", TypeError, "not an integer"),
        (np.zeros(3), None, TypeError, "shape"),
        (1, ">i4", TypeError, "allowed are"),
        (1, "datetime64[s]", TypeError, "allowed are"),
    ],
)
def test_what_is_no_global(value, dtype, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Global(value, dtype)


def test_a_refused_value_changes_nothing() -> None:
    exposure = Global(1, "uint8")
    with pytest.raises(OverflowError):
        exposure.value = 300
    assert exposure.value == 1


def test_words_are_written_wherever_it_is_held() -> None:
    exposure = Global(1.0, "float32")
    first, second = Module(), Module()
    exposure.attach(first, RECORD)
    exposure.attach(second, RECORD)
    exposure.value = 2.0
    exposure.set(4.0, stream="stream")
    assert first.written == [(RECORD, 0x3F800000, None), (RECORD, 0x40000000, None), (RECORD, 0x40800000, "stream")]
    exposure.detach(first, RECORD)
    exposure.value = 8.0
    assert len(first.written) == 3 and second.written[-1][1] == 0x41000000


def test_modules_are_held_weakly() -> None:
    exposure = Global(1)
    module = Module()
    exposure.attach(module, RECORD)
    del module
    gc.collect()
    exposure.value = 2
    exposure.attach(Module(), RECORD)
    assert len(exposure._holders) == 1, "dead ones are dropped"


def test_text_forms() -> None:
    assert repr(Global(1.5, "float32")) == "sterna.Global(1.5, 'float32')"
    assert repr(runtime_global("PyFloat_Type")) == "sterna.runtime_global('PyFloat_Type')"


def test_runtime_globals_are_addresses_in_the_interpreter() -> None:
    found = runtime_global("PyFloat_Type")
    assert found.address == id(float)
    assert found.__sterna_symbol__ == "PyFloat_Type"
    assert hasattr(type(found), "__sterna_symbol__")
    assert runtime_global("_Py_NoneStruct").address == id(None)


@pytest.mark.parametrize("name", ["PyNoSuchThing_Type", "", "not a name"])
def test_unknown_runtime_globals(name: str) -> None:
    with pytest.raises(LinkError, match="no symbol"):
        runtime_global(name)


def test_runtime_global_wants_a_name() -> None:
    with pytest.raises(TypeError):
        runtime_global(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
@pytest.mark.parametrize(("value", "dtype"), [(3, "int32"), (-0.5, "float16"), (True, "bool"), (2**64 - 1, "uint64")])
def test_a_copy_is_a_number_of_its_own(duplicate, value, dtype):
    first, module = Global(value, dtype), Module()
    first.attach(module, RECORD)
    module.written.clear()
    second = duplicate(first)
    assert (second.value, second.dtype) == (first.value, first.dtype)
    second.value = not value if dtype == "bool" else 7
    assert first.value == value
    assert module.written == []
