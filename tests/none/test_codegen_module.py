"""The CPU compiler's output as a whole: vector code, slots, determinism, other architectures, limits."""

from __future__ import annotations

import hashlib
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna import atomic, grid, shared
from sterna.compiler.ir import nodes as ir
from sterna.errors import CompileError, UnsupportedError
from sterna.host_abi import PACK, TEAM
from sterna.options import CompileOptions
from sterna.relocation.record import Manifest, RefKind, RelocationRecord
from sterna.targets.cpu.elf import read_object, undefined_symbols
from sterna.targets.cpu.target import ARCHITECTURES, host_architecture, parse_target
from sterna.types import FLOAT32, INT64, PYINT, UINT64, VOID, ArrayType

pytest.importorskip("llvmlite")
from helpers.native import call_entry
from sterna.targets.cpu.compiler import COMPILER

F, OUT = ArrayType(FLOAT32, 1), ArrayType(INT64, 1)


@sterna.kernel
def saxpy(a, x, y):
    i = grid(1)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@sterna.kernel
def stencil(a, out):
    i, j = grid(2)
    if 0 < i < a.shape[0] - 1 and 0 < j < a.shape[1] - 1:
        out[i, j] = (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]) * 0.25


@sterna.kernel
def blur(image, weights, out):
    i = grid(1)
    total = np.float32(0)
    for k in range(weights.shape[0]):
        total += weights[k] * image[i + k]
    out[i] = total


@sterna.kernel
def distances(x, out):
    i = grid(1)
    total = np.float32(0)
    for j in range(x.shape[0]):
        total += math.sqrt((x[j] - x[i]) * (x[j] - x[i]) + np.float32(1))
    out[i] = total


VECTOR_CASES = [
    (saxpy, (2.0, "f4", "f4"), 1, "vmulps", "vaddps"),
    (stencil, ("f4:2", "f4:2"), 2, "vmulps", "vaddps"),
    (blur, ("f4", "f4", "f4"), 1, "vmulps", "vaddps"),
    (distances, ("f4", "f4"), 1, "vsqrtps", "vaddps"),
]


def sample(text):
    if not isinstance(text, str):
        return text
    dtype, _, ndim = text.partition(":")
    return np.zeros((8,) * int(ndim or 1), dtype)


@pytest.mark.skipif(host_architecture() not in ("x86-64-v3", "x86-64-v4"), reason="looks at AVX instructions")
@pytest.mark.parametrize(("kernel", "args", "over", "product", "total"), VECTOR_CASES)
def test_checked_kernels_are_vectorised_over_threads(kernel, args, over, product, total):
    assembly = kernel.specialize(*map(sample, args), over=over).asm
    for name in (product, total):
        assert re.search(rf"\b{name}\b.*%[yz]mm", assembly), f"no packed {name}"


@sterna.kernel
def add_up(values, total):
    atomic.add(total, 0, values[grid(1)])


def test_atomic_float_sums_over_many_threads():
    values, total = np.ones(100_000), np.zeros(1)
    add_up.over(len(values))(values, total)
    sterna.synchronize()
    assert total[0] == len(values)


def slot_module() -> ir.Module:
    """``out[0] = (identity == slot)``, ``out[1] = second word of the other slot``."""
    word = ir.Compare("eq", ir.SlotWord("sterna_ref_0", 0), ir.Local("given", PYINT))
    where = ir.Const(0, PYINT), ir.Const(1, PYINT)
    body = (
        ir.Store(ir.Local("out", OUT), (where[0],), ir.Cast(word, INT64), None),
        ir.Store(ir.Local("out", OUT), (where[1],), ir.Cast(ir.SlotWord("sterna_ref_1", 1), INT64), None),
    )
    records = (
        RelocationRecord("sterna_ref_0", 0, RefKind.OBJECT, "globals:A"),
        RelocationRecord("sterna_ref_1", 1, RefKind.BUFFER, "globals:B", words=3),
    )
    params = (("given", PYINT), ("out", OUT))
    function = ir.Function("k", params, dict(params), VOID, body)
    return ir.Module("k", {"k": function}, manifest=Manifest("patch", records))


@pytest.mark.parametrize("opt", [0, 1, 2, 3])
def test_slots_survive_the_optimiser(opt):
    import ctypes
    import struct

    from sterna.targets.cpu.loader import load_object

    payloads, facts, _ = COMPILER.compile(slot_module(), parse_target(host_architecture()), CompileOptions(opt=opt))
    loaded = load_object(payloads["object"])
    slots = loaded.slot("sterna_refs")
    assert slots is not None and slots[1] == 32, "one symbol holds the words of all records"
    loaded.write("sterna_refs", [2**63 + 5, 1, 77, 3])
    out = np.zeros(2, np.int64)
    args = ctypes.create_string_buffer(struct.pack("=qQq", 5 - 2**63, out.ctypes.data, 2))
    call_entry(loaded.entry(facts["entry"]), ctypes.addressof(args))
    assert out.tolist() == [1, 77]
    loaded.unload()


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_architecture_compiles_to_the_same_bytes_twice(arch):
    compiled = [COMPILER.compile(slot_module(), parse_target(arch), CompileOptions())[0]["object"] for _ in range(2)]
    assert compiled[0] == compiled[1]
    assert compiled[0][:4] == b"\x7fELF"
    assert int.from_bytes(compiled[0][18:20], "little") == (183 if arch == "aarch64" else 62)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_host_functions_stand_alone(arch):
    host = COMPILER.compile(slot_module(), parse_target(arch), CompileOptions())[0]["host"]
    parsed = read_object(host)
    assert undefined_symbols(host) == ()
    functions = {parsed.name_of(symbol) for symbol in parsed.symbols if symbol[1] & 15 == 2}
    assert functions == {PACK, *TEAM.values()}


