"""No construct of Python is forgotten: every class of syntax node is either compiled or refused by name.

The tables name the node classes of Python 3.11 to 3.14; a newer Python with a new class fails here first.
"""

# ruff: noqa: E501

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from helpers.frontend import build
from helpers.modules import write_module
from sterna.errors import SourceError, UnsupportedError
from sterna.types import FLOAT32, INT32, PYINT, ArrayType

HEAD = "import math\nimport numpy as np\nimport sterna\n\n\ndef helper(x, y=1, *rest):\n    return x\n\n\n"

COMPILED = {
    # ---- statements
    "FunctionDef": "def f(x):\n    return x\na[0] = f(n)", "Return": "return", "Assign": "x = y = n\na[0] = y",
    "AugAssign": "a[0] += n\nn -= 1", "AnnAssign": "x: int = n\ny: float\na[0] = x", "For": "for i in range(n):\n    a[i] = 1",
    "While": "while n > 0:\n    n -= 1\nelse:\n    a[0] = 1", "If": "if n:\n    a[0] = 1\nelif s:\n    a[0] = 2",
    "With": "with sterna.inbounds():\n    a[0] = n", "Raise": "raise ValueError('bad') from None", "Assert": "assert n > 0, 'small'",
    "Expr": "helper(n)\n...", "Pass": "pass", "Break": "while n:\n    break", "Continue": "for i in range(n):\n    continue",
    # ---- expressions
    "BoolOp": "a[0] = n and s or 2", "NamedExpr": "a[0] = (x := n) + x", "BinOp": "a[0] = n + s", "UnaryOp": "a[0] = -n",
    "Lambda": "f = lambda x: x + n\na[0] = f(1)", "IfExp": "a[0] = 1 if n else 2", "Compare": "a[0] = 1 < n <= s != 3",
    "Call": "a[0] = helper(n, y=2)", "Constant": "a[0] = 1", "Attribute": "a[0] = a.size", "Subscript": "a[0] = a[1]",
    "Starred": "t = (1, *(n, 2))\na[0] = helper(*t)", "Name": "a[0] = n", "Tuple": "x, y = (n, 1)\na[0] = x",
    "List": "[x, y] = (n, 1)\na[0] = x", "Slice": "a[1:3:2][0] = n",
    "JoinedStr": "raise ValueError(f'bad {n}')", "FormattedValue": "assert n, f'bad {n}'",
    # ---- operators
    "Add": "a[0] = n + 1", "Sub": "a[0] = n - 1", "Mult": "a[0] = n * 2", "Div": "a[0] = n / 2", "Mod": "a[0] = n % 2",
    "Pow": "a[0] = n ** 2", "LShift": "a[0] = n << 2", "RShift": "a[0] = n >> 2", "BitOr": "a[0] = n | 2",
    "BitXor": "a[0] = n ^ 2", "BitAnd": "a[0] = n & 2", "FloorDiv": "a[0] = n // 2",
    "Invert": "a[0] = ~n", "Not": "a[0] = not n", "UAdd": "a[0] = +n", "USub": "a[0] = -n",
    "And": "a[0] = n and s", "Or": "a[0] = n or s",
    "Eq": "a[0] = n == s", "NotEq": "a[0] = n != s", "Lt": "a[0] = n < s", "LtE": "a[0] = n <= s", "Gt": "a[0] = n > s",
    "GtE": "a[0] = n >= s", "Is": "a[0] = n is None", "IsNot": "a[0] = n is not None", "In": "a[0] = n in (1, 2)",
    "NotIn": "a[0] = n not in (1, 2)",
}  # fmt: skip

