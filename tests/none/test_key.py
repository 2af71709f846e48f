"""Keys: what must change them and what must not (I8)."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from helpers.modules import write_module
from sterna.image.key import base_key, kernel_key
from sterna.options import CompileOptions
from sterna.overlays import Overlay, Tables, register, remove
from sterna.source.captures import scan
from sterna.targets.base import Limits, Target
from sterna.types import FLOAT32, FLOAT64, INT32, PYINT, ArrayType, LiteralType, Type

SOURCE_ROOT = Path(__import__("sterna").__file__).parents[1]
TARGET = Target("toy", "v1", ("patch",), Limits())
TYPES: tuple[Type, ...] = (ArrayType(FLOAT32, 1), PYINT)
OPTIONS = CompileOptions()

KERNEL = """
import numpy as np
import {helpers} as helpers
from {helpers} import Choice, Params

N = 4
RATE = 0.5
TABLE = np.zeros(3)
OBJECT = object()

def unrelated(x):
    return x

def near(x):
    return x + N

def kernel(out, i, extra=1):
    '''Doc.'''
    # comment
    if out[i] is OBJECT and type(i) is Params:
        out[i] = near(i) * RATE + helpers.far(i) + TABLE[i] + Choice.A.value
"""
HELPERS = """
import enum
from typing import NamedTuple
M = 7
class Choice(enum.Enum):
    A = 1
    B = 2
class Params(NamedTuple):
    a: int
    b: float = 1.0
def deep(x):
    return x - M
def far(x):
    return deep(x)
def unrelated(x):
    return x
