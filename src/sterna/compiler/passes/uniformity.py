"""Uniformity: which locals and expressions have one value for all threads of a block, at every point.

A local is *uniform* if every assignment to it happens at block level (where all threads that have not left come
together) and gives a uniform value.  The analysis starts from "all are" and takes back until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk
from sterna.compiler.passes.collectives import BLOCK_WIDE, contains_collective

__all__ = ["Uniformity"]

_PURE = (
    ir.Const, ir.Local, ir.Unary, ir.Binary, ir.Compare, ir.IfExp, ir.Cast, ir.SlotWord, ir.TableWord, ir.RefWord,
    ir.ArrayOf, ir.Extent, ir.Stride, ir.MakeTuple, ir.GetItem, ir.TypeOf, ir.SharedArray, ir.NewAxis, ir.SliceAxis,
)  # fmt: skip
_PER_THREAD = ("thread_idx.", "grid_index.", "laneid", "lanemask_lt")
_EFFECTS = ("threadfence", "inline.", "device_only")


class Uniformity:
    """Uniform locals of a kernel, and which statements run at block level.

    Parameters
    ----------
    function : Function
        The kernel, with collectives lifted to statements.
    also : frozenset of int
        Identities of loops to run at block level although they have no collective (`interchange`).
    """

    def __init__(self, function: ir.Function, also: frozenset[int] = frozenset()) -> None:
        self._also = also
        self._varying: set[str] = set()
        self._collective: dict[int, bool] = {}
        self.divergent_loops: set[int] = set()
        self._keep = function
        while True:
            before = len(self._varying), len(self.divergent_loops)
            self._visit(function.body, uniform=True, loops=())
            if (len(self._varying), len(self.divergent_loops)) == before:
                return

    # ---- questions ---------------------------------------------------------------------------

    def is_uniform_local(self, name: str) -> bool:
        """Whether a local is uniform."""
        return name not in self._varying

    def mark_varying(self, name: str) -> None:
        """A local made after the analysis differs between threads."""
        self._varying.add(name)

    def is_uniform(self, node: Any) -> bool:
        """Whether an expression is uniform and can be computed once for the block: no loads, calls or failures."""
        for child in walk([node]):
            if isinstance(child, ir.Local):
                if child.name in self._varying:
                    return False
            elif isinstance(child, ir.Intrinsic):
                if child.name.startswith((*_PER_THREAD, *_EFFECTS)) or _is_warp_wide(child.name):
                    return False
            elif isinstance(child, ir.FieldRef):
                if not hasattr(child.value.type, "items"):
                    return False
            elif isinstance(child, ir.View):
                if child.check is not None:
                    return False
            elif not isinstance(child, _PURE):
                return False
        return True

    def has_collective(self, node: Any) -> bool:
        """Whether a statement contains a collective, or a loop that is to run at block level."""
        found = self._collective.get(id(node))
        if found is None:
            found = contains_collective([node]) or (bool(self._also) and any(id(n) in self._also for n in walk([node])))
            self._collective[id(node)] = found
        return found

    def at_block_level(self, node: Any, in_block_loop: bool) -> bool:
        """Whether a control statement (in a block-level sequence) must run at block level.

        One with a collective must.  A uniform `If` that leaves a block-level loop or the kernel does, so that the
        loop stays uniform.
        """
        if self.has_collective(node):
            return True
        if not isinstance(node, ir.If) or not self.is_uniform(node.test):
            return False
        return _jumps_out(node.then, in_block_loop) or _jumps_out(node.orelse, in_block_loop)

    # ---- the analysis ------------------------------------------------------------------------

    def _visit(self, body: Sequence[ir.Stmt], uniform: bool, loops: tuple[Any, ...]) -> None:
        """Block-level statements; `loops` are the enclosing block-level loops, innermost last."""
        for node in body:
            if isinstance(node, ir.Assign):
                wide = isinstance(node.value, ir.Intrinsic) and node.value.name in BLOCK_WIDE
                if not uniform or not (wide or self.is_uniform(node.value)):
                    self._varying.add(node.target)
            elif isinstance(node, ir.If | ir.While | ir.ForRange):
                if self.at_block_level(node, bool(loops)):
                    self._control(node, uniform, loops)
                else:
                    self._take_back([node])
                    if loops and _breaks_out([node]):
                        self._diverge(loops[-1])
            elif isinstance(node, ir.Break | ir.Continue) and not uniform and loops:
                self._diverge(loops[-1])

    def _control(self, node: Any, uniform: bool, loops: tuple[Any, ...]) -> None:
        if isinstance(node, ir.If):
            inside = uniform and self.is_uniform(node.test)
            self._visit(node.then, inside, loops)
            self._visit(node.orelse, inside, loops)
            return
        if isinstance(node, ir.ForRange):
            bounds = all(self.is_uniform(x) for x in (node.start, node.stop, node.step))
        else:
            bounds = self.is_uniform(node.test)
        if not bounds or (not uniform and (not isinstance(node, ir.ForRange) or _breaks_out(node.body))):
            self._diverge(node)
        inside = uniform and id(node) not in self.divergent_loops
        if isinstance(node, ir.ForRange) and not inside:
            self._varying.add(node.target)
        self._visit(node.body, inside, (*loops, node))

    def _diverge(self, loop: Any) -> None:
        self.divergent_loops.add(id(loop))

    def _take_back(self, nodes: Sequence[Any]) -> None:
        for node in walk(nodes):
            if isinstance(node, ir.Assign | ir.ForRange):
                self._varying.add(node.target)


def _is_warp_wide(name: str) -> bool:
    if name in BLOCK_WIDE:
        return False
    return name.endswith(("_sync", "_sync.mask", "_sync.pred")) or name in ("activemask", "syncwarp")


def _breaks_out(body: Sequence[ir.Stmt]) -> bool:
    """Whether `body` breaks or continues a loop around it."""
    for node in body:
        if isinstance(node, ir.Break | ir.Continue):
            return True
        if isinstance(node, ir.If) and (_breaks_out(node.then) or _breaks_out(node.orelse)):
            return True
    return False


def _jumps_out(body: Sequence[ir.Stmt], in_block_loop: bool) -> bool:
    """Whether `body` breaks or continues a loop around it, or returns."""
    for node in body:
        if isinstance(node, ir.Return):
            return True
        if isinstance(node, ir.Break | ir.Continue):
            return in_block_loop
        if isinstance(node, ir.If) and (_jumps_out(node.then, in_block_loop) or _jumps_out(node.orelse, in_block_loop)):
            return True
        if isinstance(node, ir.While | ir.ForRange) and any(isinstance(n, ir.Return) for n in walk([node])):
            return True
    return False
