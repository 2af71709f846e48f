"""The generator: the published algorithm's numbers, the statistics of what is drawn, and no cost where nothing is.

Statistical tests have fixed seeds, so they pass or fail for good; their bounds are those of 4 to 5 standard deviations.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest

import sterna
from helpers.philox import launch_seed
from helpers.philox import philox4x32 as reference
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk_function
from sterna.compiler.passes.start_generator import start_generator
from sterna.errors import DeviceOnlyError
from sterna.runtime.seeds import next_seed
from sterna.types import VOID

CPU = "cpu-x86-64-v3"

ONES = 0xFFFFFFFF
KNOWN_ANSWERS = [  # the vectors that Random123 publishes for philox4x32 with 10 rounds
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]  # fmt: skip


@sterna.kernel
def philox(words: Any, out: Any) -> None:
    i = sterna.grid(1)
    w = words[i]
    found = sterna.random.philox4x32(w[0], w[1], w[2], w[3], w[4], w[5])
    for k in range(4):
        out[i, k] = found[k]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_known_answers(counter, key, expected):
    assert reference(counter, key) == expected
    assert tuple(map(int, sterna.random.philox4x32(*counter, *key))) == expected  # on the host
    words, out = np.array([[*counter, *key]], np.uint32), np.zeros((1, 4), np.uint32)
    philox[1, 1](words, out)
    sterna.synchronize()
    assert tuple(map(int, out[0])) == expected


def test_any_counter_and_key():
    words = np.random.default_rng(1).integers(0, 2**32, (500, 6), np.uint32)
    out = np.zeros((500, 4), np.uint32)
    philox.over(500)(words, out)
    sterna.synchronize()
    for w, got in zip(words.tolist(), out.tolist(), strict=True):
        assert tuple(got) == reference(tuple(w[:4]), (w[4], w[5]))


# ---- seeds of launches ----------------------------------------------------------------------------


def test_seeds_are_those_of_splitmix64():
    # the first outputs for the seed 1234567 that the reference implementation gives
    state, outputs = 1234567, []
    from sterna.runtime import seeds

    for _ in range(3):
        state = (state + seeds._GAMMA) % 2**64
        outputs.append(seeds._mix(state))
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    sterna.seed(99)
    assert [next_seed() for _ in range(5)] == [launch_seed(99, k) for k in range(5)]


def test_without_a_seed_each_process_differs():
    sterna.seed()
    first = next_seed()
    sterna.seed(None)
    assert next_seed() != first


def test_threads_never_get_the_same_seed():
    sterna.seed(12)
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.extend(next_seed() for _ in range(500))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(launch_seed(12, k) for k in range(4000))


@pytest.mark.parametrize(
    ("value", "error"), [(-1, ValueError), (2**64, ValueError), (1.5, TypeError), ("7", TypeError)]
)
def test_what_is_no_seed(value, error):
    with pytest.raises(error, match="a seed is"):
        sterna.seed(value)
    sterna.seed(np.int64(3))


# ---- statistics -----------------------------------------------------------------------------------


@sterna.kernel
def fill_uniform(out: Any) -> None:
    i, j = sterna.grid(2)
    out[i, j] = sterna.random.uniform(out.dtype)


@sterna.kernel
def fill_normal(out: Any) -> None:
    i = sterna.grid(1)
    for j in range(out.shape[1]):
        out[i, j] = sterna.random.normal(out.dtype)


@sterna.kernel
def fill_many(out: Any) -> None:
    i = sterna.grid(1)
    for j in range(out.shape[1]):
        out[i, j] = sterna.random.uniform(out.dtype)


@sterna.kernel
def fill_integers(out: Any, low: int, high: int) -> None:
    i = sterna.grid(1)
    for j in range(out.shape[1]):
        out[i, j] = sterna.random.integers(low, high, out.dtype)


def drawn(kernel: Any, shape: tuple[int, int], dtype: Any, *args: Any, seed: int = 12345) -> np.ndarray:
    out = np.zeros(shape, dtype)
    sterna.seed(seed)
    kernel.over(shape if kernel is fill_uniform else shape[0])(out, *args)
    sterna.synchronize()
    return out


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    """Pearson's statistic, in standard deviations from its mean."""
    freedom = len(counts) - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom))


