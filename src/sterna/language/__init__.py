"""The kernel language: what device code may say beyond Python itself.

Ordinary Python functions and objects, re-exported by `sterna`.  On the host they raise
`DeviceOnlyError`; for device code each stands in the method table of all devices (`sterna.overlays`) as a named
operation, and in `sterna.interpret` they do the real thing.

A name's module is loaded when the name is first used: a launch of a stored kernel needs those of its own names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "activemask", "all_sync", "any_sync", "atomic", "ballot_sync", "bfloat16", "blockDim", "blockIdx", "bool_",
    "brev", "cbrt", "clz", "complex128", "complex64", "eq_sync", "ffs", "float16", "float32", "float64", "fma",
    "grid", "gridDim", "grid_sync", "gridsize", "inbounds", "inline_asm", "int16", "int32", "int64", "int8",
    "intrinsic", "laneid", "lanemask_lt", "local", "match_all_sync", "match_any_sync", "mul_hi", "popc", "random",
    "reduce_add_sync", "reduce_and_sync", "reduce_max_sync", "reduce_min_sync", "reduce_or_sync", "reduce_xor_sync",
    "rsqrt", "selp", "shared", "shfl_down_sync", "shfl_sync", "shfl_up_sync", "shfl_xor_sync", "syncthreads",
    "syncthreads_and", "syncthreads_count", "syncthreads_or", "syncwarp", "threadIdx", "threadfence",
    "threadfence_block", "threadfence_system", "uint16", "uint32", "uint64", "uint8", "warpsize",
]  # fmt: skip

if TYPE_CHECKING:
    from sterna.language import atomic, local, random, shared
    from sterna.language.bits import brev, cbrt, clz, ffs, fma, inbounds, mul_hi, popc, rsqrt, selp
    from sterna.language.dtypes import (
        bfloat16,
        bool_,
        complex64,
        complex128,
        float16,
        float32,
        float64,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
    )  # fmt: skip
    from sterna.language.index import blockDim, blockIdx, grid, gridDim, gridsize, laneid, threadIdx, warpsize
    from sterna.language.inline import inline_asm, intrinsic
    from sterna.language.sync import (
        grid_sync,
        syncthreads,
        syncthreads_and,
        syncthreads_count,
        syncthreads_or,
        syncwarp,
        threadfence,
        threadfence_block,
        threadfence_system,
    )  # fmt: skip
    from sterna.language.warp import (
        activemask,
        all_sync,
        any_sync,
        ballot_sync,
        eq_sync,
        lanemask_lt,
        match_all_sync,
        match_any_sync,
        reduce_add_sync,
        reduce_and_sync,
        reduce_max_sync,
        reduce_min_sync,
        reduce_or_sync,
        reduce_xor_sync,
        shfl_down_sync,
        shfl_sync,
        shfl_up_sync,
        shfl_xor_sync,
    )  # fmt: skip

_MODULES = {
    "bits": "brev cbrt clz ffs fma inbounds mul_hi popc rsqrt selp",
    "dtypes": "bfloat16 bool_ complex64 complex128 float16 float32 float64 int8 int16 int32 int64 "
    "uint8 uint16 uint32 uint64",
    "index": "blockDim blockIdx grid gridDim grid_sync gridsize laneid threadIdx warpsize",
    "inline": "inline_asm intrinsic",
    "sync": "syncthreads syncthreads_and syncthreads_count syncthreads_or syncwarp "
    "threadfence threadfence_block threadfence_system",
    "warp": "activemask all_sync any_sync ballot_sync eq_sync lanemask_lt match_all_sync match_any_sync "
    "reduce_add_sync reduce_and_sync reduce_max_sync reduce_min_sync reduce_or_sync reduce_xor_sync "
    "shfl_down_sync shfl_sync shfl_up_sync shfl_xor_sync",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}
"""Name → module of this package; a name that is not here is a module itself."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'sterna.language' has no attribute {name!r}")
    home = _HOME.get(name)
    if home is None:
        return import_module(f"sterna.language.{name}")
    value = globals()[name] = getattr(import_module(f"sterna.language.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
