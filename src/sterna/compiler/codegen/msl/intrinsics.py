"""Operations of the kernel language, by name: positions, barriers, bits, conversions of bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sterna.compiler.codegen.msl.code import bare, call
from sterna.compiler.codegen.msl.layout import Value, native, register_type, unsigned_type
from sterna.compiler.codegen.msl.mathematics import COMPLEX_FUNCTIONS, REAL_FUNCTIONS
from sterna.compiler.codegen.msl.scalars import cast, widen
from sterna.compiler.codegen.msl.simdgroup import SIMDGROUP
from sterna.errors import UnsupportedError
from sterna.types import UINT32, UINT64, Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.msl.emitter import FunctionEmitter
    from sterna.compiler.ir.nodes import Intrinsic

__all__ = ["FRAME_OPERATIONS", "OPERATIONS", "emit_intrinsic"]

Emit = Callable[["FunctionEmitter", "Intrinsic", tuple[Value, ...]], Value]
_INDICES = tuple(f"{name}.{axis}" for name in ("thread_idx", "block_idx", "block_dim", "grid_dim") for axis in "xyz")
_GRID_INDICES, _GRID_SIZES = (tuple(f"{name}.{k}" for k in range(3)) for name in ("grid_index", "grid_size"))
_VOTES = tuple(f"syncthreads_{kind}" for kind in ("count", "and", "or"))
_SHUFFLES = ("shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync")
FRAME_OPERATIONS = frozenset(
    (*_INDICES, *_GRID_INDICES, *_GRID_SIZES, *_VOTES, *_SHUFFLES, "laneid", "lanemask_lt", "state.seed")
)
"""Operations that read the thread's frame."""
_EVERYWHERE = "mem_flags::mem_device | mem_flags::mem_threadgroup"


# ---- positions -----------------------------------------------------------------------------------


