"""CUDA without a GPU: every architecture builds, code and manifest agree, bytes are the same and hold no address."""

from __future__ import annotations

import itertools
import os
import re

import numpy as np
import pytest

import sterna
from sterna.errors import CompileError, LinkError
from sterna.targets.cuda.cubin import read_cubin
from sterna.targets.cuda.target import ARCHITECTURES, ptx_version

pytest.importorskip("cuda.bindings.nvjitlink")

TABLE = np.arange(10.0, dtype=np.float32)
GAIN = sterna.Global(2.5, "float32")


class Mark:
    """A class used as a type tag."""


MARK = Mark()


@sterna.kernel
def everything(x, y, thing, n):
    tile = sterna.shared.array(64, np.float32)
    i = sterna.grid(1)
    lane = sterna.threadIdx.x % 64
    tile[lane] = x[i] * TABLE[3] + GAIN
    sterna.syncthreads()
    total = sterna.reduce_add_sync(0xFFFFFFFF, np.int32(lane))
    if thing is MARK and type(thing) is Mark:
        sterna.atomic.add(y, 0, tile[63 - lane])
    assert n > 0, "n must be positive"
    print("thread", i, total, x[i])
    y[i] = np.sin(x[i]) + np.float32(np.sqrt(np.float64(n))) % np.float32(3)


SIGNATURE = ("float32[:]", "float32[:]", "object", "int")


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("fastmath", [False, True])
def test_every_architecture_builds(arch, fastmath):
    kernel = sterna.kernel(fastmath=fastmath)(everything.function)
    image = kernel.build(*SIGNATURE, target=f"cuda-{arch}").image
    ptx = image.payloads["ptx"].decode()
    assert f".target {arch}" in ptx
    assert f".version {ptx_version(arch)}" in ptx
    cubin = read_cubin(image.payloads["cubin"])
    assert cubin.arch == int(arch[3:])
    assert image.entry in cubin.entries


def test_manifest_and_symbols_agree():
    image = everything.build(*SIGNATURE, target="cuda-sm_90").image
    variables = read_cubin(image.payloads["cubin"]).variables
    assert {n: s.size for n, s in variables.items() if n.startswith("sterna_ref")} == {
        "sterna_refs": 8 * image.manifest.table_words
    }
    assert len(image.manifest) >= 4
    for record, following in itertools.pairwise(image.manifest):
        assert record.index + record.words == following.index


@pytest.mark.parametrize("strategy", ["patch", "table"])
def test_strategies(strategy):
    image = sterna.kernel(strategy=strategy)(everything.function).build(*SIGNATURE, target="cuda-sm_90").image
    variables = read_cubin(image.payloads["cubin"]).variables
    assert any(n.startswith("sterna_ref") for n in variables) == (strategy == "patch")


def test_bake_needs_a_device():
    with pytest.raises(ValueError, match="needs a device"):
        sterna.kernel(strategy="bake")(everything.function).build(*SIGNATURE, target="cuda-sm_90")


def test_launch_facts():
    image = everything.build(*SIGNATURE, target="cuda-sm_80").image
    entry = read_cubin(image.payloads["cubin"]).entries[image.entry]
    assert image.facts["registers"] == entry.registers > 8
    assert image.facts["shared_bytes"] == entry.shared_bytes == 256
    assert image.facts["raises"] is True


def test_launch_bounds_and_cluster():
    kernel = sterna.kernel(launch_bounds=(128, 4), cluster=(2, 1))(everything.function)
    built = kernel.build(*SIGNATURE, target="cuda-sm_90")
    assert ".maxntid 128" in built.text("ptx")
    assert ".minnctapersm 4" in built.text("ptx")
    assert ".reqnctapercluster 2" in built.text("ptx")
    assert read_cubin(built.image.payloads["cubin"]).entries[built.image.entry].max_threads == 128
    with pytest.raises(CompileError, match="sm_90"):
        kernel.build(*SIGNATURE, target="cuda-sm_80")


