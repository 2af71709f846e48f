"""Random kernels: every device gives what the interpreter gives.

``STERNA_TEST_EXAMPLES=500`` runs that many of each kind, from a fresh seed.  Faults found are kept in ``corpus/``
(a module with ``k``, ``LAUNCH``, ``OUTPUTS`` and ``arguments()``) and replayed.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from helpers.compare import assert_same
from helpers.generated import Program, agree, atomic_kernels, block_kernels, straight_kernels, view_kernels
from helpers.launching import INTERPRETER, Place
from helpers.mixtures import ARRAYS, mixtures, source
from helpers.modules import write_module
from sterna.errors import CompileError

EXAMPLES = int(os.environ.get("STERNA_TEST_EXAMPLES", "25"))
CORPUS = Path(__file__).parent / "corpus"
differential = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="STERNA_TEST_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
ORACLE = Place(INTERPRETER)


@pytest.fixture
def device(device: Place) -> Place:
    """A device that has all types; narrow kernels run on Metal in a test of their own."""
    if device.is_metal:
        pytest.skip("random kernels hold float64; Metal's are in test_differential_metal.py")
    return device


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


@settings(differential, max_examples=max(EXAMPLES // 5, 1))
@given(program=view_kernels())
def test_view_kernels_that_promise_noalias(device: Place, tmp_path, monkeypatch, program):
    monkeypatch.setenv("STERNA_NOALIAS", "1")
    agree(program, device, ORACLE, tmp_path)


def outcome(place: Place, kernel: Any, numbers: dict[str, Any]) -> Any:
    """What one thread stores, or the class of its failure."""
    out = np.zeros(1)
    try:
        with np.errstate(all="ignore"):
            place.launch(kernel, 1, 1, out, *numbers.values(), *(a.copy() for a in ARRAYS.values()))
    except Exception as error:
        return type(error)
    return out


@settings(differential, max_examples=4 * EXAMPLES)
@given(case=mixtures())
def test_any_mixture_is_right_or_refused(device: Place, tmp_path, case):
    text, numbers = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own about such code
        kernel = write_module(tmp_path, source(text)).k
    got = outcome(device, kernel, numbers)
    if isinstance(got, type) and issubclass(got, CompileError):
        return
    expected = outcome(ORACLE, kernel, numbers)
    if expected is OverflowError and got is not OverflowError:
        return  # a Python int that does not fit its place: it wraps, by design
    if got is ValueError and "**" in text:
        return  # a power whose type depends on its values in Python: it raises, by design
    if isinstance(expected, type) or isinstance(got, type):
        assert got is expected, f"{text} with {numbers}"
    else:
        assert_same(got, expected, label=f"{text} with {numbers}", ulps=4 if "sqrt" in text or "**" in text else 0)


def corpus() -> list[Any]:
    """The modules, marked if they need recursion."""
    marks = {"recursive": pytest.mark.recursion}
    return [
        pytest.param(path, id=path.stem, marks=[m for word, m in marks.items() if path.stem.startswith(word)])
        for path in sorted(CORPUS.glob("*.py"))
    ]


@pytest.mark.parametrize("path", corpus())
def test_faults_found_before(device: Place, tmp_path, path):
    text = path.read_text(encoding="utf-8")
    module = write_module(tmp_path, text)
    agree(Program(text, module.arguments(), module.OUTPUTS, module.LAUNCH), device, ORACLE, tmp_path)