def _component(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return (f"long(f.{node.name})",)


def _axis_of(e: FunctionEmitter, node: Intrinsic) -> str:
    """Axis of component k of ``grid(ndim)``: the last component is x in an ``over`` launch."""
    number = int(node.name.rpartition(".")[2])
    return "xyz"[int(node.attrs[0]) - 1 - number if e.context.options.over else number]


def _grid_index(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    axis = _axis_of(e, node)
    return (f"(long(f.block_idx.{axis}) * f.block_dim.{axis} + f.thread_idx.{axis})",)


def _grid_size(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    axis = _axis_of(e, node)
    if e.context.options.over:
        return (f"f.extent_{axis}",)
    return (f"(long(f.grid_dim.{axis}) * f.block_dim.{axis})",)


# ---- threads of a block --------------------------------------------------------------------------


def _syncthreads(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    e.code.emit(f"threadgroup_barrier({_EVERYWHERE});")
    return ()


def _counting_barrier(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    place = f"f.shared + {e.context.vote_start}"
    counts = e.code.temp("uint2", e.helper("vote_of_block", place, e.takes_part, args[0][0]))
    text = {"count": f"long({counts}.x)", "and": f"long({counts}.y == 0)", "or": f"long({counts}.x != 0)"}
    return (text[node.name.rpartition("_")[2]],)


def _fence(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    if not e.context.fences:
        return ()
    e.context.need_language("3.2")
    scope = "threadgroup" if node.name == "threadfence_block" else "device"
    e.code.emit(f"atomic_thread_fence({_EVERYWHERE}, memory_order_seq_cst, thread_scope_{scope});")
    return ()


def _grid_sync(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    raise UnsupportedError(
        "grid.sync(): threads of different blocks cannot wait for each other on target metal",
        hint="end the kernel where the grid should meet, and launch another",
    )


# ---- bits ----------------------------------------------------------------------------------------

_BITS = {"popc": "count_ones", "clz": "leading_zeros", "ffs": "first_one", "brev": "bit_reversed"}


def _bits(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    """popc, clz, ffs, brev at the argument's own width."""
    t, target = node.args[0].type, node.type
    assert isinstance(t, Scalar) and isinstance(target, Scalar)
    bits = 1 if t.kind == "b" else t.bits
    wide = "ulong" if bits == 64 else "uint"
    word = args[0][0] if bits == 1 else f"{unsigned_type(t)}({bare(args[0][0])})"
    text = e.helper(_BITS[node.name], word if bits >= 32 else f"{wide}({word})")
    if node.name == "brev":
        if bits < 32:
            text = f"({text} >> {32 - bits})"
        return (cast(e, UINT64 if bits == 64 else UINT32, target, text),)
    if node.name == "clz" and bits < 32:
        text = f"({text} - {32 - bits}u)"
    return (cast(e, UINT32, target, text),)


def _mul_hi(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    t = node.args[0].type
    assert isinstance(t, Scalar)
    (x,), (y,) = args
    if t.bits >= 32:
        return (e.helper("multiply_high", x, y),)
    return (call(register_type(t), f"{x} * {y} >> {t.bits}"),)


def _bitcast(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    source, target = node.args[0].type, node.type
    assert isinstance(source, Scalar) and isinstance(target, Scalar)
    if source.weak and source.kind in "fc":
        raise UnsupportedError(
            "the bits of a Python float, which target metal computes in float32",
            hint="convert with np.float32(…) first",
        )
    have, want = register_type(source), register_type(target)
    if have == want:
        return args[0]
    if native(source).kind in "iu" and native(target).kind in "iu":
        return (call(want, args[0][0]),)
    return (f"as_type<{want}>({bare(args[0][0])})",)


# ---- the rest ------------------------------------------------------------------------------------


def _selp(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return (f"({args[0][0]} ? {args[1][0]} : {args[2][0]})",)


def _abs(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    t, (x,) = node.args[0].type, args[0]
    assert isinstance(t, Scalar)
    if t.kind == "c":
        return (e.helper("complex_abs", x),)
    if t.kind == "e":
        return (call("ushort", f"{x} & 0x7fffu"),)
    if t.kind == "f":
        text = call("metal::fabs", widen(e, t, x))
        return (call("half", text) if t.bits == 16 else text,)
    return (e.helper("absolute", x) if t.kind == "i" else x,)


def _make_complex(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return (call("float2", args[0][0], args[1][0]),)


def _word(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return args[0][:1]


def _state(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return (f"f.{node.name.removeprefix('state.')}",)


def _range_count(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return (call("long", e.helper("range_count", args[0][0], args[1][0], args[2][0])),)


def _numbers(name: str) -> Emit:
    """A mathematical function of real numbers, of complex ones, or of both."""
    real, of_complex = REAL_FUNCTIONS.get(name), COMPLEX_FUNCTIONS.get(name)

    def emit(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
        t = node.args[0].type
        if isinstance(t, Scalar) and t.kind == "c":
            if of_complex is not None:
                return (of_complex(e, args[0][0]),)
        elif real is not None:
            return (real(e, node, tuple(a[0] for a in args)),)
        raise UnsupportedError(f"operation {node.name!r} on {t}")

    return emit


OPERATIONS: dict[str, Emit] = {
    **{f"{module}.{name}": _numbers(name) for module in ("math", "numpy") for name in REAL_FUNCTIONS},
    **{f"{module}.{name}": _numbers(name) for module in ("math", "cmath", "numpy", "complex")
       for name in COMPLEX_FUNCTIONS},
    **dict.fromkeys(_INDICES, _component), **dict.fromkeys(_GRID_INDICES, _grid_index),
    **dict.fromkeys(_GRID_SIZES, _grid_size), **dict.fromkeys(_VOTES, _counting_barrier), **SIMDGROUP,
    "syncthreads": _syncthreads, "grid_sync": _grid_sync,
    **dict.fromkeys(("threadfence", "threadfence_block", "threadfence_system"), _fence), **dict.fromkeys(_BITS, _bits),
    "mul_hi": _mul_hi, "selp": _selp, "abs": _abs, "builtins.abs": _abs, "math.abs": _abs, "range.count": _range_count,
    "complex.make": _make_complex, "object.word": _word, "bitcast": _bitcast, "state.seed": _state,
}  # fmt: skip
"""Operation of the language → how it is emitted."""


def emit_intrinsic(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    """Emit one operation of the language."""
    emit = OPERATIONS.get(node.name)
    if emit is None:
        raise UnsupportedError(f"operation {node.name!r} is not available on target metal")
    return emit(e, node, args)
