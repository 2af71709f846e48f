"""The CUDA target's facts; imports neither a compiler nor the driver.

Architectures are compute capabilities, ``sm_75`` to ``sm_121``.  A cubin runs on its own architecture and on later
minor revisions of the same generation; the PTX beside it on everything later.
"""

from __future__ import annotations

from sterna.distributions import installed_version
from sterna.targets.base import Limits, Target

__all__ = [
    "ARCHITECTURES",
    "DEFAULT_ARCHITECTURE",
    "STACK_BYTES",
    "compiler_versions",
    "default_target",
    "parse_target",
    "ptx_version",
]

ARCHITECTURES: dict[str, str] = {
    "sm_75": "7.0", "sm_80": "7.0", "sm_86": "7.1", "sm_87": "7.4", "sm_88": "9.0", "sm_89": "7.8", "sm_90": "7.8",
    "sm_100": "8.6", "sm_103": "8.8", "sm_110": "9.0", "sm_120": "8.7", "sm_121": "8.8",
}  # fmt: skip
"""Architecture → version of the PTX language its code is written in (the lowest that knows it and what we use)."""

DEFAULT_ARCHITECTURE = "sm_75"
"""What ``cuda`` without an architecture means where no device was asked: the PTX runs everywhere."""

STACK_BYTES = 128 * 1024
"""A thread's stack for local arrays of recursive functions; the device keeps as much for each of its threads."""

_LINKERS = ("nvidia-nvjitlink", "nvidia-nvjitlink-cu13", "nvidia-nvjitlink-cu12")


def ptx_version(arch: str) -> str:
    """PTX version of an architecture's code, such as ``7.8``."""
    return ARCHITECTURES[arch]


def parse_target(arch: str) -> Target:
    """The CUDA target of an architecture (``sm_90``).

    Raises
    ------
    ValueError
        For an unknown one; lists what there is.
    """
    if arch not in ARCHITECTURES:
        raise ValueError(f"unknown CUDA architecture {arch!r}; known: {', '.join(ARCHITECTURES)}")
    older = list(ARCHITECTURES)[: list(ARCHITECTURES).index(arch)]
    return Target(
        name="cuda",
        arch=arch,
        strategies=("patch", "bake", "table"),
        limits=Limits(shared_bytes=48 * 1024, stack_bytes=STACK_BYTES),
        fallbacks=tuple(reversed(older)),
        compiler_module="sterna.targets.cuda.compiler",
        runtime_module="sterna.targets.cuda.device",
    )


def default_target() -> Target:
    """The CUDA target where nobody said which device: of `DEFAULT_ARCHITECTURE`."""
    return parse_target(DEFAULT_ARCHITECTURE)


def compiler_versions() -> dict[str, str] | None:
    """Versions of LLVM's wrapper, the linker and the maths library, or None without the first."""
    llvm = installed_version("llvmlite")
    if llvm is None:
        return None
    linker = next((v for name in _LINKERS if (v := installed_version(name)) is not None), "driver")
    library = installed_version("nvidia-nvvm") or "toolkit"
    return {"llvmlite": llvm, "nvjitlink": linker, "libdevice": library}
