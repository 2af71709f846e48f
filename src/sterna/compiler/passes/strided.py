"""Grid-stride loops at block level.

::

    for i in range(grid(1), n, gridsize(1)):          for turn in range(block's first, n, gridsize(1)):
        …                                       →         if threadIdx.x < n - turn:
                                                              i = turn + threadIdx.x
                                                              …

A thread that runs such a loop alone jumps through memory; turn by turn, the block's threads read neighbouring
elements, and the loop over the threads vectorises.  Threads are unordered between barriers, and each still takes its
own turns in order, so the exchange is always right.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk
from sterna.compiler.passes.interchange import Finder, fits
from sterna.types import PYINT

__all__ = ["TURN", "block_strided_loops"]

TURN = ".turn"
"""How the names of the targets of rewritten loops begin."""

_POSITIVE = ("block_dim.", "grid_dim.", "grid_size.", "warpsize")
_NOT_INSIDE = (ir.While, ir.ForRange, ir.Break, ir.Continue, ir.Return, ir.Call, ir.Print, ir.LocalArray, ir.View)
_MOST_NODES = 300
_THREAD = ir.Intrinsic("thread_idx.x", (), PYINT)
_FIRST = ir.Binary(
    "mul", ir.Intrinsic("block_idx.x", (), PYINT), ir.Intrinsic("block_dim.x", (), PYINT), PYINT
)  # fmt: skip


def block_strided_loops(function: ir.Function, types: dict[str, Any], over: int) -> tuple[ir.Function, bool]:
    """Rewrite the strided loops among a kernel's own statements.

    Parameters
    ----------
    function : Function
        The kernel.
    types : dict
        Types of its locals; new ones are added.
    over : int
        Number of axes of an ``over`` launch, or 0.

    Returns
    -------
    tuple
        The kernel, and whether a loop was rewritten, which must run at block level now.
    """
    finder = Finder(function, over)
    body: list[ir.Stmt] = []
    found = 0
    for node in function.body:
        if isinstance(node, ir.ForRange):
            first = _first(finder, node)
            if first is not None and _pays(finder, node):
                node = _rewritten(node, first, types, found)
                found += 1
        body.append(node)
    return (replace(function, body=tuple(body)) if found else function), found > 0


def _first(finder: Finder, node: ir.ForRange) -> ir.Expr | None:
    """Where the block's first thread starts, if the loop is one that steps over a block's threads together."""
    if any(finder.on_x(bound) or not finder.is_plain(bound) for bound in (node.stop, node.step)):
        return None
    if not _is_positive(finder, node.step):
        return None
    return _without_thread(finder, node.start)


def _value(finder: Finder, node: ir.Expr) -> ir.Expr:
    """What a local assigned once stands for."""
    while isinstance(node, ir.Local):
        found = finder.assigned.get(node.name, [])
        if len(found) != 1 or not isinstance(found[0], ir.Assign):
            break
        node = found[0].value
    return node


def _is_positive(finder: Finder, node: ir.Expr) -> bool:
    value = _value(finder, node)
    if isinstance(value, ir.Binary) and value.op == "mul":
        return _is_positive(finder, value.left) and _is_positive(finder, value.right)
    if isinstance(value, ir.Const):
        return bool(value.value > 0)
    return isinstance(value, ir.Intrinsic) and value.name.startswith(_POSITIVE)


def _without_thread(finder: Finder, node: ir.Expr) -> ir.Expr | None:
    """An expression that is the thread's x plus something not negative of the block's, without the thread's x."""
    value = _value(finder, node)
    if value.type != PYINT:
        return None
    if isinstance(value, ir.Intrinsic) and finder.is_x(value):
        return _FIRST if value.name.startswith("grid_index.") else ir.Const(0, PYINT)
    if isinstance(value, ir.Binary) and value.op == "add":
        for index, other in ((value.left, value.right), (value.right, value.left)):
            rest = _without_thread(finder, index)
            if rest is not None and _is_not_negative(finder, other):
                return ir.Binary("add", rest, other, PYINT)
    return None


def _is_not_negative(finder: Finder, node: ir.Expr) -> bool:
    """Whether an expression is a product of the block's indices and extents, or a constant from 0."""
    value = _value(finder, node)
    if isinstance(value, ir.Binary) and value.op in ("mul", "add"):
        return _is_not_negative(finder, value.left) and _is_not_negative(finder, value.right)
    if isinstance(value, ir.Const):
        return bool(value.value >= 0)
    return isinstance(value, ir.Intrinsic) and value.name.startswith((*_POSITIVE, "block_idx."))


def _pays(finder: Finder, node: ir.ForRange) -> bool:
    """Whether neighbouring threads touch neighbouring elements of some array, and nothing in the loop is per thread."""
    inside = list(walk(node.body))
    if len(inside) > _MOST_NODES or any(isinstance(n, _NOT_INSIDE) for n in inside):
        return False
    if sum(isinstance(n, ir.Assign) and n.target == node.target for n in inside):
        return False
    accesses = [n for n in inside if isinstance(n, ir.Element | ir.Store)]
    return any(fits(finder, n, {node.target: 1}) and _reads(n, node.target) for n in accesses)


def _reads(node: ir.Element | ir.Store, name: str) -> bool:
    return any(isinstance(n, ir.Local) and n.name == name for n in walk(node.indices))


def _rewritten(node: ir.ForRange, first: ir.Expr, types: dict[str, Any], number: int) -> ir.ForRange:
    turn = f"{TURN}{number}"
    types[turn] = PYINT
    start = ir.Local(turn, PYINT)
    # the block's first index is not negative, so the difference fits
    test = ir.Compare("lt", _THREAD, ir.Binary("sub", node.stop, start, PYINT))
    index = ir.Assign(node.target, ir.Binary("add", start, _THREAD, PYINT))
    return ir.ForRange(turn, first, node.stop, node.step, (ir.If(test, (index, *node.body), (), node.line),), node.line)
