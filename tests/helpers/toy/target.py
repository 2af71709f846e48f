"""Facts of the toy target."""

from __future__ import annotations

from sterna.targets.base import Limits, Target

TARGET = Target(
    name="toy",
    arch="v1",
    strategies=("table", "patch"),
    limits=Limits(max_threads=8),
    unsupported_types=frozenset({"complex64", "complex128"}),
    compiler_module="helpers.toy.compiler",
    runtime_module="helpers.toy.device",
)


def default_target() -> Target:
    """The one architecture there is."""
    return TARGET


def parse_target(arch: str) -> Target:
    """The target of architecture `arch`."""
    if arch != TARGET.arch:
        raise ValueError(f"toy has no architecture {arch!r}; it has {TARGET.arch}")
    return TARGET


def compiler_versions() -> dict[str, str]:
    """What the key must know of the compiler."""
    return {"toy": "1"}