"""


def key_of(function: Any, types: tuple[Type, ...] = TYPES, target: Target = TARGET, options: Any = OPTIONS) -> str:
    assert isinstance(function, FunctionType)
    return base_key(scan(function), types, target, options)


def key_of_texts(folder: Path, kernel: str = KERNEL, helpers: str = HELPERS) -> str:
    module = write_module(folder, helpers)
    # the helper module's name depends on its text here; the kernel's text then differs by it in imports only
    return key_of(write_module(folder, kernel.replace("{helpers}", module.__name__)).kernel)


SAME: dict[str, tuple[str, str]] = {
    "comment": ("# comment", "# another comment"),
    "docstring": ("'''Doc.'''", "'''Another.'''"),
    "line moves": ("N = 4\n", "N = 4\n\n\n\n"),
    "formatting": ("near(i) * RATE", "(near( i )\n            * RATE)"),
    "unrelated function": ("def unrelated(x):\n    return x", "def unrelated(x):\n    return x + 1"),
    "contents of an array": ("np.zeros(3)", "np.ones(3)"),
    "length of an array": ("np.zeros(3)", "np.zeros(300)"),
    "layout of a NumPy array, copied anyway": ("np.zeros(3)", "np.zeros(9)[::3]"),
    "another object": ("object()", "[]"),
    "annotation": ("kernel(out, i", "kernel(out: float, i: 'int'"),
    "spelling of a constant": ("RATE = 0.5", "RATE = 5e-1"),
    "unrelated global": ("N = 4", "N = 4\nQ = 9"),
}
OTHER: dict[str, tuple[str, str]] = {
    "kernel": ("* RATE", "- RATE"),
    "constant": ("N = 4", "N = 5"),
    "type of a constant": ("N = 4", "N = 4.0"),
    "bool for an int": ("N = 4", "N = True"),
    "NumPy scalar for an int": ("N = 4", "N = np.int64(4)"),
    "negative zero": ("RATE = 0.5", "RATE = -0.0"),
    "NaN": ("RATE = 0.5", "RATE = float('nan')"),
    "callee": ("x + N", "N + x"),
    "dtype of an array": ("np.zeros(3)", "np.zeros(3, np.float32)"),
    "axes of an array": ("np.zeros(3)", "np.zeros((3, 3))"),
    "array to object": ("np.zeros(3)", "None"),
    "class of a name": ("OBJECT = object()", "OBJECT = 1"),
    "default": ("extra=1", "extra=2"),
    "no default": ("extra=1", "extra"),
    "global that hides a built-in": ("N = 4", "N = 4\ntype = len"),
}
FAR_OTHER: dict[str, tuple[str, str]] = {
    "callee in another file": ("return deep(x)", "return -deep(x)"),
    "callee of the callee": ("x - M", "x + M"),
    "its constant": ("M = 7", "M = 8"),
    "value of an enum member": ("A = 1", "A = 3"),
    "field of a named tuple": ("b: float = 1.0", "c: float = 1.0"),
    "default of a field": ("b: float = 1.0", "b: float = 2.0"),
}
FAR_SAME: dict[str, tuple[str, str]] = {
    "unrelated function": ("def unrelated(x):\n    return x", "def unrelated(x):\n    return 0"),
    "comment": ("M = 7", "# seven\nM = 7"),
    "unrelated member": ("B = 2", "B = 3"),
}


def _edited(text: str, edit: tuple[str, str]) -> str:
    assert edit[0] in text
    return text.replace(*edit, 1)


@pytest.mark.parametrize("name", SAME)
def test_must_not_change(tmp_path: Path, name: str) -> None:
    assert key_of_texts(tmp_path, _edited(KERNEL, SAME[name])) == key_of_texts(tmp_path)


@pytest.mark.parametrize("name", OTHER)
def test_must_change(tmp_path: Path, name: str) -> None:
    assert key_of_texts(tmp_path, _edited(KERNEL, OTHER[name])) != key_of_texts(tmp_path)


@pytest.mark.parametrize("name", FAR_OTHER)
def test_must_change_by_another_file(tmp_path: Path, name: str) -> None:
    assert key_of_texts(tmp_path, helpers=_edited(HELPERS, FAR_OTHER[name])) != key_of_texts(tmp_path)


@pytest.mark.parametrize("name", FAR_SAME)
def test_must_not_change_by_another_file(tmp_path: Path, name: str) -> None:
    assert key_of_texts(tmp_path, helpers=_edited(HELPERS, FAR_SAME[name])) == key_of_texts(tmp_path)


def test_all_changes_give_different_keys(tmp_path: Path) -> None:
    keys = [key_of_texts(tmp_path, _edited(KERNEL, edit)) for edit in OTHER.values()]
    keys += [key_of_texts(tmp_path, helpers=_edited(HELPERS, edit)) for edit in FAR_OTHER.values()]
    assert len(set(keys)) == len(keys)


# ---- the job around the function -----------------------------------------------------------------


def simple(out: Any, i: int) -> None:
    out[i] = 1


JOBS: dict[str, Mapping[str, Any]] = {
    "nothing": {},
    "dtype of an argument": {"types": (ArrayType(FLOAT64, 1), PYINT)},
    "layout of an argument": {"types": (ArrayType(FLOAT32, 1, "A"), PYINT)},
    "weakness of an argument": {"types": (ArrayType(FLOAT32, 1), INT32)},
    "a literal": {"types": (ArrayType(FLOAT32, 1), LiteralType("a"))},
    "another literal": {"types": (ArrayType(FLOAT32, 1), LiteralType("b"))},
    "fewer arguments": {"types": TYPES[:1]},
    "target": {"target": Target("other", "v1", ("patch",), Limits())},
    "architecture": {"target": Target("toy", "v2", ("patch",), Limits())},
    "boundscheck": {"options": OPTIONS.with_(boundscheck=False)},
    "fastmath": {"options": OPTIONS.with_(fastmath=True)},
    "contract": {"options": OPTIONS.with_(contract=True)},
    "noalias": {"options": OPTIONS.with_(noalias=True)},
    "debug": {"options": OPTIONS.with_(debug=True)},
    "opt": {"options": OPTIONS.with_(opt=2)},
    "strategy": {"options": OPTIONS.with_(strategy="table")},
    "over 1": {"options": OPTIONS.with_(over=1)},
    "over 2": {"options": OPTIONS.with_(over=2)},
}


def test_every_part_of_a_job_counts() -> None:
    keys = {name: key_of(simple, **job) for name, job in JOBS.items()}
    assert len(set(keys.values())) == len(JOBS)
    assert all(len(key) == 64 for key in keys.values())


def test_an_option_at_its_default_is_no_option() -> None:
    assert key_of(simple, options=CompileOptions(boundscheck=True, opt=3)) == key_of(simple)


def test_overlays_count() -> None:
    def one(x: Any) -> Any:
        return x

    def two(x: Any) -> Any:
        return x + x

    keys = [key_of(calling)]
    for table, definition in (("device", one), ("device", two), ("fake", one)):
        register(Overlay(simple, table, "", (definition,)))
        try:
            found = scan(calling, tables=Tables(("fake", "device")))
        finally:
            remove(simple, table)
        assert list(found.overlays) == [f"globals:simple → override:{table}"]
        keys.append(base_key(found, TYPES, TARGET, OPTIONS))
    assert len(set(keys)) == 4


def calling(x: Any, n: Any) -> Any:
    return simple(x, n)


def test_versions_make_the_second_step() -> None:
    base = key_of(simple)
    first = kernel_key(base, {"llvmlite": "0.50", "sterna": "1"})
    assert first == kernel_key(base, {"sterna": "1", "llvmlite": "0.50"})
    others = [{"llvmlite": "0.51", "sterna": "1"}, {"llvmlite": "0.50"}, {}, {"llvmlite": "0.501", "sterna": ""}]
    assert len({first, *(kernel_key(base, versions) for versions in others)}) == 5
    assert kernel_key(key_of(simple, types=()), {}) != kernel_key(base, {})


# ---- functions that look alike -------------------------------------------------------------------


def factory(value: Any) -> Callable[..., Any]:
    def kernel(x: Any) -> Any:
        return x + value

    return kernel


def test_closures_of_one_factory() -> None:
    def one(x: int) -> int:
        return x

    def two(x: int) -> int:
        return -x

    values = [1, 2, 1.0, True, one, two, np.float32(1)]
    keys = [key_of(factory(value)) for value in values]
    assert len(set(keys)) == len(values)
    assert keys == [key_of(factory(value)) for value in values]
    assert key_of(factory(np.zeros(3))) == key_of(factory(np.ones(5)))
    assert key_of(factory(object())) == key_of(factory(object()))


def test_functions_with_equal_names() -> None:
    def kernel(x: int) -> int:
        return x + 1

    first = kernel

    def kernel(x: int) -> int:  # type: ignore[no-redef]
        return x + 2

    assert key_of(first) != key_of(kernel)


def test_lambdas_of_one_line() -> None:
    first, second = (lambda x: x + 1), (lambda x: x + 2)
    assert key_of(first) != key_of(second)


def test_one_function_under_two_names_is_not_two_equal_functions() -> None:
    def one(x: int) -> int:
        return x

    def other(x: int) -> int:
        return x

    other.__qualname__ = one.__qualname__

    def kernel(f: Any, g: Any) -> Any:
        def inner(x: int) -> Any:
            return f(x) + g(x), f is g

        return inner

    assert key_of(kernel(one, one)) != key_of(kernel(one, other))
    assert key_of(kernel(one, other)) == key_of(kernel(other, one))


def test_a_constant_in_a_closure_or_in_a_default_or_in_a_tuple() -> None:
    values: list[Any] = [(1, 2), (1, (2,)), (1, 2.0), (1, np.zeros(1)), (np.zeros(1), 1), (np.zeros(1, "f4"), 1)]
    assert len({key_of(factory(value)) for value in values}) == len(values)
    assert key_of(factory((1, np.zeros(1)))) == key_of(factory((1, np.ones(4))))


SESSION = """
import sys
sys.path[:0] = sys.argv[1:3]
from sterna.image.key import base_key, kernel_key
from sterna.options import CompileOptions
from sterna.overlays import Overlay, Tables, register, remove
from sterna.source.captures import scan
from sterna.types import PYINT
import job
base = base_key(scan(job.kernel), (PYINT,), sys.argv[3], CompileOptions())
print(kernel_key(base, {"b": "1", "a": "2"}))
"""
JOB = """
import enum, math
import numpy as np
SET = {"a", "b", "c"}
class E(enum.Enum):
    A = "x"
