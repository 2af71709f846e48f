"""Fixtures of the cross-session tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.session import Sessions


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    """Fresh processes over one store of their own."""
    return Sessions(tmp_path)
