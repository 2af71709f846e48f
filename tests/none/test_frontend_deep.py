"""Long functions: the compiler depends neither on Python's recursion limit nor on luck with the stack."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.frontend import build
from helpers.modules import write_module
from sterna.compiler.deep import with_deep_stack
from sterna.compiler.ir.nodes import Binary, Const, Function, Local, Module, Return
from sterna.compiler.ir.rewrite import rewrite_function, walk_function
from sterna.compiler.ir.text import function_text, module_text
from sterna.types import FLOAT32, PYINT, VOID, ArrayType

F1 = ArrayType(FLOAT32, 1)

BODIES: dict[str, str] = {
    "a chain of 1000 elif": "    if n == 0:\n        a[0] = 0\n"
    + "".join(f"    elif n == {k}:\n        a[0] = {k}\n" for k in range(1, 1000)),
    "1000 branches": "".join(f"    if n == {k}:\n        a[0] = {k}\n" for k in range(1000)),
    "a sum of 2000 terms": f"    a[0] = {' + '.join(['n'] * 2000)}\n",
    "500 conditional expressions": f"    a[0] = {'1 if n > 3 else ' * 500} 2\n",
    "1500 conjunctions": f"    a[0] = {' and '.join(['n > 1'] * 1500)}\n",
    "1000 alternatives": f"    if {' or '.join(['n == 1'] * 1000)}:\n        a[0] = 1\n",
}


@pytest.mark.parametrize("name", BODIES)
def test_long_functions_compile(tmp_path: Path, name: str) -> None:
    module = write_module(tmp_path, f"def k(a, n):\n{BODIES[name]}")
    try:
        limit = sys.getrecursionlimit()
        built = build(module.k, F1, PYINT)
        assert module_text(built)
        assert sys.getrecursionlimit() == limit
    finally:
        sys.modules.pop(module.__name__, None)


def test_a_deep_tree_is_rebuilt() -> None:
    expr: Binary | Local = Local("n", PYINT)
    for _ in range(5000):
        expr = Binary("add", expr, Const(1, PYINT), PYINT)
    function = Function("f", (("n", PYINT),), {"n": PYINT}, PYINT, (Return(expr),))

    def negated(node: object) -> object:
        return Const(-1, PYINT) if node == Const(1, PYINT) else node

    rebuilt = rewrite_function(function, negated)
    assert sum(isinstance(node, Const) and node.value == -1 for node in walk_function(rebuilt)) == 5000
    assert function_text(rebuilt).count("-1") == 5000
    assert Module("f", {"f": rebuilt}).functions["f"].returns != VOID


def test_errors_of_a_deep_run_are_the_functions_own() -> None:
    def descend(n: int) -> int:
        if n == 0:
            raise ValueError("at the bottom")
        return descend(n - 1)

    work: Callable[[int], int] = descend
    with pytest.raises(ValueError, match="at the bottom"):
        with_deep_stack(work, 20_000)
