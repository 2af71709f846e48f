"""Operations of the kernel language that every target computes the same way, once it has a frame.

A table, operation → emitter.  A target has tables of its own that are looked in first
(`LLVMProfile.operations`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.builder import int_text
from sterna.compiler.codegen.llvm.complexfns import COMPLEX_OPERATIONS, emit_complex
from sterna.compiler.codegen.llvm.floats import fabs, is_small
from sterna.compiler.codegen.llvm.inline import INLINE_OPERATIONS
from sterna.compiler.codegen.llvm.integers import range_count
from sterna.compiler.codegen.llvm.layout import Value, components, int_bits, register_type
from sterna.compiler.codegen.llvm.mathops import MATH_OPERATIONS, emit_math
from sterna.errors import UnsupportedError
from sterna.types import Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
    from sterna.compiler.ir.nodes import Intrinsic

__all__ = ["DEVICE_ONLY", "FRAME_OPERATIONS", "OPERATIONS", "Emit", "emit_intrinsic"]

Emit = Callable[["FunctionEmitter", "Intrinsic", tuple[Value, ...]], Value]
Table = Mapping[str, Emit]
_INDICES = tuple(f"{name}.{axis}" for name in ("thread_idx", "block_idx", "block_dim", "grid_dim") for axis in "xyz")
_GRID_INDICES, _GRID_SIZES = (tuple(f"{name}.{k}" for k in range(3)) for name in ("grid_index", "grid_size"))
FRAME_OPERATIONS = frozenset((*_INDICES, *_GRID_INDICES, *_GRID_SIZES, "laneid", "lanemask_lt", "state.seed"))
"""Operations that read the thread's frame."""


