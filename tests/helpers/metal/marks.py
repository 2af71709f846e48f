"""Marks of tests that run kernels on Metal: Apple's where there is one, simulated otherwise."""

from __future__ import annotations

import shutil
import sys

import pytest

from sterna.targets.metal.api import is_available

__all__ = ["CAN_SIMULATE", "HAS_METAL", "METAL", "SIMULATED"]

HAS_METAL = is_available()
"""Whether this machine has the real thing; tests of all devices run on it then."""

CAN_SIMULATE = sys.platform == "linux" and shutil.which("g++") is not None
"""Whether simulated devices can run kernels here."""

SIMULATED = pytest.mark.skipif(not CAN_SIMULATE, reason="simulated Metal needs Linux and g++ to run kernels")
"""Mark of a test that does; skipped, and so counted and named, elsewhere."""

METAL = pytest.mark.skipif(not (HAS_METAL or CAN_SIMULATE), reason="no Metal here; simulating it needs Linux and g++")
"""Mark of a test that runs on either."""
