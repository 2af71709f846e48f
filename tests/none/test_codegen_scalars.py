"""Scalar arithmetic of the LLVM code generator against NumPy, on kernel IR made by hand."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import replace

import numpy as np
import pytest

from sterna.abi import arg_layout
from sterna.compiler.ir import nodes as ir
from sterna.compiler.runtime_library import runtime_library
from sterna.options import CompileOptions
from sterna.overlays import tables_for
from sterna.targets.cpu.loader import load_object
from sterna.targets.cpu.target import host_architecture, parse_target
from sterna.types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    PYINT,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    VOID,
    ArrayType,
    Scalar,
    to_dtype,
)

pytest.importorskip("llvmlite")
from helpers.native import call_entry
from sterna.targets.cpu.compiler import COMPILER

SIGNED, UNSIGNED = (INT8, INT16, INT32, INT64), (UINT8, UINT16, UINT32, UINT64)
INTEGERS, FLOATS = SIGNED + UNSIGNED, (FLOAT16, FLOAT32, FLOAT64)


def kernel_module(result: Scalar, operands: tuple[Scalar, ...], expression) -> ir.Module:
    """``out[i] = expression(in0[i], in1[i]…)`` over a grid."""
    i = ir.Local("i", PYINT)
    arrays = [(f"in{n}", ArrayType(t, 1)) for n, t in enumerate(operands)]
    values = [ir.Element(ir.Local(name, a), (i,), t, None) for (name, a), t in zip(arrays, operands, strict=True)]
    out = ("out", ArrayType(result, 1))
    body = (
        ir.Assign("i", ir.Intrinsic("grid_index.0", (), PYINT, (1,))),
        ir.Store(ir.Local(*out), (i,), expression(*values), None),
    )
    params = (*arrays, out)
    function = ir.Function("k", params, {**dict(params), "i": PYINT}, VOID, body)
    return ir.Module("k", {"k": function})


def run(module: ir.Module, arrays: list[np.ndarray], arch: str = "", opt: int = 3) -> tuple[int, ...]:
    """Compile, load and launch over the length of the arrays; gives the exception record's words."""
    target = parse_target(arch or host_architecture())
    module = replace(module, runtime=runtime_library(module, tables_for(target), target))
    payloads, facts, _ = COMPILER.compile(module, target, CompileOptions(opt=opt))
    loaded = load_object(payloads["object"])
    types = tuple(t for _, t in module.functions["k"].params)
    words = [w for a in arrays for w in (a.ctypes.data, len(a))]
    args = ctypes.create_string_buffer(struct.pack(arg_layout(types).format, *words))
    record = (ctypes.c_int64 * 10)()
    call_entry(loaded.entry(facts["entry"]), ctypes.addressof(args), len(arrays[0]), ctypes.addressof(record))
    loaded.unload()
    return tuple(record)


def edge_values(t: Scalar) -> np.ndarray:
    """Values that find faults: limits, signs, zeros, NaN, infinities, halves."""
    dtype = to_dtype(t)
    if t.kind == "b":
        return np.array([False, True])
    if t.kind in "iu":
        info = np.iinfo(dtype)
        found = {0, 1, 2, 3, 5, 7, 63, 64, info.max, info.max - 1, info.min, info.min + 1, info.max // 3}
        if t.kind == "i":
            found |= {-1, -2, -3, -7, -64}
        return np.array(sorted(v for v in found if info.min <= v <= info.max), dtype)
    info = np.finfo(dtype)
    found = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 7.3, 1e-3, float(info.max), float(info.tiny), float(info.eps), np.inf, 100.7]
    return np.array([*found, *(-v for v in found), np.nan], dtype)


def pairs(t: Scalar) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of edge values."""
    values = edge_values(t)
    left, right = np.meshgrid(values, values, indexing="ij")
    return left.ravel().copy(), right.ravel().copy()


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "mod": np.remainder,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift,
    "truediv": np.true_divide,
}  # fmt: skip
INT_CASES = [(op, t) for op in BINARY if op != "truediv" for t in INTEGERS]
FLOAT_CASES = [(op, t) for op in ("add", "sub", "mul", "truediv", "floordiv", "mod") for t in FLOATS]


@pytest.mark.parametrize(("op", "t"), INT_CASES + FLOAT_CASES, ids=lambda x: str(x))
def test_binary(op, t):
    left, right = pairs(t)
    out = np.zeros_like(left)
    run(kernel_module(t, (t, t), lambda x, y: ir.Binary(op, x, y, t)), [left, right, out])
    with np.errstate(all="ignore"):
        wanted = BINARY[op](left, right)
    np.testing.assert_array_equal(out, wanted)
    if t.kind == "f":
        fine = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(out)[fine], np.signbit(wanted)[fine])


DIVISORS = [(t, by) for t in INTEGERS for by in (1, 2, 3, 5, 8, -1, -4, 127) if by > 0 or t.kind == "i"]


@pytest.mark.parametrize(("t", "by"), DIVISORS, ids=str)
@pytest.mark.parametrize("op", ["floordiv", "mod"])
def test_division_by_a_constant(op, t, by):
    values = edge_values(t)
    out = np.zeros_like(values)
    run(kernel_module(t, (t,), lambda x: ir.Binary(op, x, ir.Const(by, t), t)), [values, out])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, BINARY[op](values, values.dtype.type(by)))


CAST_TYPES = (BOOL, *INTEGERS, *FLOATS)


def cast_wanted(values: np.ndarray, source: Scalar, target: Scalar) -> np.ndarray:
    """``astype``, with the documented answer for floats outside the integer's range."""
    if source.kind != "f" or target.kind not in "iu":
        with np.errstate(all="ignore"):
            return values.astype(to_dtype(target))
    wide = 64 if target.bits == 64 or target == UINT32 else 32
    result = []
    for value in values.astype(np.float64):
        shift = 2**63 if target == UINT64 and value >= 2.0**63 else 0
        moved = value - shift
        inside = not np.isnan(moved) and -(2.0 ** (wide - 1)) - (1 if wide == 32 else 0) < moved < 2.0 ** (wide - 1)
        inside = inside or moved == -(2.0 ** (wide - 1))
        whole = int(moved) if inside else -(2 ** (wide - 1))
        result.append((whole + shift) % 2**target.bits)
    return np.array(result, np.uint64).astype(f"u{target.bits // 8}").view(to_dtype(target))


