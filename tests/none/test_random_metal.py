"""Random numbers on simulated Metal: those of every other device, bit for bit, normal numbers too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sterna
from helpers.launching import Place
from helpers.metal.api import simulated
from helpers.metal.marks import SIMULATED
from helpers.philox import Stream, launch_seed

pytestmark = SIMULATED

TYPES = ("u4", "f4", "f2", "f4", "f2", "i8", "i1", "u2", "u8")


@pytest.fixture
def metal(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path))
    with simulated():
        yield Place("metal:0")


def several(bits: Any, f4: Any, f2: Any, n4: Any, n2: Any, i8: Any, i1: Any, u2: Any, u8: Any) -> None:
    i = sterna.grid(1)
    bits[i] = sterna.random.bits()
    f4[i] = sterna.random.uniform()
    f2[i] = sterna.random.uniform(np.float16)
    n4[i] = sterna.random.normal()
    n2[i] = sterna.random.normal(np.float16)
    sterna.syncthreads()
    i8[i] = sterna.random.integers(-5, 7)
    i1[i] = sterna.random.integers(100, dtype=np.int8)
    u2[i] = sterna.random.integers(5, 2**16, np.uint16)
    u8[i] = sterna.random.integers(3, 2**40, np.uint64)


def test_all_numbers_are_those_of_other_devices(metal: Place) -> None:
    kernel = sterna.kernel(several)
    found = []
    for place, blocks in ((metal, 4), (Place("cpu"), 8), (Place("interpreter"), 2)):
        made = [np.zeros(64, t) for t in TYPES]
        sterna.seed(3)
        place.launch(kernel, blocks, 64 // blocks, *made)
        found.append(made)
    assert found[0][0].tolist() == [Stream(i, launch_seed(3, 0)).word() for i in range(64)]
    for other in found[1:]:
        for here, there in zip(found[0], other, strict=True):
            assert here.tobytes() == there.tobytes(), here.dtype
