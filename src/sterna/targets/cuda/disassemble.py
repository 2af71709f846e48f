"""SASS of a cubin, by ``nvdisasm`` or ``cuobjdump`` where one is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from sterna.errors import UnsupportedError

__all__ = ["disassemble"]

_TOOLS = (("nvdisasm", ("-c",)), ("cuobjdump", ("--dump-sass",)))


def _find(name: str) -> str | None:
    places = [os.environ.get("PATH", "")]
    places += [str(Path(os.environ[v]) / "bin") for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    places.append("/usr/local/cuda/bin")
    return shutil.which(name, path=os.pathsep.join(places))


def disassemble(cubin: bytes) -> str:
    """Machine code as text.

    Raises
    ------
    UnsupportedError
        When no disassembler is installed.
    """
    for name, options in _TOOLS:
        tool = _find(name)
        if tool is None:
            continue
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            done = subprocess.run([tool, *options, file.name], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout
    raise UnsupportedError(
        "SASS needs nvdisasm or cuobjdump (of a CUDA toolkit) on the path", hint="PTX needs none: .ptx"
    )
