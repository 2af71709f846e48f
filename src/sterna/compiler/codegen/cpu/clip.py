"""Threads that have nothing to do are left out of the loop over a block's threads.

::

    i = grid(1)                      first, last = those threads whose i is below n
    if i < n:               →        for each thread from first to last:
        …                                …

A piece that is nothing but such a choice runs for a box of threads: each test that compares an index moving by one
from thread to thread with a value the block knows cuts one side of the box.  The loop then has no test in it, LLVM
vectorises it without masks, and indices such as ``x[i - 1]`` under ``if i > 0`` are proven to be in range
(`guards`).  Where arithmetic on the way overflows the cut means nothing, and the whole piece runs as it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.ranges import RangeAnalysis, has_effects
from sterna.compiler.ir import nodes as ir
from sterna.frozen import frozen
from sterna.types import BOOL, Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.cpu.kernel import KernelEmitter

__all__ = ["Clip", "clip_threads"]

_INVERSE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_MOST_NODES = 2000
Triple = tuple[str, str, str]


@frozen
class Clip:
    """A box of threads: the first along each axis and how many, and what they run.

    `some` is an i1: whether there is any; `flags` are bits that void everything when true.
    """

    body: tuple[ir.Stmt, ...]
    starts: Triple
    counts: Triple
    some: str
    flags: tuple[str, ...]


@frozen
class _Choice:
    """A piece as: statements without effects, tests in order, what runs where all of them hold."""

    before: tuple[ir.Stmt, ...]
    tests: tuple[ir.Expr, ...]
    inside: tuple[ir.Stmt, ...]


@frozen
class _Cut:
    """One test as ``index op bound`` with an index that moves by one along `axis`."""

    axis: int
    index: ir.Expr
    op: str
    bound: ir.Expr


def clip_threads(e: KernelEmitter, analysis: RangeAnalysis, body: Sequence[ir.Stmt]) -> Clip | None:
    """The box of threads for which `body` does anything, or None when no test of it can be used so.

    Parameters
    ----------
    e : KernelEmitter
        Emits the computation of the box.
    analysis : RangeAnalysis
        Of `body`, for all threads of the block.
    body : sequence of Stmt
        The piece; nothing it assigns may be read after it.
    """
    choice = _as_choice(body, returns=not e.divided)
    if choice is None or len(analysis.nodes) > _MOST_NODES:
        return None
    box = _Box(e, analysis)
    left: list[ir.Expr] = []
    for position, test in enumerate(choice.tests):
        cut = _as_cut(e, analysis, test)
        if cut is not None and box.apply(cut):
            continue
        left.append(test)
        if has_effects(test):  # may fail: tests behind it must not keep it from running
            left += choice.tests[position + 1 :]
            break
    if len(left) == len(choice.tests) or "true" in box.flags:
        return None
    inside = choice.inside
    for test in reversed(left):
        inside = (ir.If(test, inside),)
    return box.finish((*choice.before, *inside))


def _as_choice(body: Sequence[ir.Stmt], returns: bool) -> _Choice | None:
    for position, node in enumerate(body):
        if isinstance(node, ir.Assign) and not has_effects(node.value):
            continue
        if not isinstance(node, ir.If) or node.orelse:
            return None
        before, rest = tuple(body[:position]), tuple(body[position + 1 :])
        if not rest:
            return _Choice(before, tuple(_conjuncts(node.test)), node.then)
        if returns and len(node.then) == 1 and isinstance(node.then[0], ir.Return):
            return _Choice(before, tuple(_inverted(node.test)), rest)
        return None
    return None


def _conjuncts(test: ir.Expr) -> list[ir.Expr]:
    """Tests that must all hold, in order of evaluation."""
    if isinstance(test, ir.IfExp) and isinstance(test.orelse, ir.Const) and test.orelse.value is False:
        return [*_conjuncts(test.test), *_conjuncts(test.then)]
    return [test]


def _inverted(test: ir.Expr) -> list[ir.Expr]:
    """Tests that all hold where `test` does not."""
    if isinstance(test, ir.IfExp) and isinstance(test.then, ir.Const) and test.then.value is True:
        return [*_inverted(test.test), *_inverted(test.orelse)]
    if isinstance(test, ir.Compare) and test.op in _INVERSE and _is_integer(test.left) and _is_integer(test.right):
        return [ir.Compare(_INVERSE[test.op], test.left, test.right)]
    return [ir.Unary("not", test, BOOL)]


def _as_cut(e: KernelEmitter, a: RangeAnalysis, test: ir.Expr) -> _Cut | None:
    if not isinstance(test, ir.Compare) or test.op not in _MIRRORED or has_effects(test):
        return None
    if not (_is_integer(test.left) and _is_integer(test.right)):
        return None
    for index, op, bound in ((test.left, test.op, test.right), (test.right, _MIRRORED[test.op], test.left)):
        axis = _axis(e, a, index)
        if axis is not None:
            return _Cut(axis, index, op, bound)
    return None


def _is_integer(node: ir.Expr) -> bool:
    return isinstance(node.type, Scalar) and node.type.kind in "iu"


def _axis(e: KernelEmitter, a: RangeAnalysis, node: ir.Expr, depth: int = 8) -> int | None:
    """The thread axis along which an integer expression moves by exactly one, all else being the block's."""
    if not _is_integer(node) or not depth:
        return None
    if isinstance(node, ir.Intrinsic):
        if node.name.startswith("thread_idx."):
            return "xyz".index(node.name[-1])
        if node.name.startswith("grid_index."):
            number = int(node.name.rpartition(".")[2])
            return int(node.attrs[0]) - 1 - number if e.context.options.over else number
    elif isinstance(node, ir.Cast):
        return _axis(e, a, node.operand, depth - 1)
    elif isinstance(node, ir.Local):
        value = a.only_value(node.name)
        return None if value is None else _axis(e, a, value, depth - 1)
    elif isinstance(node, ir.Binary) and node.op in ("add", "sub"):
        if a.is_uniform(node.right):
            return _axis(e, a, node.left, depth - 1)
        if node.op == "add" and a.is_uniform(node.left):
            return _axis(e, a, node.right, depth - 1)
    return None