TABLE = (1, -0.0, float("nan"), "text", (np.float32(1), None))
def helper(x): return x in ("a", "b", "c") or x in {"d", "e", "f"}
kernel = lambda x: helper(x) and TABLE[x] and SET and E.A and math.pi and np.dtype("f4") and (lambda y: E.A.value)(x)
"""


def test_same_in_every_process_and_place(tmp_path: Path) -> None:
    keys = set()
    for seed in ("0", "1", "random"):
        folder = tmp_path / seed
        folder.mkdir()
        (folder / "job.py").write_text("\n" * len(seed) + JOB)
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", SESSION, str(folder), str(SOURCE_ROOT), "toy-v1"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        keys.add(done.stdout)
    assert len(keys) == 1


def test_computing_a_known_key_parses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = key_of_texts(tmp_path)
    monkeypatch.setattr(ast, "parse", None)
    monkeypatch.setattr("sterna.source.parsed.ParsedSource", None)
    assert key_of_texts(tmp_path) == first


WRAPPED = """
import functools
def scaled(by):
    def deco(function):
        @functools.wraps(function)
        def wrapper(x):
            return function(x) * by
        return wrapper
    return deco
@scaled(3)
def kernel(x):
    return x + 1
"""


@pytest.mark.parametrize("edit", [("x + 1", "x + 2"), ("scaled(3)", "scaled(4)"), ("(x) * by", "(x) / by")])
def test_a_decorator_in_between(tmp_path: Path, edit: tuple[str, str]) -> None:
    first = key_of(write_module(tmp_path, WRAPPED).kernel)
    assert key_of(write_module(tmp_path, _edited(WRAPPED, edit)).kernel) != first
    assert (
        key_of(write_module(tmp_path, _edited(WRAPPED, ("def kernel(x):", "def kernel(x):  # same"))).kernel) == first
    )
