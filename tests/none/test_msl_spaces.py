"""Address spaces of the generated text, as clang checks them: it is what Apple's compiler is made of.

Each text stands in a namespace of its own, and all are checked at once, as C++14, with real address spaces.  The
simulator's compiler, g++, sees a part of that everywhere: there `constant` is const and `threadgroup` volatile.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sterna

INCLUDE = Path(__file__).resolve().parents[1] / "helpers" / "metal" / "include"
TABLE = np.arange(4, dtype=np.float32)
RECORD = np.dtype([("n", np.int16), ("x", np.float32), ("v", np.int32, 3)])
ALIGNED = np.dtype(RECORD.descr, align=True)
CLANG = shutil.which("clang++")


def mixed(tile, own, x, i):
    own[i % 4] = tile[i % 8] + x[i]
    if own[0] > 3:
        raise ValueError("too much")
    return own[::2], tile[::-1]


@sterna.kernel
def spaces(x, out):
    tile = sterna.shared.array(8, np.float32)
    own = sterna.local.array(4, np.float32)
    i = sterna.grid(1)
    tile[i % 8] = TABLE[i % 4]
    sterna.syncthreads()
    a, b = mixed(tile, own, x, i)
    out[i] = a[1] + b[2]
    sterna.atomic.add(tile, 0, out[i])
    sterna.atomic.max(out, 1, tile[3])
    print("at", i, b[0])


@sterna.kernel
def records(a, z):
    tile = sterna.shared.array(4, RECORD)
    i = sterna.grid(1)
    tile[i].x = a[i].x
    tile[i].v[1] = a["v"][i, 2]
    sterna.syncthreads()
    sterna.atomic.sub(tile["v"][0], 1, 3)
    z[i] = z[i].conjugate() * tile[3 - i].x


@sterna.kernel
def counted(n, thing):
    found = sterna.syncthreads_count(n[sterna.threadIdx.x] > 2)
    seen = sterna.match_any_sync(0xFFFFFFFF, n[0])
    half = np.float16(sterna.shfl_xor_sync(0xFFFFFFFF, np.float16(found), 1))
    sterna.atomic.cas(n, 0, 1, 2)
    sterna.atomic.inc(n, 1, 5)
    n[1] = np.int32(seen) + np.int32(half) + (thing is RECORD)


def all_texts() -> list[str]:
    """Generated texts, each without its first lines."""
    signatures: list[tuple[Any, ...]] = [
        (spaces, "float32[:]", "float32[:]"), (spaces, "float32[:, A]", "float32[:]"), (counted, "int32[:]", "object"),
        (records, np.zeros(1, RECORD), "complex64[:]"), (records, np.zeros(1, ALIGNED), "complex64[:, A]"),
    ]  # fmt: skip
    found = [kernel.build(*signature, target="metal").text("msl") for kernel, *signature in signatures]
    head = "#include <metal_stdlib>\n"
    assert all(text.startswith(head) for text in found)
    return [text.removeprefix(head).replace("[[threadgroup(", "[[of_threadgroup(") for text in found]


def compiler_says(command: str, texts: list[str], folder: Path) -> str:
    """Errors of a C++ compiler for some texts; `threadgroup` is a macro to it, in attributes too."""
    file = folder / "kernels.metal"
    parts = [f"namespace n{k} {{\n{text}\n}}\n" for k, text in enumerate(texts)]
    file.write_text("#include <metal_stdlib>\n" + "".join(parts), encoding="utf-8")
    options = ["-std=c++14", "-DSTERNA_SPACES", "-w", "-fsyntax-only", "-I", str(INCLUDE), "-x", "c++", str(file)]
    done = subprocess.run([command, *options], capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@pytest.mark.skipif(CLANG is None, reason="no clang++ here: address spaces are checked by g++ alone, in part")
def test_no_text_mixes_address_spaces(tmp_path):
    assert CLANG is not None
    assert compiler_says(CLANG, all_texts(), tmp_path) == ""


@pytest.mark.skipif(CLANG is None, reason="no clang++ here: address spaces are checked by g++ alone, in part")
def test_mixed_spaces_would_be_found(tmp_path):
    assert CLANG is not None
    text = all_texts()[0].replace("threadgroup uchar *tile_p", "device uchar *tile_p")
    assert "address_space(3)" in compiler_says(CLANG, [text], tmp_path)


def test_every_space_is_there():
    text = all_texts()[0]
    for pointer in ("device uchar *x_p", "threadgroup uchar *tile_p", "thread uchar *own_p", "constant uchar *args"):
        assert pointer in text
