"""The Metal target's facts; imports neither a compiler nor Apple's frameworks.

The one architecture is ``msl``, Metal's language as text, which the device's own compiler turns into code when a kernel
is loaded; so an image runs on every Apple GPU.
"""

from __future__ import annotations

from sterna.targets.base import Limits, Target
from sterna.targets.metal.toolchain import tool_versions

__all__ = ["ARCHITECTURE", "compiler_versions", "default_target", "parse_target"]

ARCHITECTURE = "msl"

_TARGET = Target(
    name="metal",
    arch=ARCHITECTURE,
    strategies=("table", "bake"),
    limits=Limits(
        max_threads=1024, max_block=(1024, 1024, 1024), max_grid=(2**31 - 1, 2**31 - 1, 2**31 - 1),
        shared_bytes=32 * 1024, warp_size=32, stack_bytes=64 * 1024,
    ),
    unsupported_types=frozenset({"float64", "complex128"}),
    compiler_module="sterna.targets.metal.compiler",
    runtime_module="sterna.targets.metal.device",
)  # fmt: skip


def default_target() -> Target:
    """The one architecture there is."""
    return _TARGET


def parse_target(arch: str) -> Target:
    """The target of architecture `arch`.

    Raises
    ------
    ValueError
        For any but ``msl``.
    """
    if arch != ARCHITECTURE:
        raise ValueError(f"unknown Metal architecture {arch!r}; known: {ARCHITECTURE}")
    return _TARGET


def compiler_versions() -> dict[str, str] | None:
    """Nothing beside Sterna itself makes the text; of Apple's tools, where images are to hold a ``metallib`` too."""
    return tool_versions()
