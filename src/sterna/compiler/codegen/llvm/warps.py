"""Operations of a warp: what one thread computes from values of the others, wherever those lie.

A warp is 32 neighbouring threads in linear order; a thread takes part when the current masks have it, and with others
as the operation's own mask says.  Targets without warps of their own keep the operands of all threads in memory (of a
block, or of a hardware thread that runs one) and compute these from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sterna.compiler.codegen.llvm.builder import int_text
from sterna.compiler.codegen.llvm.integers import int_binary
from sterna.compiler.codegen.llvm.layout import Value, components
from sterna.compiler.ir import nodes as ir
from sterna.types import Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.builder import Builder

__all__ = ["OPERATIONS", "argument_of", "warp_operation"]

WARP = 32
Operation = Callable[["_Warp"], Value]


def argument_of(e: Any, node: ir.Expr, position: str) -> Value:
    """The value that the thread number `position` has in an argument, a local or a constant."""
    found: Value = e.read_kept(node.name, position) if isinstance(node, ir.Local) else e.value(node)
    return found


def warp_operation(e: Any, node: ir.Intrinsic, taking: str) -> Value:
    """What the running thread gets of an operation.

    Parameters
    ----------
    e : FunctionEmitter
        With ``position`` (the thread's number in its block), ``read_kept(name, position)`` (a local of another
        thread) and ``mask_at(array, position)``.
    node : Intrinsic
        The operation; its arguments are locals or constants.
    taking : str
        A mask of the threads that take part; those that do not exist do not.
    """
    return OPERATIONS[node.name](_Warp(e, node, taking))


class _Warp:
    """One thread's view of its warp during an operation."""

    def __init__(self, e: Any, node: ir.Intrinsic, taking: str) -> None:
        b: Builder = e.b
        self.e, self.b, self.node, self.taking = e, b, node, taking
        self.lane = e.b.op(f"and i64 {e.position}, {WARP - 1}")
        self.base = e.b.op(f"sub i64 {e.position}, {self.lane}")
        self.mask = "-1"
        if node.args:
            (self.mask,) = argument_of(e, node.args[0], e.position)

    def own(self, number: int) -> Value:
        """This thread's argument."""
        return argument_of(self.e, self.node.args[number], self.e.position)

    def of(self, number: int, lane: str) -> Value:
        """The argument of a lane of this warp."""
        return argument_of(self.e, self.node.args[number], self.b.op(f"add i64 {self.base}, {lane}"))

    def takes_part(self, lane: str) -> str:
        """Whether a lane (0 to 31) takes part and is named by the mask."""
        inside = self.e.mask_at(self.taking, self.b.op(f"add i64 {self.base}, {lane}"))
        shift = self.b.op(f"trunc i64 {lane} to i32")
        named = self.b.op(f"trunc i32 {self.b.op(f'lshr i32 {self.mask}, {shift}')} to i1")
        return self.b.both(inside, named)

    def fold(self, kind: str, start: str, step: Callable[[str, str, str], str]) -> str:
        """Fold over the lanes: ``step(value so far, lane, whether it takes part)``."""
        slot = self.b.slot(kind)
        self.b.emit(f"store {kind} {start}, ptr {slot}")

        def turn(lane: str) -> None:
            before = self.b.op(f"load {kind}, ptr {slot}")
            self.b.emit(f"store {kind} {step(before, lane, self.takes_part(lane))}, ptr {slot}")

        self.b.count_loop(str(WARP), "lane", turn)
        return self.b.op(f"load {kind}, ptr {slot}")

    def lanes_where(self, test: Callable[[str], str]) -> str:
        """Mask of the lanes taking part for which `test` holds."""

        def step(before: str, lane: str, inside: str) -> str:
            bit = self.b.op(f"zext i1 {self.b.both(inside, test(lane))} to i32")
            shift = self.b.op(f"trunc i64 {lane} to i32")
            return self.b.op(f"or i32 {before}, {self.b.op(f'shl i32 {bit}, {shift}')}")

        return self.fold("i32", "0", step)


def _shuffle(find: Callable[[_Warp, str], tuple[str, str]]) -> Callable[[_Warp], Value]:
    """A shuffle; `find` gives the source lane (0 to 31) and whether there is one."""

    def emit(w: _Warp) -> Value:
        (by,) = w.own(2)
        lane, exists = find(w, by)
        valid = w.b.both(exists, w.takes_part(lane))
        own, other = w.own(1), w.of(1, lane)
        kinds = components(w.node.args[1].type)
        return tuple(w.b.select(valid, k, x, y) for k, x, y in zip(kinds, other, own, strict=True))

    return emit


