"""The CPU target's facts; imports no compiler.

Architectures are the x86-64 microarchitecture levels of the psABI (``x86-64``, ``x86-64-v2`` … ``-v4``) and
``aarch64``.  Objects are ELF whatever the operating system, for Sterna's own loader.
"""

from __future__ import annotations

import os
import platform
from functools import cache

from sterna.distributions import installed_version
from sterna.targets.base import Limits, Target

__all__ = ["ARCHITECTURES", "compiler_versions", "default_target", "host_architecture", "parse_target"]

_LEVELS = {
    "x86-64-v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "x86-64-v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
"""Flags that each level adds, by Linux's names (``abm`` stands for lzcnt)."""

_CPUINFO_BYTES = 16384
"""The first processor's part of ``/proc/cpuinfo`` and more; reading all of it takes long where there are many."""

ARCHITECTURES = ("x86-64", *_LEVELS, "aarch64")


@cache
def host_architecture() -> str:
    """Architecture of this machine."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return "aarch64"
    flags, best = _flags(), "x86-64"
    for level, needed in _LEVELS.items():
        if not needed <= flags:
            break
        best = level
    return best


def _flags() -> set[str]:
    try:
        descriptor = os.open("/proc/cpuinfo", os.O_RDONLY)
    except OSError:
        return set()
    try:
        first = os.read(descriptor, _CPUINFO_BYTES).decode("ascii", "replace")
    except OSError:
        return set()
    finally:
        os.close(descriptor)
    line = next((line for line in first.splitlines() if line.startswith("flags")), "")
    return set(line.partition(":")[2].split())


def parse_target(arch: str) -> Target:
    """The CPU target of an architecture.

    Raises
    ------
    ValueError
        For an unknown one; lists what there is.
    """
    if arch not in ARCHITECTURES:
        raise ValueError(f"unknown CPU architecture {arch!r}; known: {', '.join(ARCHITECTURES)}")
    return Target(
        name="cpu",
        arch=arch,
        strategies=("patch", "bake", "table"),
        limits=Limits(),
        compiler_module="sterna.targets.cpu.compiler",
        runtime_module="sterna.targets.cpu.device",
    )


def default_target() -> Target:
    """The CPU target of this machine."""
    return parse_target(host_architecture())


def compiler_versions() -> dict[str, str] | None:
    """Version of the compiler library, or None when it is not installed."""
    version = installed_version("llvmlite")
    return None if version is None else {"llvmlite": version}