# class: (body, what the error names, the way out)
REFUSED = {
    # ---- statements
    "AsyncFunctionDef": ("async def f():\n    pass", "async def", "coroutines"),
    "ClassDef": ("class C:\n    pass", "class", "outside"), "Delete": ("del n", "del", "another name"),
    "AsyncFor": ("", "async for", ""), "AsyncWith": ("", "async with", ""),  # only inside a coroutine, refused above
    "Match": ("match n:\n    case 1:\n        pass", "match", "if and elif"),
    "Try": ("try:\n    pass\nfinally:\n    a[0] = 1", "try", "test the condition"),
    "TryStar": ("try:\n    pass\nexcept* ValueError:\n    pass", "try", "test the condition"),
    "Import": ("import os", "import", "top of the file"), "ImportFrom": ("from os import path", "import", "top of the file"),
    "Global": ("global G\nG = 1", "global", "sterna.Global"),
    "Nonlocal": ("def f():\n    nonlocal n\n    n = 2\nf()", "nonlocal", "return the value"),
    "TypeAlias": ("type T = int", "type alias", "outside"),
    # ---- expressions
    "Dict": ("x = {1: n}", "dict", "named tuple"), "Set": ("x = {1, n}", "set", "tuple"),
    "ListComp": ("x = [i for i in range(3)]", "list comprehension", "for loop"),
    "SetComp": ("x = {i for i in range(3)}", "set comprehension", "for loop"),
    "DictComp": ("x = {i: i for i in range(3)}", "dict comprehension", "for loop"),
    "GeneratorExp": ("x = max(i for i in range(3))", "generator expression", "for loop"),
    "Await": ("", "await", ""),  # only inside a coroutine, refused above
    "Yield": ("yield n", "generators", "array"), "YieldFrom": ("yield from (1, 2)", "generators", "array"),
    "TemplateStr": ("x = t'{n}'", "TemplateStr", ""), "Interpolation": ("x = t'{n}'", "TemplateStr", ""),
    # ---- operators
    "MatMult": ("x = a @ a", "operator @", "loops"),
    # ---- constructs of several classes
    "list": ("x = [1, n]", "list", "tuple"), "augmented @": ("a @= a", "operator @=", "loops"),
    "starred target": ("x, *y = (1, 2, 3)", "starred", "every item"),
    "starred loop target": ("for x, *y in ((1, 2), (3, 4)):\n    pass", "starred", "every item"),
    "**keywords": ("helper(**n)", "**keywords", "name"), "two managers": ("with sterna.inbounds() as b:\n    pass", "with", ""),
    "bytes": ("x = b'abc'", "bytes", ""), "ellipsis value": ("x = ...\na[0] = x", "ellipsis", ""),
    "decorated": ("@helper\ndef f():\n    pass", "decorator", "outside"),
    "raise from": ("raise ValueError('x') from KeyError('y')", "from a cause", "alone"),
    "raise twice": ("raise", "bare raise", "raise ValueError"),
}  # fmt: skip
NEWER = {"TypeAlias": (3, 12), "TemplateStr": (3, 14), "Interpolation": (3, 14)}
PATTERNS = {
    "MatchValue",
    "MatchSingleton",
    "MatchSequence",
    "MatchMapping",
    "MatchClass",
    "MatchStar",
    "MatchAs",
    "MatchOr",
}


def module_of(tmp_path: Path, body: str):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return write_module(tmp_path, f"{HEAD}def k(a, n, s):\n{lines}")


def classes(*bases: type) -> set[str]:
    """Direct subclasses in `ast` itself; the deprecated spellings of constants are none."""
    old = {
        "Num",
        "Str",
        "Bytes",
        "NameConstant",
        "Ellipsis",
        "Index",
        "ExtSlice",
        "Suite",
        "AugLoad",
        "AugStore",
        "Param",
    }
    return {c.__name__ for base in bases for c in base.__subclasses__() if c.__module__ in ("ast", "_ast")} - old


def test_every_class_of_syntax_node_is_in_a_table() -> None:
    known = classes(ast.stmt, ast.expr, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
    assert known <= set(COMPILED) | set(REFUSED)
    assert not set(COMPILED) & set(REFUSED)
    assert classes(ast.pattern) <= PATTERNS  # parts of `match`


@pytest.mark.parametrize("name", COMPILED)
def test_compiled(tmp_path: Path, name: str) -> None:
    module = module_of(tmp_path, COMPILED[name])
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body[-1]
    assert name in {type(node).__name__ for node in ast.walk(tree)}
    try:
        assert build(module.k, ArrayType(FLOAT32, 1), PYINT, INT32)
    finally:
        sys.modules.pop(module.__name__, None)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="this Python has no such syntax")
def test_type_parameters_are_annotations(tmp_path: Path) -> None:
    module = module_of(tmp_path, "def f[T](x: T) -> T:\n    return x\na[0] = f(n)")
    assert build(module.k, ArrayType(FLOAT32, 1), PYINT, INT32)


@pytest.mark.parametrize("name", [name for name, (body, _, _) in REFUSED.items() if body])
def test_refused(tmp_path: Path, name: str) -> None:
    if sys.version_info < NEWER.get(name, (3, 11)):
        pytest.skip("this Python has no such syntax")
    body, named, hint = REFUSED[name]
    module = module_of(tmp_path, body)
    try:
        with pytest.raises(UnsupportedError) as caught:
            build(module.k, ArrayType(FLOAT32, 1), PYINT, INT32)
    finally:
        sys.modules.pop(module.__name__, None)
    assert named in str(caught.value)
    assert hint in caught.value.hint
    assert caught.value.location is not None
    assert caught.value.location.text.strip() in Path(module.__file__).read_text(encoding="utf-8")


def test_a_coroutine_is_refused_as_a_whole(tmp_path: Path) -> None:
    module = write_module(tmp_path, f"{HEAD}async def k(a, n, s):\n    async for i in a:\n        await i\n")
    with pytest.raises((UnsupportedError, SourceError), match="coroutine"):
        build(module.k, ArrayType(FLOAT32, 1), PYINT, INT32)
