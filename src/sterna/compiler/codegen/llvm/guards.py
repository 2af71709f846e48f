"""Index checks taken out of loops: one test ahead of a piece of code proves many checks inside.

For every checked access whose index ranges can be computed ahead (`ranges`), the guard demands that the whole
range lies inside the array.  Where it holds, a copy of the piece without those checks runs, which LLVM can
vectorise; else the checked copy runs and finds exactly which thread fails, if any.  Correctness never depends on
how wide a range is.
"""

from __future__ import annotations

from typing import Any

from sterna.compiler.codegen.llvm.integers import int_constant
from sterna.compiler.codegen.llvm.ranges import Interval, RangeAnalysis
from sterna.compiler.ir import nodes as ir
from sterna.frozen import frozen
from sterna.types import Scalar, Type

__all__ = ["Guard", "count_checks", "has_checks", "make_guard"]

_ACCESSES = (ir.Element, ir.Store, ir.Atomic, ir.View)
_MOST_NODES = 4000


@frozen
class Guard:
    """An i1 that is true when the checks of `proven` (node identities) all hold; `complete` if no other is left."""

    test: str
    proven: frozenset[int]
    complete: bool


def has_checks(nodes: list[Any], proven: frozenset[int]) -> bool:
    """Whether some access among `nodes` is checked and not proven."""
    return any(isinstance(n, _ACCESSES) and n.check is not None and id(n) not in proven for n in nodes)


def count_checks(nodes: list[Any], proven: frozenset[int]) -> int:
    """How many accesses among `nodes` are checked and not proven."""
    return sum(isinstance(n, _ACCESSES) and n.check is not None and id(n) not in proven for n in nodes)


def make_guard(analysis: RangeAnalysis, proven: frozenset[int]) -> Guard | None:
    """A guard for the accesses of the analysed piece, or None when there is nothing to gain."""
    accesses = [n for n in analysis.nodes if isinstance(n, _ACCESSES) and n.check is not None and id(n) not in proven]
    if not accesses or len(analysis.nodes) > _MOST_NODES:
        return None
    tests: dict[str, None] = {}
    good: dict[int, bool] = {}
    for node in accesses:
        found = _conditions(analysis, node)
        good[id(node)] = good.get(id(node), True) and found is not None
        if found is not None:
            tests.update(dict.fromkeys(found))
    newly = frozenset(key for key, fine in good.items() if fine)
    if not newly or "false" in tests:
        return None
    result = "true"
    for test in tests:
        result = test if result == "true" else analysis.op(f"and i1 {result}, {test}")
    return Guard(result, newly, len(newly) == len(good))


def _conditions(a: RangeAnalysis, node: Any) -> list[str] | None:
    shape = a.shape(node.array)
    if shape is None:
        return None
    items = node.items if isinstance(node, ir.View) else node.indices
    result: list[str] = []
    axis = 0
    for item in items:
        if isinstance(item, ir.NewAxis):
            continue
        if not isinstance(item, ir.SliceAxis):
            found = _axis(a, shape[axis], item, getattr(node, "nonnegative", False))
            if found is None:
                return None
            result += found
        axis += 1
    return result


def _axis(a: RangeAnalysis, extent: str, index: ir.Expr, nonnegative: bool) -> list[str] | None:
    if isinstance(index, ir.Const) and index.value < 0:
        return [_holds(a, "sge", extent, str(-int(index.value)))]
    found: Interval | None = a.interval(index)
    if found is None:
        return [] if _always_fits(index, extent) else None
    tests = [_holds(a, "slt", found.high, extent)]
    if not nonnegative:
        tests.append(_holds(a, "sge", found.low, "0"))
    tests += [a.op(f"xor i1 {flag}, true") for flag in dict.fromkeys(found.flags)]
    return [t for t in tests if t != "true"]


def _always_fits(index: ir.Expr, extent: str) -> bool:
    """Whether every value of the index's narrow type is in range: a byte in an array of 256."""
    size = int_constant(extent)
    while isinstance(index, ir.Cast) and _keeps_value(index.operand.type, index.type):
        index = index.operand
    t = index.type
    return size is not None and isinstance(t, Scalar) and t.kind == "u" and 2**t.bits <= size


def _keeps_value(source: Type, target: Type) -> bool:
    """Whether a conversion leaves every number of an unsigned type as it is."""
    if not (isinstance(source, Scalar) and isinstance(target, Scalar)) or source.kind != "u":
        return False
    return target.kind in "iu" and target.bits >= source.bits + (target.kind == "i")


def _holds(a: RangeAnalysis, op: str, left: str, right: str) -> str:
    (low, high), (least, most) = a.limits(left), a.limits(right)
    if op == "slt":
        known = "true" if high < least else "false" if low >= most else None
    else:
        known = "true" if low >= most else "false" if high < least else None
    return known or a.op(f"icmp {op} i64 {left}, {right}")
