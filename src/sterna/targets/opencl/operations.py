"""Barriers, fences and operations of the hardware as OpenCL's built-in functions.

Warp operations and votes are not here: threads meet at barriers that all of them reach, and compute those from local
memory (`sterna.compiler.codegen.simt.stepped`), so that a warp has 32 threads on any device and masks mean what they
say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.intrinsics import OPERATIONS as COMMON
from sterna.compiler.codegen.llvm.layout import Value
from sterna.errors import UnsupportedError
from sterna.targets.opencl.mathematics import mangled
from sterna.types import Scalar

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
    from sterna.compiler.codegen.llvm.intrinsics import Emit
    from sterna.compiler.ir.nodes import Intrinsic

__all__ = ["OPERATIONS", "barrier", "hardware_index"]

_INDICES = {
    "thread_idx": "get_local_id", "block_dim": "get_local_size", "block_idx": "get_group_id",
    "grid_dim": "get_num_groups",
}  # fmt: skip
_LOCAL_AND_GLOBAL = 3  # CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE


def hardware_index(e: FunctionEmitter, name: str, axis: int) -> str:
    """An index of the work-item along x, y or z, as int64."""
    symbol = mangled(_INDICES[name], "u32")
    e.context.declare(f"declare i64 @{symbol}(i32) nounwind memory(none)")
    return e.b.call("i64", symbol, f"i32 {axis}")


def barrier(e: FunctionEmitter) -> None:
    """Wait for all threads of the block; orders local and global memory."""
    symbol = mangled("barrier", "u32")
    e.context.declare(f"declare void @{symbol}(i32) convergent nounwind")
    e.b.emit(f"call void @{symbol}(i32 {_LOCAL_AND_GLOBAL}) convergent")


def _fence(scope: str) -> Emit:
    def emit(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
        e.b.emit(f"fence{scope} seq_cst")
        return ()

    return emit


def _mul_hi(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    """The built-in function where the common way would need 128 bits."""
    t = node.args[0].type
    assert isinstance(t, Scalar)
    if t.bits < 64:
        return COMMON["mul_hi"](e, node, args)
    kind = f"{t.kind}64"
    symbol = mangled("mul_hi", kind, kind)
    e.context.declare(f"declare i64 @{symbol}(i64, i64) nounwind memory(none)")
    return (e.b.call("i64", symbol, f"i64 {args[0][0]}, i64 {args[1][0]}"),)


def _refuse(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    raise UnsupportedError(
        "grid.sync() on opencl: its blocks need not run at the same time", hint="use one launch for each phase"
    )


OPERATIONS: dict[str, Emit] = {
    "threadfence": _fence(' syncscope("device")'), "threadfence_system": _fence(""),
    "threadfence_block": _fence(' syncscope("workgroup")'), "mul_hi": _mul_hi, "grid_sync": _refuse,
}  # fmt: skip
"""Operation → how OpenCL does it."""
