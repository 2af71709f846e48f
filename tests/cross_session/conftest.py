"""Fixtures of the cross-session tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.launching import GPU, OPENCL
from helpers.session import Sessions

_ON_OPENCL = ("test_captures", "test_archive")
"""Modules whose tests run on an OpenCL device too: starting one takes a second."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with each target as the current device."""
    if "sessions" in metafunc.fixturenames:
        devices = ["cpu", pytest.param("cuda", marks=GPU)]
        if metafunc.module.__name__.rpartition(".")[2] in _ON_OPENCL:
            devices.insert(1, pytest.param("opencl", marks=OPENCL))
        metafunc.parametrize("sessions", devices, indirect=True)


@pytest.fixture
def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> Sessions:
    """Fresh processes over one store of their own, with one target's device as the current one."""
    return Sessions(tmp_path, {"STERNA_DEVICE": request.param})
