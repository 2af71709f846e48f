"""Finding OpenCL: pyopencl, and the drivers that its loader is to see.

The loader reads small files (ICDs) that name each driver's library.  Those of the system are left as they are.  Intel's
runtime for processors comes as a Python package whose own file names a path that does not exist; when it is installed,
a file with the real path is written to a folder of this process, beside links to the system's, and the loader is told
of that folder while it starts.  Libraries that the runtime needs are looked for in its own folder.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from sterna.distributions import distribution_files

__all__ = ["intel_runtime", "load_opencl", "why_missing"]

_VARIABLE = "OCL_ICD_VENDORS"
_SYSTEM = Path("/etc/OpenCL/vendors")
_RUNTIME, _LIBRARY = "intel-opencl-rt", "libintelocl.so"
_MISSING = re.compile(r"([\w.+-]+\.so[\w.]*): cannot open shared object file")
_MOST_NEEDED = 32
_SPACE = re.compile(r"\s")


@cache
def load_opencl() -> Any:
    """The module pyopencl, its loader started.

    Raises
    ------
    ImportError
        When it is not installed.
    """
    with _vendors():
        import pyopencl

        with suppress(pyopencl.Error):  # there may be no driver at all
            pyopencl.get_platforms()  # the loader reads its folder now, and never again
        return pyopencl


def why_missing() -> str:
    """What to tell someone who expected a device: what there is and what to install."""
    try:
        load_opencl()
    except ImportError as error:
        return f"pyopencl cannot be imported ({error}); install sterna[opencl]"
    chosen = os.environ.get(_VARIABLE)
    if chosen:
        return (
            f"no driver gave any; the loader looks only where {_VARIABLE}={chosen} says: unset it, or add drivers there"
        )
    if intel_runtime() is not None:
        return "Intel's runtime is installed here, and gave none"
    return (
        "no driver of this machine gave any; for its processor, install the packages intel-opencl-rt and "
        "intel-cmplr-lib-rt"
    )


def intel_runtime() -> Path | None:
    """The library of Intel's runtime for processors, if its package is installed in this environment."""
    if sys.platform != "linux":
        return None
    for path in map(Path, distribution_files(_RUNTIME)):
        if path.name == _LIBRARY and path.is_file():
            return path.resolve()
    return None


@contextmanager
def _vendors() -> Iterator[None]:
    """While inside, the loader finds Intel's runtime too; what the user has set is left alone."""
    library = None if os.environ.get(_VARIABLE) else intel_runtime()
    if library is None or _is_listed(library.name):
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="sterna-icd-"))
    has_space = _SPACE.search(str(library)) is not None
    try:
        if has_space:
            atexit.register(_remove, folder, os.getpid())
            library = _under_another_path(library, folder / "lib")
        if _can_load(library):
            for file in _SYSTEM.glob("*.icd") if _SYSTEM.is_dir() else ():
                (folder / file.name).symlink_to(file)
            (folder / "sterna-intel.icd").write_text(f"{library}\n")
            os.environ[_VARIABLE] = str(folder)
        yield
    finally:
        os.environ.pop(_VARIABLE, None)
        if not has_space:
            _remove(folder, os.getpid())


def _under_another_path(library: Path, folder: Path) -> Path:
    """The library in another folder, with links to what lies beside it.

    Intel's runtime reads its own place in ``/proc/self/maps``, up to the first space, and finds none of its files if
    there is one.  That list has the path that a file was opened by without symbolic links, so the library itself is a
    hard link, or a copy where there can be none.
    """
    folder.mkdir()
    for file in library.parent.iterdir():
        if file.is_file() and file.name != library.name:
            (folder / file.name).symlink_to(file)
    place = folder / library.name
    try:
        os.link(library, place)
    except OSError:
        shutil.copyfile(library, place)
    return place


def _remove(folder: Path, process: int) -> None:
    """At the end of the process that made it; the runtime reads its own files through it until then."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _is_listed(name: str) -> bool:
    """Whether one of the system's files names this library: an installation of Intel's own."""
    for file in _SYSTEM.glob("*.icd") if _SYSTEM.is_dir() else ():
        try:
            listed = file.read_text().strip()
        except OSError:
            continue
        if listed.rpartition("/")[2].startswith(name) and ("/" not in listed or os.path.exists(listed)):
            return True
    return False


def _can_load(library: Path) -> bool:
    """Load a library, and those of its own folder that the system's loader does not find by itself."""
    wanted = [str(library)]
    for _ in range(_MOST_NEEDED):
        try:
            ctypes.CDLL(wanted[-1])
        except OSError as error:
            missing = _MISSING.search(str(error))
            beside = library.parent / missing[1] if missing else None
            if beside is None or not beside.is_file() or str(beside) in wanted:
                return False
            wanted.append(str(beside))
            continue
        wanted.pop()
        if not wanted:
            return True
    return False
