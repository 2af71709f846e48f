"""How equal results must be: integers and booleans exactly, floats within stated ulps, NaN equal to NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["assert_same", "ulps_apart"]


def _ordered(values: np.ndarray) -> np.ndarray:
    """Floats as integers in the same order, neighbours one apart; both zeros 0."""
    bits = values.view(f"i{values.dtype.itemsize}").astype(object)
    lowest = -(1 << (values.dtype.itemsize * 8 - 1))
    return np.where(bits < 0, lowest - bits, bits)


def ulps_apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Number of representable values between `a` and `b`, elementwise.

    NaN and NaN are 0 apart, NaN and a number 2**70.
    """
    a, b = np.atleast_1d(a), np.atleast_1d(b)
    apart = np.abs(_ordered(np.ascontiguousarray(a)) - _ordered(np.ascontiguousarray(b)))
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    return np.where(nan_a & nan_b, 0, np.where(nan_a | nan_b, 1 << 70, apart))


def assert_same(actual: Any, expected: Any, ulps: int = 0, signed_zero: bool = True, label: str = "") -> None:
    """Raise AssertionError unless arrays agree.

    Parameters
    ----------
    actual, expected : array_like
        Of one dtype and shape.
    ulps : int
        Allowed distance of floats; complex numbers by component.
    signed_zero : bool
        Whether 0.0 and -0.0 differ.
    label : str
        For the message.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype, f"{label}: dtype {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"{label}: shape {actual.shape}, expected {expected.shape}"
    if actual.dtype.names is not None:
        for name in actual.dtype.names:
            assert_same(actual[name], expected[name], ulps, signed_zero, f"{label}.{name}")
        return
    if actual.dtype.kind == "c":
        assert_same(actual.real, expected.real, ulps, signed_zero, f"{label}.real")
        assert_same(actual.imag, expected.imag, ulps, signed_zero, f"{label}.imag")
        return
    if actual.dtype.kind == "f":
        bad = (ulps_apart(actual, expected) > ulps).reshape(actual.shape)
        if signed_zero:
            bad |= (actual == 0) & (expected == 0) & (np.signbit(actual) != np.signbit(expected))
    else:
        bad = actual != expected
    if np.any(bad):
        got, right = np.atleast_1d(actual), np.atleast_1d(expected)
        shown = [(tuple(map(int, k)), got[tuple(k)], right[tuple(k)]) for k in np.argwhere(np.atleast_1d(bad))[:5]]
        raise AssertionError(f"{label}: {int(np.sum(bad))} of {actual.size} differ: (index, got, expected) {shown}")
