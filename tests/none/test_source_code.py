"""Fingerprints of code objects."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from sterna.source.code import fingerprint, same_code

SOURCE_ROOT = Path(__import__("sterna").__file__).parents[1]
BASE = "def f(x, y=1):\n    t = x in {'a', 'b', 'c'}\n    return lambda z: t + z * 2.0\n"


def code_of(text: str, filename: str = "a.py") -> types.CodeType:
    module = compile(text, filename, "exec")
    return next(c for c in module.co_consts if isinstance(c, types.CodeType))


SAME = {
    "file name": (BASE, "/elsewhere/b.py"),
    "absolute line": ("\n\n\n" + BASE, "a.py"),
    "own name": (BASE.replace("def f", "def g"), "a.py"),
    "enclosing class": ("class C:\n" + "".join(f" {line}\n" for line in BASE.splitlines()), "a.py"),
}
OTHER = {
    "constant": BASE.replace("2.0", "2.5"),
    "type of a constant": BASE.replace("2.0", "2"),
    "constant of a set": BASE.replace("'c'", "'d'"),
    "name": BASE.replace("x", "w"),
    "parameter kind": BASE.replace("x, y", "x, *, y"),
    "order of parameters and use": BASE.replace("t + z", "z + t"),
    "relative line of a statement": BASE.replace("    return", "\n    return"),
}


@pytest.mark.parametrize("edit", SAME, ids=list(SAME))
def test_fingerprint_does_not_see(edit: str) -> None:
    text, filename = SAME[edit]
    code = code_of(text, filename)
    if edit == "enclosing class":
        code = next(c for c in code.co_consts if isinstance(c, types.CodeType))
    assert fingerprint(code) == fingerprint(code_of(BASE))


@pytest.mark.parametrize("edit", OTHER, ids=list(OTHER))
def test_fingerprint_sees(edit: str) -> None:
    assert fingerprint(code_of(OTHER[edit])) != fingerprint(code_of(BASE))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("0.0", "-0.0"), ("1", "True"), ("1", "1.0"), ("(1, 2)", "(1, 2.0)"), ("1j", "-1j"), ("'a'", "b'a'"),
        ("('ab', 'c')", "('a', 'bc')"), ("1e999", "-1e999"), ("1e999 - 1e999", "1e999"),
    ],
)  # fmt: skip
def test_constants_are_type_exact(first: str, second: str) -> None:
    one, two = (code_of(f"def f(): return {text}\n") for text in (first, second))
    assert fingerprint(one) != fingerprint(two)
    assert not same_code(one, two)


def test_a_nan_equals_itself() -> None:
    code = code_of("def f(): return 0.0\n")
    first, second = (code.replace(co_consts=(None, float("nan"))) for _ in range(2))
    assert fingerprint(first) == fingerprint(second)


def test_same_code_leaves_lines_out() -> None:
    assert same_code(code_of(BASE), code_of(OTHER["relative line of a statement"]))
    assert not same_code(code_of(BASE), code_of(OTHER["constant"]))


def test_same_in_every_process() -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from sterna.source.code import fingerprint\n"
        f"code = next(c for c in compile({BASE!r}, 'x', 'exec').co_consts if hasattr(c, 'co_code'))\n"
        "print(fingerprint(code))\n"
    )
    results = set()
    for seed in ("0", "1", "random"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", script, str(SOURCE_ROOT)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        results.add(done.stdout.strip())
    assert results == {fingerprint(code_of(BASE))}
