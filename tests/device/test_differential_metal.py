"""Random kernels of narrow types: simulated Metal gives what the interpreter gives.

``STERNA_TEST_EXAMPLES=500`` runs that many of each kind, from a fresh seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from helpers.generated import agree, atomic_kernels, block_kernels, straight_kernels, view_kernels
from helpers.launching import INTERPRETER, Place
from helpers.metal.api import simulated
from helpers.metal.marks import SIMULATED

EXAMPLES = int(os.environ.get("STERNA_TEST_EXAMPLES", "15"))
differential = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="STERNA_TEST_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
ORACLE = Place(INTERPRETER)
pytestmark = SIMULATED


METAL = Place("metal:0")


@pytest.fixture
def metal() -> Iterator[Any]:
    """A simulated device, as the simulator sees it."""
    with simulated(1) as api:
        yield api.devices[0]


@differential
@given(program=straight_kernels(narrow=True))
def test_straight_kernels(metal: Any, tmp_path, program):
    agree(program, METAL, ORACLE, tmp_path)


@differential
@given(program=view_kernels(narrow=True))
def test_view_kernels(metal: Any, tmp_path, program):
    agree(program, METAL, ORACLE, tmp_path)


@differential
@given(program=block_kernels(narrow=True))
def test_block_kernels(metal: Any, tmp_path, program):
    agree(program, METAL, ORACLE, tmp_path)
    assert metal.counts["apart"] == 0  # whoever left early came to the barriers all the same


@differential
@given(program=atomic_kernels(narrow=True))
def test_atomic_kernels(metal: Any, tmp_path, program):
    agree(program, METAL, ORACLE, tmp_path)