def test_arithmetic_is_not_contracted_unless_asked():
    @sterna.kernel
    def k(x, a):
        i = sterna.grid(1)
        x[i] = x[i] * a + a

    strict = k.build("float32[:]", "float32", target="cuda-sm_90").text("ptx")
    assert "mul.rn.f32" in strict and "fma" not in strict
    fast = sterna.kernel(fastmath=True)(k.function).build("float32[:]", "float32", target="cuda-sm_90").text("ptx")
    assert "fma.rn.f32" in fast


def test_memory_of_arguments_is_global_memory():
    @sterna.kernel(boundscheck=False)
    def k(x, y):
        i = sterna.grid(1)
        y[i] = x[i] + GAIN

    ptx = k.build("float32[:]", "float32[:]", target="cuda-sm_90").text("ptx")
    assert re.search(r"\bld\.global\.b32", ptx)
    assert re.search(r"\bst\.global\.b32", ptx)
    assert re.search(r"ld\.const\.b\d+ .*sterna_refs", ptx)
    assert not re.search(r"\b(ld|st)\.b32", ptx)


def test_lines_of_python_are_in_the_code():
    built = everything.build(*SIGNATURE, target="cuda-sm_90")
    ptx = built.text("ptx")
    assert re.search(r'\.file\s+\d+ "[^"/]*(/[^"]*)?test_cuda_compile\.py"', ptx)
    first = everything.function.__code__.co_firstlineno + 1
    lines = {int(n) for n in re.findall(r"\.loc\s+\d+ (\d+)", ptx)} - {0}
    assert lines <= set(range(first, first + 14))
    assert len(lines) > 4
    assert b".debug_line" in built.image.payloads["cubin"]


def test_numbers_of_calls_do_not_depend_on_what_was_compiled_before():
    @sterna.kernel
    def k(x):
        def turn(n):
            return 1 if n < 2 else n * turn(n - 1)

        x[0] = 7

    first = everything.build(*SIGNATURE, target="cuda-sm_90").image.payloads
    k.build("int64[:]", target="cuda-sm_90")
    assert everything.build(*SIGNATURE, target="cuda-sm_90").image.payloads == first


def test_a_damaged_cubin_is_refused_not_read_past_its_end():
    cubin = everything.build(*SIGNATURE, target="cuda-sm_90").image.payloads["cubin"]
    assert read_cubin(cubin).entries
    for end in range(0, len(cubin), 97):
        try:
            read_cubin(cubin[:end])
        except LinkError:
            continue
        assert end > len(cubin) - 2000  # only program headers are missing
    with pytest.raises(LinkError, match="not a cubin"):
        read_cubin(b"\x7fELF" + bytes(200))


def test_unknown_architecture():
    with pytest.raises(ValueError, match="sm_90"):
        everything.build(*SIGNATURE, target="cuda-sm_33")


def test_several_checks_of_straight_code_are_one_test_ahead():
    @sterna.kernel
    def smooth(x, y):
        i = sterna.grid(1)
        if 0 < i < x.shape[0] - 1:
            y[i] = x[i - 1] + x[i] + x[i + 1]

    ptx = smooth.build("float32[:]", "float32[:]", target="cuda-sm_90", over=1).text("ptx")
    start = ptx.index("ld.global.b32")
    assert len(re.findall(r"@%p\d+ bra", ptx[:start])) <= 3  # past the extent, the condition, all four checks
    assert ptx.count("ld.global.b32") >= 6  # with checks and without


def test_more_words_than_the_constant_bank_holds_are_global():
    from sterna.targets.cuda.profile import cuda_profile

    profile = cuda_profile("sm_90", False, False)
    assert (profile.slots_in(1), profile.slots_in(4096)) == ("addrspace(4) ", "addrspace(4) ")
    assert profile.slots_in(4097) == "addrspace(1) "


def test_sass_is_what_a_disassembler_on_the_path_says(tmp_path, monkeypatch):
    from sterna.targets.cuda.disassemble import disassemble

    tool = tmp_path / "nvdisasm"
    tool.write_text('#!/bin/sh\nfor last; do :; done\nhead -c 4 "$last" | tail -c 3; echo " of nvdisasm"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    built = everything.build(*SIGNATURE, target="cuda-sm_90")
    assert built.text("sass") == "ELF of nvdisasm\n"
    assert disassemble(built.image.payloads["cubin"]) == "ELF of nvdisasm\n"