def _index(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    kind, axis = node.name[:-2], "xyz".index(node.name[-1])
    if kind == "thread_idx":
        return (e.frame.threads(e)[axis],)
    if kind == "block_idx":
        return (e.frame.blocks(e)[axis],)
    return (e.frame.dim(e, kind, axis),)


def _axis_of(e: FunctionEmitter, node: Intrinsic) -> int:
    """CUDA's axis (0 is x) of component k of ``grid(ndim)``: the last component is x in an ``over`` launch."""
    number = int(node.name.rpartition(".")[2])
    return int(node.attrs[0]) - 1 - number if e.context.options.over else number


def _grid_index(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    axis = _axis_of(e, node)
    base = e.b.op(f"mul nuw nsw i64 {e.frame.blocks(e)[axis]}, {e.frame.dim(e, 'block_dim', axis)}")
    return (e.b.op(f"add nuw nsw i64 {base}, {e.frame.threads(e)[axis]}"),)


def _grid_size(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    axis = _axis_of(e, node)
    if e.context.options.over:
        return (e.frame.dim(e, "extents", axis),)
    return (e.b.op(f"mul nuw nsw i64 {e.frame.dim(e, 'grid_dim', axis)}, {e.frame.dim(e, 'block_dim', axis)}"),)


def linear_thread(e: FunctionEmitter) -> str:
    """Position of the thread in its block, x fastest."""
    x, y, z = e.frame.threads(e)
    nx, ny = e.frame.dim(e, "block_dim", 0), e.frame.dim(e, "block_dim", 1)
    row = e.b.op(f"add nuw nsw i64 {e.b.op(f'mul nuw nsw i64 {z}, {ny}')}, {y}")
    return e.b.op(f"add nuw nsw i64 {e.b.op(f'mul nuw nsw i64 {row}, {nx}')}, {x}")


def _laneid(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return (e.b.op(f"and i64 {linear_thread(e)}, 31"),)


def _lanemask_lt(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    lane = e.b.op(f"trunc i64 {_laneid(e, node, args)[0]} to i32")
    return (e.b.op(f"sub i32 {e.b.op(f'shl i32 1, {lane}')}, 1"),)


def _warpsize(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return ("32",)


Count = Callable[["FunctionEmitter", int, str], str]


def _counting(count: Count) -> Emit:
    """An operation that counts bits of an integer at its own width."""

    def emit(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
        t = node.args[0].type
        assert isinstance(t, Scalar)
        assert isinstance(node.type, Scalar)
        n = int_bits(t)
        return e.cast_value(Scalar("u", n) if n > 1 else t, node.type, (count(e, n, args[0][0]),))

    return emit


def _popc(e: FunctionEmitter, n: int, x: str) -> str:
    return e.b.call(f"i{n}", f"llvm.ctpop.i{n}", f"i{n} {x}")


def _clz(e: FunctionEmitter, n: int, x: str) -> str:
    return e.b.call(f"i{n}", f"llvm.ctlz.i{n}", f"i{n} {x}, i1 false")


def _ffs(e: FunctionEmitter, n: int, x: str) -> str:
    low = e.b.call(f"i{n}", f"llvm.cttz.i{n}", f"i{n} {x}, i1 false")
    return e.b.select(e.b.icmp("eq", n, x, "0"), f"i{n}", int_text(0, n), e.b.op(f"add i{n} {low}, 1"))


def _brev(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    t = node.args[0].type
    assert isinstance(t, Scalar)
    n = int_bits(t)
    return (e.b.call(f"i{n}", f"llvm.bitreverse.i{n}", f"i{n} {args[0][0]}"),)


def _mul_hi(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    t = node.args[0].type
    assert isinstance(t, Scalar)
    n, ext = t.bits, "sext" if t.kind == "i" else "zext"
    x, y = (e.b.op(f"{ext} i{n} {v[0]} to i{2 * n}") for v in args)
    high = e.b.op(f"lshr i{2 * n} {e.b.op(f'mul i{2 * n} {x}, {y}')}, {n}")
    return (e.b.op(f"trunc i{2 * n} {high} to i{n}"),)


def _selp(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    assert isinstance(node.type, Scalar)
    kind = register_type(node.type)
    return (e.b.select(args[0][0], kind, args[1][0], args[2][0]),)


def _abs(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    t, value = node.args[0].type, args[0]
    assert isinstance(t, Scalar)
    if t.kind == "c":
        return emit_complex(e, node, args)
    if is_small(t):
        return (e.b.op(f"and i16 {value[0]}, 32767"),)
    if t.kind == "f":
        return (fabs(e.b, register_type(t), value[0]),)
    if t.kind == "i":
        return (e.b.call(f"i{t.bits}", f"llvm.abs.i{t.bits}", f"i{t.bits} {value[0]}, i1 false"),)
    return value


def _make_complex(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return args[0] + args[1]


def _word(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return args[0][:1]


def _bitcast(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    source = node.args[0].type
    assert isinstance(source, Scalar)
    assert isinstance(node.type, Scalar)
    have, want = register_type(source), register_type(node.type)
    return args[0] if have == want else (e.b.op(f"bitcast {have} {args[0][0]} to {want}"),)


def _seed(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return (e.frame.seed(e),)


def _range_count(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    return (range_count(e.b, args[0][0], args[1][0], args[2][0]),)


def _fence(scope: str) -> Emit:
    def emit(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
        e.b.emit(f"fence{scope} seq_cst")
        return ()

    return emit


DEVICE_ONLY = "sterna_device_only."
"""What the symbols begin with that code of the host would need for functions of devices."""


def _device_only(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    """A call of a symbol that no host defines, named after the function of devices."""
    symbol = f'@"{DEVICE_ONLY}{node.attrs[0]}"'
    e.context.declare(f"declare void {symbol}()")
    e.b.emit(f"call void {symbol}()")
    return ()


def _opaque(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    """A value that the optimiser knows nothing of."""
    slots = [(kind, e.b.slot(kind)) for kind in components(node.type)]
    return tuple(e.b.op(f"load volatile {kind}, ptr {slot}") for kind, slot in slots)


def _number(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    """A mathematical function of real or complex numbers."""
    t = node.args[0].type
    return emit_complex(e, node, args) if isinstance(t, Scalar) and t.kind == "c" else emit_math(e, node, args)


def _named(names: tuple[str, ...], emit: Emit, *spaces: str) -> dict[str, Emit]:
    return {f"{space}.{name}": emit for space in spaces for name in names}


OPERATIONS: Table = {
    **dict.fromkeys(_INDICES, _index),
    **dict.fromkeys(_GRID_INDICES, _grid_index),
    **dict.fromkeys(_GRID_SIZES, _grid_size),
    **_named(MATH_OPERATIONS, _number, "math", "numpy"),
    **INLINE_OPERATIONS,
    "device_only": _device_only, "device_only.value": _opaque,
    **_named(COMPLEX_OPERATIONS, _number, "math", "cmath", "numpy", "complex"),
    "warpsize": _warpsize, "laneid": _laneid, "lanemask_lt": _lanemask_lt, "popc": _counting(_popc),
    "clz": _counting(_clz), "ffs": _counting(_ffs),
    "brev": _brev, "mul_hi": _mul_hi, "selp": _selp, "abs": _abs, "builtins.abs": _abs, "math.abs": _abs,
    "range.count": _range_count, "complex.make": _make_complex, "object.word": _word, "bitcast": _bitcast,
    "threadfence": _fence(""), "threadfence_system": _fence(""), "state.seed": _seed,
    "threadfence_block": _fence(' syncscope("singlethread")'),
}  # fmt: skip
"""Operation → how it is emitted where the target has no way of its own."""


def emit_intrinsic(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    """Emit one operation of the language: as the target's own tables say, else as all targets do."""
    for table in (*e.profile.operations(), OPERATIONS):
        emit = table.get(node.name)
        if emit is not None:
            return emit(e, node, args)
    raise UnsupportedError(f"operation {node.name!r} is not available on target {e.context.target_name}")
