"""What the frontend refuses: the class of the error, what it names, the way out, and the place it shows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from helpers.frontend import TOY, build
from helpers.modules import write_module
from sterna.errors import CompileError, SignatureError, UnsupportedError
from sterna.types import FLOAT32, INT32, OPAQUE, PYINT, UINT8, ArrayType

F1 = ArrayType(FLOAT32, 1)

HEAD = """
import dataclasses
import enum
import math
from collections import namedtuple
import numpy as np
from sterna.language import *

TABLE = np.arange(5.0)
class Plain:
    pass
PLAIN = Plain()
class Mode(enum.Enum):
    FAST = 1
Pair = namedtuple("Pair", "x y")
@dataclasses.dataclass(frozen=True)
class Checked:
    a: float
    def __post_init__(self): pass
def helper(x, y=1):
    return x
def with_keywords(**k):
    return 1
def half(x):
    if x > 0:
        return 1
def two(x):
    if x > 0:
        return 1
    return (1, 2)
def endless(x):
    return endless(x - 1)
def ping(x):
    return pong(x)
def pong(x):
    return ping(x)
def generator(x):
    yield x
async def coroutine():
    pass
"""

UNSUPPORTED = [
    ("try:\n    pass\nexcept ValueError:\n    pass", "try", "if"),
    ("a[0] = [1, 2]", "list", "tuple"),
    ("b = {1: 2}", "dict", "named tuple"),
    ("b = {1, 2}", "set", "tuple"),
    ("b = [i for i in range(3)]", "comprehension", "for loop"),
    ("b = sum(i for i in range(3))", "generator expression", "for loop"),
    ("global q\nq = 1", "global", "sterna.Global"),
    ("del a", "del", ""),
    ("import os", "import", "top of the file"),
    ("class Q:\n    pass", "class", "outside"),
    ("match n:\n    case 1:\n        pass", "match", "if and elif"),
    ("with open('f'):\n    pass", "with", "inbounds"),
    ("b, *c = (1, 2)", "starred", "every item"),
    ("async def f():\n    pass", "async", ""),
    ("a[0] = f'{n}'", "f-string", "print"),
    ("b = a @ a", "operator @", "loops"),
    ("a[n:] = 1", "slice", "loop"),
    ("a[0] = a.sum()", "array.sum", "loop"),
    ("a[0] = with_keywords(k=1)", "**k", "name its parameters"),
    ("a[0] = helper(**n)", "**keywords", "name"),
    ("b = Plain()", "Plain", "named tuple"),
    ("b = Checked(1.0)", "__post_init__", "host"),
    ("a[0] = n is s", "`is`", "=="),
    ("a[0] = n in a", "`in`", "loop"),
    ("a[0] = sorted((1, 2))", "sorted()", "loop"),
    ("a[0] = pow(n, 2, 3)", "modulus", "loop"),
    ("a[0] = round(1.5 * n, 1)", "decimal", "np.float64"),
    ("raise ValueError(a[0])", "integers", "f-string"),
    ("raise", "bare raise", "raise ValueError"),
    ("b = zip(a, a)", "iterator", "for"),
    ("def f():\n    pass\nreturn f", "cannot be returned", ""),
    ("a[0] = generator(n)", "generators", ""),
    ("a[0] = coroutine()", "coroutine", ""),
    ("@helper\ndef f():\n    pass", "decorator", "outside"),
    ("for v, w in zip((1, 2), a):\n    pass", "zip", "range"),
    ("a[0] = (1, 2) * n", "repeated", "constant"),
    ("yield 1", "generators", ""),
]
WRONG = [
    ("a[0] = undefined", "'undefined' is not defined", ""),
    ("a[0] = later\nlater = 1", "later is read before it is assigned", ""),
    ("for i in range(n):\n    a[0] = never\n    del_ = 1\nnever = 2", "never is read before it is assigned", ""),
    ("a[0] = helper(*a)", "* needs a tuple, this is 1-D array", "length"),
    ("a[0] = helper()", "missing argument x", ""),
    ("a[0] = helper(1, 2, 3)", "takes 2 positional arguments, 3 were given", ""),
    ("a[0] = helper(1, w=2)", "no parameter w", "x, y"),
    ("a[0] = helper(1, x=2)", "given argument x twice", ""),
    ("a[0] = half(n)", "ends without a return", "at the end"),
    ("a[0] = two(n)", "tuple (Python int, Python int) here and Python int on another path", "one type"),
    ("a[0] = endless(n)", "endless → endless", "recursive"),
    ("a[0] = ping(n)", "ping → pong → ping", "recursive"),
    ("return n", "a kernel returns nothing", "array"),
    ("a[0] = a", "1-D array of float32 cannot be stored", ""),
    ("a[0] = a[1, 2]", "2 indices for a 1-D array", ""),
    ("a[0] = a['x']", "structured", ""),
    ("a[0] = a[1.5]", "an index must be an integer", "int("),
    ("a[0] = a + 1", "operator + needs a number, this is 1-D array of float32", "index"),
    ("if a:\n    pass", "no truth value", "a.size"),
    ("a[0] = a.shape2", "no attribute 'shape2'", "shape"),
    ("a[0] = math.foo(1)", "'foo'", ""),
    ("a[0] = np.linalg.norm(a)", "numpy.linalg.norm cannot be called", "np.sin"),
    ("TABLE[0] = 1", "read-only", "sterna.Array"),
    ("a[0] = PLAIN", "64-bit word", "uint64"),
    ("a[0] = PLAIN.z", "no attribute 'z'", "argument"),
    ("a[0] = PLAIN()", "PLAIN cannot be called", "source"),
    ("t = shared.array(n, np.float32)", "constant shape", "literal"),
    ("t = shared.array(3, 'zz')", "dtype", "np.float32"),
    ("a[0] = grid(n)", "constant 1, 2 or 3", ""),
    ("for i in n:\n    pass", "Python int cannot be iterated", "range"),
    ("for i in range(1.5):\n    pass", "range needs integers", "int("),
    ("for i in range(1, 2, 0):\n    pass", "must not be zero", ""),
    ("b = 1 if n else (1, 2)", "Python int on one side and tuple", "if statement"),
    ("b = (1, 2)\nif n:\n    b = 3\na[0] = b", "b is Python int on one path and tuple", "own name"),
    ("b = None\nif n:\n    b = 1\na[0] = b", "b is Python int on one path and None", "own name"),
    ("b, c = 1", "cannot be unpacked", ""),
    ("b, c = (1, 2, 3)", "2 names for a tuple of 3 items", ""),
    ("a[0] = u + 300", "300 does not fit uint8", "np.int64"),
    ("b = 1 << 70", "does not fit 64 bits", "np.uint64"),
    ("a[0] = 1j", "complex", "z.real"),
    ("a[0] = ~2.5", "~ needs an integer", ""),
    ("a[0] = n & 1.5", "& needs integers", "int("),
    ("a[0] = s ** -1", "negative integer powers", "1.0 /"),
    ("atomic.add(a, 0)", "takes 3 arguments, 2 were given", ""),
    ("atomic.and_(a, 0, 1)", "needs integers", ""),
    ("atomic.add(n, 0, 1)", "needs an array", ""),
    ("a[0] = len(n)", "no len()", ""),
    ("a[0] = n[0]", "cannot be indexed", ""),
    ("n.y = 3", "cannot be assigned", "new one"),
    ("p = Pair(1)", "missing field y", ""),
    ("p = Pair(1, z=2)", "z but has no such field", "x, y"),
    ("a[0] = (1, 2)[5]", "the tuple has 2 items", ""),
    ("a[0] = -(a[0] > 1)", "numpy.bool_ has no unary -", "int("),
    ("a[0] = (a[0] > 1) - (a[1] > 1)", "cannot be subtracted", "^"),
    ("a[0] = n > 1j", "cannot be ordered", "abs"),
    ("print(a)", "print()", ""),
    ("raise n", "cannot be raised", ""),
    ("inbounds()", "with inbounds", ""),
]  # fmt: skip


@pytest.fixture
def make(tmp_path: Path) -> Iterator:
    made: list[str] = []

    def module_of(body: str) -> ModuleType:
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        module = write_module(tmp_path, f"{HEAD}\ndef k(a, n, u, s):\n{lines}")
        made.append(module.__name__)
        return module

    yield module_of
    for name in made:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("body", "named", "hint"), UNSUPPORTED + WRONG, ids=[c[0][:40] for c in UNSUPPORTED + WRONG])
def test_refused(make, body: str, named: str, hint: str) -> None:
    expected = UnsupportedError if (body, named, hint) in UNSUPPORTED else CompileError
    with pytest.raises(expected) as caught:
        build(make(body).k, F1, PYINT, UINT8, INT32)
    error = caught.value
    assert named in str(error)
    assert hint in error.hint
    assert error.kernel == "k"
    assert error.location is not None
    assert error.location.text.strip()


def test_the_error_points_at_the_expression(make) -> None:
    module = make("b = n\na[0] = b + undefined * 2  # ünused")
    with pytest.raises(CompileError) as caught:
        build(module.k, F1, PYINT, UINT8, INT32)
    shown = str(caught.value).splitlines()
    assert shown[0] == "kernel k: name 'undefined' is not defined"
    assert shown[1].startswith('  File "') and shown[1].endswith(", in k")
    assert shown[2] == "    a[0] = b + undefined * 2  # ünused"
    assert shown[3] == "               ^^^^^^^^^"
    location = caught.value.location
    assert location is not None
    assert Path(location.filename).read_text().splitlines()[location.line - 1] == location.text


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("b = -1\nif n:\n    b = u\na[0] = b", "if n:"),
        ("b = -1\nfor j in range(n):\n    b = u\na[0] = b", "for j in range(n):"),
        ("b = u\nwhile b > n:\n    if n == 3:\n        b = -1\n        continue\na[0] = b", "while b > n:"),
        ("t = (1, -1)\nif n:\n    t = (1, u)\na[0] = t[1]", "if n:"),
        ("a[0] = u if n else -1", "a[0] = u if n else -1"),
        ("a[0] = u or -1", "a[0] = u or -1"),
        ("f = lambda: u or -1\na[0] = f()", "f = lambda: u or -1"),
    ],
)
def test_a_number_that_does_not_fit_where_paths_meet(make, body: str, line: str) -> None:
    with pytest.raises(CompileError, match="the integer -1 does not fit uint8") as caught:
        build(make(body).k, F1, PYINT, UINT8, INT32)
    assert caught.value.kernel == "k"
    assert caught.value.location is not None
    assert caught.value.location.text.strip() == line
    assert "np.int64" in caught.value.hint


def test_a_variable_that_cannot_be_of_both_types_is_named(make) -> None:
    with pytest.raises(CompileError, match="the type that 'b' has on another path"):
        build(make("b = -1\nif n:\n    b = u\na[0] = b").k, F1, PYINT, UINT8, INT32)


def test_an_error_in_a_callee_shows_its_line_and_what_it_was_called_with(make) -> None:
    module = make("a[0] = two(n)")
    with pytest.raises(CompileError, match=r"\[in two\(x: Python int\)\]") as caught:
        build(module.k, F1, PYINT, UINT8, INT32)
    assert caught.value.location is not None
    assert caught.value.location.text.strip() == "return (1, 2)"


def test_a_failing_kernel_fails_the_same_way_every_time(make) -> None:
    module = make("a[0] = undefined")
    messages = set()
    for _ in range(3):
        with pytest.raises(CompileError) as caught:
            build(module.k, F1, PYINT, UINT8, INT32)
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_wrong_number_of_types(make) -> None:
    with pytest.raises(SignatureError, match="takes 4 arguments, 1 types"):
        build(make("pass").k, F1)


def test_grid_must_fit_an_over_launch(make) -> None:
    with pytest.raises(CompileError, match=r"grid\(1\) in a launch over 2 axes"):
        build(make("a[0] = grid(1)").k, F1, PYINT, UINT8, INT32, over=2)


def test_types_the_target_lacks_are_refused(make) -> None:
    from dataclasses import replace

    target = replace(TOY, name="small", unsupported_types=frozenset({"float32"}))
    with pytest.raises(CompileError, match="target small has no float32"):
        build(make("pass").k, F1, PYINT, UINT8, INT32, target=target)


def test_a_function_given_at_a_launch_is_only_an_identity(make) -> None:
    with pytest.raises(CompileError, match="cannot be called") as caught:
        build(make("a[0] = u(n)").k, F1, PYINT, OPAQUE, INT32)
    assert "functions that it captures" in caught.value.hint


@pytest.mark.parametrize("body", ["a[0] = 1", "atomic.add(a, 0, 1)", "for i in range(n):\n    a[i] += 1"])
def test_a_write_to_a_read_only_argument(make, body: str) -> None:
    with pytest.raises(CompileError, match="this array is read-only") as caught:
        build(make(body).k, ArrayType(FLOAT32, 1, readonly=True), PYINT, UINT8, INT32)
    assert "flags.writeable" in caught.value.hint
