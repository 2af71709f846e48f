"""A package whose plain functions call what exists on devices only: for `sterna.host_leaks` to find."""

from __future__ import annotations

import numpy as np

import sterna
from helpers.leaking.deep import offset

SINGLES = "float32[:]"


@sterna.device_function
def twice(x: float) -> float:
    """Exists on devices only."""
    return 2 * x


def clean(x: float, n: int) -> float:
    """Needs nothing of devices."""
    return x * n


def position(n: int) -> int:
    """Needs the grid, two calls away."""
    shifted = n + 1
    return offset(shifted)


def many(a: SINGLES, i: int) -> None:
    """Needs one thing after another."""
    with sterna.inbounds():
        a[i] = twice(2.0) + sterna.threadIdx.x
    tile = sterna.shared.array(16, np.float32)
    tile[0] = sterna.laneid
    a[0] = tile[0] + sterna.random.uniform()
    sterna.atomic.add(a, 0, 1.0)
    if sterna.grid(1) > 3:
        sterna.syncthreads()
    a[1] = sterna.intrinsic("llvm.nvvm.ex2.approx.f", np.float32, np.float32(1))


def never(x: float) -> float:
    """Names a barrier on a path that no call takes."""
    if False:
        sterna.syncthreads()
    return x


def no_device_code(x: int) -> str:
    """Cannot be compiled at all."""
    return f"{x}"


@sterna.device_override(clean)
def clean_on_devices(x: float, n: int) -> float:
    """Called by the kernel below; may use what devices have."""
    return x * n + sterna.grid(1)


@sterna.device_override(position, target="cuda-sm_90")
def position_on_one(n: int) -> int:
    """Nothing calls what it overrides."""
    return n


@sterna.kernel
def kernel(out):
    """Calls one of the two."""
    out[sterna.grid(1)] = clean(1.0, 2)
