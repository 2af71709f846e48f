"""What lanes of a SIMD-group (a warp of 32 threads) do together.

Metal has no masks: the lanes that are active at an operation take part.  An operation of the language takes those of
its mask among them; a lane that is asked for a value and does not take part answers with the asker's own.  All is made
of two instructions, a ballot and a shuffle of 32 bits, written where they happen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sterna.compiler.codegen.msl.code import bare
from sterna.compiler.codegen.msl.layout import Value, native, register_type, unsigned_type
from sterna.compiler.codegen.msl.scalars import binary
from sterna.errors import UnsupportedError
from sterna.types import Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.msl.emitter import FunctionEmitter
    from sterna.compiler.ir.nodes import Intrinsic

__all__ = ["SIMDGROUP"]

Emit = Callable[["FunctionEmitter", "Intrinsic", tuple[Value, ...]], Value]


def _ballot_of(e: FunctionEmitter, predicate: str) -> str:
    """The active lanes for which `predicate` holds, as a mask."""
    return e.code.temp("uint", f"uint(simd_vote::vote_t(simd_ballot({bare(predicate)})))")


def _members(e: FunctionEmitter, mask: str) -> str:
    """The lanes that take part: active and named by the mask."""
    active = _ballot_of(e, "true")
    return active if mask == "4294967295u" else e.code.temp("uint", f"{active} & {mask}")


def _words(e: FunctionEmitter, t: Scalar, x: str) -> list[str]:
    """A number as one or two words of 32 bits."""
    t = native(t)
    x = e.code.atom(register_type(t), x)
    if t.kind == "c":
        return [f"as_type<uint>({x}.x)", f"as_type<uint>({x}.y)"]
    if t.kind == "f":
        return [f"as_type<uint>({x})" if t.bits == 32 else f"uint(as_type<ushort>({x}))"]
    if t.bits == 64:
        return [f"uint(ulong({x}))", f"uint(ulong({x}) >> 32)"]
    return [f"uint({x})"] if t.kind != "i" or t.bits == 32 else [f"uint({unsigned_type(t)}({x}))"]


def _from_words(t: Scalar, words: list[str]) -> str:
    t = native(t)
    kind = register_type(t)
    if t.kind == "c":
        return f"float2(as_type<float>({words[0]}), as_type<float>({words[1]}))"
    if t.kind == "f":
        return f"as_type<float>({words[0]})" if t.bits == 32 else f"as_type<half>(ushort({words[0]}))"
    if t.bits == 64:
        return f"{kind}(ulong({words[1]}) << 32 | {words[0]})"
    return f"({words[0]} != 0)" if t.kind == "b" else f"{kind}({words[0]})"


def _fetch(e: FunctionEmitter, words: list[str], lane: str) -> list[str]:
    return [e.code.temp("uint", f"simd_shuffle({w}, ushort({bare(lane)}))") for w in words]


_SOURCES = {"shfl_up_sync": "subtract", "shfl_down_sync": "add"}


def _shuffle(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    (mask,), (x,), (lane,) = args
    t, code = node.type, e.code
    assert isinstance(t, Scalar)
    own = "long(f.lane)"
    if node.name == "shfl_sync":
        source = f"{lane} & 31L"
    elif node.name == "shfl_xor_sync":
        source = f"{own} ^ {lane}"
    else:
        source = e.helper(_SOURCES[node.name], own, lane)
    source = code.temp("long", source)
    members = _members(e, mask)
    x = code.atom(register_type(t), x)
    moved = _from_words(t, _fetch(e, _words(e, t, x), f"{source} & 31L"))
    there = f"{source} >= 0 && {source} < 32 && ({members} >> uint({source} & 31L) & 1u) != 0"
    return (code.temp(register_type(t), f"({there} ? {moved} : {x})"),)


def _ballot(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    (mask,), (predicate,) = args
    lanes = _ballot_of(e, predicate)
    return (lanes if mask == "4294967295u" else f"({lanes} & {mask})",)


def _vote(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    (mask,), (predicate,) = args
    predicate = e.code.atom("bool", predicate)
    yes = "" if node.name == "all_sync" else _ballot_of(e, predicate)
    no = "" if node.name == "any_sync" else _ballot_of(e, f"!{predicate}")
    tests = [f"({lanes} & {mask}) {sign} 0" for lanes, sign in ((yes, "!="), (no, "==")) if lanes]
    if node.name == "eq_sync":
        return (f"(({yes} & {mask}) == 0 || {tests[1]})",)
    return (f"({tests[0]})",)


def _same_as(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> tuple[str, str]:
    """The lanes that take part, and those among them whose value is bit for bit one's own."""
    (mask,), (x,) = args
    t, code = node.args[1].type, e.code
    assert isinstance(t, Scalar)
    members = _members(e, mask)
    words = [code.temp("uint", w) for w in _words(e, t, x)]
    same, lane = code.fresh(), code.fresh()
    code.emit(f"uint {same} = 0;")
    with code.block(f"for (uint {lane} = 0; {lane} < 32; ++{lane})"):
        others = _fetch(e, words, lane)
        test = " && ".join(f"{a} == {b}" for a, b in zip(words, others, strict=True))
        code.emit(f"if ({test}) {same} |= 1u << {lane};")
    return members, code.temp("uint", f"{same} & {members}")


