"""Loops worth running at block level although no barrier asks for it.

``for k in range(n)`` inside a thread, with the same `n` for all threads, keeps LLVM from vectorising over threads.  At
block level, each turn is a loop over the threads instead, which vectorises; what the loop carries moves to one array
element a thread.  Threads are unordered between barriers, so the exchange is always right; it pays when neighbouring
threads read neighbouring elements, and is left alone otherwise (a thread that walks along a row of its own).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk
from sterna.types import ArrayType, Scalar

__all__ = ["Finder", "fits", "loops_to_interchange"]

_MOST_NODES = 300
_UNROLLED_TURNS = 16
_OTHER = (ir.While, ir.Break, ir.Continue, ir.Return, ir.Raise, ir.Call, ir.Atomic, ir.Print, ir.LocalArray, ir.View)
_PLAIN = (
    ir.Const, ir.Local, ir.Unary, ir.Binary, ir.Cast, ir.Extent, ir.IfExp, ir.Compare, ir.SlotWord, ir.RefWord,
    ir.ArrayOf, ir.TableWord, ir.MakeTuple, ir.GetItem, ir.SharedArray,
)  # fmt: skip
_NOTHING: Mapping[str, int] = {}
_MANY = 2
"""A coefficient other than 0 and 1."""


def loops_to_interchange(function: ir.Function, over: int) -> frozenset[int]:
    """Identities of the innermost counted loops of a kernel to run at block level.

    Parameters
    ----------
    function : Function
        The kernel.
    over : int
        Number of axes of an ``over`` launch, or 0.
    """
    finder = Finder(function, over)
    finder.search(function.body)
    return frozenset(finder.found)


class Finder:
    """What a kernel's locals depend on, and its loops worth running at block level.

    Attributes
    ----------
    assigned : dict
        Local → the statements that assign it.
    found : set of int
        Identities of the loops that `search` found.
    """

    def __init__(self, function: ir.Function, over: int) -> None:
        self.over = over
        self.found: set[int] = set()
        self.assigned: dict[str, list[Any]] = {}
        for node in walk(function.body):
            if isinstance(node, ir.Assign | ir.ForRange):
                self.assigned.setdefault(node.target, []).append(node)
        self.depends: set[str] = set()
        while True:
            before = len(self.depends)
            self._taint(function.body, False)
            if len(self.depends) == before:
                break

    # ---- dependence on the thread's x --------------------------------------------------------

    def _taint(self, body: Sequence[ir.Stmt], under: bool) -> None:
        for node in body:
            if isinstance(node, ir.Assign):
                if under or self.on_x(node.value):
                    self.depends.add(node.target)
            elif isinstance(node, ir.If):
                inside = under or self.on_x(node.test)
                self._taint(node.then, inside)
                self._taint(node.orelse, inside)
            elif isinstance(node, ir.While):
                self._taint(node.body, under or self.on_x(node.test))
            elif isinstance(node, ir.ForRange):
                differs = any(self.on_x(x) for x in (node.start, node.stop, node.step))
                if differs:
                    self.depends.add(node.target)
                self._taint(node.body, under or differs)

    def on_x(self, node: Any) -> bool:
        """Whether an expression may differ between neighbouring threads."""
        for child in walk([node]):
            if isinstance(child, ir.Local) and child.name in self.depends:
                return True
            if isinstance(child, ir.Intrinsic) and self.is_x(child):
                return True
            if isinstance(child, ir.Call | ir.Atomic | ir.LocalArray):
                return True
        return False

    def is_x(self, node: ir.Intrinsic) -> bool:
        """Whether an operation gives something of the thread itself."""
        if node.name in ("thread_idx.x", "laneid", "lanemask_lt"):
            return True
        if not node.name.startswith("grid_index."):
            return node.name.endswith("_sync") or node.name == "activemask"
        number = int(node.name.rpartition(".")[2])
        return number == (int(node.attrs[0]) - 1 if self.over else 0)

    def coefficient(self, node: ir.Expr, known: Mapping[str, int] = _NOTHING, depth: int = 12) -> int:
        """How many elements an index moves from one thread to the next: 0, 1, or `_MANY` for anything else.

        `known` gives it for some locals.
        """
        if isinstance(node, ir.Local) and node.name in known:
            return known[node.name]
        if not self.on_x(node):
            return 0
        if isinstance(node, ir.Intrinsic) and self.is_x(node):
            return 1
        if isinstance(node, ir.Cast) and depth:
            return self.coefficient(node.operand, known, depth - 1)
        if isinstance(node, ir.Local) and depth:
            found = self.assigned.get(node.name, [])
            if len(found) == 1 and isinstance(found[0], ir.Assign):
                return self.coefficient(found[0].value, known, depth - 1)
        if isinstance(node, ir.GetItem) and isinstance(node.value, ir.MakeTuple):
            return self.coefficient(node.value.items[node.index], known, depth - 1)
        if isinstance(node, ir.Binary) and depth:
            left, right = (self.coefficient(x, known, depth - 1) for x in (node.left, node.right))
            if node.op in ("add", "min", "max") or (node.op == "sub" and right == 0):
                return min(left + right, _MANY)
        return _MANY

    # ---- the search --------------------------------------------------------------------------

    def search(self, body: Sequence[ir.Stmt]) -> bool:
        """Look for loops in a sequence that can run at block level; whether any was found."""
        found = False
        for node in body:
            if isinstance(node, ir.If):
                found |= self.search(node.then) | self.search(node.orelse)
            elif isinstance(node, ir.ForRange) and self._is_same_for_all(node):
                inner = self.search(node.body)
                if not inner and self._pays(node):
                    self.found.add(id(node))
                    inner = True
                found |= inner
        return found

    def _is_same_for_all(self, node: ir.ForRange) -> bool:
        """Bounds known to the block before the loop: parameters, extents, arithmetic on them and outer loops."""
        if any(isinstance(n, _OTHER) for n in walk(node.body)):
            return False
        return all(self.is_plain(bound) and not self.on_x(bound) for bound in (node.start, node.stop, node.step))

    def is_plain(self, node: ir.Expr) -> bool:
        """Whether an expression has no loads, calls or failures."""
        return all(isinstance(n, _PLAIN) for n in walk([node]))

    def _pays(self, node: ir.ForRange) -> bool:
        inside = list(walk(node.body))
        turns = _turns(node)
        if len(inside) > _MOST_NODES or (turns is not None and turns * len(inside) <= 40 * _UNROLLED_TURNS):
            return False
        if any(isinstance(n, ir.ForRange) and not self._unrolls(n) for n in inside):
            return False
        arithmetic = [n for n in inside if isinstance(n, ir.Binary) and getattr(n.type, "kind", "") == "f"]
        computes = any(self.on_x(n) for n in arithmetic)
        return computes and all(fits(self, n) for n in inside if isinstance(n, ir.Element | ir.Store))

    def _unrolls(self, node: ir.ForRange) -> bool:
        turns = _turns(node)
        return turns is not None and turns <= _UNROLLED_TURNS


def fits(finder: Finder, node: ir.Element | ir.Store, known: Mapping[str, int] = _NOTHING) -> bool:
    """Whether neighbouring threads touch neighbouring elements, or the same one."""
    t = node.array.type
    if not isinstance(t, ArrayType) or not isinstance(t.dtype, Scalar) or t.dtype.kind == "c" or not node.indices:
        return False
    if t.layout == "A" and t.ndim > 1:
        return False
    fast = 0 if t.layout == "F" else len(node.indices) - 1
    moves = [finder.coefficient(i, known) for i in node.indices]
    return moves[fast] <= 1 and not any(m for n, m in enumerate(moves) if n != fast)


def _turns(node: ir.ForRange) -> int | None:
    bounds = (node.start, node.stop, node.step)
    if not all(isinstance(x, ir.Const) for x in bounds):
        return None
    start, stop, step = (x.value for x in bounds if isinstance(x, ir.Const))
    return len(range(start, stop, step)) if step else None
