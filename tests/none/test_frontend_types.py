"""Types of arithmetic, conversions and joins, held against NumPy where NumPy has the answer."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from sterna.compiler.frontend.promotion import Unfit, cast_expr, join_types, result_type
from sterna.compiler.ir.nodes import Cast, Const, Local
from sterna.types import (
    BFLOAT16,
    BOOL,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    NONE,
    PYCOMPLEX,
    PYFLOAT,
    PYINT,
    UINT8,
    UINT64,
    ArrayType,
    Scalar,
    StructType,
    TupleType,
    from_dtype,
    to_dtype,
)  # fmt: skip

DTYPES = [
    np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
        "float64", "complex64", "complex128",
    )
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)), ids=str)
def test_strong_types_promote_as_numpy(a: np.dtype, b: np.dtype) -> None:
    assert result_type(from_dtype(a), from_dtype(b)) == from_dtype(np.result_type(a, b))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("number", "weak"), [(1, PYINT), (1.0, PYFLOAT), (1j, PYCOMPLEX)])
def test_python_numbers_are_weak_as_in_numpy(dtype: np.dtype, number: complex, weak: Scalar) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = (dtype.type(1) * number).dtype
    assert to_dtype(result_type(from_dtype(dtype), weak)) == expected
    assert to_dtype(result_type(weak, from_dtype(dtype))) == expected


def test_python_numbers_among_themselves_stay_weak() -> None:
    assert result_type(PYINT, PYFLOAT) == PYFLOAT
    assert result_type(PYCOMPLEX, PYINT) == PYCOMPLEX
    assert result_type(PYINT, PYINT) == PYINT


def test_bfloat16_is_computed_in_float32() -> None:
    assert result_type(BFLOAT16, BFLOAT16) == FLOAT32
    assert result_type(BFLOAT16, PYFLOAT) == FLOAT32
    assert result_type(BFLOAT16, FLOAT64) == FLOAT64


@pytest.mark.parametrize(
    ("a", "b", "joined"),
    [
        (PYINT, FLOAT32, FLOAT32),
        (INT32, PYINT, INT32),
        (PYFLOAT, INT32, FLOAT64),
        (BOOL, PYINT, PYINT),
        (PYINT, PYFLOAT, PYFLOAT),
        (INT8, UINT8, from_dtype(np.dtype("int16"))),
        (NONE, NONE, NONE),
        (NONE, PYINT, None),
        (TupleType((PYINT, PYINT)), TupleType((FLOAT32, PYINT)), TupleType((FLOAT32, PYINT))),
        (TupleType((PYINT,)), TupleType((PYINT, PYINT)), None),
        (ArrayType(FLOAT32, 1, "C"), ArrayType(FLOAT32, 1, "A"), ArrayType(FLOAT32, 1, "A")),
        (ArrayType(FLOAT32, 1, "C"), ArrayType(FLOAT32, 1, "C", True), ArrayType(FLOAT32, 1, "C", True)),
        (ArrayType(FLOAT32, 1), ArrayType(FLOAT64, 1), None),
        (ArrayType(FLOAT32, 1), ArrayType(FLOAT32, 1, space="shared"), None),
        (StructType("P", ("x",), (PYINT,), True), StructType("P", ("x",), (PYFLOAT,), True),
         StructType("P", ("x",), (PYFLOAT,), True)),
        (StructType("P", ("x",), (PYINT,), True), StructType("Q", ("x",), (PYINT,), True), None),
    ],
)  # fmt: skip
def test_joins(a: object, b: object, joined: object) -> None:
    assert join_types(a, b) == joined  # type: ignore[arg-type]
    assert join_types(b, a) == joined  # type: ignore[arg-type]


def test_constants_are_converted_at_compile_time() -> None:
    assert cast_expr(Const(3, PYINT), FLOAT32) == Const(3.0, FLOAT32)
    assert cast_expr(Const(0.1, PYFLOAT), FLOAT32) == Const(float(np.float32(0.1)), FLOAT32)
    assert cast_expr(Const(0.1, PYFLOAT), FLOAT16) == Const(float(np.float16(0.1)), FLOAT16)
    assert cast_expr(Const(1e300, PYFLOAT), FLOAT32) == Const(float("inf"), FLOAT32)
    assert cast_expr(Const(True, BOOL), INT64) == Const(1, INT64)
    assert cast_expr(Const(2, PYINT), COMPLEX64) == Const(2 + 0j, COMPLEX64)
    assert cast_expr(Const(2**63, PYINT), UINT64) == Const(2**63, UINT64)
    assert cast_expr(Const(2.5, PYFLOAT), INT32) == Cast(Const(2.5, PYFLOAT), INT32)
    assert cast_expr(Local("x", PYINT), INT32) == Cast(Local("x", PYINT), INT32)


@pytest.mark.parametrize(("value", "t"), [(300, UINT8), (-1, UINT64), (2**63, PYINT), (128, INT8), (10**400, FLOAT64)])
def test_constants_that_do_not_fit_are_refused(value: int, t: Scalar) -> None:
    with pytest.raises(Unfit):
        cast_expr(Const(value, PYINT), t)


def test_complex_of_complex() -> None:
    assert result_type(COMPLEX64, FLOAT64) == COMPLEX128