def _match_any(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return (_same_as(e, node, args)[1],)


def _match_all(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    members, same = _same_as(e, node, args)
    if node.name.endswith(".pred"):
        return (f"({same} == {members})",)
    return (f"({same} == {members} ? {members} : 0u)",)


def _reduce(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    """In the order of the lanes."""
    op = node.name.removeprefix("reduce_").removesuffix("_sync")
    t, (mask,), (x,), code = node.type, args[0], args[1], e.code
    if not isinstance(t, Scalar) or t.kind not in "iu":
        raise UnsupportedError(f"operation {node.name!r} on {t}")
    kind, members = register_type(t), _members(e, mask)
    words = [code.temp("uint", w) for w in _words(e, t, x)]
    result, first, lane = code.fresh(), code.fresh(), code.fresh()
    code.emit(f"{kind} {result} = 0;")
    code.emit(f"bool {first} = true;")
    with code.block(f"for (uint {lane} = 0; {lane} < 32; ++{lane})"):
        other = code.temp(kind, _from_words(t, _fetch(e, words, lane)))
        with code.block(f"if (({members} >> {lane} & 1u) != 0)"):
            code.emit(f"{result} = {first} ? {other} : {bare(binary(e, op, t, result, other))};")
            code.emit(f"{first} = false;")
    return (result,)


def _barrier(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    e.code.emit("simdgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);")
    return ()


def _active(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return (e.code.temp("uint", "uint(simd_vote::vote_t(simd_active_threads_mask()))"),)


def _lane(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return ("long(f.lane)",)


def _lanes_below(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return ("((1u << f.lane) - 1u)",)


def _size(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return ("32L",)


SIMDGROUP: dict[str, Emit] = {
    "laneid": _lane, "lanemask_lt": _lanes_below, "warpsize": _size, "activemask": _active, "syncwarp": _barrier,
    "shfl_sync": _shuffle, "shfl_up_sync": _shuffle, "shfl_down_sync": _shuffle, "shfl_xor_sync": _shuffle,
    "ballot_sync": _ballot, "any_sync": _vote, "all_sync": _vote, "eq_sync": _vote, "match_any_sync": _match_any,
    "match_all_sync.mask": _match_all, "match_all_sync.pred": _match_all,
    **{f"reduce_{op}_sync": _reduce for op in ("add", "min", "max", "and", "or", "xor")},
}  # fmt: skip
"""Operation of the language → how it is emitted."""
