"""The list of targets: a new one is a new folder and one line here."""

from __future__ import annotations

import importlib
from functools import cache

from sterna.targets.base import Target

__all__ = ["FOREIGN_PROTOCOLS", "TARGETS", "compiler_versions", "target"]

TARGETS: dict[str, str] = {
    "cpu": "sterna.targets.cpu.target",
    "cuda": "sterna.targets.cuda.target",
    "metal": "sterna.targets.metal.target",
    "opencl": "sterna.targets.opencl.target",
}
"""Target name → module that has ``default_target()``, ``parse_target(arch)`` and ``compiler_versions()``."""

FOREIGN_PROTOCOLS: dict[str, str] = {"__cuda_array_interface__": "cuda"}
"""Attribute by which other libraries' arrays say that they are on a device → the target that shares them."""


@cache
def target(name: str = "cpu") -> Target:
    """The target called `name`, or ``name-arch`` for another architecture than this machine's.

    Raises
    ------
    ValueError
        For an unknown name or architecture; lists what there is.
    """
    base, _, arch = name.partition("-")
    if base not in TARGETS:
        raise ValueError(f"unknown target {name!r}; known targets: {', '.join(sorted(TARGETS))}")
    module = importlib.import_module(TARGETS[base])
    found: Target = module.parse_target(arch) if arch else module.default_target()
    return found


@cache
def compiler_versions(target: Target) -> dict[str, str] | None:
    """Versions of what makes code for `target` here, Sterna's own among them, or None when no compiler is installed.

    Imports no compiler: versions are read from the installed packages' metadata.
    """
    found: dict[str, str] | None = importlib.import_module(TARGETS[target.name]).compiler_versions()
    return None if found is None else {**found, "sterna": importlib.import_module("sterna").__version__}