DIGEST = """
import hashlib, numpy as np, sys
sys.path[:0] = [{folder!r}, {folder!r} + "/.."]
import test_codegen_module as t
image = t.blur.specialize(*map(t.sample, ("f4", "f4", "f4")), over=1).image
print(hashlib.sha256(image.payloads["object"]).hexdigest())
"""


def test_same_bytes_under_any_hash_seed(tmp_path):
    found = set()
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "STERNA_CACHE_DIR": str(tmp_path / seed)}
        environment["PYTHONPATH"] = str(Path(sterna.__file__).parents[1])
        code = DIGEST.format(folder=str(Path(__file__).parent))
        found.add(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout)
    assert len(found) == 1
    assert len(found.pop().strip()) == len(hashlib.sha256().hexdigest())


def expression_module(value: ir.Expr) -> ir.Module:
    body = (ir.Store(ir.Local("out", OUT), (ir.Const(0, PYINT),), value, None),)
    return ir.Module("k", {"k": ir.Function("k", (("out", OUT),), {"out": OUT}, VOID, body)})


@pytest.mark.parametrize("shape", ["left", "right", "elif"])
def test_deep_trees_compile(shape):
    one, x = ir.Const(1, INT64), ir.Intrinsic("thread_idx.x", (), PYINT)
    value: ir.Expr = ir.Cast(x, INT64)
    for n in range(2000):
        if shape == "left":
            value = ir.Binary("add", value, one, INT64)
        elif shape == "right":
            value = ir.Binary("sub", one, value, INT64)
        else:
            value = ir.IfExp(ir.Compare("eq", x, ir.Const(n, PYINT)), ir.Const(n, INT64), value, INT64)
    target = parse_target(host_architecture())
    payloads, _, _ = COMPILER.compile(expression_module(value), target, CompileOptions(opt=1))
    assert payloads["object"]


def test_an_unknown_operation_is_an_error_and_not_the_end_of_the_process():
    module = expression_module(ir.Cast(ir.Intrinsic("no.such", (), UINT64), INT64))
    with pytest.raises(UnsupportedError, match=r"no\.such"):
        COMPILER.compile(module, parse_target(host_architecture()), CompileOptions())


@sterna.kernel
def too_much_shared(out):
    tile = shared.array((128, 128), np.float64)
    tile[0, 0] = 1.0
    out[0] = tile[0, 0]


def test_too_much_shared_memory_is_refused():
    with pytest.raises(CompileError, match=r"131072 bytes.*49152"):
        too_much_shared[1, 1](np.zeros(1))


@sterna.kernel
def gather(source, index, target):
    i = sterna.grid(1)
    target[i] = source[index[i]]


@pytest.mark.parametrize("index", ["int64[:]", "int32[:]", "uint64[:]"])
def test_data_as_indices_are_checked_in_vectors(index):
    built = gather.build("float32[:]", index, "float32[:]", target="cpu-x86-64-v3", over=1)
    optimised = built.text("llvm-opt")
    loops = [part for part in re.split(r"\n(?=[\w.]+:)", optimised) if "store <4 x i64>" in part]
    assert len(loops) == 1
    assert re.search(r"load <4 x i(64|32)>", loops[0]) and "or <4 x i64>" in loops[0], "kept as compared"
    assert "memcpy" not in optimised, "the indices are loaded once"
    code = built.text("asm").split("gather:", 1)[1]
    assert len(re.findall(r"vinsertps|vmovss\s+\(%\w+,%\w+,4\), %xmm", code)) >= 4, "loads without branches between"
    assert len(re.findall(r"call\w*\s+sterna_raise", code)) == 2, "failures are found outside of the strips' loops"


LOOK_UP = """
import numpy as np
import sterna

def first_above(x, start, least):
    for k in range(start, x.size):
        if x[k] > least:
            return x[k]
    return least

@sterna.kernel
def look_up(x, out):
    i = sterna.grid(1)
    total = np.float32(0)
"""


@pytest.mark.parametrize(("calls", "copies"), [(3, 2), (80, 1)])
def test_a_long_piece_that_cannot_be_vectorised_has_one_copy(tmp_path, calls, copies):
    from helpers.modules import write_module

    lines = [f"    total += first_above(x, i, np.float32({k}))" for k in range(calls)]
    module = write_module(tmp_path, "\n".join([LOOK_UP, *lines, "    out[i] = total"]))
    text = module.look_up.specialize("float32[:]", "float32[:]", over=1).llvm
    assert len(re.findall(r"call .*@f\d+_\w*first_above", text)) == calls * copies
    x, out = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    module.look_up.over(10)(x, out)
    sterna.synchronize()
    np.testing.assert_array_equal(out, [sum(max(i, k + 1) if k < 9 else k for k in range(calls)) for i in range(10)])
