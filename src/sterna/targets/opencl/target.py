"""The OpenCL target's facts; imports neither a compiler nor a driver.

One architecture, ``spirv64``: SPIR-V for devices with 64-bit addresses; their drivers make machine code of it.
"""

from __future__ import annotations

from sterna.distributions import installed_version
from sterna.targets.base import Limits, Target

__all__ = ["ARCHITECTURE", "MAX_THREADS", "compiler_versions", "default_target", "parse_target"]

ARCHITECTURE = "spirv64"
MAX_THREADS = 1024
"""Threads of a block at most, on any device: what the scratch memory of warp operations is laid out for."""


def parse_target(arch: str) -> Target:
    """The OpenCL target of an architecture.

    Raises
    ------
    ValueError
        For anything but ``spirv64``.
    """
    if arch != ARCHITECTURE:
        raise ValueError(f"unknown OpenCL architecture {arch!r}; known: {ARCHITECTURE}")
    return Target(
        name="opencl",
        arch=arch,
        strategies=("table", "bake"),
        limits=Limits(max_threads=MAX_THREADS, max_block=(MAX_THREADS,) * 3, max_grid=(2**31 - 1,) * 3),
        compiler_module="sterna.targets.opencl.compiler",
        runtime_module="sterna.targets.opencl.device",
    )


def default_target() -> Target:
    """The OpenCL target."""
    return parse_target(ARCHITECTURE)


def compiler_versions() -> dict[str, str] | None:
    """Version of LLVM's wrapper, or None where it is not installed."""
    llvm = installed_version("llvmlite")
    return None if llvm is None else {"llvmlite": llvm}
