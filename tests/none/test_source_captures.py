"""The scan: what each kind of value becomes, where its path leads, and what its guards notice."""

from __future__ import annotations

import cmath
import collections
import dataclasses
import enum
import functools
import math
import operator
import types
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest

import sterna.language.atomic as atomic_module
import sterna.language.index as index_module
from helpers.modules import write_module
from sterna.errors import SourceError
from sterna.overlays import HOST_TABLES
from sterna.source.captures import Capture, CaptureKind, Scan, scan
from sterna.source.classify import classify
from sterna.source.constants import constant_text
from sterna.source.paths import module_name, type_of_path, walk
from sterna.types import OPAQUE, PYFLOAT, PYINT, TYPE_TAG, ArrayType, RecordRefType, scalar_named

Kind = CaptureKind


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: float
    y: float = 0.5


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: float = 1.0


@dataclasses.dataclass
class Thawed:
    a: int


class Plain:
    LIMIT = 4

    @staticmethod
    def helper(x: int) -> int:
        return x + Plain.LIMIT

    @classmethod
    def make(cls) -> None: ...


class Weighted(np.ndarray): ...


class FakeGlobal:
    __sterna_global__ = True
    dtype = np.dtype(np.float32)


class FakeSymbol:
    __sterna_symbol__ = "PyFloat_Type"


class FakeArray:
    __sterna_array__ = True
    dtype, shape, strides, ndim = np.dtype(np.float32), (3, 4), (16, 4), 2


class FakeCuda:
    __cuda_array_interface__ = {"typestr": "<f4", "shape": (3, 4), "strides": None, "data": (0, True), "version": 3}  # noqa: RUF012


class FakeKernel:
    def __init__(self, function: Any) -> None:
        self.__sterna_kernel__ = function


class Treacherous:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


RECORD = np.dtype([("a", "f4"), ("b", "i4")])
CONSTANTS = [
    1, 1.5, True, None, "text", 2j, np.float32(1), np.bool_(True), np.dtype("f4"), Level.HIGH, (1, 2.0), (),
    ((1,), Point(1.0, 2.0)), Frozen(1), Point(1.0), tuple(range(64)), 10**30,
]  # fmt: skip
NESTED: tuple[Any, ...] = ()
for _ in range(2000):
    NESTED = (NESTED,)
OBJECTS = [
    object(), Color.RED, [1], {}, b"bytes", ..., "a".upper, Thawed(1), tuple(range(65)), (1, [2]).__iter__(),
    np.array([None]), np.array(["a"]), np.datetime64(1, "s"), np.longdouble(1), np.array([1], ">i4"),
    np.ma.MaskedArray([1.0]), np.zeros(3).view(Weighted), np.vectorize(len), mock.Mock(spec=np.ndarray), NESTED,
    Frozen.__new__(Frozen), functools.partial(int), operator.attrgetter("x"), Treacherous(), types.SimpleNamespace(x=1),
]  # fmt: skip
INTRINSICS = {
    "builtins.len": len, "builtins.range": range, "builtins.int": int, "builtins.print": print, "math.sin": math.sin,
    "cmath.exp": cmath.exp, "numpy.sin": np.sin, "numpy.where": np.where, "numpy.float32": np.float32,
    "numpy.int64": np.int64,
}  # fmt: skip
LANGUAGE = {"grid": index_module.grid, "thread_idx": index_module.threadIdx, "atomic.add": atomic_module.add}


@pytest.mark.parametrize("value", CONSTANTS, ids=repr)
def test_constants(value: Any) -> None:
    found = classify(value)
    assert found.kind is Kind.CONSTANT
    assert found.key


@pytest.mark.parametrize("value", OBJECTS, ids=lambda v: type(v).__name__)
def test_objects(value: Any) -> None:
    found = classify(value)
    assert (found.kind, found.type, found.key) == (Kind.OBJECT, OPAQUE, "object")


def test_abstract_numpy_classes_are_plain_classes(recwarn: pytest.WarningsRecorder) -> None:
    assert all(classify(cls).kind is Kind.TYPE for cls in (np.generic, np.floating, np.number, np.str_, np.longdouble))
    assert not recwarn.list


@pytest.mark.parametrize("name", INTRINSICS)
def test_intrinsics(name: str) -> None:
    found = classify(INTRINSICS[name])
    assert (found.kind, found.key) == (Kind.INTRINSIC, f"intrinsic:{name}")


@pytest.mark.parametrize("name", LANGUAGE)
def test_names_of_the_language_are_decided_by_the_method_tables(name: str) -> None:
    used = LANGUAGE[name]

    def kernel() -> Any:
        return used

    (capture,) = scan(kernel).captures
    assert (capture.kind, capture.key) == (Kind.INTRINSIC, f"intrinsic:sterna.{name}")
    (capture,) = scan(kernel, tables=HOST_TABLES).captures
    assert (capture.kind, capture.key) == (Kind.STUB, f"stub:{name}")


