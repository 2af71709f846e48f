"""Ranges of integer expressions over all threads or turns of a piece of code, as code that computes them.

`RangeAnalysis.interval` emits instructions that compute the least and greatest value an expression takes
while the piece runs, given values known at its start.  A range carries *flags*: bits that are true when a
computation left its type, in which case the range means nothing.  Interval arithmetic loses nothing that
matters for affine indices, and a range that is too wide only costs speed (see `guards`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sterna.compiler.codegen.llvm.integers import int_constant
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk
from sterna.compiler.passes.placement import exposed
from sterna.frozen import frozen
from sterna.types import ArrayType, Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter

__all__ = ["Interval", "RangeAnalysis", "has_effects"]

_MOST = 2**63 - 1
_MOST_THREADS = 1023
_MOST_GRID = 2**31 * 1024
"""Upper bounds of indices in a launch with explicit blocks and threads; in an ``over`` launch they are less than an
extent, which is an int64."""
_CONSTANT_LEAVES = (ir.Const, ir.SlotWord, ir.TableWord, ir.SharedArray)
_PURE = (
    ir.Unary, ir.Binary, ir.Compare, ir.Cast, ir.RefWord, ir.ArrayOf, ir.Extent, ir.Stride, ir.MakeTuple, ir.GetItem,
    ir.IfExp,
)  # fmt: skip
_UNIFORM_OPERATIONS = ("block_idx.", "block_dim.", "grid_dim.", "grid_size.", "warpsize")


@frozen
class Interval:
    """Least and greatest value (int64 operands) and flags (i1 operands) that void them."""

    low: str
    high: str
    flags: tuple[str, ...] = ()

    @property
    def is_point(self) -> bool:
        """Whether there is only one value."""
        return self.low == self.high


class RangeAnalysis:
    """Ranges of expressions inside `body`, from values at its start.

    Parameters
    ----------
    emitter : FunctionEmitter
        Where code is emitted; its block must be one that runs just before the piece.
    body : sequence of Stmt
        The piece.
    is_fixed : callable
        Whether a local that the piece does not assign has one value for the whole piece.
    thread_range : callable or None
        Gives the first and last thread along an axis when the piece runs for threads of a block.
    """

    def __init__(
        self,
        emitter: FunctionEmitter,
        body: Iterable[ir.Stmt],
        is_fixed: Callable[[str], bool],
        thread_range: Callable[[int], tuple[str, str]] | None,
    ) -> None:
        self.e, self.is_fixed, self.thread_range = emitter, is_fixed, thread_range
        body = tuple(body)
        self.nodes = list(walk(body))
        self._from_before = exposed(body)
        self.loops: dict[int, tuple[str, str, str]] = {}
        self._assigned: dict[str, list[Any]] = {}
        for node in self.nodes:
            if isinstance(node, ir.Assign | ir.ForRange):
                self._assigned.setdefault(node.target, []).append(node)
        self._known: dict[str, Interval | None] = {}
        self._made: dict[str, str] = {}
        self._limits: dict[str, tuple[int, int]] = {}
        self._busy: set[str] = set()

    # ---- what does not change ----------------------------------------------------------------

    def is_uniform(self, node: ir.Expr) -> bool:
        """Whether an expression has one value for the whole piece and can be computed ahead of it."""
        if isinstance(node, ir.Local):
            return node.name not in self._assigned and self.is_fixed(node.name)
        if isinstance(node, _CONSTANT_LEAVES):
            return True
        if isinstance(node, ir.Intrinsic):
            if self.thread_range is None:
                return node.name.startswith((*_UNIFORM_OPERATIONS, "thread_idx.", "grid_index.", "laneid"))
            return node.name.startswith(_UNIFORM_OPERATIONS)
        if isinstance(node, _PURE):
            return all(self.is_uniform(c) for c in walk([node]) if isinstance(c, _LEAVES)) and not has_effects(node)
        return False

    def shape(self, node: ir.Expr, depth: int = 8) -> tuple[str, ...] | None:
        """Extents of an array expression, if they do not change in the piece."""
        if isinstance(node, ir.SharedArray | ir.LocalArray) and node.shape:
            return tuple(str(n) for n in node.shape)
        if isinstance(node, ir.Local) and depth:
            found = self._assigned.get(node.name)
            if found is not None:
                only = found[0] if len(found) == 1 else None
                return self.shape(only.value, depth - 1) if isinstance(only, ir.Assign) else None
        if isinstance(node, ir.View) and depth:
            return self._view_shape(node, depth)
        if isinstance(node.type, ArrayType) and self.is_uniform(node):
            return self.e.parts(node).shape
        return None

    def _view_shape(self, node: ir.View, depth: int) -> tuple[str, ...] | None:
        base = self.shape(node.array, depth - 1)
        if base is None or node.field is not None:
            return None
        if node.transpose is not None:
            return tuple(base[k] for k in node.transpose)
        kept, axis = [], 0
        for item in node.items:
            if isinstance(item, ir.NewAxis):
                kept.append("1")
                continue
            if isinstance(item, ir.SliceAxis):
                if item != ir.SliceAxis(None, None, None):
                    return None
                kept.append(base[axis])
            axis += 1
        return (*kept, *base[axis:])

    def only_value(self, name: str) -> ir.Expr | None:
        """What the piece gives a local, if it assigns it once and does not read it before."""
        found = self._assigned.get(name, [])
        only = found[0] if len(found) == 1 and name not in self._from_before else None
        return only.value if isinstance(only, ir.Assign) else None

    # ---- ranges ------------------------------------------------------------------------------

    def interval(self, node: ir.Expr) -> Interval | None:
        """Range of an integer expression, or None."""
        t = node.type
        if not isinstance(t, Scalar) or t.kind not in "iub":
            return None
        if t.kind == "b":
            return Interval("0", "1")
        if isinstance(node, ir.Const):
            return Interval(str(int(node.value)), str(int(node.value)))
        if isinstance(node, ir.Local) and node.name in self._assigned:
            return self._variable(node, t)
        if self.is_uniform(node):
            return self._uniform(node, t)
        emit = _RULES.get(type(node))
        found = emit(self, node) if emit is not None else None
        return None if found is None else self._fit(found, t)

    def _uniform(self, node: ir.Expr, t: Scalar) -> Interval:
        value = self.e.one(node)
        if t.bits < 64:
            value = self.e.b.op(f"{'sext' if t.kind == 'i' else 'zext'} i{t.bits} {value} to i64")
        return self._fit(Interval(value, value), t)

    def _fit(self, found: Interval, t: Scalar) -> Interval:
        """Flag values outside the type."""
        if t.kind == "i" and t.bits == 64:
            return found
        low, high = (0, 2**t.bits - 1) if t.kind != "i" else (-(2 ** (t.bits - 1)), 2 ** (t.bits - 1) - 1)
        flags = list(found.flags)
        for op, bound, limit in (("slt", found.low, low), ("sgt", found.high, min(high, _MOST))):
            known = int_constant(bound)
            if known is None or not low <= known <= high:
                flags.append(self.e.b.icmp(op, 64, bound, str(limit)))
        return Interval(found.low, found.high, tuple(flags))

    def _variable(self, local: ir.Local, t: Scalar) -> Interval | None:
        """Range of all values assigned in the piece, and of the one from before it if that may be read."""
        name = local.name
        if name not in self._known:
            if name in self._busy:
                return None
            self._busy.add(name)
            found = [self._assignment(node) for node in self._assigned[name]]
            if name in self._from_before:
                found.append(self._uniform(local, t) if self.thread_range is None else None)
            self._known[name] = self._join(found)
            self._busy.discard(name)
        return self._known[name]

    def _assignment(self, node: Any) -> Interval | None:
        if isinstance(node, ir.Assign):
            return self.interval(node.value)
        given = self.loops.get(id(node))
        if given is not None:
            start, stop, step = (Interval(x, x) for x in given)
        else:
            found = self.interval(node.start), self.interval(node.stop), self.interval(node.step)
            if found[0] is None or found[1] is None or found[2] is None:
                return None
            start, stop, step = found[0], found[1], found[2]
        return self._loop(start, stop, step)

    def _loop(self, start: Interval, stop: Interval, step: Interval) -> Interval | None:
        known = int_constant(step.low) if step.is_point else None
        flags = (*start.flags, *stop.flags, *step.flags)
        if known is None:
            flags = (*flags, self.e.b.icmp("slt", 64, step.low, "1"))
        if known is not None and known < 0:
            low = self.add(stop.low, "1", flags)
            return Interval(low[0], start.high, low[1])
        high = self.add(stop.high, "-1", flags)
        return Interval(start.low, high[0], high[1])

    def _join(self, found: list[Interval | None]) -> Interval | None:
        result: Interval | None = None
        for item in found:
            if item is None:
                return None
            if result is None:
                result = item
            else:
                low, high = self.least(result.low, item.low), self.greatest(result.high, item.high)
                result = Interval(low, high, result.flags + item.flags)
        return result

    # ---- arithmetic --------------------------------------------------------------------------

    def checked(self, op: str, x: str, y: str, flags: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """``add``, ``sub`` or ``mul`` of int64 with an overflow flag, if it can overflow."""
        p, q = int_constant(x), int_constant(y)
        if p is not None and q is not None:
            value = {"add": p + q, "sub": p - q, "mul": p * q}[op]
            if -_MOST <= value <= _MOST:
                return str(value), flags
            return "0", (*flags, "true")
        if (q == 0 and op != "mul") or (q == 1 and op == "mul"):
            return x, flags
        if (p == 0 and op == "add") or (p == 1 and op == "mul"):
            return y, flags
        low, high = _combined(op, self.limits(x), self.limits(y))
        if low >= -_MOST and high <= _MOST:
            result = self.op(f"{op} i64 {x}, {y}")
            self._limits[result] = low, high
            return result, flags
        pair = self.op(f"call {{ i64, i1 }} @llvm.s{op}.with.overflow.i64(i64 {x}, i64 {y})")
        flag = self.op(f"extractvalue {{ i64, i1 }} {pair}, 1")
        return self.op(f"extractvalue {{ i64, i1 }} {pair}, 0"), (*flags, flag)

    def op(self, text: str) -> str:
        """An instruction without effects; the same one again gives the same value."""
        found = self._made.get(text)
        if found is None:
            found = self._made[text] = self.e.b.op(text)
        return found

    def limits(self, operand: str) -> tuple[int, int]:
        """What is known of an int64 operand when compiling: it lies between two numbers."""
        known = int_constant(operand)
        return self._limits.get(operand, (-_MOST - 1, _MOST)) if known is None else (known, known)

    def limit(self, operand: str, low: int, high: int) -> str:
        """Note that an operand lies between two numbers."""
        if int_constant(operand) is None:
            self._limits[operand] = low, high
        return operand

    def add(self, x: str, y: str, flags: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """Sum with an overflow flag."""
        return self.checked("add", x, y, flags)

    def least(self, x: str, y: str) -> str:
        """Smaller of two int64."""
        return self._extremum("smin", x, y, min)

    def greatest(self, x: str, y: str) -> str:
        """Greater of two int64."""
        return self._extremum("smax", x, y, max)

    def _extremum(self, name: str, x: str, y: str, fold: Callable[[int, int], int]) -> str:
        p, q = self.limits(x), self.limits(y)
        if x == y or p[1] <= q[0]:
            return x if name == "smin" else y
        if q[1] <= p[0]:
            return y if name == "smin" else x
        result = self.op(f"call i64 @llvm.{name}.i64(i64 {x}, i64 {y})")
        return self.limit(result, fold(p[0], q[0]), fold(p[1], q[1]))


def _combined(op: str, x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    """Limits of the sum, difference or product of two numbers between limits."""
    if op == "add":
        return x[0] + y[0], x[1] + y[1]
    if op == "sub":
        return x[0] - y[1], x[1] - y[0]
    products = [p * q for p in x for q in y]
    return min(products), max(products)


def has_effects(node: ir.Expr) -> bool:
    """Whether evaluating an expression may fail, or do or read anything but locals."""
    kinds = (*_CONSTANT_LEAVES, *_PURE, ir.Local, ir.Intrinsic)
    for child in walk([node]):
        if not isinstance(child, kinds):
            return True
        if isinstance(child, ir.Binary) and child.op in ("floordiv", "mod", "pow", "truediv"):
            return True
    return False


_LEAVES = (
    ir.Local, ir.Const, ir.SlotWord, ir.TableWord, ir.SharedArray, ir.LocalArray, ir.Intrinsic, ir.Element, ir.Call,
)  # fmt: skip


def _of_binary(a: RangeAnalysis, node: ir.Binary) -> Interval | None:
    if node.op == "and":
        for side in (node.left, node.right):
            if isinstance(side, ir.Const) and side.value >= 0:
                return Interval("0", str(int(side.value)))
        return None
    x, y = a.interval(node.left), a.interval(node.right)
    if x is None or y is None:
        return None
    rule = _ARITHMETIC.get(node.op)
    return None if rule is None else rule(a, x, y)


def _add(a: RangeAnalysis, x: Interval, y: Interval) -> Interval:
    low, flags = a.add(x.low, y.low, x.flags + y.flags)
    if x.is_point and y.is_point:
        return Interval(low, low, flags)
    high, flags = a.add(x.high, y.high, flags)
    return Interval(low, high, flags)


def _sub(a: RangeAnalysis, x: Interval, y: Interval) -> Interval:
    low, flags = a.checked("sub", x.low, y.high, x.flags + y.flags)
    if x.is_point and y.is_point:
        return Interval(low, low, flags)
    high, flags = a.checked("sub", x.high, y.low, flags)
    return Interval(low, high, flags)


def _mul(a: RangeAnalysis, x: Interval, y: Interval) -> Interval:
    flags = x.flags + y.flags
    if x.is_point:
        x, y = y, x
    products = []
    for p in dict.fromkeys((x.low, x.high)):
        for q in dict.fromkeys((y.low, y.high)):
            value, flags = a.checked("mul", p, q, flags)
            products.append(value)
    known = int_constant(y.low) if y.is_point else None
    if known is not None and len(products) == 2:
        low, high = products if known >= 0 else reversed(products)
        return Interval(low, high, flags)
    low = high = products[0]
    for value in products[1:]:
        low, high = a.least(low, value), a.greatest(high, value)
    return Interval(low, high, flags)


def _floordiv(a: RangeAnalysis, x: Interval, y: Interval) -> Interval | None:
    """By a positive divisor: monotonic; rounds down."""
    known = int_constant(y.low) if y.is_point else None
    if known is None or known <= 0:
        return None
    ends = []
    for end in (x.low, x.high):
        constant = int_constant(end)
        ends.append(str(constant // known) if constant is not None else _floored(a, end, known))
    return Interval(ends[0], ends[1], x.flags)


def _floored(a: RangeAnalysis, value: str, by: int) -> str:
    b = a.e.b
    quotient, rest = b.op(f"sdiv i64 {value}, {by}"), b.op(f"srem i64 {value}, {by}")
    below = b.icmp("slt", 64, rest, "0")
    return b.op(f"add i64 {quotient}, {b.op(f'sext i1 {below} to i64')}")


def _mod(a: RangeAnalysis, x: Interval, y: Interval) -> Interval | None:
    if not y.is_point:
        return None
    known = int_constant(y.low)
    if known is not None:
        return Interval("0", str(known - 1), x.flags) if known > 0 else None
    high, flags = a.add(y.low, "-1", x.flags + y.flags)
    return Interval("0", high, (*flags, a.e.b.icmp("slt", 64, y.low, "1")))


def _min(a: RangeAnalysis, x: Interval, y: Interval) -> Interval:
    return Interval(a.least(x.low, y.low), a.least(x.high, y.high), x.flags + y.flags)


def _max(a: RangeAnalysis, x: Interval, y: Interval) -> Interval:
    return Interval(a.greatest(x.low, y.low), a.greatest(x.high, y.high), x.flags + y.flags)


def _shl(a: RangeAnalysis, x: Interval, y: Interval) -> Interval | None:
    known = int_constant(y.low) if y.is_point else None
    if known is None or not 0 <= known < 62:
        return None
    factor = str(2**known)
    return _mul(a, x, Interval(factor, factor))


def _shr(a: RangeAnalysis, x: Interval, y: Interval) -> Interval | None:
    known = int_constant(y.low) if y.is_point else None
    if known is None or not 0 <= known < 62:
        return None
    return _floordiv(a, x, Interval(str(2**known), str(2**known)))


_ARITHMETIC: dict[str, Callable[[RangeAnalysis, Interval, Interval], Interval | None]] = {
    "add": _add, "sub": _sub, "mul": _mul, "floordiv": _floordiv, "mod": _mod, "min": _min, "max": _max, "shl": _shl,
    "shr": _shr,
}  # fmt: skip


def _of_unary(a: RangeAnalysis, node: ir.Unary) -> Interval | None:
    inner = a.interval(node.operand) if node.op == "neg" else None
    return None if inner is None else _sub(a, Interval("0", "0"), inner)


def _of_cast(a: RangeAnalysis, node: ir.Cast) -> Interval | None:
    return a.interval(node.operand)


def _of_if(a: RangeAnalysis, node: ir.IfExp) -> Interval | None:
    x, y = a.interval(node.then), a.interval(node.orelse)
    if x is None or y is None:
        return None
    test = node.test
    if isinstance(test, ir.Compare) and test.op in ("lt", "le", "gt", "ge"):
        less = test.op in ("lt", "le")
        if (test.left, test.right) == (node.then, node.orelse):
            return (_min if less else _max)(a, x, y)
        if (test.left, test.right) == (node.orelse, node.then):
            return (_max if less else _min)(a, x, y)
    return a._join([x, y])


def _of_item(a: RangeAnalysis, node: ir.GetItem) -> Interval | None:
    return a.interval(node.value.items[node.index]) if isinstance(node.value, ir.MakeTuple) else None


def _of_extent(a: RangeAnalysis, node: ir.Extent) -> Interval | None:
    found = a.shape(node.array)
    if found is None:
        return None
    extent = a.limit(found[node.axis], 0, _MOST)
    return Interval(extent, extent)


def _of_intrinsic(a: RangeAnalysis, node: ir.Intrinsic) -> Interval | None:
    if node.name == "laneid":
        return Interval("0", "31")
    if a.thread_range is None or not node.name.startswith(("thread_idx.", "grid_index.")):
        return None
    e = a.e
    over = e.context.options.over
    if node.name.startswith("thread_idx."):
        low, high = a.thread_range("xyz".index(node.name[-1]))
        most = _MOST - 1 if over else _MOST_THREADS
        return Interval(a.limit(low, 0, most), a.limit(high, 0, most))
    number = int(node.name.rpartition(".")[2])
    axis = int(node.attrs[0]) - 1 - number if over else number
    base = a.op(f"mul nuw nsw i64 {e.frame.blocks(e)[axis]}, {e.frame.dim(e, 'block_dim', axis)}")
    first, last = a.thread_range(axis)
    low, high = base if first == "0" else a.op(f"add nsw i64 {base}, {first}"), a.op(f"add nsw i64 {base}, {last}")
    most = _MOST - 1 if over else _MOST_GRID
    return Interval(a.limit(low, 0, most), a.limit(high, 0, most))


_RULES: dict[type, Callable[[RangeAnalysis, Any], Interval | None]] = {
    ir.Binary: _of_binary, ir.Unary: _of_unary, ir.Cast: _of_cast, ir.IfExp: _of_if, ir.GetItem: _of_item,
    ir.Extent: _of_extent, ir.Intrinsic: _of_intrinsic,
}  # fmt: skip
