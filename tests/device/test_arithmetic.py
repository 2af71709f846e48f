"""Arithmetic on arrays' elements is NumPy's, for every pair of dtypes and at the edges of each."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from helpers.compare import assert_same
from helpers.launching import Place
from helpers.values import COMPLEX, FLOATS, INTEGERS, REAL, edge_pairs, edges

MIXED = [
    ("int8", "uint8"), ("int32", "uint32"), ("int64", "uint64"), ("int32", "float32"), ("int16", "float16"),
    ("float32", "float64"), ("float16", "float32"), ("bool", "int32"), ("bool", "float32"), ("uint64", "float32"),
    ("float32", "complex64"), ("int32", "complex128"),
]  # fmt: skip
PAIRS = [*((t, t) for t in (*REAL, *COMPLEX)), *MIXED]
INTEGER_PAIRS = [(a, b) for a, b in PAIRS if np.result_type(a, b).kind in "iu"]
REAL_PAIRS = [(a, b) for a, b in PAIRS if np.result_type(a, b).kind in "iuf"]


def ids(pair: tuple[str, str]) -> str:
    return f"{pair[0]}-{pair[1]}"


@sterna.kernel
def add_sub_mul(a, b, out):
    i = sterna.grid(1)
    out[0, i] = a[i] + b[i]
    out[1, i] = a[i] * b[i]
    out[2, i] = a[i] - b[i]


@sterna.kernel
def add_mul(a, b, out):
    i = sterna.grid(1)
    out[0, i] = a[i] + b[i]
    out[1, i] = a[i] * b[i]


def product(a, b):
    """``a * b``; of complex numbers by its definition, each step rounded (NumPy's vector loops may fuse them)."""
    kind = np.result_type(a, b)
    if kind.kind != "c":
        return a * b
    a, b = a.astype(kind), b.astype(kind)
    result = np.empty(a.size, kind)
    result.real = a.real * b.real - a.imag * b.imag
    result.imag = a.real * b.imag + a.imag * b.real
    return result


@pytest.mark.parametrize("pair", PAIRS, ids=ids)
def test_add_subtract_multiply(place: Place, pair):
    a, b = edge_pairs(*pair)
    is_bool = pair == ("bool", "bool")
    with np.errstate(all="ignore"):
        expected = [a + b, product(a, b)] if is_bool else [a + b, product(a, b), a - b]
    out = np.zeros((len(expected), a.size), expected[0].dtype)
    place.over(add_mul if is_bool else add_sub_mul, a.size, a, b, out)
    for k, name in enumerate(["+", "*", "-"][: len(expected)]):
        assert_same(out[k], expected[k], label=f"{pair} {name}")


@sterna.kernel
def divide(a, b, out):
    i = sterna.grid(1)
    out[i] = a[i] / b[i]


@pytest.mark.parametrize("pair", PAIRS, ids=ids)
def test_true_division(place: Place, pair):
    a, b = edge_pairs(*pair)
    with np.errstate(all="ignore"):
        expected = a / b
    out = np.zeros_like(expected)
    place.over(divide, a.size, a, b, out)
    if expected.dtype.kind == "c":
        keep = b != 0  # a complex number over zero: NaN and infinity in an order nobody promises
        assert_same(out[keep], expected[keep], ulps=4, signed_zero=False, label=str(pair))
    else:
        assert_same(out, expected, label=str(pair))


@sterna.kernel
def floor_divide(a, b, out):
    i = sterna.grid(1)
    out[0, i] = a[i] // b[i]
    out[1, i] = a[i] % b[i]


@pytest.mark.parametrize("pair", REAL_PAIRS, ids=ids)
def test_floor_division_and_modulo(place: Place, pair):
    a, b = edge_pairs(*pair)
    with np.errstate(all="ignore"):
        expected = np.stack([a // b, a % b])
    out = np.zeros_like(expected)
    place.over(floor_divide, a.size, a, b, out)
    assert_same(out[0], expected[0], label=f"{pair} //")
    assert_same(out[1], expected[1], label=f"{pair} %")


@sterna.kernel
def compare(a, b, out):
    i = sterna.grid(1)
    out[0, i] = a[i] == b[i]
    out[1, i] = a[i] != b[i]
    out[2, i] = a[i] < b[i]
    out[3, i] = a[i] <= b[i]
    out[4, i] = a[i] > b[i]
    out[5, i] = a[i] >= b[i]


@pytest.mark.parametrize("pair", [p for p in PAIRS if "complex" not in "".join(p)], ids=ids)
def test_comparisons(place: Place, pair):
    a, b = edge_pairs(*pair)
    expected = np.stack([a == b, a != b, a < b, a <= b, a > b, a >= b])
    out = np.zeros_like(expected)
    place.over(compare, a.size, a, b, out)
    assert_same(out, expected, label=str(pair))


@sterna.kernel
def bitwise(a, b, out):
    i = sterna.grid(1)
    out[0, i] = a[i] & b[i]
    out[1, i] = a[i] | b[i]
    out[2, i] = a[i] ^ b[i]


@pytest.mark.parametrize("pair", [("bool", "bool"), *INTEGER_PAIRS], ids=ids)
def test_bitwise(place: Place, pair):
    a, b = edge_pairs(*pair)
    expected = np.stack([a & b, a | b, a ^ b])
    out = np.zeros_like(expected)
    place.over(bitwise, a.size, a, b, out)
    assert_same(out, expected, label=str(pair))


@sterna.kernel
def shift(a, b, out):
    i = sterna.grid(1)
    out[0, i] = a[i] << b[i]
    out[1, i] = a[i] >> b[i]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_and_past_the_width(place: Place, dtype):
    bits = np.dtype(dtype).itemsize * 8
    amounts = [0, 1, bits - 1, bits, bits + 1, 100] + ([-1, -100] if dtype.startswith("i") else [])
    a = np.repeat(edges(dtype), len(amounts))
    b = np.tile(np.array(amounts, dtype), edges(dtype).size)
    expected = np.stack([a << b, a >> b])
    out = np.zeros_like(expected)
    place.over(shift, a.size, a, b, out)
    assert_same(out, expected, label=dtype)


@sterna.kernel
def unary(a, out):
    i = sterna.grid(1)
    out[0, i] = -a[i]
    out[1, i] = +a[i]
    out[2, i] = abs(a[i])


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_unary(place: Place, dtype):
    a = edges(dtype)
    with np.errstate(all="ignore"):
        expected = np.stack([-a, +a, abs(a)])
    out = np.zeros_like(expected)
    place.over(unary, a.size, a, out)
    assert_same(out, expected, label=dtype)


@sterna.kernel
def invert(a, out):
    i = sterna.grid(1)
    out[i] = ~a[i]


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
def test_invert(place: Place, dtype):
    a = edges(dtype)
    out = np.zeros_like(a)
    place.over(invert, a.size, a, out)
    assert_same(out, ~a)


@sterna.kernel
def logic(a, b, out):
    i = sterna.grid(1)
    out[0, i] = not a[i]
    out[1, i] = bool(a[i] and b[i])
    out[2, i] = bool(a[i] or b[i])
    out[3, i] = bool(a[i])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32", "float64"])
def test_truth(place: Place, dtype):
    a, b = edge_pairs(dtype, dtype)
    x, y = a != 0, b != 0
    out = np.zeros((4, a.size), bool)
    place.over(logic, a.size, a, b, out)
    assert_same(out, np.stack([~x, x & y, x | y, x]))


@sterna.kernel
def integer_powers(a, out):
    i = sterna.grid(1)
    out[0, i] = a[i] ** 0
    out[1, i] = a[i] ** 1
    out[2, i] = a[i] ** 2
    out[3, i] = a[i] ** 5


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_integer_powers(place: Place, dtype):
    a = edges(dtype)
    out = np.zeros((4, a.size), dtype)
    place.over(integer_powers, a.size, a, out)
    with np.errstate(all="ignore"):
        assert_same(out, np.stack([a * 0 + 1, a, a * a, a * a * a * a * a]).astype(dtype))


@sterna.kernel
def float_powers(a, b, out):
    i = sterna.grid(1)
    out[0, i] = a[i] ** b[i]
    out[1, i] = a[i] ** 2
    out[2, i] = a[i] ** 0.5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_powers(place: Place, dtype):
    a, b = edge_pairs(dtype, dtype)
    out = np.zeros((3, a.size), dtype)
    place.over(float_powers, a.size, a, b, out)
    with np.errstate(all="ignore"):
        assert_same(out[0], a**b, ulps=4, label="a ** b")
        assert_same(out[1], a * a, ulps=1, label="a ** 2")
        keep = a > 0
        assert_same(out[2][keep], np.sqrt(a[keep]), ulps=4, label="a ** 0.5")


@sterna.kernel
def weak_numbers(x, n, s, f, out):
    i = sterna.grid(1)
    out[0, i] = x[i] * 3.1  # a float literal takes float32
    out[1, i] = x[i] + i * 7  # so does an index
    out[2, i] = x[i] * s  # so does a Python argument
    out[3, i] = x[i] / 3
    out[4, i] = 2 * n[i] + 1  # int32 stays int32: wraps
    out[5, i] = n[i] * 1.5  # int32 and a weak float: float64
    out[6, i] = f * s  # two Python floats: float64


def test_python_numbers_are_weak(place: Place):
    x = np.array([0.1, 0.7, 1e-8, 3.3], np.float32)
    n = np.array([1, -5, 2**30, 2**31 - 1], np.int32)
    out = np.zeros((7, 4), np.float64)
    place.over(weak_numbers, 4, x, n, 0.3, 0.7, out)
    index = np.arange(4, dtype=np.float32)
    expected = [
        x * np.float32(3.1), x + index * np.float32(7), x * np.float32(0.3), x / np.float32(3),
        [3, -9, -(2**31) + 1, -1], n.astype(np.float64) * 1.5, np.full(4, 0.3 * 0.7),
    ]  # fmt: skip
    assert_same(out, np.array([np.asarray(row, np.float64) for row in expected]))


@sterna.kernel
def weak_integers(a, b, out):
    out[0] = a // b
    out[1] = a % b
    out[2] = a * b
    out[3] = a - b
    out[4] = a**3
    out[5] = a >> 1
    out[6] = a << 2
    out[7] = -a
    out[8] = abs(b)


@pytest.mark.parametrize(("a", "b"), [(7, 2), (-7, 2), (7, -2), (-7, -2), (0, 3), (2**20, 3)])
def test_python_integers(place: Place, a, b):
    out = np.zeros(9, np.int64)
    expected = [a // b, a % b, a * b, a - b, a**3, a >> 1, a << 2, -a, abs(b)]
    place.launch(weak_integers, 1, 1, a, b, out)
    assert_same(out, np.array(expected))


@sterna.kernel
def weak_floats(a, b, out):
    out[0] = a // b
    out[1] = a % b
    out[2] = a / b


@pytest.mark.parametrize(("a", "b"), [(7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (-0.0, 3.0), (1e300, 1e-3)])
def test_python_floats(place: Place, a, b):
    out = np.zeros(3)
    place.launch(weak_floats, 1, 1, a, b, out)
    assert_same(out, np.array([a // b, a % b, a / b]))


@pytest.mark.parametrize("kernel", [weak_integers, weak_floats])
def test_division_of_python_numbers_by_zero_raises(place: Place, kernel):
    zero = 0 if kernel is weak_integers else 0.0
    with pytest.raises(ZeroDivisionError):
        place.launch(kernel, 1, 1, zero + 1, zero, np.zeros(9, np.int64 if kernel is weak_integers else np.float64))


@sterna.kernel
def augmented(a, b, out):
    i = sterna.grid(1)
    x = a[i]
    x += b[i]
    x *= 3
    x -= 1
    x //= 2
    out[i] = x
    out[i] += a[i]
    out[i] ^= 5


def test_augmented_assignment(place: Place):
    a, b = np.arange(-5, 5, dtype=np.int32), np.arange(10, dtype=np.int32) * 7
    out = np.zeros(10, np.int32)
    place.over(augmented, 10, a, b, out)
    assert_same(out, ((((a + b) * 3 - 1) // 2) + a) ^ np.int32(5))


@sterna.kernel
def minmax(a, b, out):
    i = sterna.grid(1)
    out[0, i] = min(a[i], b[i])
    out[1, i] = max(a[i], b[i])
    out[2, i] = max(a[i], b[i], a[0])


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "float64"])
def test_min_and_max_are_pythons(place: Place, dtype):
    a, b = edge_pairs(dtype, dtype)
    expected = np.array(
        [[min(x, y) for x, y in zip(a, b, strict=True)], [max(x, y) for x, y in zip(a, b, strict=True)],
         [max(x, y, a[0]) for x, y in zip(a, b, strict=True)]], dtype,
    )  # fmt: skip
    out = np.zeros_like(expected)
    place.over(minmax, a.size, a, b, out)
    assert_same(out, expected)


@sterna.kernel
def conversions(x, out8, outf, outi, outb):
    i = sterna.grid(1)
    out8[i] = sterna.int8(x[i])
    outf[i] = np.float32(x[i])
    outi[i] = int(x[i])
    outb[i] = bool(x[i])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float32", "float64", "bool"])
def test_conversions(place: Place, dtype):
    x = np.array([0, 1, 2, 100, 3.7, -3.7, -1, -100] if dtype[0] in "if" else [0, 1, 2, 100]).astype(dtype)
    n = x.size
    out8, outf, outi, outb = np.zeros(n, np.int8), np.zeros(n, np.float32), np.zeros(n, np.int64), np.zeros(n, bool)
    place.over(conversions, n, x, out8, outf, outi, outb)
    assert_same(out8, x.astype(np.int8))
    assert_same(outf, x.astype(np.float32))
    assert_same(outi, x.astype(np.int64))
    assert_same(outb, x.astype(bool))


@sterna.kernel
def store_convert(x, out):
    i = sterna.grid(1)
    out[i] = x[i]


STORES = [
    ("int64", "int8"), ("int32", "uint16"), ("float64", "float32"), ("float32", "float16"), ("int64", "float32"),
    ("uint64", "float64"), ("float64", "int32"), ("bool", "float64"), ("float32", "complex64"),
]  # fmt: skip


@pytest.mark.parametrize("pair", STORES, ids=ids)
def test_stores_convert_as_numpy_does(place: Place, pair):
    x = edges(pair[0])
    if pair[0].startswith("float") and pair[1].startswith("int"):
        x = x[np.abs(x) < 1e6]
    with np.errstate(all="ignore"):
        expected = x.astype(pair[1])
    out = np.zeros_like(expected)
    place.over(store_convert, x.size, x, out)
    assert_same(out, expected)


def x86_integer(x: float, bits: int) -> int:
    """What x86-64's conversion gives: the most negative integer for NaN and out of range."""
    return int(x) if abs(x) < 2.0 ** (bits - 1) or x == -(2.0 ** (bits - 1)) else -(2 ** (bits - 1))


def numpy_integer(x: float, dtype: str) -> int:
    """The one answer for a float out of an integer's range, as `sterna` documents it (NumPy's on x86-64)."""
    bits = np.dtype(dtype).itemsize * 8
    if dtype == "uint64":
        found = x86_integer(x - 2.0**63, 64) + 2**63 if x >= 2.0**63 else x86_integer(x, 64)
    else:
        found = x86_integer(x, 64 if dtype in ("int64", "uint32") else 32)
    found %= 2**bits
    return found - 2**bits if dtype.startswith("i") and found >> (bits - 1) else found


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("target", INTEGERS)
def test_floats_out_of_an_integers_range(device: Place, source, target):  # NumPy's own depends on the machine
    powers = [s * 2.0**k * d for k in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1) for d in (0.75, 1.0, 1.5)]
    x = np.array([np.nan, np.inf, -np.inf, 3.99, -3.99, 1e30, -1e30, *powers], source)
    out = np.zeros(x.size, target)
    device.over(store_convert, x.size, x, out)
    assert_same(out, np.array([numpy_integer(float(v), target) for v in x], target), label=target)


@sterna.kernel
def python_and_numpy_bools(a, out):
    i = sterna.grid(1)
    python = i > 0
    out[i, 0] = a[i] + True
    out[i, 1] = python + a[i]
    out[i, 2] = a[i] * python
    out[i, 3] = ~(a[i] & True)
    out[i, 4] = ~(python ^ a[i])
    out[i, 5] = python + True
    out[i, 6] = a[i] + 1
    out[i, 7] = a[i] / True


def test_a_python_bool_beside_a_numpy_bool_is_one(place: Place):
    a, out = np.array([False, True]), np.zeros((2, 8), np.int64)
    place.over(python_and_numpy_bools, 2, a, out)
    assert out.tolist() == [[1, 0, 0, 1, 1, 1, 1, 0], [1, 1, 1, 0, 1, 2, 2, 1]]


@sterna.kernel
def difference_of_bools(a, out):
    out[0] = a[0] - True


def test_a_python_bool_is_not_subtracted_from_a_numpy_bool(place: Place):
    with pytest.raises(TypeError if place.is_interpreter else sterna.errors.CompileError, match="subtract"):
        place.launch(difference_of_bools, 1, 1, np.ones(1, bool), np.zeros(1))