def test_an_impostor_is_no_intrinsic() -> None:
    assert classify(np.frompyfunc(len, 1, 1)).kind is Kind.OBJECT
    assert classify([].append).kind is Kind.OBJECT


def test_classes() -> None:
    keys = {cls: classify(cls).key for cls in (Color, Point, Frozen, Plain, ValueError, object.__class__)}
    assert all(classify(cls).type == TYPE_TAG for cls in keys)
    assert classify(ValueError).kind is Kind.TYPE
    assert keys[Point] == "type:Point namedtuple(x:float=,y:float=float:000000000000e03f)"
    assert keys[Frozen] == "type:Frozen struct(a:int=,b:float=float:000000000000f03f)"


def test_buffers() -> None:
    float32 = scalar_named("float32")
    expected = {
        "numpy": (np.zeros((3, 4), np.float32), ArrayType(float32, 2, "C", readonly=True)),
        "transposed": (np.zeros((3, 4), np.float32).T[::2], ArrayType(float32, 2, "C", readonly=True)),
        "sterna": (FakeArray(), ArrayType(float32, 2, "C")),
        "cuda": (FakeCuda(), ArrayType(float32, 2, "C", readonly=True)),
    }
    for value, found in expected.values():
        assert (classify(value).kind, classify(value).type) == (Kind.BUFFER, found)
    records = np.zeros(2, RECORD)
    assert isinstance(classify(records[0]).type, RecordRefType)
    zero_d = classify(np.zeros((), RECORD)).type
    assert isinstance(zero_d, ArrayType)
    assert zero_d.ndim == 0
    assert classify(np.zeros((5,))).key == classify(np.ones((7,))).key
    assert len({classify(np.zeros(s, d)).key for s in (3, (3, 3)) for d in ("f4", "f8", "i4")}) == 6


def test_globals_and_symbols() -> None:
    assert (classify(FakeGlobal()).kind, classify(FakeGlobal()).key) == (Kind.GLOBAL, "global:float32")
    assert (classify(FakeSymbol()).kind, classify(FakeSymbol()).key) == (Kind.SYMBOL, "symbol:PyFloat_Type")


DISTINCT = [
    1, True, 1.0, 1 + 0j, np.int64(1), np.int32(1), np.float64(1), np.float32(1), np.bool_(True), "1", None, (1,),
    (1, 1), ((1,), 1), (1, (1,)), Point(1, 1), Frozen(1, 1), 0.0, -0.0, math.nan, math.inf, -math.inf, 0, -1,
    complex(0.0, -0.0), complex(-0.0, 0.0), ("a", "b,str:1:c"), ("a,str:1:b", "c"), "none", (), ((),), np.dtype("i4"),
    np.dtype("f4"), np.dtype(RECORD), np.float32(math.nan),
]  # fmt: skip


def test_texts_of_constants_are_exact() -> None:
    texts = [constant_text(value) for value in DISTINCT]
    assert None not in texts
    assert len(set(texts)) == len(DISTINCT)
    assert constant_text(float("nan")) == constant_text(math.nan)
    assert constant_text(Level.HIGH) == constant_text(2)


# ---- scanning ------------------------------------------------------------------------------------

MODULE = """
import math
import numpy as np
import {other} as other

TABLE = np.arange(4.0)
SCALE = 2.0
SENTINEL = object()
PAIR = (1, (TABLE, SENTINEL))

def leaf(x):
    return x * SCALE + other.LUT[0]

def helper(x, again=None):
    return leaf(x) + alias(x) if again is None else helper(x)

alias = leaf

def make(offset, function):
    def kernel(x, y=3, *, z=1.5):
        if x.tag is SENTINEL:
            x[0] = helper(TABLE.shape[0]) + offset + math.pi + function(y)
        return len(x), unknown.name, PAIR[1]
    return kernel
"""


@pytest.fixture
def user(tmp_path: Path) -> types.ModuleType:
    other = write_module(tmp_path, "import numpy as np\nLUT = np.zeros(2)\nclass Config:\n    N = 4\n")
    return write_module(tmp_path, MODULE.format(other=other.__name__))


@pytest.fixture
def scanned(user: types.ModuleType) -> Scan:
    return scan(user.make(10, lambda y: y + 1))


def by_chain(scanned: Scan, owner: int = 0) -> dict[str, Capture]:
    return {c.chain: c for c in scanned.captures if c.owner == owner}


