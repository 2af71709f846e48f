"""Sterna: Python kernels that migrate.

Write a kernel as a Python function, launch it, and its compiled image is stored with every host reference still
symbolic; a fresh process, or another machine, loads the image and gives the references their values of that
session, with no compiler there.

Names are loaded when first used, so that ``import sterna`` costs little more than NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_LANGUAGE = (
    "activemask", "all_sync", "any_sync", "atomic", "ballot_sync", "bfloat16", "blockDim", "blockIdx", "bool_",
    "brev", "cbrt", "clz", "complex128", "complex64", "eq_sync", "ffs", "float16", "float32", "float64", "fma",
    "grid", "gridDim", "grid_sync", "gridsize", "inbounds", "inline_asm", "intrinsic", "int16", "int32", "int64",
    "int8", "laneid", "lanemask_lt", "local", "match_all_sync", "match_any_sync", "mul_hi", "popc", "random",
    "reduce_add_sync",
    "reduce_and_sync", "reduce_max_sync", "reduce_min_sync", "reduce_or_sync", "reduce_xor_sync", "rsqrt", "selp",
    "shared", "shfl_down_sync", "shfl_sync", "shfl_up_sync", "shfl_xor_sync", "syncthreads", "syncthreads_and",
    "syncthreads_count", "syncthreads_or", "syncwarp", "threadIdx", "threadfence", "threadfence_block",
    "threadfence_system", "uint16", "uint32", "uint64", "uint8", "warpsize",
)  # fmt: skip
_HOME: dict[str, str] = {
    **dict.fromkeys(_LANGUAGE, "sterna.language"),
    "kernel": "sterna.kernels", "Kernel": "sterna.kernels", "CompiledKernel": "sterna.kernels",
    "device_function": "sterna.language.device", "device_override": "sterna.language.device",
    "device_functions": "sterna.language.groups",
    "host_leaks": "sterna.leaks", "interpret": "sterna.interpreter",
    "Array": "sterna.array", "to_device": "sterna.array", "empty": "sterna.array", "zeros": "sterna.array",
    "full": "sterna.array", "from_dlpack": "sterna.array",
    "Global": "sterna.runtime.hostrefs", "runtime_global": "sterna.runtime.hostrefs",
    "resolve": "sterna.relocation.roots",
    "device": "sterna.runtime.devices", "devices": "sterna.runtime.devices", "on": "sterna.runtime.devices",
    "synchronize": "sterna.runtime.devices", "seed": "sterna.runtime.seeds",
    **dict.fromkeys(("capture", "event", "mapped", "pinned", "stream"), "sterna.runtime.streams"),
    "stats": "sterna.runtime.stats", "require_precompiled": "sterna.runtime.stats",
    "register_store": "sterna.image", "unregister_store": "sterna.image",
    "machine_code_archive": "sterna.image.archive",
    "errors": "", "overlays": "", "types": "",
}  # fmt: skip

__all__ = [  # noqa: F405
    "__version__",
    "Array", "CompiledKernel", "Global", "Kernel", "activemask", "all_sync", "any_sync", "atomic", "ballot_sync",
    "bfloat16", "blockDim", "blockIdx", "bool_", "brev", "capture", "cbrt", "clz", "complex128", "complex64",
    "device", "device_function", "device_functions", "device_override", "devices", "empty", "eq_sync", "errors",
    "event", "ffs", "float16", "float32", "float64", "fma", "from_dlpack", "full", "grid", "gridDim", "grid_sync",
    "gridsize", "host_leaks", "inbounds", "inline_asm", "int16", "int32", "int64", "int8", "interpret", "intrinsic",
    "kernel", "laneid", "lanemask_lt", "local", "machine_code_archive", "mapped", "match_all_sync", "match_any_sync",
    "mul_hi", "on", "overlays", "pinned", "popc", "random", "reduce_add_sync", "reduce_and_sync", "reduce_max_sync",
    "reduce_min_sync", "reduce_or_sync", "reduce_xor_sync", "register_store", "require_precompiled", "resolve",
    "rsqrt", "runtime_global", "seed", "selp", "shared", "shfl_down_sync", "shfl_sync", "shfl_up_sync",
    "shfl_xor_sync", "stats", "stream", "synchronize", "syncthreads", "syncthreads_and", "syncthreads_count",
    "syncthreads_or", "syncwarp", "threadIdx", "threadfence", "threadfence_block", "threadfence_system", "to_device",
    "types", "uint16", "uint32", "uint64", "uint8", "unregister_store", "warpsize", "zeros",
]  # fmt: skip

if TYPE_CHECKING:
    from sterna import errors, overlays, types
    from sterna.array import Array, empty, from_dlpack, full, to_device, zeros
    from sterna.image import register_store, unregister_store
    from sterna.image.archive import machine_code_archive
    from sterna.interpreter import interpret
    from sterna.kernels import CompiledKernel, Kernel, kernel
    from sterna.language import *  # noqa: F403
    from sterna.language.device import device_function, device_override
    from sterna.language.groups import device_functions
    from sterna.leaks import host_leaks
    from sterna.relocation.roots import resolve
    from sterna.runtime.devices import device, devices, on, synchronize
    from sterna.runtime.hostrefs import Global, runtime_global
    from sterna.runtime.seeds import seed
    from sterna.runtime.stats import require_precompiled, stats
    from sterna.runtime.streams import capture, event, mapped, pinned, stream


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'sterna' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name) if home else importlib.import_module(f"sterna.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
