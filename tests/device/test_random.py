"""Random numbers in kernels: the same on every device, whatever the blocks, anew after `sterna.seed`."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
import pytest

import sterna
from helpers.launching import Place
from helpers.philox import Stream, launch_seed
from sterna.errors import CompileError, UnsupportedError
from sterna.overlays import remove

R = sterna.random


@sterna.kernel
def words(out: Any) -> None:
    i = sterna.grid(1)
    for k in range(out.shape[1]):
        out[i, k] = sterna.random.bits()


@sterna.kernel
def everything(f4: Any, f2: Any, n4: Any, n2: Any, i8: Any, i1: Any, u2: Any, u8: Any) -> None:
    i = sterna.grid(1)
    f4[i] = R.uniform()
    f2[i] = R.uniform(f2.dtype)
    n4[i] = R.normal()
    n2[i] = R.normal(np.float16)
    i8[i] = R.integers(-5, 7)
    i1[i] = R.integers(100, dtype=i1.dtype)
    u2[i] = R.integers(5, 2**16, np.uint16)
    u8[i] = R.integers(3, u8[i], np.uint64)


@sterna.kernel
def doubles(f8: Any, n8: Any) -> None:
    i = sterna.grid(1)
    f8[i] = R.uniform(sterna.float64)
    n8[i] = R.normal(np.float64)


def arrays(kernel: Any, n: int) -> list[np.ndarray]:
    if kernel is doubles:
        return [np.zeros(n), np.zeros(n)]
    made = [np.zeros(n, t) for t in ("f4", "f2", "f4", "f2", "i8", "i1", "u2", "u8")]
    made[-1][:] = 2**63 + 12345  # every second draw is rejected
    return made


def test_the_words_are_those_of_philox(place: Place) -> None:
    out = np.zeros((37, 9), np.uint32)
    sterna.seed(11)
    place.over(words, 37, out)
    expected = [[stream.word() for _ in range(9)] for stream in (Stream(i, launch_seed(11, 0)) for i in range(37))]
    assert out.tolist() == expected


def test_a_seed_replays_its_launches_and_launches_differ(place: Place) -> None:
    def three() -> list[list[int]]:
        found = []
        for _ in range(3):
            out = np.zeros((8, 2), np.uint32)
            place.over(words, 8, out)
            found.append(out.ravel().tolist())
        return found

    sterna.seed(2**64 - 1)
    first = three()
    assert len({tuple(x) for x in first}) == 3
    assert three() != first
    sterna.seed(2**64 - 1)
    assert three() == first
    sterna.seed(0)
    assert three() != first


@pytest.mark.parametrize("kernel", [everything, doubles], ids=["everything", "doubles"])
def test_every_distribution_is_the_same_bit_for_bit(device: Place, kernel: Any) -> None:
    if kernel is doubles and "float64" in sterna.device(device.name).target.unsupported_types:
        pytest.skip(f"{device.name} has no float64")
    here, there = arrays(kernel, 130), arrays(kernel, 130)
    sterna.seed(3)
    device.over(kernel, 130, *here)
    sterna.seed(3)
    Place("interpreter").over(kernel, 130, *there)
    for a, b in zip(here, there, strict=True):
        assert a.tobytes() == b.tobytes(), a.dtype


@sterna.kernel
def grid2(out: Any) -> None:
    x, y = sterna.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        out[y, x] = sterna.random.bits(sterna.uint64)


@sterna.kernel
def over2(out: Any) -> None:
    i, j = sterna.grid(2)
    out[i, j] = sterna.random.bits(sterna.uint64)


def test_blocks_make_no_difference(place: Place) -> None:
    found = []
    for blocks, threads in (((4, 3), (6, 4)), ((3, 4), (8, 3)), ((24, 12), (1, 1)), ((1, 6), (24, 2))):
        out = np.zeros((12, 24), np.uint64)
        sterna.seed(5)
        place.launch(grid2, blocks, threads, out)
        found.append(out)
    out = np.zeros((12, 24), np.uint64)
    sterna.seed(5)
    place.over(over2, (12, 24), out)
    for other in (*found[1:], out):
        assert (other == found[0]).all()
    assert len(np.unique(out)) == out.size


# ---- in device functions, around barriers, in recursions -----------------------------------------


def one_of(which: Any) -> Any:
    return sterna.random.bits() if which else np.uint32(0)


def descend(depth: int) -> np.uint32:
    if depth == 0:
        return sterna.random.bits()
    return sterna.random.bits() ^ descend(depth - 1)


@sterna.kernel
def called(out: Any) -> None:
    i = sterna.grid(1)
    second = lambda: sterna.random.bits()  # noqa: E731
    out[i, 0] = one_of(i % 2 == 0)
    out[i, 1] = second()
    out[i, 2] = one_of(True)


@sterna.kernel
def recursive(out: Any) -> None:
    i = sterna.grid(1)
    out[i] = descend(i) ^ sterna.random.bits()


def test_all_functions_of_a_thread_draw_from_one_stream(place: Place) -> None:
    out = np.zeros((6, 3), np.uint32)
    sterna.seed(8)
    place.over(called, 6, out)
    for i, row in enumerate(out.tolist()):
        stream = Stream(i, launch_seed(8, 0))
        first = stream.word() if i % 2 == 0 else 0
        assert row == [first, stream.word(), stream.word()]


def test_a_recursion_draws_from_the_threads_stream(place: Place) -> None:
    out = np.zeros(6, np.uint32)
    sterna.seed(8)
    try:
        place.over(recursive, 6, out)
    except UnsupportedError as error:
        if "recursi" in str(error):
            pytest.skip(f"{place.name} has no recursion")
        raise
    for i, value in enumerate(out.tolist()):
        stream = Stream(i, launch_seed(8, 0))
        assert value == functools.reduce(operator.xor, (stream.word() for _ in range(i + 2)))


def exchanged(tile: Any, t: int) -> Any:
    tile[t] = sterna.random.bits()
    sterna.syncthreads()
    other = tile[(t + 1) % 16]
    sterna.syncthreads()
    return other


@sterna.kernel
def meeting(out: Any, turns: int) -> None:
    tile = sterna.shared.array(16, sterna.uint32)
    t = sterna.threadIdx.x
    i = sterna.grid(1)
    own = sterna.random.bits()
    for k in range(turns):
        out[i, k] = exchanged(tile, t)
    out[i, turns] = own ^ sterna.random.bits()


def test_a_generator_lives_across_barriers(place: Place) -> None:
    out = np.zeros((32, 6), np.uint32)
    sterna.seed(9)
    place.launch(meeting, 2, 16, out, 5)
    drawn = [[Stream(i, launch_seed(9, 0)) for i in range(32)][i] for i in range(32)]
    table = [[s.word() for _ in range(7)] for s in drawn]
    for i in range(32):
        neighbour = table[i // 16 * 16 + (i + 1) % 16]
        assert out[i].tolist() == [*neighbour[1:6], table[i][0] ^ table[i][6]]


@sterna.kernel
def sometimes(out: Any, limit: int) -> None:
    i = sterna.grid(1)
    if i < limit:
        out[i] = sterna.random.uniform()


def test_a_launch_whose_threads_draw_nothing_counts(place: Place) -> None:
    out = np.zeros(4, np.float32)
    sterna.seed(1)
    place.over(sometimes, 4, out, 0)
    assert not out.any()
    place.over(sometimes, 4, out, 4)
    expected = [Stream(i, launch_seed(1, 1)).word() >> 8 for i in range(4)]
    assert (out * 2**24).tolist() == expected


# ---- another initialiser -------------------------------------------------------------------------


def test_a_target_may_start_generators_in_its_own_way(device: Place) -> None:
    target = device.name.partition(":")[0]

    @sterna.device_override(R.start_generator, target=target)
    def start_from_nothing(generator: Any) -> None:
        for k in range(generator.shape[0]):
            generator[k] = np.uint32(0)
        generator[0] = np.uint32(100 + sterna.grid(1))  # the thread's number; the key is 0

    def run() -> list[list[int]]:
        out = np.zeros((5, 3), np.uint32)
        sterna.seed(6)
        device.over(words, 5, out)
        return out.tolist()

    own = run()
    remove(R.start_generator, target)
    theirs = run()
    assert own == [[stream.word() for _ in range(3)] for stream in (Stream(100 + i, 0) for i in range(5))]
    assert theirs == [[s.word() for _ in range(3)] for s in (Stream(i, launch_seed(6, 0)) for i in range(5))]


# ---- what is refused -----------------------------------------------------------------------------


@sterna.kernel
def within(out: Any, low: int, high: int) -> None:
    i = sterna.grid(1)
    out[i] = sterna.random.integers(low, high, out.dtype)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("i8", 3, 3), ("i8", 4, 3), ("i1", -129, 3), ("i1", 0, 129), ("u1", -1, 3), ("u4", 0, 2**32 + 1), ("u8", -1, 3)],
)
def test_a_range_that_is_none_raises(place: Place, dtype: str, low: int, high: int) -> None:
    with pytest.raises(ValueError, match=r"random\.integers"):
        place.over(within, 1, np.zeros(1, dtype), low, high)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("i8", -(2**63), 2**63 - 1), ("i1", -128, 128), ("i2", -(2**15), 2**15), ("i4", -(2**31), 2**31), ("u1", 0, 256),
     ("u4", 0, 2**32), ("u4", 2**32 - 1, 2**32), ("u8", 7, 8), ("i8", -1, 0)],
)  # fmt: skip
def test_a_range_may_be_the_whole_type(place: Place, dtype: str, low: int, high: int) -> None:
    out = np.zeros(64, dtype)
    place.over(within, 64, out, low, high)
    assert all(low <= int(x) < high for x in out)
    assert high - low == 1 or len(np.unique(out)) > 16


def test_a_range_of_words_that_the_type_does_not_hold(place: Place) -> None:
    @sterna.kernel
    def drawn(out: Any, ends: Any) -> None:
        out[sterna.grid(1)] = sterna.random.integers(ends[0], ends[1], out.dtype)

    ends, out = np.array([2**63 - 9, 2**63], np.uint64), np.zeros(64, np.int64)
    place.over(drawn, 64, out, ends)
    assert all(2**63 - 9 <= int(x) < 2**63 for x in out)
    assert len(np.unique(out)) == 9
    with pytest.raises(ValueError, match="reaches beyond the dtype"):
        place.over(drawn, 1, out, ends + np.uint64(1))


REFUSED = {
    "uniform(sterna.int32)": "gives float32, float64 or float16, given class int32",
    "normal(sterna.complex64)": "gives float32, float64 or float16, given class complex64",
    "bits(sterna.int8)": "gives uint32 or uint64, given class int8",
    "integers(0, 2, sterna.float32)": "gives signed and unsigned integers of 8 to 64 bits, given class float32",
    "integers(2.5)": ": the range is given by integers, given (Python )?float",
    "integers(0, x[0])": ": the range is given by integers, given float32",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_refused(place: Place, make_module: Any, call: str) -> None:
    source = f"import sterna\n@sterna.kernel\ndef k(x):\n    x[0] = 1 + sterna.random.{call}\n"
    module = make_module(source)
    with pytest.raises(CompileError, match=rf"random\.{call.partition('(')[0]}( )?{REFUSED[call]}") as caught:
        place.over(module.k, 1, np.zeros(1, np.float32))
    location = caught.value.location  # the interpreter's error has a traceback of Python's
    if location is not None:
        assert location.filename == module.__file__
        assert (location.line, location.text[location.column : location.end_column]) == (4, f"sterna.random.{call}")


def test_an_empty_range_is_reported_where_it_was_asked_for(device: Place, make_module: Any) -> None:
    """Each call has its own line, though all are compiled from one function of the language."""
    source = (
        "import sterna\ndef draw(n):\n    return sterna.random.integers(n)  # 1\n@sterna.kernel\ndef k(x, n):\n"
        "    x[0] = draw(n[0])\n    x[1] = sterna.random.integers(n[1])  # 2\n    x[2] = sterna.random.integers(\n"
        "        0, n[2])\n"
    )
    kernel = make_module(source).k
    for n, line, function in ((0, 3, "draw"), (1, 7, "k"), (2, 8, "k")):
        ends = np.ones(3, np.int64)
        ends[n] = 0
        with pytest.raises(ValueError, match="low must be below high") as caught:
            device.over(kernel, 1, np.zeros(3, np.int64), ends)
        assert (caught.value.line, caught.value.function) == (line, function)
