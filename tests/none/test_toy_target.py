"""A new target is a folder and one registry line: the toy target of `tests/helpers/toy`, end to end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import sterna
from sterna.errors import CompileError, LaunchError, SignatureError
from sterna.runtime.devices import device_named
from sterna.targets.registry import TARGETS

CURVE = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
GAIN = sterna.Global(2.0)
MARK, OTHER = object(), object()


@sterna.kernel
def develop(out, thing):
    i = sterna.grid(1)
    out[i] = CURVE[i] * GAIN
    if thing is MARK:
        out[i] = out[i] + 1


@sterna.kernel(strategy="patch")
def patched(out):
    i = sterna.grid(1)
    out[i] = CURVE[i] * GAIN


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch, tmp_path) -> Iterator[list]:  # type: ignore[no-untyped-def, type-arg]
    monkeypatch.setitem(TARGETS, "toy", "helpers.toy.target")
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path))
    GAIN.value = 2.0
    yield [device_named("toy:0"), device_named("toy:1")]


def run(kernel, device, size: int, *args: object) -> list[float]:  # type: ignore[no-untyped-def]
    with sterna.on(device):
        out = sterna.zeros(size)
        kernel.over(size)(out, *args)
        sterna.synchronize()
        return np.asarray(out).tolist()


@pytest.mark.parametrize("index", [0, 1])
def test_captures_reach_the_table(devices, index: int) -> None:  # type: ignore[no-untyped-def]
    assert run(develop, devices[index], 5, MARK) == [21, 41, 61, 81, 101]
    assert run(develop, devices[index], 5, OTHER) == [20, 40, 60, 80, 100]
    GAIN.value = 0.5
    assert run(develop, devices[index], 4, MARK) == [6, 11, 16, 21]


def test_each_device_has_words_of_its_own(devices) -> None:  # type: ignore[no-untyped-def]
    built = [develop.specialize("float64[:]", "object", device=device, over=1) for device in devices]
    assert [b.image.manifest.strategy for b in built] == ["table", "table"]
    assert built[0].image.to_bytes() == built[1].image.to_bytes()
    curve = next(r.slot for r in built[0].relocations if r.path == "globals:CURVE")
    assert built[0].words[curve][0] != built[1].words[curve][0]


def test_another_strategy_gives_the_same(devices) -> None:  # type: ignore[no-untyped-def]
    assert run(patched, devices[0], 3) == [20, 40, 60]


def test_errors_and_limits_are_the_targets(devices) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 5"):
        run(develop, devices[0], 6, MARK)
    with sterna.on(devices[0]), pytest.raises(LaunchError, match="allowed are at most 8"):
        develop[1, 9](sterna.zeros(9), MARK)
    with sterna.on(devices[0]), pytest.raises(CompileError, match="complex128"):
        develop.over(1)(sterna.zeros(1, np.complex128), MARK)


def test_an_array_of_another_device_is_refused(devices) -> None:  # type: ignore[no-untyped-def]
    with sterna.on(devices[0]):
        mine = sterna.zeros(2)
    with sterna.on(devices[1]):
        theirs = sterna.zeros(2)
    with pytest.raises(SignatureError, match=r"toy:0.*toy:1|toy:1.*toy:0"):
        develop.over(2)(mine, theirs)


@sterna.kernel
def draw(out):
    i = sterna.grid(1)
    out[i] = sterna.random.uniform(sterna.float64) + sterna.random.normal() + sterna.random.integers(10)


def test_random_numbers_are_those_of_every_target(devices) -> None:  # type: ignore[no-untyped-def]
    sterna.seed(5)
    found = [run(draw, devices[0], 9), run(draw, devices[1], 9)]
    sterna.seed(5)
    for there in found:
        here = np.zeros(9)
        sterna.interpret(draw).over(9)(here)
        assert there == here.tolist()
    assert draw.specialize("float64[:]", device=devices[0], over=1).image.facts["state"] == [
        "record",
        "extents",
        "seed",
    ]
