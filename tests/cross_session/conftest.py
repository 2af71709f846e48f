"""Fixtures of the cross-session tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.launching import GPU
from helpers.session import Sessions


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=GPU)])
def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> Sessions:
    """Fresh processes over one store of their own, with each target as the current device."""
    return Sessions(tmp_path, {"STERNA_DEVICE": request.param})