def kolmogorov(sample: np.ndarray, distribution: Any) -> float:
    """Kolmogorov's statistic times the root of the sample's size; above 2.2 with a probability of 1e-4."""
    x = distribution(np.sort(sample.ravel().astype(np.float64)))
    n = x.size
    rank = np.arange(n)
    return float(max((x - rank / n).max(), ((rank + 1) / n - x).max()) * math.sqrt(n))


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of two samples, in standard deviations of that of independent ones."""
    a, b = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(np.corrcoef(a, b)[0, 1] * math.sqrt(a.size))


def gauss(x: np.ndarray) -> np.ndarray:
    """Distribution function of the standard normal distribution."""
    return np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("kernel", [fill_uniform, fill_many], ids=["threads", "draws"])
def test_uniform(kernel, dtype):
    sample = drawn(kernel, (1024, 256), dtype)
    n = sample.size
    assert 0 <= sample.min() < 1e-3 and 1 - 1e-3 < sample.max() < 1
    values = sample.astype(np.float64)
    bits = {np.float32: 24, np.float64: 53, np.float16: 11}[dtype]
    assert (values * 2**bits == np.floor(values * 2**bits)).all()
    step = 2.0**-bits
    assert abs(values.mean() + step / 2 - 0.5) < 5 / math.sqrt(12 * n)
    assert abs(values.var() - 1 / 12) < 5 * math.sqrt(1 / 180 / n)
    counts = np.bincount((values * 256).astype(int).ravel(), minlength=256)
    assert abs(chi_square(counts, np.full(256, n / 256))) < 5
    if dtype != np.float16:
        assert kolmogorov(values, lambda x: x) < 2.2
    for lag in (1, 2, 3, 4, 7):  # between draws of a thread, and between threads
        assert abs(correlation(values[:, :-lag], values[:, lag:])) < 5
        assert abs(correlation(values[:-lag], values[lag:])) < 5
    low = (values * 2**bits).astype(np.uint64) & np.uint64(0xFF)  # the lowest bits too
    if bits > 16:
        assert abs(chi_square(np.bincount(low.astype(int).ravel(), minlength=256), np.full(256, n / 256))) < 5


def test_pairs_of_draws_fill_the_square():
    sample = drawn(fill_many, (2048, 128), np.float32).astype(np.float64)
    cells = (sample[:, ::2] * 32).astype(int) * 32 + (sample[:, 1::2] * 32).astype(int)
    counts = np.bincount(cells.ravel(), minlength=1024)
    assert abs(chi_square(counts, np.full(1024, cells.size / 1024))) < 5


def test_launches_are_independent():
    out = np.zeros((2, 1024, 64), np.float32)
    sterna.seed(5)
    for launch in out:
        fill_many.over(1024)(launch)
    sterna.synchronize()
    assert abs(correlation(out[0], out[1])) < 5
    other = drawn(fill_many, (1024, 64), np.float32, seed=6)
    assert abs(correlation(out[0], other)) < 5


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_normal(dtype):
    sample = drawn(fill_normal, (1024, 64), dtype).astype(np.float64)
    n = sample.size
    assert np.isfinite(sample).all()
    assert abs(sample.mean()) < 5 / math.sqrt(n)
    assert abs(sample.var() - 1) < 5 * math.sqrt(2 / n)
    assert abs((sample**3).mean()) < 5 * math.sqrt(15 / n)
    assert abs((sample**4).mean() - 3) < 5 * math.sqrt(96 / n)
    if dtype != np.float16:
        assert kolmogorov(sample[:, :32], gauss) < 2.2
    edges = np.linspace(-3, 3, 61)
    shares = np.diff(np.concatenate([[0.0], gauss(edges), [1.0]]))
    counts = np.bincount(np.digitize(sample.ravel(), edges), minlength=62)
    if dtype != np.float16:  # whose values lie on the edges
        assert abs(chi_square(counts, shares * n)) < 5
    for lag in (1, 2, 3):
        assert abs(correlation(sample[:, :-lag], sample[:, lag:])) < 5
        assert abs(correlation(sample[:, :-lag] ** 2, sample[:, lag:] ** 2)) < 5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_is_box_and_mullers_formula(dtype):
    """Within a few units in the last place, the words being those that `bits` gives in its stead."""
    words = np.zeros((20000, 4), np.uint32)
    sterna.seed(21)
    _four_words.over(20000)(words)
    got = drawn(fill_normal, (20000, 1), dtype, seed=21)[:, 0]
    first, second, third, fourth = words.astype(np.uint64).T
    pi = np.longdouble("3.14159265358979323846264338327950288")
    if dtype == np.float32:
        bits, digits, radius = 32, 24, first | np.uint64(1)
        half_turns = (second.astype(np.uint32).view(np.int32) >> 8) / 2.0**24
    else:
        bits, digits, radius = 64, 53, (first | second << np.uint64(32)) | np.uint64(1)
        half_turns = ((third | fourth << np.uint64(32)).view(np.int64) >> 11) / 2.0**53
    length = np.array([r.bit_length() for r in radius.tolist()])
    shift = np.maximum(length - digits, 0).astype(np.uint64)  # so many digits of it count
    u = (radius >> shift << shift).astype(np.longdouble) / np.longdouble(2) ** bits
    expected = np.sqrt(-2 * np.log(u)) * np.sin(pi * half_turns.astype(np.longdouble))
    assert (abs(got - expected) / np.spacing(abs(got)) < 5).all()


@sterna.kernel
def _four_words(out: Any) -> None:
    i = sterna.grid(1)
    for k in range(4):
        out[i, k] = sterna.random.bits()


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(np.int64, -3, 7), (np.int32, 0, 6), (np.uint8, 250, 256), (np.int8, -128, 128), (np.uint64, 5, 2**33 + 5),
     (np.int64, -(2**62), 2**62 + 2**61), (np.uint32, 0, 3 * 2**30), (np.int16, -7, 0)],
)  # fmt: skip
def test_integers(dtype, low, high):
    sample = drawn(fill_integers, (512, 128), dtype, low, high)
    width, n = high - low, sample.size
    assert low <= int(sample.min()) and int(sample.max()) < high
    bins = min(width, 48)
    place = np.array([(int(x) - low) * bins // width for x in sample.ravel()])
    expected = np.array([-(-(k + 1) * width // bins) - -(-k * width // bins) for k in range(bins)]) / width * n
    assert abs(chi_square(np.bincount(place, minlength=bins), expected)) < 5
    assert abs(correlation(place[:-1], place[1:])) < 5


# ---- what it costs --------------------------------------------------------------------------------


@sterna.kernel
def plain(out: Any) -> None:
    i = sterna.grid(1)
    out[i] = out[i] * 2


def test_a_kernel_that_draws_nothing_pays_nothing():
    built = plain.build("float32[:]", target=CPU, over=1)
    assert "seed" not in built.image.facts["state"] and "generator" not in built.ir
    before = next_seed()
    x = np.ones(8, np.float32)
    sterna.seed(3)
    plain.over(8)(x)
    assert next_seed() == launch_seed(3, 0) != before


def _modules(monkeypatch, build: Any) -> list[ir.Module]:
    import sterna.compiler as compiler

    seen: list[ir.Module] = []

    def spy(module: ir.Module) -> ir.Module:
        finished = start_generator(module)
        seen.extend((module, finished))
        return finished

    monkeypatch.setattr(compiler, "start_generator", spy)
    build()
    return seen


def test_the_pass_leaves_other_kernels_alone(monkeypatch):
    before, after = _modules(monkeypatch, lambda: plain.build("float32[:]", target=CPU))
    assert after is before


def test_the_prologue_starts_the_generator_once(monkeypatch):
    before, after = _modules(monkeypatch, lambda: fill_many.build("float32[:,:]", target=CPU))
    first, *rest = after.functions[after.entry].body
    assert isinstance(first, ir.ExprStatement) and isinstance(first.value, ir.Call)
    assert first.value.function.startswith("start_generator")
    assert first.value.type == VOID
    assert tuple(rest) != before.functions[before.entry].body  # calls take the generator along
    calls = [n for f in after.functions.values() for n in walk_function(f) if isinstance(n, ir.Call)]
    assert sum(n.function == first.value.function for n in calls) == 1
    arrays = {n.name for f in after.functions.values() for n in walk_function(f) if isinstance(n, ir.LocalArray)}
    assert arrays == {".generator"}


def test_a_host_call_is_told():
    for call in (sterna.random.uniform, sterna.random.normal, sterna.random.bits, lambda: sterna.random.integers(3)):
        with pytest.raises(DeviceOnlyError, match=r"^(uniform|normal|bits|integers)\(\) runs on the device only"):
            call()
