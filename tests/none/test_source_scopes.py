"""Free names: by table, and held to CPython's own compiler on its standard library."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import dis
import inspect
import types
from collections.abc import Iterator

import pytest

from sterna.source.canonical import FunctionNode
from sterna.source.parsed import ParsedSource
from sterna.source.scopes import free_names

TABLE = {
    "def f(x): return x + y": "y",
    "def f(x): return m.a.b(x).c": "m.a.b",
    "def f(x): m.a[0].b = x; m.c = 1": "m.a m",
    "def f(x): y = 1; return y": "",
    "def f(x): global y; y = 1; return y": "y",
    "def f(x): global y; y += x": "y",
    "def f(x): return lambda z: x + z + w": "w",
    "def f(x): return lambda z=d: z": "d",
    "def f(x=d): return x": "",
    "@d\ndef f(x: A) -> B: c: C = x; return c": "",
    "def f(x): return [q + r for q in x for r in q if s]": "s",
    "def f(x): return [q for q in q]": "q",
    "def f(x): return {k: v for k, v in x}, k": "k",
    "def f(x): return [w := q for q in x], w": "",
    "def f(x):\n def g(): return x + t\n return g() + g2": "t g2",
    "def f():\n a = 1\n def g():\n  nonlocal a\n  a = b\n return a": "b",
    "def f():\n def g():\n  global a\n  return a\n a = 1": "a",
    "def f():\n class C(B):\n  v = w\n  def m(self): return v\n return C": "B w v",
    "def f():\n try: pass\n except E as e: raise e": "E",
    "def f(x):\n match x:\n  case [a, *b]: return a, b\n  case {1: c, **d}: return c, d\n  case P(q=e) as g: pass": "P",
    "def f():\n import m.n as k, o.p\n return k, o, m": "m",
    "def f():\n for i in r: pass\n with o as (p, q): return i, p, q": "r o",
    "def f(): return b.x + a + b.x + b": "b.x a b",
    "lambda x: x * scale": "scale",
    "def f(): return f()": "f",
}


@pytest.mark.parametrize("text", TABLE, ids=range(len(TABLE)))
def test_free_names(text: str) -> None:
    statement = ast.parse(text).body[0]
    node = statement.value if isinstance(statement, ast.Expr) else statement
    assert free_names(node) == tuple(TABLE[text].split())  # type: ignore[arg-type]


def names_by_bytecode(code: types.CodeType) -> Iterator[str]:
    """What CPython's compiler decided to read from outside the function and everything nested in it."""
    yield from code.co_freevars
    stack = [code]
    while stack:
        item = stack.pop()
        stack.extend(c for c in item.co_consts if isinstance(c, types.CodeType))
        for instruction in dis.get_instructions(item):
            if instruction.opname == "LOAD_GLOBAL":
                yield instruction.argval


@pytest.mark.parametrize("module", [argparse, dataclasses, ast, dis], ids=lambda m: m.__name__)
def test_agrees_with_cpython_on_its_library(module: types.ModuleType) -> None:
    with open(str(module.__file__), encoding="utf-8") as file:
        parsed = ParsedSource(str(module.__file__), file.read())
    checked = 0
    for code in parsed.codes():
        is_function = code.co_flags & inspect.CO_OPTIMIZED and (code.co_name == "<lambda>" or code.co_name[0] != "<")
        if not is_function:  # a module, class body or comprehension
            continue
        found = parsed.find(code)
        assert found is not None
        node: FunctionNode = found[0]
        roots = {chain.split(".")[0] for chain in free_names(node)}
        # names that only folded-away code or annotations mention are not in the bytecode
        expected = set(names_by_bytecode(code))
        assert expected - roots - {"__class__", "super"} <= annotation_names(node), code.co_name
        assert roots - expected <= {"__debug__"}, (code.co_name, roots - expected)
        checked += 1
    assert checked > 30


def annotation_names(node: FunctionNode) -> set[str]:
    annotations = [n.annotation for n in ast.walk(node) if isinstance(n, ast.arg | ast.AnnAssign) and n.annotation]
    return {n.id for a in annotations for n in ast.walk(a) if isinstance(n, ast.Name)}
