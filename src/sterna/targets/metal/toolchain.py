"""Apple's command line tools: Metal's text compiled ahead to a ``metallib``, where they are and are asked for.

Without them, or unless ``STERNA_METALLIB=1``, an image holds the text alone, and the device's system compiles it when
a kernel is loaded.  With them that step is done once.  The tools' version is then part of the key, so that images with
and without a ``metallib`` are never taken for each other.

Imports nothing of the compiler and nothing of Metal.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache

from sterna.errors import CompileError

__all__ = ["is_wanted", "make_metallib", "tool_versions"]

_SDK = ("xcrun", "-sdk", "macosx")
_SECONDS = 300


def is_wanted() -> bool:
    """Whether images are to hold a ``metallib``: it is asked for, and the tools are here."""
    asked = os.environ.get("STERNA_METALLIB", "").lower() in ("1", "true", "yes", "on")
    return asked and bool(_version(os.environ.get("PATH", "")))


def tool_versions() -> dict[str, str]:
    """What the key must know: the tools' version, while images are to hold a ``metallib``."""
    return {"metal": _version(os.environ.get("PATH", ""))} if is_wanted() else {}


@cache
def _version(path: str) -> str:
    """First line that the compiler says of itself; empty when there is none on `path`."""
    if shutil.which(_SDK[0], path=path) is None:
        return ""
    try:
        said = subprocess.run(
            [*_SDK, "metal", "--version"], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return next(iter(said.stdout.splitlines()), "")


def make_metallib(text: str, language: str, kernel: str, fast: bool = False) -> bytes:
    """Compile Metal's text ahead of time.

    Parameters
    ----------
    text : str
        The kernel in Metal's language.
    language : str
        Version of the language, such as ``3.0``.
    kernel : str
        For messages.
    fast : bool
        Whether mathematics may be inexact, as the kernel's option `fastmath` says.

    Raises
    ------
    CompileError
        When the tools refuse the text; holds what they said.
    """
    with tempfile.TemporaryDirectory(prefix="sterna-metal-") as folder:
        with open(os.path.join(folder, "kernel.metal"), "w", encoding="utf-8") as file:
            file.write(text)
        mode = "-ffast-math" if fast else "-fno-fast-math"
        compile_ = ("metal", f"-std=metal{language}", mode, "-c", "kernel.metal", "-o", "kernel.air")
        for step in (compile_, ("metallib", "kernel.air", "-o", "kernel.metallib")):
            _run(step, folder, kernel)
        with open(os.path.join(folder, "kernel.metallib"), "rb") as file:
            return file.read()


def _run(step: tuple[str, ...], folder: str, kernel: str) -> None:
    """One tool, in the folder: no path of this machine is in what it makes."""
    try:
        done = subprocess.run([*_SDK, *step], cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise CompileError(f"Apple's {step[0]} tool cannot be run ({error})", kernel=kernel) from None
    if done.returncode:
        raise CompileError(
            f"Apple's {step[0]} tool refuses the kernel's text:\n{done.stderr.strip()}", kernel=kernel,
            hint="STERNA_METALLIB=0 stores the text alone",
        )  # fmt: skip
