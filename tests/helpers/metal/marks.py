"""Marks of tests that run kernels on simulated Metal."""

from __future__ import annotations

import shutil
import sys

import pytest

__all__ = ["CAN_SIMULATE", "SIMULATED"]

CAN_SIMULATE = sys.platform == "linux" and shutil.which("g++") is not None
"""Whether simulated devices can run kernels here."""

SIMULATED = pytest.mark.skipif(not CAN_SIMULATE, reason="simulated Metal needs Linux and g++ to run kernels")
"""Mark of a test that does; skipped, and so counted and named, elsewhere."""
