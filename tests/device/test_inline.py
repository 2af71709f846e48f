"""One instruction by its name, in definitions of one target each, with a definition in Python for the interpreter."""

from __future__ import annotations

import numpy as np

import sterna
from helpers.launching import Place


@sterna.device_function
def bits(x):
    """Number of bits set in 32."""
    return np.int32(sterna.popc(np.int32(x)))


@sterna.device_override(bits, target=("cpu", "cuda", "opencl"))
def bits_by_name(x):
    return sterna.intrinsic("llvm.ctpop.i32", np.int32, np.int32(x))


@sterna.device_function
def doubled(x):
    """Twice an int64."""
    return np.int64(x) * np.int64(2)


@sterna.device_override(doubled, target="cuda")
def doubled_in_ptx(x):
    return sterna.inline_asm("add.s64 $0, $1, $1;", "=l,l", np.int64, np.int64(x), side_effects=False)


@sterna.device_override(doubled, target=("cpu-x86-64", "cpu-x86-64-v2", "cpu-x86-64-v3", "cpu-x86-64-v4"))
def doubled_in_x86(x):
    return sterna.inline_asm("leaq ($1, $1), $0", "=r,r", np.int64, np.int64(x), side_effects=False)


@sterna.kernel
def k(out):
    i = sterna.grid(1)
    out[0, i] = bits(i)
    if i > 2:
        out[1, i] = doubled(i)


def test_instructions_by_name(place: Place):
    out = np.zeros((2, 8), np.int64)
    place.over(k, 8, out)
    assert out.tolist() == [[0, 1, 1, 2, 1, 2, 2, 3], [0, 0, 0, 6, 8, 10, 12, 14]]


def test_in_a_loop(place: Place):
    @sterna.kernel
    def loop(out):
        i = sterna.grid(1)
        total = np.int64(0)
        for n in range(4):
            total += doubled(np.int64(n))
        out[i] = total

    out = np.zeros(3, np.int64)
    place.over(loop, 3, out)
    assert out.tolist() == [12, 12, 12]
