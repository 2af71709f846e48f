"""Random kernels: every device gives what the interpreter gives.

``STERNA_TEST_EXAMPLES=500`` runs that many of each kind, from a fresh seed.  Faults found are kept in ``corpus/``
(a module with ``k``, ``LAUNCH``, ``OUTPUTS`` and ``arguments()``) and replayed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from helpers.generated import Program, agree, atomic_kernels, block_kernels, straight_kernels, view_kernels
from helpers.launching import INTERPRETER, Place
from helpers.modules import write_module

EXAMPLES = int(os.environ.get("STERNA_TEST_EXAMPLES", "25"))
CORPUS = Path(__file__).parent / "corpus"
differential = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="STERNA_TEST_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
ORACLE = Place(INTERPRETER)


@differential
@given(program=straight_kernels())
def test_straight_kernels(device: Place, tmp_path, program):
    agree(program, device, ORACLE, tmp_path)


@differential
@given(program=view_kernels())
def test_view_kernels(device: Place, tmp_path, program):
    agree(program, device, ORACLE, tmp_path)


@differential
@given(program=block_kernels())
def test_block_kernels(device: Place, tmp_path, program):
    agree(program, device, ORACLE, tmp_path)


@differential
@given(program=atomic_kernels())
def test_atomic_kernels(device: Place, tmp_path, program):
    agree(program, device, ORACLE, tmp_path)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.py")), ids=lambda path: path.stem)
def test_faults_found_before(device: Place, tmp_path, path):
    source = path.read_text(encoding="utf-8")
    module = write_module(tmp_path, source)
    agree(Program(source, module.arguments(), module.OUTPUTS, module.LAUNCH), device, ORACLE, tmp_path)
