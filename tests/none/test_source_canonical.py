"""The normal form: what changes a function's digest, and how its statements are numbered."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sterna.source.canonical import FunctionNode, digest, ordered_statements, prepare

ROOT = Path(__import__("sterna").__file__).parent
BASE = """
def f(x, y=1, *, z=2):
    t = x + y * 2.0
    if t > z:
        return -t
    return t
"""


def node_of(text: str) -> FunctionNode:
    node = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.Lambda))
    prepare(node)
    return node


SAME = {
    "comment": BASE.replace("    if", "    # a comment\n    if"),
    "blank lines and line moves": "\n\n\n" + BASE.replace("    if", "\n\n    if"),
    "docstring": BASE.replace("    t =", '    """What it does."""\n    t =', 1),
    "formatting": BASE.replace("x + y * 2.0", "(x\n         + (y * 2.0))").replace("return -t", "return (-t)"),
    "spelling of numbers": BASE.replace("2.0", "0.2e1"),
    "own name": BASE.replace("def f", "def g"),
    "parameter and return annotations": BASE.replace("f(x, y=1", "f(x: int, y: 'float' = 1").replace("):", ") -> int:"),
    "annotated assignment": BASE.replace("t = x", "t: float = x"),
    "bare annotation of an assigned local": BASE.replace("    t =", "    t: float\n    t =", 1),
    "own decorator": BASE.replace("def f", "@something(1)\ndef f"),
    "default value, captured instead": BASE.replace("y=1", "y=7"),
    "tabs": BASE.replace("    ", "\t"),
}
OTHER = {
    "constant": BASE.replace("2.0", "2.5"),
    "type of a constant": BASE.replace("2.0", "2"),
    "operator": BASE.replace("x + y", "x - y"),
    "comparison": BASE.replace(">", ">="),
    "local name": BASE.replace("t", "u").replace("reuurn", "return").replace("defaulu", "default"),
    "parameter name": BASE.replace("x", "w"),
    "parameter order": BASE.replace("x, y=1", "y, x=1"),
    "default gone": BASE.replace("y=1", "y"),
    "keyword-only default gone": BASE.replace("z=2", "z"),
    "statement order": BASE.replace("-t", "t"),
    "dead code": BASE + "    return 1\n",
    "decorator of a nested function": BASE.replace("    t =", "    @d\n    def g(): return 1\n    t =", 1),
    "nested function": BASE.replace("    t =", "    def g(): return 1\n    t =", 1),
    "bare annotation that makes a local": BASE.replace("    t =", "    q: int\n    t =", 1),
}


@pytest.mark.parametrize("edit", SAME, ids=list(SAME))
def test_digest_does_not_see(edit: str) -> None:
    assert digest(node_of(SAME[edit])) == digest(node_of(BASE))


@pytest.mark.parametrize("edit", OTHER, ids=list(OTHER))
def test_digest_sees(edit: str) -> None:
    assert digest(node_of(OTHER[edit])) != digest(node_of(BASE))


def test_all_other_edits_differ_from_each_other() -> None:
    assert len({digest(node_of(text)) for text in OTHER.values()}) == len(OTHER)


@pytest.mark.parametrize(
    ("first", "second"),
    [("0.0", "-0.0"), ("1", "True"), ("1", "1.0"), ("1.0", "1.0+0j"), ("'1'", "1"), ("None", "0"), ("b'a'", "'a'")],
)
def test_constants_are_type_exact(first: str, second: str) -> None:
    assert digest(node_of(f"lambda: {first}")) != digest(node_of(f"lambda: {second}"))


def test_strings_are_compared_by_value_not_by_spelling() -> None:
    assert digest(node_of("lambda: u'a' 'b'")) == digest(node_of('lambda: "ab"'))
    assert digest(node_of("lambda x: f'a{x}' 'b'")) == digest(node_of("lambda x: f'a{x}b'"))


def test_ordinals_count_statements_in_source_order() -> None:
    text = '''
def f(x):
    """Docstring, not counted."""
    a = 1
    if x:
        b = 2
    elif a:
        c = 3
    else:
        for i in x:
            d = 4
        else:
            e = 5
    def g():
        """Not counted either."""
        return 6
    with x as y:
        pass
    return g
'''
    lines = [s.lineno for s in ordered_statements(node_of(text))]
    assert lines == [4, 5, 6, 7, 8, 10, 11, 13, 14, 16, 17, 18, 19]


def test_a_lambda_has_one_statement() -> None:
    node = node_of("lambda x: x + 1")
    assert ordered_statements(node) == [node.body]


def test_a_thousand_branches_need_no_recursion() -> None:
    branches = "".join(f"    elif x == {n}:\n        y = {n}\n" for n in range(1, 700))
    node = node_of(f"def f(x):\n    if x == 0:\n        y = 0\n{branches}    return y\n")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        assert len(ordered_statements(node)) == 1401
        assert len(digest(node)) == 64
    finally:
        sys.setrecursionlimit(limit)


def test_private_names_are_mangled_as_python_does() -> None:
    node = ast.parse("class _C:\n def f(self): return __a + self.__b + __c__").body[0].body[0]  # type: ignore[attr-defined]
    prepare(node, "_C")
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {
        n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)
    }
    assert names == {"_C__a", "self", "_C__b", "__c__"}


MANY = r'''
def f(a, /, b: int, *args, c=1, **kwargs) -> float:
    """Docstring
        with an indent."""
    x: int = 3
    for i, (j, k) in enumerate(zip(a, b)):
        while i < j <= k and not i == 3:
            x += -1 ** 2 // 3 % 4 << 5 | 6 & ~7 ^ 8
            continue
        else:
            break
    try:
        assert x, "message"
    except (ValueError, TypeError) as error:
        raise RuntimeError(f"{x!r:>{k}} and {j=}" " more" 'text') from error
    finally:
        del x
    match a:
        case {"k": [1, *rest], **more} | Point(x=0, y=None) if rest:
            return a[1:2, ..., None, *b]
        case -1.5 | "s" | None as name:
            pass
    y = [q for q in a if q for r in q] + [*{**kwargs}] + list({s for s in a}) + [lambda u, v=2: u @ v]
    async def g():
        async with a as b, c: await d
    global h; nonlocal_ = (h := 1e308 * 10, 1j, b"\xff", "\ud800", 10**50)
    return (yield) if x is not y else x.y.z(*args, k=1, **kwargs)
'''
SCRIPT = """
import ast, sys, types
package = types.ModuleType("sterna"); package.__path__ = [sys.argv[1]]; sys.modules["sterna"] = package
source = types.ModuleType("sterna.source"); source.__path__ = [sys.argv[1] + "/source"]
sys.modules["sterna.source"] = source
from sterna.source.canonical import digest, ordered_statements, prepare
from sterna.source.scopes import free_names
node = ast.parse(sys.stdin.read()).body[0]
prepare(node)
print(digest(node), len(ordered_statements(node)), ",".join(free_names(node)))
"""


def other_pythons() -> list[str]:
    folders = [Path.home() / ".pyenv/versions", Path("/opt/python")]
    names = [str(p) for f in folders if f.is_dir() for p in sorted(f.glob("*/bin/python3"))]
    return [p for p in names if any(f"/3.{minor}." in p for minor in (11, 12, 13, 14))]


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_digest_is_the_same_on_every_python(minor: int) -> None:
    found = [p for p in other_pythons() if f"/3.{minor}." in p]
    if sys.version_info[1] == minor:
        found = [sys.executable]
    if not found:
        pytest.skip(f"no Python 3.{minor} on this machine")
    environment = {**os.environ, "PYTHONHASHSEED": "random"}
    results = {
        subprocess.run(
            [python, "-c", SCRIPT, str(ROOT)], input=MANY, env=environment, capture_output=True, text=True, check=True
        ).stdout
        for python in (found[0], sys.executable)
    }
    assert len(results) == 1, results
    (text,) = results
    assert text.split()[2] == "enumerate,zip,ValueError,TypeError,RuntimeError,Point,list,d"
