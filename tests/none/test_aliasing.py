"""What ``noalias`` means to the code: origins of arrays, what is written, invariant loads and scopes in LLVM IR."""

from __future__ import annotations

import re

import numpy as np
import pytest

import sterna
from helpers.frontend import build
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk_function
from sterna.compiler.passes.aliasing import CAPTURED, Aliasing
from sterna.compiler.passes.lower_references import lower_references
from sterna.typespec import type_from

TABLE = np.arange(8, dtype=np.float32)
RECORD = np.dtype([("a", "f4"), ("b", "f4", (3,))])


def analysed(function, *types):
    module = lower_references(build(function, *map(type_from, types)), "patch", lambda manifest: None)
    return module, Aliasing(module)


def origins_of_stores(module, aliasing):
    return [
        aliasing.of(function.name, node.array)
        for function in module.functions.values()
        for node in walk_function(function)
        if isinstance(node, ir.Store)
    ]


def chosen(first, second, flag):
    return first if flag else second


def test_origins_go_through_calls_views_and_choices():
    def k(x, y, z, flag):
        a = chosen(x, y, flag)
        a[1:][0] = z[0]

    module, aliasing = analysed(k, "float32[:]", "float32[:]", "float32[:]", "int")
    assert origins_of_stores(module, aliasing) == [{"x", "y"}]
    assert aliasing.written == {"x", "y"}
    assert aliasing.origins == {"x", "y", "z", CAPTURED}


def test_a_name_is_everything_that_it_ever_was():
    def k(x, y, n):
        a = x
        for _ in range(n):
            a[0] = 1
            a = y

    module, aliasing = analysed(k, "float32[:]", "float32[:]", "int")
    assert origins_of_stores(module, aliasing) == [{"x", "y"}]


def test_own_arrays_and_captures():
    def k(x):
        mine = sterna.local.array(4, np.float32)
        mine[0] = TABLE[1]
        x[0] = mine[0]

    module, aliasing = analysed(k, "float32[:]")
    assert origins_of_stores(module, aliasing) == [frozenset(), {"x"}]
    assert aliasing.written == {"x"}
    loads = [n for n in walk_function(module.functions[module.entry]) if isinstance(n, ir.Element)]
    assert {frozenset(aliasing.of(module.entry, n.array)) for n in loads} == {frozenset(), frozenset([CAPTURED])}


def test_atomics_fields_and_tuples_write():
    def k(pair, records, counts):
        pair[1][0] = 1
        records[0].b[1] = 2
        sterna.atomic.add(counts, 0, 1)

    pair = (np.zeros(1, np.float32), np.zeros(1, np.float32))
    _, aliasing = analysed(k, pair, np.zeros(2, RECORD), "int32[:]")
    assert aliasing.written == {"pair", "records", "counts"}


def kernel_of(**options):
    @sterna.kernel(boundscheck=False, **options)
    def k(out, x):
        i = sterna.grid(1)
        for n in range(2):
            out[i + n] = x[i] * TABLE[3] + x[i + 1]

    return k


def test_llvm_is_told():
    promised = kernel_of(noalias=True).build("float32[:]", "float32[:]", target="cpu").text("llvm")
    assert re.search(r"store float .*!alias\.scope !\d+, !noalias !\d+", promised)
    assert "alias.scope" not in kernel_of().build("float32[:]", "float32[:]", target="cpu").text("llvm")


def test_written_arguments_are_in_the_image():
    image = kernel_of(noalias=True).build("float32[:]", "float32[:]", target="cpu").image
    assert image.facts["written"] == [0]
    assert "written" not in kernel_of().build("float32[:]", "float32[:]", target="cpu").image.facts


def ptx_of(**options):
    pytest.importorskip("cuda.bindings.nvjitlink")
    return kernel_of(**options).build("float32[:]", "float32[:]", target="cuda-sm_90").text("ptx")


def test_reads_go_through_the_read_only_cache_once():
    plain, promised = ptx_of(), ptx_of(noalias=True)
    assert "ld.global.nc.b32" not in plain
    assert plain.count("ld.global.b32") > promised.count("ld.global.nc.b32") == 3
    assert "ld.global.b32" not in promised


def test_contraction_is_asked_for():
    assert "fma.rn.f32" not in ptx_of()
    assert ptx_of(contract=True).count("fma.rn.f32") == 2
    assert "div.approx" not in ptx_of(contract=True)


def test_asserted_shapes_are_constants():
    pytest.importorskip("cuda.bindings.nvjitlink")

    def k(out, x):
        assert x.shape[1:] == (4, 8)
        i = sterna.grid(1)
        total = np.float32(0)
        for n in range(4):
            total += x[i, n, 2 * n]
        out[i] = total

    def ptx_of(kernel):
        return (
            sterna.kernel(noalias=True)(kernel).build("float32[:]", "float32[:,:,:]", target="cuda-sm_90").text("ptx")
        )

    text = ptx_of(k)
    for n in range(4):
        assert f"+{4 * (8 * n + 2 * n)}]" in text or n == 0
    assert "mul.lo.s64" not in text


def test_an_array_of_a_thread_stays_in_registers_under_checks():
    pytest.importorskip("cuda.bindings.nvjitlink")

    @sterna.kernel(launch_bounds=(32, 32), noalias=True)
    def k(out, x):
        sums = sterna.local.array(40, np.float32)
        tile = sterna.shared.array((40, 32), np.float32)
        i = sterna.threadIdx.x
        for n in range(40):
            tile[n, i] = x[i, n]
        sterna.syncthreads()
        for n in range(40):
            sums[n] = 0
            for m in range(4):
                sums[n] += tile[n, i ^ m] * tile[m, i]
        for n in range(40):
            out[i, n] = sums[n]

    image = k.build("float32[:,:]", "float32[:,:]", target="cuda-sm_90").image
    assert image.facts["local_bytes"] <= 64
