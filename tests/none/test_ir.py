"""The IR's verifier, walker and text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sterna.compiler.ir.nodes import (
    Assign,
    Binary,
    Break,
    Call,
    Cast,
    Compare,
    Const,
    Element,
    ErrorSite,
    ExprStatement,
    ForRange,
    Function,
    HostRef,
    If,
    Local,
    Module,
    Print,
    Raise,
    Return,
    SiteRef,
    SliceAxis,
    SlotWord,
    Store,
    View,
    While,
)  # fmt: skip
from sterna.compiler.ir.rewrite import map_statements, rewrite_function, walk, walk_function
from sterna.compiler.ir.text import module_text
from sterna.compiler.ir.verify import IRError, verify
from sterna.relocation.record import RefKind
from sterna.types import BOOL, FLOAT32, INT32, OPAQUE, PYINT, VOID, ArrayType

F1 = ArrayType(FLOAT32, 1)
N, ONE = Local("n", PYINT), Const(1, PYINT)
A = Local("a", F1)


def module(*body, returns=VOID, errors=(), **locals_) -> Module:
    params = (("a", F1), ("n", PYINT))
    function = Function("f", params, dict(params) | locals_, returns, tuple(body))
    return Module("f", {"f": function}, tuple(errors))


SITE = ErrorSite("IndexError", "index {0}", SiteRef(0, 1, 2))
GOOD = [
    Store(A, (N,), Cast(N, FLOAT32), 0),
    If(Compare("lt", N, ONE), (Return(),), (Raise(0, (N,)),)),
    ForRange("n", ONE, N, ONE, (Break(),)),
    While(Const(True, BOOL), (Break(),)),
    Print(("n is ", N)),
    ExprStatement(HostRef(RefKind.OBJECT, "globals:X", OPAQUE)),
]
BAD = [
    (Store(A, (N,), N, 0), "is int, float32 is expected"),
    (Store(A, (N, N), Const(1.0, FLOAT32), 0), "2 indices"),
    (Store(A, (N,), Const(1.0, FLOAT32), 3), "there is no error 3"),
    (Assign("missing", N), "local missing is None"),
    (Assign("n", Const(1.0, FLOAT32)), "used as float32"),
    (ExprStatement(Binary("add", N, Const(1, INT32), PYINT)), "is int32, int is expected"),
    (ExprStatement(Compare("lt", N, Const(1, INT32))), "comparison of int and int32"),
    (ExprStatement(Compare("is", N, N)), "identity of int"),
    (ExprStatement(Call("g", (), VOID)), "there is no function g"),
    (ExprStatement(Call("f", (N,), VOID)), "arguments"),
    (ExprStatement(Element(A, (Const(1, INT32),), FLOAT32, None)), "is int32, int is expected"),
    (ExprStatement(SlotWord("s", 0)), "a SlotWord is not legal"),
    (ExprStatement(Const("text", OPAQUE)), "constant 'text'"),
    (Return(N), "returns int from a function of void"),
    (Break(), "Break outside a loop"),
    (If(N, ()), "is int, bool is expected"),
    (ForRange("a", ONE, N, ONE, ()), "local a"),
    (Raise(0, (N, N, N, N)), "more than three details"),
    (If(Const(True, BOOL), [Return()]), "a block is a list"),
]


def test_well_formed_ir_passes() -> None:
    verify(module(*GOOD, errors=[SITE]), "typed")


@pytest.mark.parametrize(("statement", "why"), BAD, ids=[why for _, why in BAD])
def test_ill_formed_ir_is_reported(statement, why: str) -> None:
    with pytest.raises(IRError, match="in f") as caught:
        verify(module(statement, errors=[SITE]), "typed")
    assert why in str(caught.value)


def test_the_lowered_stage_has_no_references() -> None:
    lowered = module(ExprStatement(SlotWord("s", 0)))
    verify(lowered, "lowered")
    with pytest.raises(IRError, match="HostRef is not legal"):
        verify(module(GOOD[-1]), "lowered")


def test_the_entry_returns_nothing() -> None:
    with pytest.raises(IRError, match="entry"):
        verify(module(Return(N), returns=PYINT), "typed")
    with pytest.raises(IRError, match="entry"):
        verify(Module("g", {}), "typed")


def test_walking_is_in_order_of_evaluation() -> None:
    expr = Binary("add", Binary("mul", Local("x", PYINT), Local("y", PYINT), PYINT), Local("z", PYINT), PYINT)
    assert [node.name for node in walk([expr]) if isinstance(node, Local)] == ["x", "y", "z"]


def test_rewriting_keeps_what_does_not_change() -> None:
    function = module(*GOOD, errors=[SITE]).functions["f"]
    assert rewrite_function(function, lambda node: node).body[0] is function.body[0]
    renamed = rewrite_function(function, lambda node: Local("m", PYINT) if node == N else node)
    assert sum(node == Local("m", PYINT) for node in walk_function(renamed)) == sum(
        node == N for node in walk_function(function)
    )


def test_statements_can_be_dropped_and_multiplied() -> None:
    body = (If(Const(True, BOOL), (Assign("n", ONE), Return())), Assign("n", ONE))

    def twice(s):
        return (s, s) if isinstance(s, Assign) else () if isinstance(s, Return) else (s,)

    changed = map_statements(body, twice)
    assert [type(s).__name__ for s in changed] == ["If", "Assign", "Assign"]
    assert changed[0].then == (Assign("n", ONE), Assign("n", ONE))


def test_text_is_complete_and_stable() -> None:
    view = View(A, (SliceAxis(ONE, None, None),), F1, None)
    shown = module_text(module(*GOOD, Assign("v", view), errors=[SITE], v=F1))
    assert shown == module_text(module(*GOOD, Assign("v", view), errors=[SITE], v=F1))
    assert (
        shown
        == """kernel f(a: array(float32, 1, C), n: int) -> void
  local v: array(float32, 1, C)
  a[n ?0] = float32(n)
  if (n < 1):
    return
  else:
    raise error 0, n
  for n in range(1, n, 1):
    break
  while True:
    break
  print 'n is ', n end '\\n'
  <object globals:X: object>
  v = view(a[1:]: array(float32, 1, C))

errors
  0: IndexError('index {0}') at function 0 statement 1
"""
    )


def test_a_misfiled_function_is_reported() -> None:
    built = module(Return())
    with pytest.raises(IRError, match="filed as"):
        verify(replace(built, functions={"f": replace(built.functions["f"], name="g")}), "typed")