def _within(w: _Warp, lane: str) -> tuple[str, str]:
    exists = w.b.icmp("ult", 64, lane, str(WARP))
    return w.b.select(exists, "i64", lane, "0"), exists


def _same_value(w: _Warp, lane: str) -> str:
    """Whether a lane's value equals this one's, bit for bit."""
    result = "true"
    for kind, x, y in zip(components(w.node.args[1].type), w.own(1), w.of(1, lane), strict=True):
        if kind in ("float", "double"):
            bits = "i32" if kind == "float" else "i64"
            x, y = (w.b.op(f"bitcast {kind} {v} to {bits}") for v in (x, y))
            kind = bits
        equal = w.b.op(f"icmp eq {kind} {x}, {y}")
        result = equal if result == "true" else w.b.both(result, equal)
    return result


def _ballot(w: _Warp) -> Value:
    return (w.lanes_where(lambda lane: w.of(1, lane)[0]),)


def _yes_and_all(w: _Warp) -> tuple[str, str]:
    return w.lanes_where(lambda lane: w.of(1, lane)[0]), w.lanes_where(lambda lane: "true")


def _any_sync(w: _Warp) -> Value:
    return (w.b.icmp("ne", 32, _ballot(w)[0], "0"),)


def _all_sync(w: _Warp) -> Value:
    return (w.b.icmp("eq", 32, *_yes_and_all(w)),)


def _eq_sync(w: _Warp) -> Value:
    yes, everyone = _yes_and_all(w)
    return (w.b.either(w.b.icmp("eq", 32, yes, everyone), w.b.icmp("eq", 32, yes, "0")),)


def _match_any(w: _Warp) -> Value:
    return (w.lanes_where(lambda lane: _same_value(w, lane)),)


def _all_match(w: _Warp) -> tuple[str, str]:
    same, everyone = _match_any(w)[0], w.lanes_where(lambda lane: "true")
    return w.b.icmp("eq", 32, same, everyone), everyone


def _match_all_mask(w: _Warp) -> Value:
    fine, everyone = _all_match(w)
    return (w.b.select(fine, "i32", everyone, "0"),)


def _match_all_pred(w: _Warp) -> Value:
    return (_all_match(w)[0],)


def _activemask(w: _Warp) -> Value:
    return (w.lanes_where(lambda lane: "true"),)


def _reduce(w: _Warp) -> Value:
    """Over the lanes taking part, from the operation's neutral value."""
    t, op = w.node.type, w.node.name.split("_")[1]
    assert isinstance(t, Scalar)
    n = t.bits
    least, most = (-(2 ** (n - 1)), 2 ** (n - 1) - 1) if t.kind == "i" else (0, 2**n - 1)
    neutral = {"add": 0, "or": 0, "xor": 0, "and": -1, "min": most, "max": least}[op]
    text = int_text(neutral, n)

    def step(before: str, lane: str, inside: str) -> str:
        value = w.b.select(inside, f"i{n}", w.of(1, lane)[0], text)
        return int_binary(w.b, op, t, before, value)

    return (w.fold(f"i{n}", text, step),)


OPERATIONS: dict[str, Operation] = {
    "shfl_sync": _shuffle(lambda w, by: (w.b.op(f"and i64 {by}, {WARP - 1}"), "true")),
    "shfl_up_sync": _shuffle(lambda w, by: _within(w, w.b.op(f"sub i64 {w.lane}, {by}"))),
    "shfl_down_sync": _shuffle(lambda w, by: _within(w, w.b.op(f"add i64 {w.lane}, {by}"))),
    "shfl_xor_sync": _shuffle(lambda w, by: _within(w, w.b.op(f"xor i64 {w.lane}, {by}"))),
    "ballot_sync": _ballot, "any_sync": _any_sync, "all_sync": _all_sync, "eq_sync": _eq_sync,
    "match_any_sync": _match_any, "match_all_sync.mask": _match_all_mask, "match_all_sync.pred": _match_all_pred,
    "activemask": _activemask,
    **{f"reduce_{op}_sync": _reduce for op in ("add", "min", "max", "and", "or", "xor")},
}  # fmt: skip
"""Operation → what a thread gets of it."""
