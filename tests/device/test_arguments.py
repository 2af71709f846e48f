"""What may be passed and captured besides numbers and arrays: None, bools, strings, enums, objects, defaults."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import sterna
from helpers.launching import Place
from sterna.errors import SignatureError


class Colour(enum.Enum):
    RED = 1
    CRIMSON = 1  # noqa: PIE796 - an alias: the same member
    GREEN = 2


class Shape(enum.Enum):
    ROUND = 1
    FLAT = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


SENTINEL = object()
NOTHING = None
FLAG = np.bool_(True)
MODE = "fast"


@sterna.kernel
def on_none(x, out):
    if x is None:
        out[0] = 1
    else:
        out[0] = x
    if NOTHING is None:
        out[1] = 1
    if x is not None:
        out[2] = x + 1


@pytest.mark.parametrize(("value", "expected"), [(None, [1, 1, 0]), (5, [5, 1, 6])])
def test_none(place: Place, value, expected):
    out = np.zeros(3, np.int64)
    place.launch(on_none, 1, 1, value, out)
    assert out.tolist() == expected


@sterna.kernel
def on_enum(colour, out):
    if colour is Colour.RED:
        out[0] = 1
    if colour is Colour.CRIMSON:
        out[1] = 1
    if colour == Colour.GREEN:
        out[2] = 1
    if colour is not Colour.RED:
        out[3] = 1
    if colour is Shape.ROUND:
        out[4] = 1
    if colour != Colour.GREEN:
        out[5] = 1


@pytest.mark.parametrize(
    ("colour", "expected"),
    [(Colour.RED, [1, 1, 0, 0, 0, 1]), (Colour.CRIMSON, [1, 1, 0, 0, 0, 1]), (Colour.GREEN, [0, 0, 1, 1, 0, 0]),
     (Shape.ROUND, [0, 0, 0, 1, 1, 1])],
)  # fmt: skip
def test_enum_members_compare_by_identity(place: Place, colour, expected):
    out = np.zeros(6, np.int32)
    place.launch(on_enum, 1, 1, colour, out)
    assert out.tolist() == expected


@sterna.kernel
def on_int_enum(level, x, out):
    out[0] = level + 1
    out[1] = Level.HIGH * 10
    out[2] = level == Level.HIGH
    y = x[0] * level  # weak: float32 stays
    out[3] = y
    out[4] = level > Level.LOW


@pytest.mark.parametrize("level", list(Level))
def test_int_enum_members_are_ints(place: Place, level):
    x, out = np.array([0.1], np.float32), np.zeros(5)
    place.launch(on_int_enum, 1, 1, level, x, out)
    product = float(np.float32(0.1) * np.float32(int(level)))
    assert out.tolist() == [level + 1, 30, level == 3, product, level > 1]


@sterna.kernel
def on_string(mode, out):
    if mode == "fast":
        out[0] = 1
    elif mode == "slow":
        out[0] = 2
    if MODE == "fast":
        out[1] = 1
    if mode != MODE:
        out[2] = 1


@pytest.mark.parametrize(("mode", "expected"), [("fast", [1, 1, 0]), ("slow", [2, 1, 1]), ("other", [0, 1, 1])])
def test_strings(place: Place, mode, expected):
    out = np.zeros(3, np.int32)
    place.launch(on_string, 1, 1, mode, out)
    assert out.tolist() == expected


@sterna.kernel
def on_bool(flag, out):
    if flag:
        out[0] = 1
    if FLAG:
        out[1] = 1
    out[2] = 10 if not flag else 20


@pytest.mark.parametrize("flag", [True, False, np.True_, np.False_])
def test_bools(place: Place, flag):
    out = np.zeros(3, np.int32)
    place.launch(on_bool, 1, 1, flag, out)
    assert out.tolist() == [int(flag), 1, 20 if flag else 10]


@sterna.kernel
def on_object(thing, other, out):
    out[0] = thing is SENTINEL
    out[1] = thing is other
    out[2] = type(thing) is list
    if thing is None:
        out[3] = 1


def test_objects_by_identity(place: Place):
    out, box = np.zeros(4, np.int32), []
    place.launch(on_object, 1, 1, SENTINEL, box, out)
    assert out.tolist() == [1, 0, 0, 0]
    place.launch(on_object, 1, 1, box, box, out)
    assert out.tolist() == [0, 1, 1, 0]


@sterna.kernel
def keep_words(thing, words):
    words[0] = thing
    words[1] = Colour.GREEN
    words[2] = SENTINEL
    words[3] = type(thing)


def test_stored_words_resolve_to_the_objects(place: Place):
    words, thing = np.zeros(4, np.uint64), {}
    place.launch(keep_words, 1, 1, thing, words)
    expected = [thing, Colour.GREEN, SENTINEL, dict]
    if place.is_interpreter:
        assert words.tolist() == [id(item) for item in expected]
    else:
        assert all(sterna.resolve(int(word)) is item for word, item in zip(words, expected, strict=True))


@sterna.kernel
def with_defaults(out, a=3, b=2.5, *, c=None):
    out[0] = a
    out[1] = b
    if c is None:
        out[2] = -1
    else:
        out[2] = c


def test_defaults_of_the_kernel(place: Place):
    out = np.zeros(3)
    place.launch(with_defaults, 1, 1, out)
    assert out.tolist() == [3, 2.5, -1]
    place.launch(with_defaults, 1, 1, out, 7)
    assert out.tolist() == [7, 2.5, -1]


def scaled(x, factor=10, *, offset=1):
    return x * factor + offset


@sterna.kernel
def call_with_defaults(out):
    out[0] = scaled(2)
    out[1] = scaled(2, 3)
    out[2] = scaled(2, offset=5)
    out[3] = scaled(factor=4, x=1)


def test_defaults_and_keywords_of_functions(place: Place):
    out = np.zeros(4, np.int64)
    place.launch(call_with_defaults, 1, 1, out)
    assert out.tolist() == [21, 7, 25, 5]


@sterna.kernel
def numbers(i8, u64, f16, f32, c64, out):
    out[0] = i8 * 2
    out[1] = u64 // 2
    out[2] = f16 + f16
    out[3] = f32 * 3
    out[4] = c64.imag


def test_numpy_scalars_keep_their_type(place: Place):
    out = np.zeros(5)
    args = np.int8(100), np.uint64(2**63), np.float16(0.1), np.float32(0.1), np.complex64(1 + 2j)
    place.launch(numbers, 1, 1, *args, out)
    with np.errstate(over="ignore"):
        expected = [np.int8(100) * np.int8(2), 2.0**62, np.float16(0.1) * 2, np.float32(0.1) * np.float32(3), 2]
    assert out.tolist() == [float(v) for v in expected]


def test_wrong_arguments_are_refused_before_launch(place: Place):
    out = np.zeros(3)
    with pytest.raises(SignatureError):
        place.launch(on_none, 1, 1, 1)
    with pytest.raises(SignatureError):
        place.launch(on_none, 1, 1, 1, out, 3)
    assert not out.any()


@sterna.kernel
def nothing(x):
    x[0] = 1


@pytest.mark.parametrize(
    ("blocks", "threads"), [(0, 1), (1, 0), (-1, 1), (1, 1025), (1, (32, 32, 2)), ((1, 1, 1, 1), 1), (1.5, 1), ("1", 1)]
)
def test_impossible_launches_are_refused(place: Place, blocks, threads):
    x = np.zeros(1)
    with pytest.raises(sterna.errors.LaunchError):
        place.launch(nothing, blocks, threads, x)
    assert x[0] == 0


@pytest.mark.parametrize("shape", [-1, (1, 2, 3, 4), 2.5, (3, -1), ()])
def test_impossible_shapes_are_refused(place: Place, shape):
    x = np.zeros(1)
    with pytest.raises(sterna.errors.LaunchError):
        place.over(nothing, shape, x)
    assert x[0] == 0
