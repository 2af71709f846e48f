"""Captured names as IR: constants, and host references with their paths, kinds and addends."""

from __future__ import annotations

import enum

import numpy as np

from helpers.frontend import body_of, build
from sterna.compiler.ir.nodes import HostRef
from sterna.compiler.ir.rewrite import walk_function
from sterna.relocation.record import RefKind
from sterna.types import FLOAT32, OPAQUE, PYINT, UINT64, ArrayType

F1 = ArrayType(FLOAT32, 1)
U1 = ArrayType(UINT64, 1)
SCALE = 3
HALF = np.float32(0.5)
SIZES = (4, 2.5)
TABLE = np.arange(100.0)
WIDE = np.arange(6, dtype=np.int16).reshape(2, 3)
RECORDS = np.zeros(4, [("a", "i4"), ("b", "f8", (2,)), ("c", [("d", "i2")])])
PARAMS = np.array((3, 2.5, 7), dtype=[("a", "i4"), ("gain", "f8"), ("c", "i2")])
ONE = RECORDS[1]
THING = object()


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


def references(function, *types) -> list[tuple[RefKind, str, str, int, int]]:
    module = build(function, *types)
    nodes = [node for f in module.functions.values() for node in walk_function(f) if isinstance(node, HostRef)]
    return [(n.kind, n.path, str(n.type), n.addend, n.extent) for n in nodes]


def test_numbers_are_constants() -> None:
    def k(a):
        a[0] = SCALE + Level.HIGH
        a[1] = HALF * 3
        a[2] = SIZES[1] + len(SIZES)

    assert body_of(k, F1) == [
        "a[0] = float32(8.0)",
        "a[1] = (float32(0.5) * float32(3.0))",
        "a[2] = float32(4.5)",
    ]
    assert references(k, F1) == []


def test_objects_classes_and_their_words() -> None:
    def k(words, thing):
        if thing is Mode.FAST or thing == Mode.SLOW:
            words[0] = thing
        if type(thing) is Mode:
            words[1] = THING
        words[2] = Mode

    assert references(k, U1, OPAQUE) == [
        (RefKind.OBJECT, "globals:Mode → attr:FAST", "object", 0, 0),
        (RefKind.OBJECT, "globals:Mode → attr:SLOW", "object", 0, 0),
        (RefKind.TYPE, "globals:Mode", "type", 0, 0),
        (RefKind.OBJECT, "globals:THING", "object", 0, 0),
        (RefKind.TYPE, "globals:Mode", "type", 0, 0),
    ]
    assert body_of(k, U1, OPAQUE)[-1] == "words[2] = object.word(<type globals:Mode: type>): uint64"


def test_classes_of_numbers_are_compared_at_compile_time() -> None:
    def k(a, n):
        if type(n) is int:
            a[0] = 1
        if type(a[0]) is np.float32:
            a[1] = 2
        if type(n) is Mode:
            a[2] = 3

    assert body_of(k, F1, PYINT) == ["a[0] = float32(1.0)", "a[1] = float32(2.0)"]


def test_arrays_and_what_is_inside_them() -> None:
    def k(a, n):
        a[0] = TABLE[n] + TABLE.shape[0]
        tail = TABLE[40:]
        a[1] = tail[5:][0]
        a[2] = TABLE[10:20][n]
        a[3] = WIDE[1, 2]
        a[4] = TABLE[-3:][0]

    array = "array(float64, 1, C, readonly)"
    assert references(k, F1, PYINT) == [
        (RefKind.BUFFER, "globals:TABLE", array, 0, 0),
        (RefKind.BUFFER, "globals:TABLE", array, 0, 0),
        (RefKind.BUFFER, "globals:TABLE", array, 320, 0),
        (RefKind.BUFFER, "globals:TABLE", array, 360, 0),
        (RefKind.BUFFER, "globals:TABLE", array, 80, 0),
        (RefKind.BUFFER, "globals:WIDE", "array(int16, 2, C, readonly)", 0, 0),
        (RefKind.BUFFER, "globals:TABLE", array, 0, 0),
    ]


def test_fields_of_records_are_interior_references() -> None:
    size = RECORDS.dtype.itemsize

    def k(a, n):
        a[0] = RECORDS[2].a
        a[1] = RECORDS[3]["c"].d
        a[2] = PARAMS["gain"]
        a[3] = ONE.c.d
        a[4] = RECORDS[n].a

    assert [(path, addend, extent) for _, path, _, addend, extent in references(k, F1, PYINT)] == [
        ("globals:RECORDS", 2 * size, 4),
        ("globals:RECORDS", 3 * size + 20, 2),
        ("globals:PARAMS", 4, 8),
        ("globals:ONE", 20, 2),
        ("globals:RECORDS", 0, 0),
    ]


def test_a_callee_reads_its_own_globals() -> None:
    def k(a, n):
        a[0] = helper(n)

    assert [(kind, path) for kind, path, *_ in references(k, F1, PYINT)] == [
        (RefKind.BUFFER, "globals:helper → globals:TABLE")
    ]


def helper(i):
    return TABLE[i]


def test_a_zero_dimensional_array_counts_as_its_element() -> None:
    gain = np.array(2.5)

    def k(a):
        a[0] = gain * 2 + abs(gain)
        if gain > 1:
            a[1] = gain

    assert len(references(k, F1)) == 4