def test_functions_are_numbered_breadth_first(scanned: Scan) -> None:
    assert [(r.ordinal, r.path, r.name) for r in scanned.functions] == [
        (0, "", "make.<locals>.kernel"),
        (1, "globals:helper", "helper"),
        (2, "closure:function", "scanned.<locals>.<lambda>"),
        (3, "globals:helper → globals:leaf", "leaf"),
    ]
    helper = by_chain(scanned, 1)
    assert helper["leaf"].function == helper["alias"].function == 3
    assert helper["alias"].path == "globals:helper → globals:alias"
    assert helper["helper"].function == 1


def test_captures_of_a_kernel(scanned: Scan) -> None:
    found = {chain: (c.kind, c.path) for chain, c in by_chain(scanned).items()}
    assert found == {
        "default:y": (Kind.CONSTANT, "default:y"),
        "default:z": (Kind.CONSTANT, "default:z"),
        "SENTINEL": (Kind.OBJECT, "globals:SENTINEL"),
        "helper": (Kind.FUNCTION, "globals:helper"),
        "TABLE": (Kind.BUFFER, "globals:TABLE"),
        "offset": (Kind.CONSTANT, "closure:offset"),
        "math.pi": (Kind.CONSTANT, "globals:math → attr:pi"),
        "function": (Kind.FUNCTION, "closure:function"),
        "len": (Kind.INTRINSIC, "builtins:len"),
        "PAIR": (Kind.TUPLE, "globals:PAIR"),
    }
    assert scanned.missing == ((0, "unknown.name"),)
    assert by_chain(scanned)["default:z"].type == PYFLOAT


def test_every_path_leads_back_to_the_value(scanned: Scan) -> None:
    def check(capture: Capture) -> None:
        assert walk(scanned.kernel.function, capture.path) is capture.value
        assert walk(scanned.kernel.function, type_of_path(capture.path)) is type(capture.value)
        for item in capture.items:
            check(item)

    for capture in scanned.captures:
        check(capture)
    for reached in scanned.functions:
        assert walk(scanned.kernel.function, reached.path) is reached.function


def test_items_of_a_tuple_are_captures(scanned: Scan) -> None:
    pair = by_chain(scanned)["PAIR"]
    assert [item.kind for item in pair.items] == [Kind.CONSTANT, Kind.TUPLE]
    assert [item.path for item in pair.items[1].items] == [
        "globals:PAIR → item:1 → item:0", "globals:PAIR → item:1 → item:1",
    ]  # fmt: skip
    assert [item.kind for item in pair.items[1].items] == [Kind.BUFFER, Kind.OBJECT]


def test_lookup_gives_what_is_left_over(scanned: Scan) -> None:
    capture, rest = scanned.lookup(0, "TABLE.shape") or (None, "")
    assert capture is by_chain(scanned)["TABLE"]
    assert rest == ".shape"
    assert scanned.lookup(0, "math.pi") == (by_chain(scanned)["math.pi"], "")
    assert scanned.lookup(0, "unknown.name") is None
    assert scanned.lookup(3, "helper") is None
    default = scanned.default(0, "y")
    assert default is not None
    assert (default.value, default.type) == (3, PYINT)
    assert scanned.default(0, "x") is None


