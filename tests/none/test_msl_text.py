"""Metal's language from kernel IR: facts of the text, and what Metal lacks; no compiler of any kind is asked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import sterna
from sterna.errors import CompileError, UnsupportedError
from sterna.targets import registry

TABLE = np.arange(10.0, dtype=np.float32)
GAIN = sterna.Global(2.5, "float32")


class Mark:
    """A class used as a type tag."""


MARK = Mark()


@pytest.fixture(autouse=True)
def _metal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.TARGETS, "metal", "sterna.targets.metal.target")


def build(kernel: Any, *signature: str) -> Any:
    return kernel.build(*signature, target="metal-msl")


def text(kernel: Any, *signature: str) -> str:
    found: str = build(kernel, *signature).text("msl")
    return found


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
    y[i] = np.sin(x[i]) + np.float32(n) % np.float32(3)


SIGNATURE = ("float32[:]", "float32[:]", "object", "int")


def test_launch_facts():
    image = build(everything, *SIGNATURE).image
    assert image.entry == "sterna_everything"
    assert image.payloads.keys() == {"msl"}
    assert image.facts["state"] == ["record", "table", "print"]
    assert image.facts["shared"] is True
    assert image.facts["shared_bytes"] == 256
    assert image.facts["raises"] is True
    assert image.facts["prints"] == [
        [["text", "thread "], ["value", "int"], ["text", " "], ["value", "int32"], ["text", " "], ["value", "float32"],
         ["text", "\n"]]
    ]  # fmt: skip
    assert image.manifest.strategy == "table"


def test_entry_and_attributes():
    found = text(everything, *SIGNATURE)
    assert "#pragma METAL fp math_mode(safe)" in found
    assert "#pragma METAL fp contract(off)" in found
    parameters = re.search(r"kernel void sterna_everything\(\n(.*?)\)\n\{", found, re.DOTALL)
    assert parameters is not None
    assert [re.search(r"\[\[(.*)\]\]", line)[1] for line in parameters[1].splitlines()] == [
        "buffer(0)", "threadgroup(0)", "thread_position_in_threadgroup", "threadgroup_position_in_grid",
        "threads_per_threadgroup", "threadgroups_per_grid", "thread_index_in_simdgroup",
    ]  # fmt: skip
    assert "threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);" in found
    assert "precise::sin(" in found


def test_lines_of_the_source_are_named():
    found = text(everything, *SIGNATURE)
    assert "// everything; lines are counted from its def" in found
    assert "// line 4\n" in found


def test_fast_mathematics_on_request():
    fast = text(sterna.kernel(fastmath=True)(everything.function), *SIGNATURE)
    assert "math_mode(fast)" in fast
    assert "fast::sin(" in fast
    assert "precise::sin(" not in fast


def test_only_what_is_used_is_taken_in():
    @sterna.kernel(boundscheck=False)
    def plain(x):
        x[0] = 1.0

    found = text(plain, "float32[:]")
    assert "static" not in found
    assert "shared [[" not in found
    assert build(plain, "float32[:]").image.facts["state"] == []


def test_launch_bounds():
    kernel = sterna.kernel(launch_bounds=128)(everything.function)
    assert "[[max_total_threads_per_threadgroup(128)]] kernel void" in text(kernel, *SIGNATURE)
    assert build(kernel, *SIGNATURE).image.facts["max_threads"] == 128


def test_names_are_no_words_of_metal():
    @sterna.kernel
    def half(device, constant):
        thread, uint, float2 = device[0], constant + 1, 3
        device[0] = thread + uint + float2

    found = text(half, "int32[:]", "int")
    assert re.search(r"kernel void sterna_\w*half\(", found)
    body = found[found.index("const Frame f") :]
    assert not re.search(r"\b(?:long|int) (?:thread|uint|float2|constant)\b", body)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_wide_floats_are_refused(dtype):
    @sterna.kernel
    def k(x):
        x[0] = 1

    with pytest.raises(CompileError, match=f"target metal has no {dtype}") as caught:
        build(k, f"{dtype}[:]")
    assert "kernel k" in str(caught.value)


def test_a_wide_float_in_between_is_refused_where_it_is():
    @sterna.kernel
    def k(x, n):
        x[0] = 1
        x[1] = n[0] / n[1]

    with pytest.raises(UnsupportedError, match="float64 is not available on target metal") as caught:
        build(k, "float32[:]", "int32[:]")
    assert caught.value.location.line == k.function.__code__.co_firstlineno + 3
    assert caught.value.kernel == "k"
    assert caught.value.location.text.strip() == "x[1] = n[0] / n[1]"
    assert "np.float32" in caught.value.hint


def test_a_captured_wide_array_is_refused():
    wide = np.arange(3.0)

    @sterna.kernel
    def k(x):
        x[0] = np.float32(wide[1])

    with pytest.raises(CompileError, match=r"(?s)wide is array.*target metal has no float64.*use float32"):
        build(k, "float32[:]")
    with pytest.raises(CompileError, match=r"(?s)x is array.*target metal has no complex128.*use complex64"):
        build(k, "complex128[:]")


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_wide_atomics_are_refused(dtype):
    @sterna.kernel
    def k(x):
        sterna.atomic.add(x, 0, 1)

    with pytest.raises(UnsupportedError, match="atomic operations of 32 bits only") as caught:
        build(k, f"{dtype}[:]")
    assert caught.value.hint == f"an array of {dtype.replace('64', '32')}"


def test_recursion_is_refused():
    def down(n):
        if n <= 0:
            return 0
        return 1 + down(n - 1)

    @sterna.kernel
    def k(x, n):
        x[0] = down(n)

    with pytest.raises(UnsupportedError, match="down calls itself, and target metal has no recursion") as caught:
        build(k, "int64[:]", "int")
    assert caught.value.location.text.strip() == "def down(n):"
    assert caught.value.kernel == "k"


def test_waiting_for_the_grid_is_refused():
    @sterna.kernel(cooperative=True)
    def k(x):
        sterna.grid.sync()

    with pytest.raises(UnsupportedError, match="no cooperative launches"):
        build(k, "int64[:]")


def test_clusters_are_refused():
    with pytest.raises(UnsupportedError, match="no clusters"):
        build(sterna.kernel(cluster=2)(everything.function), *SIGNATURE)


def test_too_much_shared_memory_is_refused():
    @sterna.kernel
    def k(x):
        tile = sterna.shared.array(8193, np.float32)
        tile[0] = x[0]
        sterna.syncthreads()
        x[0] = tile[1]

    with pytest.raises(UnsupportedError, match="32784 bytes; target metal has 32768"):
        build(k, "float32[:]")


@pytest.mark.parametrize("function", ["lgamma", "gamma"])
def test_functions_that_the_library_lacks_are_refused(function):
    import math

    call = getattr(math, function)

    @sterna.kernel
    def k(x):
        x[0] = call(x[1])

    with pytest.raises(UnsupportedError, match=f"math.{function} is not available on target metal"):
        build(k, "float32[:]")


def test_no_session_is_in_the_text():
    one, two = build(everything, *SIGNATURE).image, build(everything, *SIGNATURE).image
    assert one.payloads == two.payloads
    assert f"{id(MARK):x}" not in one.payloads["msl"].decode()


def test_unknown_architecture():
    with pytest.raises(ValueError, match="known: msl"):
        everything.build(*SIGNATURE, target="metal-gpu7")


def test_no_compiler_has_to_be_installed(tmp_path):
    file = tmp_path / "plain.py"
    file.write_text(
        "import sys\n"
        "sys.modules['llvmlite'] = None\n"
        "import sterna\n\n"
        "@sterna.kernel\n"
        "def k(x):\n"
        "    x[0] = 1.0\n\n"
        "print(len(k.build('float32[:]', target='metal').image.payloads['msl']))\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "STERNA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 500
