"""Passes ahead of block-at-a-time code, on kernel IR made by hand."""

from __future__ import annotations

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk
from sterna.compiler.passes import split_regions as S
from sterna.compiler.passes.collectives import functions_with_block_state, is_collective
from sterna.compiler.passes.inline_calls import inline_calls, small_functions
from sterna.compiler.passes.interchange import loops_to_interchange
from sterna.compiler.passes.lift import Lifter
from sterna.compiler.passes.placement import exposed
from sterna.compiler.passes.prepare import prepare_kernel
from sterna.compiler.passes.propagate import propagate
from sterna.compiler.passes.uniformity import Uniformity
from sterna.options import CompileOptions
from sterna.types import BOOL, FLOAT32, INT64, PYINT, VOID, ArrayType

A, F = ArrayType(INT64, 1), ArrayType(FLOAT32, 1)
N, X = ir.Local("n", PYINT), ir.Intrinsic("thread_idx.x", (), PYINT)
BARRIER = ir.ExprStatement(ir.Intrinsic("syncthreads", (), VOID))


def const(value: int) -> ir.Const:
    return ir.Const(value, PYINT)


def kernel(*body: ir.Stmt, **types) -> ir.Function:
    types = {"n": PYINT, "a": A, "f": F, **types}
    return ir.Function("k", (("n", PYINT), ("a", A), ("f", F)), types, VOID, body)


def split(function: ir.Function) -> tuple[S.Step, ...]:
    return S.split(function, dict(function.locals))[0]


def kinds(steps) -> list[str]:
    return [type(s).__name__ for s in steps]


def test_a_barrier_divides_regions():
    steps = split(kernel(ir.Assign("x", X), BARRIER, ir.Assign("y", X), x=PYINT, y=PYINT))
    assert kinds(steps) == ["Region", "Collective", "Region"]


def test_a_uniform_condition_runs_once_and_a_varying_one_under_a_mask():
    uniform = ir.If(ir.Compare("gt", N, const(0)), (BARRIER,))
    varying = ir.If(ir.Compare("gt", X, const(0)), (BARRIER,))
    assert kinds(split(kernel(uniform))) == ["BlockIf"]
    assert kinds(split(kernel(varying))) == ["Region", "MaskedIf"]


def test_a_break_in_a_varying_if_makes_its_loop_diverge():
    leave = ir.If(ir.Compare("eq", X, N), (ir.Break(),))
    loop = ir.ForRange("i", const(0), N, const(1), (leave, BARRIER))
    assert kinds(split(kernel(loop, i=PYINT))) == ["Region", "MaskedLoop"]
    leave = ir.If(ir.Compare("eq", ir.Local("i", PYINT), N), (ir.Break(),))
    loop = ir.ForRange("i", const(0), N, const(1), (leave, BARRIER))
    assert kinds(split(kernel(loop, i=PYINT))) == ["BlockFor"]


def test_uniformity_follows_assignments_and_control():
    varying = ir.If(ir.Compare("gt", X, const(0)), (ir.Assign("u", const(1)), BARRIER))
    found = Uniformity(kernel(ir.Assign("v", N), ir.Assign("w", X), ir.Assign("u", const(0)), varying, u=PYINT))
    assert found.is_uniform_local("v")
    assert not found.is_uniform_local("w")
    assert not found.is_uniform_local("u")


def test_what_was_read_before_a_lifted_operation_is_kept():
    load = ir.Element(ir.Local("a", A), (const(0),), INT64, None)
    vote = ir.Intrinsic("syncthreads_count", (ir.Const(True, BOOL),), INT64)
    types = {"a": A, "x": INT64}

    def expand(lifter, node):
        name = lifter.temporary(node.type)
        return [ir.Assign(name, node)], ir.Local(name, node.type)

    body = Lifter(types, is_collective, expand).statements([ir.Assign("x", ir.Binary("add", load, vote, INT64))])
    assert [type(s.value) for s in body] == [ir.Element, ir.Intrinsic, ir.Binary]
    assert set(types) - {"a", "x"} == {body[0].target, body[1].target}


def test_a_conditional_collective_becomes_a_statement():
    vote = ir.Intrinsic("syncthreads_count", (ir.Const(True, BOOL),), PYINT)
    value = ir.IfExp(ir.Compare("gt", X, const(3)), vote, const(0), PYINT)
    module = ir.Module("k", {"k": kernel(ir.Assign("x", value), x=PYINT)})
    _, program = prepare_kernel(module, CompileOptions())
    assert "MaskedIf" in kinds(program.steps)