class _Box:
    """The box while tests cut it: for each axis the first thread and the one after the last."""

    def __init__(self, e: KernelEmitter, analysis: RangeAnalysis) -> None:
        self.e, self.a = e, analysis
        self.first = ["0", "0", "0"]
        self.end = list(e.counts)
        self.cut: set[int] = set()
        self.flags: tuple[str, ...] = ()

    def apply(self, cut: _Cut) -> bool:
        """Cut one side; False, and nothing done, when the test's values are not known ahead."""
        a = self.a
        index, bound = a.interval(cut.index), a.interval(cut.bound)
        if index is None or bound is None or not bound.is_point:
            return False
        # the thread t has the index `index.low + t`
        limit, flags = a.checked("sub", bound.low, index.low, (*index.flags, *bound.flags))
        if cut.op in ("le", "gt"):
            limit, flags = a.add(limit, "1", flags)
        if cut.op in ("lt", "le"):
            self.end[cut.axis] = a.least(self.end[cut.axis], limit)
        else:
            self.first[cut.axis] = a.greatest(self.first[cut.axis], limit)
        self.cut.add(cut.axis)
        self.flags += flags
        return True

    def finish(self, body: tuple[ir.Stmt, ...]) -> Clip:
        """The clip, with sides in order."""
        a, b = self.a, self.e.b
        starts, counts, some = ["0", "0", "0"], list(self.e.counts), "true"
        for axis in sorted(self.cut):
            starts[axis] = a.least(self.first[axis], self.e.counts[axis])
            end = a.greatest(self.end[axis], "0")
            counts[axis] = b.op(f"sub nsw i64 {end}, {starts[axis]}")
            there = b.icmp("sgt", 64, counts[axis], "0")
            some = there if some == "true" else b.both(some, there)
        x, y, z = starts
        nx, ny, nz = counts
        return Clip(body, (x, y, z), (nx, ny, nz), some, tuple(dict.fromkeys(self.flags)))
