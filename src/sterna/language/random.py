"""Random numbers in kernels: a counter-based generator for each thread.

The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
Its 128-bit counter is the number of the thread in the grid (upper half) and the number of the block of four words
(lower half); its 64-bit key is the launch's seed.  So a thread draws the same numbers on every target, however the
grid is cut into blocks, and no two threads, and no two launches, share a stream.

The functions are written in the kernel language and are part of the kernels that call them.  A thread's generator is a
small array, made and started before the kernel's first statement (`sterna.compiler.passes.start_generator`); a kernel
that draws nothing has none.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sterna.language import state
from sterna.language.bits import clz, inbounds, mul_hi
from sterna.language.device import device_function
from sterna.language.dtypes import (
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)  # fmt: skip

__all__ = ["bits", "integers", "normal", "philox4x32", "uniform"]

STATE_WORDS = 10
"""Words of a generator: thread number (2), block number (2), key (2), words left of a block, and those (3)."""
_THREAD, _BLOCK, _KEY, _LEFT, _WORDS = 0, 2, 4, 6, 7
_LOW = uint64(0xFFFFFFFF)
_HALF = uint64(32)
_EMPTY = "random.integers: low must be below high, and n above 0"
_BEYOND = "random.integers: the range reaches beyond the dtype"
_NO_INTEGER = "random.integers: the range is given by integers"
_SQRT2, _HALF_LN2 = math.sqrt(2), math.log(2) / 2
_ATANH_64 = tuple(1 / n for n in range(21, 1, -2))
_ATANH_32 = _ATANH_64[-4:]
"""Coefficients of atanh(s) = s + s z (1/3 + z/5 + …) with z = s**2, |s| < 0.172, the highest power first."""
_SINE_64 = tuple((-1) ** (n // 2) / math.factorial(n) for n in range(25, 1, -2))
_SINE_32 = _SINE_64[-6:]
"""Coefficients of sin(x) = x + x z (-1/3! + z/5! - …) with z = x**2, |x| <= pi/2, the highest power first."""


def philox4x32(
    c0: np.uint32, c1: np.uint32, c2: np.uint32, c3: np.uint32, k0: np.uint32, k1: np.uint32
) -> tuple[np.uint32, np.uint32, np.uint32, np.uint32]:
    """Philox4x32-10 of a counter and a key: four random words.  It keeps no state, and the host may call it too.

    Parameters
    ----------
    c0, c1, c2, c3 : uint32
        The counter, lowest word first.
    k0, k1 : uint32
        The key.

    Returns
    -------
    tuple of uint32
        Four words.
    """
    a, b, c, d = uint64(c0) & _LOW, uint64(c1) & _LOW, uint64(c2) & _LOW, uint64(c3) & _LOW
    x, y = uint64(k0) & _LOW, uint64(k1) & _LOW
    for _ in range(10):
        first, second = uint64(0xD2511F53) * a, uint64(0xCD9E8D57) * c
        a, b, c, d = (second >> _HALF) ^ b ^ x, second & _LOW, (first >> _HALF) ^ d ^ y, first & _LOW
        x, y = (x + uint64(0x9E3779B9)) & _LOW, (y + uint64(0xBB67AE85)) & _LOW
    return uint32(a), uint32(b), uint32(c), uint32(d)


@device_function
def start_generator(generator: Any) -> None:
    """Start a thread's generator: its number and the launch's seed, and no words drawn yet."""
    thread, key = state.thread(), state.seed()
    with inbounds():
        generator[_THREAD], generator[_THREAD + 1] = uint32(thread & _LOW), uint32(thread >> _HALF)
        generator[_KEY], generator[_KEY + 1] = uint32(key & _LOW), uint32(key >> _HALF)
        generator[_BLOCK] = generator[_BLOCK + 1] = generator[_LEFT] = uint32(0)
        generator[_WORDS] = generator[_WORDS + 1] = generator[_WORDS + 2] = uint32(0)


@device_function
def _word() -> Any:
    """The next 32 random bits of the thread."""
    generator = state.generator(start_generator)
    with inbounds():
        left = generator[_LEFT]
        if left > uint32(0):
            word = generator[_WORDS]
            generator[_WORDS] = generator[_WORDS + 1]
            generator[_WORDS + 1] = generator[_WORDS + 2]
            generator[_LEFT] = left - uint32(1)
        else:
            word, second, third, fourth = philox4x32(
                generator[_BLOCK], generator[_BLOCK + 1], generator[_THREAD], generator[_THREAD + 1],
                generator[_KEY], generator[_KEY + 1],
            )  # fmt: skip
            number = (uint64(generator[_BLOCK]) | uint64(generator[_BLOCK + 1]) << _HALF) + uint64(1)
            generator[_BLOCK], generator[_BLOCK + 1] = uint32(number & _LOW), uint32(number >> _HALF)
            generator[_WORDS], generator[_WORDS + 1], generator[_WORDS + 2] = second, third, fourth
            generator[_LEFT] = uint32(3)
    return word


@device_function
def _two_words() -> Any:
    """The next 64 random bits of the thread; the first word is the lower half."""
    low = uint64(_word())
    return low | uint64(_word()) << _HALF


@device_function
def bits(dtype: Any = uint32) -> Any:
    """Random bits.

    Parameters
    ----------
    dtype : dtype
        ``uint32`` (one word of the generator) or ``uint64`` (two, the first of them the lower half).
    """
    if dtype == uint32:
        return _word()
    if dtype == uint64:
        return _two_words()
    return state.refuse("random.bits gives uint32 or uint64", dtype)


@device_function
def uniform(dtype: Any = float32) -> Any:
    """A random number from 0 to below 1.

    Parameters
    ----------
    dtype : dtype
        ``float32`` (a multiple of 2**-24), ``float64`` (2**-53) or ``float16`` (2**-11).
    """
    if dtype == float32:
        return float32(_word() >> uint32(8)) * float32(2.0**-24)
    if dtype == float64:
        return float64(_two_words() >> uint64(11)) * float64(2.0**-53)
    if dtype == float16:
        return float16(float32(_word() >> uint32(21)) * float32(2.0**-11))
    return state.refuse("random.uniform gives float32, float64 or float16", dtype)


@device_function
def normal(dtype: Any = float32) -> Any:
    """A random number of the standard normal distribution: mean 0, standard deviation 1.

    The method is that of Box and Muller (Annals of Mathematical Statistics 29, 1958), with one number of each pair.
    Logarithm and sine are sums of their series in elementary operations, so that all targets give the same bits; only
    ``fastmath`` and ``contract`` kernels may differ.  The result is within 4 units in the last place of the formula.

    Parameters
    ----------
    dtype : dtype
        ``float32`` (up to 6.7 from 0), ``float64`` (up to 9.4) or ``float16`` (float32's, rounded).
    """
    if dtype == float32:
        return _normal32(_word(), _word())
    if dtype == float64:
        return _normal64(_two_words(), _two_words())
    if dtype == float16:
        return float16(_normal32(_word(), _word()))
    return state.refuse("random.normal gives float32, float64 or float16", dtype)


@device_function
def _normal32(radius: np.uint32, angle: np.uint32) -> Any:
    odd = radius | uint32(1)  # an odd multiple of 2**-32, never 0 or 1
    zeros = clz(odd)
    fraction = float32((odd << uint32(zeros)) >> uint32(8)) * float32(2.0**-23)
    half = _half_log(fraction, float32(-1 - zeros), float32(_HALF_LN2), _ATANH_32)
    phi = float32(int32(angle) >> int32(8)) * float32(2.0**-24) * float32(math.pi)
    return np.sqrt(float32(-4) * half) * _sine(phi, _SINE_32)


@device_function
def _normal64(radius: np.uint64, angle: np.uint64) -> Any:
    odd = radius | uint64(1)  # an odd multiple of 2**-64
    zeros = clz(odd)
    fraction = float64((odd << uint64(zeros)) >> uint64(11)) * float64(2.0**-52)
    half = _half_log(fraction, float64(-1 - zeros), float64(_HALF_LN2), _ATANH_64)
    phi = float64(int64(angle) >> int64(11)) * float64(2.0**-53) * float64(math.pi)
    return np.sqrt(float64(-4) * half) * _sine(phi, _SINE_64)


def _half_log(fraction: Any, exponent: Any, half_ln2: Any, coefficients: Any) -> Any:
    """Half the logarithm of ``fraction * 2**exponent``, `fraction` from 1 to 2: log f = 2 atanh((f - 1) / (f + 1))."""
    if fraction > _SQRT2:
        fraction = fraction * 0.5
        exponent = exponent + 1
    s = (fraction - 1) / (fraction + 1)
    return exponent * half_ln2 + (s + s * (s * s * _polynomial(s * s, coefficients)))


def _sine(phi: Any, coefficients: Any) -> Any:
    """The sine from -pi/2 to pi/2."""
    z = phi * phi
    return phi + phi * (z * _polynomial(z, coefficients))


def _polynomial(z: Any, coefficients: Any) -> Any:
    """A polynomial of an even number of coefficients: two of half the length in z**2, by Horner's rule side by side."""
    w = z * z
    odd, even = coefficients[0], coefficients[1]
    for first, second in zip(coefficients[2::2], coefficients[3::2]):  # noqa: B905
        odd = odd * w + first
        even = even * w + second
    return odd * z + even


@device_function
def integers(low: Any, high: Any = None, dtype: Any = int64) -> Any:
    """A random integer from `low` to below `high`, each equally likely.

    The method is that of Lemire ("Fast random integer generation in an interval", ACM Transactions on Modeling and
    Computer Simulation 29, 2019): one word, rarely more, for types up to 32 bits; two for 64.

    Parameters
    ----------
    low, high : int
        The range, without `high`; with `low` alone it is from 0 to below `low`.
    dtype : dtype
        Type of the result, any integer type; the range must lie in it.

    Raises
    ------
    ValueError
        If the range is empty or reaches beyond `dtype`.
    """
    if high is None:
        state.need_integer(_NO_INTEGER, low)
        if low <= 0:
            raise ValueError(_EMPTY)
        if _is_beyond(0, low, dtype):
            raise ValueError(_BEYOND)
        return _integer(0, low, dtype)
    state.need_integer(_NO_INTEGER, low)
    state.need_integer(_NO_INTEGER, high)
    if low >= high:
        raise ValueError(_EMPTY)
    if _is_beyond(low, high, dtype):
        raise ValueError(_BEYOND)
    return _integer(low, high, dtype)


@device_function
def _is_beyond(low: Any, high: Any, dtype: Any) -> Any:
    """Whether a range that is not empty reaches beyond a type."""
    if dtype == uint64:
        return low < 0
    if dtype == int64:
        return high - 1 > 2**63 - 1  # only a uint64 is
    if dtype == int32:
        return low < -(2**31) or high - 1 > 2**31 - 1
    if dtype == int16:
        return low < -(2**15) or high - 1 > 2**15 - 1
    if dtype == int8:
        return low < -(2**7) or high - 1 > 2**7 - 1
    if dtype == uint32:
        return low < 0 or high - 1 > 2**32 - 1
    if dtype == uint16:
        return low < 0 or high - 1 > 2**16 - 1
    if dtype == uint8:
        return low < 0 or high - 1 > 2**8 - 1
    return state.refuse("random.integers gives signed and unsigned integers of 8 to 64 bits", dtype)


@device_function
def _integer(low: Any, high: Any, dtype: Any) -> Any:
    if dtype == uint64:
        return uint64(low) + _below64(uint64(high) - uint64(low))
    if dtype == int64:
        return int64(low) + int64(_below64(uint64(int64(high) - int64(low))))
    number = int64(low) + int64(_below32(uint64(int64(high) - int64(low))))
    if dtype == int32:
        return int32(number)
    if dtype == int16:
        return int16(number)
    if dtype == int8:
        return int8(number)
    if dtype == uint32:
        return uint32(number)
    if dtype == uint16:
        return uint16(number)
    return uint8(number)


@device_function
def _below32(width: np.uint64) -> Any:
    """A number below `width`, which is from 1 to 2**32."""
    product = uint64(_word()) * width
    if product & _LOW < width:
        least = (uint64(2**32) - width) % width
        while product & _LOW < least:
            product = uint64(_word()) * width
    return product >> _HALF


@device_function
def _below64(width: np.uint64) -> Any:
    """A number below `width`, which is from 1 to 2**64 - 1."""
    word = _two_words()
    if word * width < width:
        least = (uint64(0) - width) % width
        while word * width < least:
            word = _two_words()
    return mul_hi(word, width)