NAMESPACE = {
    "Color": Color, "Level": Level, "Plain": Plain, "Point": Point, "np": np, "holder": types.SimpleNamespace(n=1),
    "collections": collections,
}  # fmt: skip
CHAINS = {
    "Color.RED": (Kind.OBJECT, "Color.RED", ""),
    "Color.RED.value": (Kind.CONSTANT, "Color.RED.value", ""),
    "Level.LOW": (Kind.CONSTANT, "Level.LOW", ""),
    "Plain.LIMIT": (Kind.CONSTANT, "Plain.LIMIT", ""),
    "Plain.helper": (Kind.FUNCTION, "Plain.helper", ""),
    "Plain.nothing": (Kind.TYPE, "Plain", ".nothing"),
    "np.float32": (Kind.INTRINSIC, "np.float32", ""),
    "np.float32.itemsize": (Kind.INTRINSIC, "np.float32", ".itemsize"),
    "np.nothing.at_all": (Kind.MODULE, "np", ".nothing.at_all"),
    "holder.n": (Kind.OBJECT, "holder", ".n"),
    "collections.abc.Sized": (Kind.TYPE, "collections.abc.Sized", ""),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_chains_go_through_modules_and_classes(chain: str) -> None:
    text = f"lambda: {chain}"
    found = scan(eval(text, dict(NAMESPACE))).lookup(0, chain)
    assert found is not None
    capture, rest = found
    assert (capture.kind, capture.chain, rest) == CHAINS[chain]


def test_a_kernel_called_from_a_kernel_is_its_function() -> None:
    def inner(x: int) -> int:
        return x + 1

    kernel = FakeKernel(inner)

    def outer(x: int) -> int:
        return kernel(x) + inner(x)  # type: ignore[no-any-return, operator]

    found = scan(outer)
    assert len(found.functions) == 2
    assert by_chain(found)["kernel"].function == by_chain(found)["inner"].function == 1
    assert walk(outer, "closure:kernel → globals:np") is np


def test_what_each_access_makes_anew_cannot_be_named() -> None:
    text = "lambda: Plain.make is Plain"
    found = scan(eval(text, dict(NAMESPACE)))
    assert not by_chain(found)["Plain.make"].nameable
    assert len(found.unnameable) == 1
    assert "Plain.make" in found.unnameable[0]


def test_a_function_without_source_is_an_object_with_a_note() -> None:
    scope: dict[str, Any] = {}
    exec("".join(["def lost(x):\n", "    return x + ", "5150\n"]), scope)
    lost = scope["lost"]

    def kernel(x: int) -> int:
        return lost(x)  # type: ignore[no-any-return]

    capture = by_chain(scan(kernel))["lost"]
    assert (capture.kind, capture.key) == (Kind.OBJECT, "object")
    assert "no file holds it" in capture.note
    with pytest.raises(SourceError):
        scan(lost)


def test_names_not_there_yet() -> None:
    if False:
        late = 1

    def kernel() -> Any:
        return late, not_yet  # type: ignore[name-defined] # noqa: F821

    found = scan(kernel)
    assert found.missing == ((0, "late"), (0, "not_yet"))
    assert found.holds()
    late = 2
    assert not found.holds()
    assert by_chain(scan(kernel))["late"].value == 2


def test_module_names() -> None:
    scope: dict[str, Any] = {}
    exec("def f(): pass", scope)
    assert module_name(scope["f"]) == "<exec>"
    assert module_name(by_chain) == __name__


# ---- guards --------------------------------------------------------------------------------------


def cell_of(function: Any, name: str) -> Any:
    return function.__closure__[function.__code__.co_freevars.index(name)]


REBINDINGS = {
    "global of the kernel": lambda u, k: setattr(u, "SENTINEL", object()),
    "equal global of another identity": lambda u, k: setattr(u, "TABLE", u.TABLE.copy()),
    "equal global of another type": lambda u, k: setattr(u, "SCALE", 2),
    "function": lambda u, k: setattr(u, "helper", u.leaf),
    "attribute of a module": lambda u, k: setattr(u.other, "LUT", np.ones(2)),
    "module": lambda u, k: setattr(u, "other", types.SimpleNamespace(LUT=np.ones(2))),
    "global that hides a built-in": lambda u, k: setattr(u, "len", max),
    "missing name that appears": lambda u, k: setattr(u, "unknown", np),
    "global that goes": lambda u, k: delattr(u, "SENTINEL"),
    "closure variable": lambda u, k: setattr(
        k.__closure__[k.__code__.co_freevars.index("offset")], "cell_contents", 11
    ),
    "body of a callee": lambda u, k: setattr(u.leaf, "__code__", (lambda x: x).__code__),
    "defaults": lambda u, k: setattr(k, "__defaults__", (4,)),
    "keyword defaults": lambda u, k: setattr(k, "__kwdefaults__", {"z": 2.5}),
    "one keyword default": lambda u, k: k.__kwdefaults__.update(z=2.5),
}


@pytest.mark.parametrize("name", REBINDINGS)
def test_guards_notice(user: types.ModuleType, name: str) -> None:
    kernel = user.make(10, lambda y: y + 1)
    found = scan(kernel)
    assert found.holds()
    assert all(guard.holds() for guard in found.guards)
    assert scan(kernel, found) is found
    REBINDINGS[name](user, kernel)
    assert not found.holds()
    assert not all(guard.holds() for guard in found.guards)
    assert scan(kernel, found) is not found


def test_guards_leave_the_rest_alone(user: types.ModuleType) -> None:
    found = scan(user.make(10, lambda y: y + 1))
    user.another_global = 5  # type: ignore[attr-defined]
    user.other.Config.N = 5
    user.TABLE[0] = 99
    assert found.holds()


def test_an_emptied_cell_is_noticed() -> None:
    value = 1

    def kernel() -> int:
        return value  # noqa: F821

    found = scan(kernel)
    del value
    assert not found.holds()


# ---- paths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["globals:gone", "closure:x", "default:x", "builtins:gone", "globals:np → attr:gone", "globals:Point → item:0"],
)
def test_a_path_that_leads_nowhere_says_so(path: str) -> None:
    with pytest.raises(LookupError, match="nothing at"):
        walk(by_chain, path)


@pytest.mark.parametrize("path", ["global", "import:os", "globals:np → eval:1"])
def test_a_text_that_is_no_path(path: str) -> None:
    with pytest.raises(ValueError, match="is not a path"):
        walk(by_chain, path)
