"""Barriers, warp operations and fences of the kernel language as NVPTX instructions.

Lanes that are asked for a value and do not exist, are not in the mask or have returned answer with the asker's own
value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.floats import float_binary, is_small
from sterna.compiler.codegen.llvm.integers import int_binary, int_constant
from sterna.compiler.codegen.llvm.layout import Value, components
from sterna.errors import UnsupportedError
from sterna.types import Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
    from sterna.compiler.ir.nodes import Intrinsic

__all__ = ["GRID_STATE", "OPERATIONS"]

Emit = Callable[["FunctionEmitter", "Intrinsic", tuple[Value, ...]], Value]
_SHUFFLES = {
    "shfl_sync": ("idx", 31),
    "shfl_up_sync": ("up", 0),
    "shfl_down_sync": ("down", 31),
    "shfl_xor_sync": ("bfly", 31),
}
_SOURCES = {"up": "sub", "down": "add", "bfly": "xor"}
"""Kind of shuffle → how the lane that is asked follows from one's own."""
_SPECIAL = "llvm.nvvm.read.ptx.sreg"
_BITS = {"float": 32, "double": 64}
_REDUCTIONS = ("add", "min", "max", "and", "or", "xor")


# ---- barriers and fences -------------------------------------------------------------------------


def _void(text: str) -> Emit:
    def emit(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
        e.b.emit(f"call void @llvm.nvvm.{text}")
        return ()

    return emit


def _barrier_suffix(e: FunctionEmitter) -> str:
    """The barrier for threads that come together, or the general one."""
    return "all" if e.context.barriers_diverge else "aligned.all"  # type: ignore[attr-defined]


def _syncthreads(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    e.b.emit(f"call void @llvm.nvvm.barrier.cta.sync.{_barrier_suffix(e)}(i32 0)")
    return ()


def _syncwarp(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    e.b.emit(f"call void @llvm.nvvm.bar.warp.sync(i32 {args[0][0] if args else '-1'})")
    return ()


def _counting_barrier(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    """syncthreads_count, _and, _or: a weak int."""
    how = {"count": "popc"}.get(node.name.rpartition("_")[2], node.name.rpartition("_")[2])
    kind = "i32" if how == "popc" else "i1"
    found = e.b.call(kind, f"llvm.nvvm.barrier.cta.red.{how}.{_barrier_suffix(e)}", f"i32 0, i1 {args[0][0]}")
    return (e.b.op(f"zext {kind} {found} to i64"),)


def _grid_sync(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    """One thread of each block arrives at a counter of the module and waits until its top bit turns.

    Block 0 adds what makes the bit turn once all others have added 1, as in NVIDIA's cooperative groups.  A thread that
    failed will never come: whoever waits looks at the word behind the counter, and the whole grid leaves.
    """
    b, state = e.b, "ptr addrspace(1) @sterna_grid"
    e.context.helper("sterna_grid", GRID_STATE)
    x, y, z = e.frame.threads(e)
    first = b.icmp("eq", 64, b.op(f"or i64 {b.op(f'or i64 {x}, {y}')}, {z}"), "0")
    arrive, spin, look, gone, done = (b.label(h) for h in ("arrive", "spin", "look", "gone", "met"))
    b.emit("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")
    b.branch(first, arrive, done)
    b.place(arrive)
    amount = b.select(_is_block_zero(e), "i32", b.op(f"sub i32 -2147483647, {_blocks(e)}"), "1")
    b.emit("call void @llvm.nvvm.membar.gl()")
    before = b.op(f'atomicrmw add {state}, i32 {amount} syncscope("device") monotonic')
    b.place(spin)
    now = b.op(f"load volatile i32, {state}")
    turned = b.icmp("slt", 32, b.op(f"xor i32 {before}, {now}"), "0")
    b.branch(turned, gone, look)
    b.place(look)
    b.branch(_grid_failed(e), gone, spin)
    b.place(gone)
    b.emit("call void @llvm.nvvm.membar.gl()")
    b.place(done)
    failed = b.call("i1", "llvm.nvvm.barrier.cta.red.or.aligned.all", f"i32 0, i1 {_grid_failed(e)}")
    go = b.label("go")
    b.branch(failed, e.leave, go)
    b.place(go)
    return ()


GRID_STATE = "@sterna_grid = addrspace(1) externally_initialized global [2 x i32] zeroinitializer, align 8"
"""Counter of the grid barrier, and a word that is 1 once a thread of the launch has failed."""


def _grid_failed(e: FunctionEmitter) -> str:
    word = "ptr addrspace(1) getelementptr inbounds (i8, ptr addrspace(1) @sterna_grid, i64 4)"
    return e.b.icmp("ne", 32, e.b.op(f"load volatile i32, {word}"), "0")


def _is_block_zero(e: FunctionEmitter) -> str:
    x, y, z = (e.profile.hardware_index(e, "block_idx", axis) for axis in range(3))  # type: ignore[attr-defined]
    return e.b.icmp("eq", 64, e.b.op(f"or i64 {e.b.op(f'or i64 {x}, {y}')}, {z}"), "0")


def _blocks(e: FunctionEmitter) -> str:
    """Number of blocks of the grid, as i32."""
    x, y, z = (e.profile.hardware_index(e, "grid_dim", axis) for axis in range(3))  # type: ignore[attr-defined]
    layers = e.b.op(f"mul i64 {x}, {y}")
    return e.b.op(f"trunc i64 {e.b.op(f'mul i64 {layers}, {z}')} to i32")


# ---- lanes ---------------------------------------------------------------------------------------


def _laneid(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return (e.b.op(f"zext i32 {e.b.op('call range(i32 0, 32) i32 @llvm.nvvm.read.ptx.sreg.laneid()')} to i64"),)


def _lanemask_lt(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return (e.b.call("i32", "llvm.nvvm.read.ptx.sreg.lanemask.lt", ""),)


def _activemask(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return (e.b.call("i32", "llvm.nvvm.activemask", ""),)


def _as_words(e: FunctionEmitter, kind: str, x: str) -> list[str]:
    """A component as one or two 32-bit words."""
    b = e.b
    if kind in _BITS:
        x = b.op(f"bitcast {kind} {x} to i{_BITS[kind]}")
    bits = _BITS.get(kind) or int(kind[1:])
    if bits == 64:
        return [b.op(f"trunc i64 {x} to i32"), b.op(f"trunc i64 {b.op(f'lshr i64 {x}, 32')} to i32")]
    return [x if bits == 32 else b.op(f"zext i{bits} {x} to i32")]


def _from_words(e: FunctionEmitter, kind: str, words: list[str]) -> str:
    b = e.b
    bits = _BITS.get(kind) or int(kind[1:])
    if bits == 64:
        low, high = (b.op(f"zext i32 {w} to i64") for w in words)
        x = b.op(f"or i64 {low}, {b.op(f'shl i64 {high}, 32')}")
    else:
        x = words[0] if bits == 32 else b.op(f"trunc i32 {words[0]} to i{bits}")
    return b.op(f"bitcast i{bits} {x} to {kind}") if kind in _BITS else x


def _exchange(e: FunctionEmitter, mode: str, clamp: int, mask: str, kind: str, x: str, lane: str) -> str:
    """One component from another lane."""
    moved = [
        e.b.call("i32", f"llvm.nvvm.shfl.sync.{mode}.i32", f"i32 {mask}, i32 {word}, i32 {lane}, i32 {clamp}")
        for word in _as_words(e, kind, x)
    ]
    return _from_words(e, kind, moved)


def _shuffle(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    mode, clamp = _SHUFFLES[node.name]
    (mask,), value, (lane,) = args[:3]
    b = e.b
    place = b.op(f"trunc i64 {lane} to i32")
    if mode == "idx":
        place = source = b.op(f"and i32 {place}, 31")
    else:
        own = b.op(f"call range(i32 0, 32) i32 @{_SPECIAL}.laneid()")
        source = b.op(f"{_SOURCES[mode]} i32 {own}, {place}")
    exists = _takes_part(e, mask, source)
    if mode != "idx":
        inside = b.icmp("ult", 64, lane, "32") if int_constant(lane) is None else str(0 <= int(lane) < 32).lower()
        exists = b.both(exists, b.both(inside, b.icmp("ult", 32, source, "32")))
    kinds = components(node.type)
    moved = [_exchange(e, mode, clamp, mask, kind, x, place) for kind, x in zip(kinds, value, strict=True)]
    return tuple(b.select(exists, kind, new, own) for kind, new, own in zip(kinds, moved, value, strict=True))


def _takes_part(e: FunctionEmitter, mask: str, source: str) -> str:
    """Whether the lane that is asked (modulo 32) is in the mask, exists, and has not returned.

    Where no thread returns early, the lanes that exist follow from the block's size; else the lanes say so themselves.
    """
    b, everyone = e.b, int_constant(mask) in (-1, 0xFFFFFFFF)
    if e.context.threads_leave:  # type: ignore[attr-defined]
        mask, everyone = b.call("i32", "llvm.nvvm.vote.ballot.sync", f"i32 {mask}, i1 true"), False
        exists = ""
    else:
        extents = [b.op(f"call range(i32 1, 1025) i32 @{_SPECIAL}.ntid.{axis}()") for axis in "xyz"]
        x, y, z = (b.op(f"call range(i32 0, 1024) i32 @{_SPECIAL}.tid.{axis}()") for axis in "xyz")
        plane = b.op(f"add nuw nsw i32 {b.op(f'mul nuw nsw i32 {z}, {extents[1]}')}, {y}")
        thread = b.op(f"add nuw nsw i32 {b.op(f'mul nuw nsw i32 {plane}, {extents[0]}')}, {x}")
        threads = b.op(f"mul nuw nsw i32 {b.op(f'mul nuw nsw i32 {extents[0]}, {extents[1]}')}, {extents[2]}")
        left = b.op(f"sub nsw i32 {threads}, {b.op(f'and i32 {thread}, -32')}")
        exists = b.icmp("ult", 32, b.op(f"and i32 {source}, 31"), left)
    if everyone:
        return exists
    shifted = b.op(f"lshr i32 {mask}, {b.op(f'and i32 {source}, 31')}")
    named = b.op(f"trunc i32 {shifted} to i1")
    return b.both(named, exists) if exists else named


# ---- votes and matches ---------------------------------------------------------------------------


def _ballot(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return (e.b.call("i32", "llvm.nvvm.vote.ballot.sync", f"i32 {args[0][0]}, i1 {args[1][0]}"),)


def _vote(mode: str) -> Emit:
    def emit(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
        return (e.b.call("i1", f"llvm.nvvm.vote.{mode}.sync", f"i32 {args[0][0]}, i1 {args[1][0]}"),)

    return emit


def _match_words(
    e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]
) -> tuple[str, str, list[tuple[str, str]]]:
    """Mask, and the components to compare as (LLVM type, operand) of 32 or 64 bits."""
    t = node.args[1].type
    words = []
    for kind, x in zip(components(t), args[1], strict=True):
        parts = _as_words(e, kind, x)
        if len(parts) == 1:
            words.append(("i32", parts[0]))
        else:
            words.append(("i64", x if kind == "i64" else e.b.op(f"bitcast {kind} {x} to i64")))
    return args[0][0], str(t), words


def _match_any(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    mask, _, words = _match_words(e, node, args)
    result = ""
    for kind, x in words:
        found = e.b.call("i32", f"llvm.nvvm.match.any.sync.{kind}", f"i32 {mask}, {kind} {x}")
        result = found if not result else e.b.op(f"and i32 {result}, {found}")
    return (result,)


def _match_all(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    mask, _, words = _match_words(e, node, args)
    result = ""
    for kind, x in words:
        pair = e.b.op(f"call {{ i32, i1 }} @llvm.nvvm.match.all.sync.{kind}p(i32 {mask}, {kind} {x})")
        found = e.b.op(f"extractvalue {{ i32, i1 }} {pair}, 1")
        result = found if not result else e.b.both(result, found)
    if node.name.endswith(".pred"):
        return (result,)
    return (e.b.select(result, "i32", mask, "0"),)


# ---- reductions over a warp ----------------------------------------------------------------------


def _reduce(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    op = node.name.removeprefix("reduce_").removesuffix("_sync")
    t, mask, (x,) = node.type, args[0][0], args[1]
    if not isinstance(t, Scalar) or t.kind == "c":
        raise UnsupportedError(f"operation {node.name!r} on {t}")
    if e.profile.capability >= 80 and t.kind in "iu" and t.bits <= 32:  # type: ignore[attr-defined]
        return (_hardware_reduce(e, op, t, mask, x),)
    return (_serial_reduce(e, op, t, mask, x),)


def _hardware_reduce(e: FunctionEmitter, op: str, t: Scalar, mask: str, x: str) -> str:
    b = e.b
    wide = x if t.bits == 32 else b.op(f"{'sext' if t.kind == 'i' else 'zext'} i{t.bits} {x} to i32")
    name = "u" + op if op in ("min", "max") and t.kind == "u" else op
    found = b.call("i32", f"llvm.nvvm.redux.sync.{name}", f"i32 {wide}, i32 {mask}")
    return found if t.bits == 32 else b.op(f"trunc i32 {found} to i{t.bits}")


def _combine(e: FunctionEmitter, op: str, t: Scalar, x: str, y: str) -> str:
    if t.kind in "fe":
        if is_small(t):
            raise UnsupportedError(f"a reduction over a warp of {t}", hint="convert to float32 first")
        return float_binary(e.b, op, t, x, y, e.fast)
    return int_binary(e.b, op, t, x, y)


def _serial_reduce(e: FunctionEmitter, op: str, t: Scalar, mask: str, x: str) -> str:
    """In the order of the lanes: take the value of every lane of the mask, the lowest first."""
    b, (kind,) = e.b, components(t)
    left, result = b.slot("i32"), b.slot(kind)
    turn, done = b.label("reduce"), b.label("reduced")

    def take(lanes: str) -> tuple[str, str]:
        lane = b.call("i32", "llvm.cttz.i32", f"i32 {lanes}, i1 false")
        value = _exchange(e, "idx", 31, mask, kind, x, lane)
        return value, b.op(f"and i32 {lanes}, {b.op(f'sub i32 {lanes}, 1')}")

    first, rest = take(mask)
    b.emit(f"store {kind} {first}, ptr {result}")
    b.emit(f"store i32 {rest}, ptr {left}")
    body = b.label("reduce.turn")
    b.place(turn)
    lanes = b.op(f"load i32, ptr {left}")
    b.branch(b.icmp("ne", 32, lanes, "0"), body, done)
    b.place(body)
    value, rest = take(lanes)
    b.emit(f"store {kind} {_combine(e, op, t, b.op(f'load {kind}, ptr {result}'), value)}, ptr {result}")
    b.emit(f"store i32 {rest}, ptr {left}")
    b.jump(turn)
    b.place(done)
    return b.op(f"load {kind}, ptr {result}")


OPERATIONS: dict[str, Emit] = {
    "grid_sync": _grid_sync, "syncthreads": _syncthreads,
    "syncthreads_count": _counting_barrier, "syncthreads_and": _counting_barrier, "syncthreads_or": _counting_barrier,
    "syncwarp": _syncwarp, "threadfence": _void("membar.gl()"), "threadfence_block": _void("membar.cta()"),
    "threadfence_system": _void("membar.sys()"), "laneid": _laneid, "lanemask_lt": _lanemask_lt,
    "activemask": _activemask, **dict.fromkeys(_SHUFFLES, _shuffle), "ballot_sync": _ballot, "any_sync": _vote("any"),
    "all_sync": _vote("all"), "eq_sync": _vote("uni"), "match_any_sync": _match_any, "match_all_sync.mask": _match_all,
    "match_all_sync.pred": _match_all, **{f"reduce_{op}_sync": _reduce for op in _REDUCTIONS},
}  # fmt: skip
"""Operation → how NVPTX does it."""