@pytest.mark.parametrize("source", CAST_TYPES, ids=str)
@pytest.mark.parametrize("target", CAST_TYPES, ids=str)
def test_cast(source, target):
    values = edge_values(source)
    out = np.zeros(len(values), to_dtype(target))
    run(kernel_module(target, (source,), lambda x: ir.Cast(x, target)), [values, out])
    np.testing.assert_array_equal(out, cast_wanted(values, source, target))


@pytest.mark.parametrize("arch", ["x86-64", host_architecture()])
def test_every_half_to_float_and_back(arch):
    if not host_architecture().startswith("x86-64"):
        pytest.skip("runs x86-64 code")
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    out = np.zeros(2**16, np.float32)
    run(kernel_module(FLOAT32, (FLOAT16,), lambda x: ir.Cast(x, FLOAT32)), [halves, out], arch)
    np.testing.assert_array_equal(out, halves.astype(np.float32))
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        above, any_bits = np.nextafter(out, np.float32(np.inf)), rng.integers(0, 2**32, 10**5, np.uint32).view("f4")
        close = np.concatenate([out, above, any_bits])
        wide = close.astype(np.float64) * (1 + 2.0**-40)
    for source, values in ((FLOAT32, close), (FLOAT64, wide)):
        back = np.zeros(len(values), np.float16)
        run(kernel_module(FLOAT16, (source,), lambda x: ir.Cast(x, FLOAT16)), [values, back], arch)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(back, values.astype(np.float16))


def test_bfloat16_storage():
    values = np.array([1.0, 1.00390625, 1.01171875, -3.4e38, np.inf, np.nan, 1e-40], np.float32)
    out = np.zeros(len(values), np.uint16)
    run(kernel_module(BFLOAT16, (FLOAT32,), lambda x: ir.Cast(x, BFLOAT16)), [values, out])
    assert out[:5].tolist() == [0x3F80, 0x3F80, 0x3F82, 0xFF80, 0x7F80]
    assert out[5] & 0x7FC0 == 0x7FC0
    back = np.zeros(len(values), np.float32)
    run(kernel_module(FLOAT32, (BFLOAT16,), lambda x: ir.Cast(x, FLOAT32)), [out, back])
    np.testing.assert_array_equal(back.view(np.uint32), out.astype(np.uint32) << 16)


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_compare_signed_with_unsigned(op):
    left, right = np.meshgrid(edge_values(INT64), edge_values(UINT64), indexing="ij")
    left, right = left.ravel().copy(), right.ravel().copy()
    out = np.zeros(len(left), np.bool_)
    run(kernel_module(BOOL, (INT64, UINT64), lambda x, y: ir.Compare(op, x, y)), [left, right, out])
    symbol = {"eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}[op]
    wanted = [getattr(int(x), symbol)(int(y)) for x, y in zip(left, right, strict=True)]
    assert out.tolist() == wanted


@pytest.mark.parametrize("opt", [0, 1, 2, 3])
def test_integer_power_at_every_level(opt):
    base, power = np.meshgrid(np.arange(-5, 6), np.arange(0, 12), indexing="ij")
    base, power = base.ravel().copy(), power.ravel().copy()
    out = np.zeros_like(base)
    run(kernel_module(INT64, (INT64, INT64), lambda x, y: ir.Binary("pow", x, y, INT64)), [base, power, out], opt=opt)
    np.testing.assert_array_equal(out, base**power)


def test_first_failure_is_recorded_and_others_go_on():
    a = ArrayType(INT64, 1)
    i = ir.Local("i", PYINT)
    value = ir.Cast(ir.Element(ir.Local("index", a), (i,), INT64, None), PYINT)
    body = (
        ir.Assign("i", ir.Intrinsic("grid_index.0", (), PYINT, (1,))),
        ir.Store(ir.Local("out", a), (value,), ir.Const(1, INT64), 0),
    )
    params = (("index", a), ("out", a))
    error = ir.ErrorSite("IndexError", "index {0}", ir.SiteRef(0, 1, 1))
    module = ir.Module("k", {"k": ir.Function("k", params, {**dict(params), "i": PYINT}, VOID, body, True)}, (error,))
    index, out = np.array([0, -1, 7, 3, -9]), np.zeros(5, np.int64)
    record = run(module, [index, out])
    assert out.tolist() == [1, 0, 0, 1, 1]
    assert record[0] == 2  # written, error 0
    assert record[1:] == (0, 0, 0, 2, 0, 0, 7, 0, 5)