def helper(*body: ir.Stmt, name: str = "h") -> ir.Function:
    return ir.Function(name, (("q", PYINT),), {"q": PYINT, "i": PYINT}, PYINT, body)


def test_functions_with_barriers_become_part_of_the_kernel():
    q = ir.Local("q", PYINT)
    inside = ir.If(ir.Compare("lt", ir.Local("i", PYINT), q), (ir.Return(ir.Local("i", PYINT)),))
    called = helper(ir.ForRange("i", const(0), q, const(1), (BARRIER, inside)), ir.Return(const(-1)))
    module = ir.Module("k", {"k": kernel(ir.Assign("x", ir.Call("h", (N,), PYINT)), x=PYINT), "h": called})
    assert functions_with_block_state(module) == {"h"}
    inlined = inline_calls(module, frozenset({"h"}))
    assert list(inlined.functions) == ["k"]
    nodes = list(walk(inlined.functions["k"].body))
    assert not any(isinstance(n, ir.Call | ir.Return) for n in nodes)
    assert sum(isinstance(n, ir.Break) for n in nodes) == 3  # out of the loop, after the loop, the one turn
    names = {n.name for n in nodes if isinstance(n, ir.Local)} | {n.target for n in nodes if isinstance(n, ir.Assign)}
    assert names <= set(inlined.functions["k"].locals)


def test_recursive_and_large_functions_stay_calls():
    small, recursive = helper(ir.Return(const(1))), helper(ir.Return(ir.Call("r", (N,), PYINT)), name="r")
    value = ir.Binary("add", ir.Call("h", (N,), PYINT), ir.Call("r", (N,), PYINT), PYINT)
    module = ir.Module("k", {"k": kernel(ir.Assign("x", value), x=PYINT), "h": small, "r": recursive})
    assert small_functions(module) == {"h"}


def test_propagation_of_arrays_and_parameters():
    tile = ir.SharedArray("tile", (4,), ArrayType(INT64, 1, space="shared"))
    store = ir.Store(ir.Local("t", tile.type), (ir.Local("m", PYINT),), ir.Const(0, INT64), None)
    found = propagate(kernel(ir.Assign("t", tile), ir.Assign("m", N), store, t=tile.type, m=PYINT))
    assert found.body == (ir.Store(tile, (N,), ir.Const(0, INT64), None),)
    assert "t" not in found.locals


def test_exposed_reads():
    x = ir.Local("x", PYINT)
    assign = ir.Assign("x", const(1))
    assert exposed([ir.If(ir.Compare("gt", N, const(0)), (assign,)), ir.Assign("y", x)]) == {"n", "x"}
    both = ir.If(ir.Compare("gt", N, const(0)), (assign,), (assign,))
    assert exposed([both, ir.Assign("y", x)]) == {"n"}
    leaves = ir.If(ir.Compare("gt", N, const(0)), (ir.Return(),), (assign,))
    assert exposed([leaves, ir.Assign("y", x)]) == {"n"}
    assert exposed([ir.ForRange("i", const(0), N, const(1), (assign,)), ir.Assign("y", x)]) == {"n", "x"}


def row_sum(index: ir.Expr) -> ir.Function:
    total = ir.Local("t", FLOAT32)
    load = ir.Element(ir.Local("f", F), (index,), FLOAT32, None)
    body = (ir.Assign("t", ir.Binary("add", total, load, FLOAT32)),)
    loop = ir.ForRange("i", const(0), N, const(1), body)
    store = ir.Store(ir.Local("f", F), (X,), total, None)
    return kernel(ir.Assign("t", ir.Const(0.0, FLOAT32)), loop, store, i=PYINT, t=FLOAT32)


def test_loops_are_interchanged_only_when_neighbours_read_neighbours():
    i = ir.Local("i", PYINT)
    along_x = row_sum(ir.Binary("add", X, i, PYINT))
    own_row = row_sum(ir.Binary("add", ir.Binary("mul", X, N, PYINT), i, PYINT))
    assert loops_to_interchange(along_x, 0) == {id(along_x.body[1])}
    assert loops_to_interchange(own_row, 0) == frozenset()
