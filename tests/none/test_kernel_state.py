"""Kernel state: a kernel is given the state words that it reads, and nothing is there for those it does not."""

from __future__ import annotations

import re

import numpy as np
import pytest

import sterna
from sterna.abi import STATE_WORDS, state_offsets

TABLE = np.arange(4, dtype=np.float32)
CUDA = "cuda-sm_90"


@sterna.kernel(boundscheck=False)
def plain(x):
    i = sterna.grid(1)
    x[i] = x[i] + 1


@sterna.kernel
def checked(x):
    i = sterna.grid(1)
    x[i] = x[i] + 1


@sterna.kernel(boundscheck=False, strategy="table")
def tabled(x):
    i = sterna.grid(1)
    x[i] = TABLE[i]


@sterna.kernel(boundscheck=False)
def printing(x):
    print(x[0])


@sterna.kernel
def nothing():
    pass


def facts(kernel, *types: str, target: str = CUDA, over: int = 0):  # type: ignore[no-untyped-def]
    return kernel.build(*types, target=target, over=over)


@pytest.mark.parametrize(
    ("kernel", "over", "state"),
    [
        (plain, 0, []), (plain, 1, ["extents"]), (checked, 0, ["record"]), (checked, 1, ["record", "extents"]),
        (tabled, 0, ["table"]), (printing, 0, ["record", "print"]),
    ],
)  # fmt: skip
def test_a_kernel_has_the_words_it_reads(kernel, over, state):  # type: ignore[no-untyped-def]
    pytest.importorskip("cuda.bindings.nvjitlink")
    built = facts(kernel, "float32[:]", over=over)
    assert built.image.facts["state"] == state
    (size,) = re.findall(r"byval\(\[(\d+) x i8\]\)", built.text("llvm"))
    assert int(size) == 16 + 8 * sum(STATE_WORDS[name] for name in state)  # address and extent
    assert facts(kernel, "float32[:]", over=over, target="cpu-x86-64-v3").image.facts["state"] == state


def test_two_axes_may_be_flat():
    pytest.importorskip("cuda.bindings.nvjitlink")

    @sterna.kernel(boundscheck=False)
    def k(x):
        i, j = sterna.grid(2)
        x[i, j] = 1

    assert facts(k, "float32[:,:]", over=2).image.facts["state"] == ["extents", "flat"]


def test_a_kernel_of_nothing_takes_one_word():
    pytest.importorskip("cuda.bindings.nvjitlink")
    built = facts(nothing)
    assert built.image.facts["state"] == []
    assert "byval([8 x i8])" in built.text("llvm")


def test_offsets():
    assert state_offsets(["seed", "extents", "table"]) == ({"table": 0, "extents": 1, "seed": 4}, 5)
    assert state_offsets([]) == ({}, 0)
