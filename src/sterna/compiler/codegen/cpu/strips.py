"""Indices that are data, ``x[index[i]]``, checked for a strip of threads ahead of its work.

No guard knows the range of such an index before it is loaded (`guards`), and a check that may leave the loop over
threads keeps LLVM from vectorising it.  So the loop runs in strips::

    for each strip of 32 threads:
        load its indices, keep them; note whether any is negative or too large  (a loop of its own, vectorised)
        none is:  the work with the indices that were kept, no check            (vectorised, as unchecked code is)
        else:     the checked copy, which counts negative ones from the end and finds the threads that fail
                                                                                (and runs what is left of a row)

What was checked is what is used: the kept indices are private, so no other thread can change them in between.  Loads of
indices move ahead of all that other threads of the strip do, which is one of the orders that threads between two
barriers may run in; a thread's own effects never come before them (`find_strips`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sterna.compiler.codegen.llvm.ranges import RangeAnalysis
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk
from sterna.frozen import frozen
from sterna.types import ArrayType, Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.cpu.kernel import KernelEmitter

__all__ = ["Strips", "emit_strips", "find_strips"]

_SIZE = 32
"""Threads of a strip: the loop that looks at the indices is short enough to overlap with the work on the strip before,
and long enough to cost little; a constant count needs no code for odd ends; blocks of 32 threads are common.  Measured,
checked ÷ unchecked: with strips of 16 up to 1.4; of 32 and 64 1.0 to 1.1, and 1.1 to 1.3 where all lies in caches of
one processor; with a count that varies 1.1 to 1.3."""
_MOST_NODES = 300
_MOST_INDICES = 8
_PLACES = ("thread_idx.", "block_idx.", "block_dim.", "grid_dim.", "grid_index.", "grid_size.")
_ACCESSES = (ir.Element, ir.Store, ir.Atomic, ir.View)
_TOTAL = (
    ir.Const, ir.Unary, ir.Binary, ir.Compare, ir.Cast, ir.Extent, ir.MakeTuple, ir.GetItem, ir.RefWord, ir.ArrayOf,
    ir.SlotWord, ir.TableWord,
)  # fmt: skip
"""Expressions that have a value whatever their operands are, and read nothing that changes."""


@frozen
class Strips:
    """Accesses whose indices are checked ahead.

    Attributes
    ----------
    before : tuple of Stmt
        Statements that the indices depend on: assignments without effects.
    accesses : tuple of (Element or Store, extents)
        In the order of the code, with the extents of their arrays as operands.
    """

    before: tuple[ir.Stmt, ...]
    accesses: tuple[tuple[Any, tuple[str, ...]], ...]

    @property
    def nodes(self) -> frozenset[int]:
        """Identities of the accesses."""
        return frozenset(id(node) for node, _ in self.accesses)


def find_strips(analysis: RangeAnalysis, body: tuple[ir.Stmt, ...], proven: frozenset[int]) -> Strips | None:
    """What is to be checked ahead in a piece, or None when that leaves checks in it or does not pay.

    An access qualifies when its indices can be evaluated before anything of the piece has an effect, for every thread,
    from values and from loads that are `proven` to be inside.
    """
    if len(analysis.nodes) > _MOST_NODES:
        return None
    if any(isinstance(n, ir.Atomic | ir.Call | ir.Print | ir.Raise | ir.While) for n in analysis.nodes):
        return None
    finder = _Finder(analysis, proven)
    for statement in body:
        if not finder.take(statement):
            return None
    indices = sum(len(extents) for _, extents in finder.accesses)
    if not 0 < indices <= _MOST_INDICES:
        return None
    return Strips(tuple(finder.before), tuple(finder.accesses))


class _Finder:
    """Walks the statements of a piece in order."""

    def __init__(self, analysis: RangeAnalysis, proven: frozenset[int]) -> None:
        self.analysis, self.proven = analysis, proven
        self.before: list[ir.Stmt] = []
        self.accesses: list[tuple[Any, tuple[str, ...]]] = []
        self._known: set[str] = set()
        self._clean = True

    def take(self, statement: ir.Stmt) -> bool:
        """Look at one statement; False when a check in it cannot be done ahead."""
        nodes = list(walk([statement]))
        checked = [n for n in nodes if isinstance(n, _ACCESSES) and n.check is not None and id(n) not in self.proven]
        if checked:
            simple = isinstance(statement, ir.Assign | ir.Store) and not any(isinstance(n, ir.IfExp) for n in nodes)
            if not (self._clean and simple and all(self._ahead(n) for n in checked)):
                return False
        if isinstance(statement, ir.Assign):
            only = self.analysis.only_value(statement.target) is statement.value
            if only and not checked and self._can_move(statement.value):
                self.before.append(statement)
                self._known.add(statement.target)
        elif not isinstance(statement, ir.If | ir.ForRange) or any(
            isinstance(n, ir.Store | ir.StoreField | ir.ExprStatement | ir.Return) for n in nodes
        ):
            self._clean = False
        return True

    def _ahead(self, node: Any) -> bool:
        if not isinstance(node, ir.Element | ir.Store) or not all(self._can_move(index) for index in node.indices):
            return False
        extents = self.analysis.shape(node.array)
        if extents is None:
            return False
        self.accesses.append((node, extents))
        return True

    def _can_move(self, node: ir.Expr) -> bool:
        """Whether an expression has its value already before the piece has any effect, and loads nothing unchecked."""
        for child in walk([node]):
            if isinstance(child, ir.Element):
                fine = self._is_plain_load(child)
            elif isinstance(child, ir.Local):
                fine = child.name in self._known or self.analysis.is_uniform(child)
            elif isinstance(child, ir.Intrinsic):
                fine = child.name.startswith(_PLACES)
            else:
                fine = isinstance(child, _TOTAL)
            if not fine:
                return False
        return True

    def _is_plain_load(self, node: ir.Element) -> bool:
        t = node.array.type
        is_plain = isinstance(t, ArrayType) and t.space == "global" and isinstance(node.type, Scalar)
        return is_plain and (node.check is None or id(node) in self.proven) and self.analysis.is_uniform(node.array)


# ---- code ----------------------------------------------------------------------------------------


def emit_strips(e: KernelEmitter, strips: Strips, thread: Callable[[], None]) -> None:
    """Run a piece for all threads in strips.

    Parameters
    ----------
    e : KernelEmitter
        Whose `proven` says what else holds in the piece.
    strips : Strips
        What is checked ahead.
    thread : callable
        Emits the piece for one thread.
    """
    b = e.b
    buffers = [[b.slot("i64", 64, _SIZE) for _ in extents] for _, extents in strips.accesses]
    outside = b.slot("i64")

    def strip(z: str, y: str, number: str) -> None:
        done = b.op(f"mul nuw nsw i64 {number}, {_SIZE}")
        count = b.call("i64", "llvm.umin.i64", f"i64 {b.op(f'sub nuw nsw i64 {e.counts[0]}, {done}')}, i64 {_SIZE}")
        first = done if e.starts[0] == "0" else b.op(f"add nuw nsw i64 {e.starts[0]}, {done}")
        look, fast, slow, ran = (b.label(f"strip{what}") for what in (".look", "", ".checked", ".done"))
        b.branch(b.icmp("eq", 64, count, str(_SIZE)), look, slow)
        b.place(look)
        b.emit(f"store i64 0, ptr {outside}")
        e.row_loop(z, y, first, str(_SIZE), lambda: _look_ahead(e, strips, buffers, outside), rolled=True)
        b.branch(b.icmp("sge", 64, b.op(f"load i64, ptr {outside}"), "0"), fast, slow, ", !prof !0")
        b.place(fast)
        outer, e.proven = e.proven, e.proven | strips.nodes
        e.row_loop(z, y, first, str(_SIZE), lambda: _with_indices(e, strips, buffers, thread))
        e.proven = outer
        b.jump(ran)
        b.place(slow)
        e.run_plain(lambda: e.row_loop(z, y, first, count, thread))
        b.place(ran)

    def row(z: str, y: str) -> None:
        strip_count = b.op(f"udiv i64 {b.op(f'add nuw nsw i64 {e.counts[0]}, {_SIZE - 1}')}, {_SIZE}")
        e.b.count_loop(strip_count, "strips", lambda number: strip(z, y, number))

    e.each_row(row)


def _with_indices(e: KernelEmitter, strips: Strips, buffers: list[list[str]], thread: Callable[[], None]) -> None:
    """One thread with the indices that were kept for it."""
    for (node, _), places in zip(strips.accesses, buffers, strict=True):
        e.ahead[id(node)] = tuple([e.b.op(f"load i64, ptr {_at(e, place)}{e.access_note}") for place in places])
    thread()
    e.ahead = {}


def _look_ahead(e: KernelEmitter, strips: Strips, buffers: list[list[str]], outside: str) -> None:
    """Keep the indices of one thread, and set a sign bit if one is negative or past the end.

    The optimiser must not see that what is kept is what was loaded: it would copy the indices once more, by ``memcpy``,
    and then what was checked would not be what is used.
    """
    b = e.b
    zero = e.launch_value("zero", note=", !invariant.load !1")
    for statement in strips.before:
        assert isinstance(statement, ir.Assign)
        e.write(statement.target, e.value(statement.value))
    for (node, extents), places in zip(strips.accesses, buffers, strict=True):
        for index, extent, place in zip(node.indices, extents, places, strict=True):
            value = b.op(f"add i64 {e.one(index)}, {zero}")
            b.emit(f"store i64 {value}, ptr {_at(e, place)}{e.access_note}")
            # its sign bit is set for what is not negative and not below the extent
            beyond = b.op(f"add i64 {value}, {b.op(f'sub i64 {-(2**63)}, {extent}')}")
            either = b.op(f"or i64 {b.op(f'load i64, ptr {outside}')}, {value}")
            b.emit(f"store i64 {b.op(f'or i64 {either}, {beyond}')}, ptr {outside}")


def _at(e: KernelEmitter, buffer: str) -> str:
    return e.b.op(f"getelementptr inbounds i64, ptr {buffer}, i64 {e.turn}")
