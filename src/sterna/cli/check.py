"""``sterna check``: functions of devices that a package's host code needs, and overrides that nothing calls."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.console import Console

from sterna.leaks import LeakReport

__all__ = ["importable", "show"]


def importable(package: str) -> str:
    """The name to import a package by, given its name or its path; makes it importable.

    Parameters
    ----------
    package : str
        ``pkg.part``, ``path/to/pkg`` or ``path/to/module.py``.

    Raises
    ------
    ModuleNotFoundError
        For a path where nothing is.
    """
    path = Path(package)
    is_file = path.suffix == ".py" and path.is_file()
    is_path = "/" in package or os.sep in package or package.startswith(".")  # then a folder needs no __init__.py
    if is_path and not is_file and not path.is_dir():
        raise ModuleNotFoundError(f"there is no package at {package}: give a name, a folder or a .py file")
    if not is_file and not is_path and not (path / "__init__.py").is_file():
        if "" not in sys.path:
            sys.path.insert(0, "")  # as `python -m` does: packages of the current folder are found
        return package
    path = path.resolve()
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    sys.path.insert(0, str(folder))
    return ".".join(names).removesuffix(".__init__")


def show(found: LeakReport, verbose: bool, console: Console) -> None:
    """Print a report: a line for each finding, whole whatever the terminal's width, as editors and CI read them."""
    parts = [
        ("needed from devices by code of the host:", [str(leak) for leak in found.leaks]),
        ("overrides that nothing calls:", [str(entry) for entry in found.unused]),
        ("not compiled:", [f"{name}: {reason}" for name, reason in found.skipped] if verbose else []),
    ]
    for title, lines in parts:
        for line in (title, *(f"  {line}" for line in lines)) if lines else ():
            console.print(line, soft_wrap=True, markup=False, highlight=False)
    console.print(
        f"{found.package}: {len(found.compiled)} functions compiled for the host, {len(found.skipped)} not, "
        f"{len(found.leaks)} leaks, {len(found.unused)} unused overrides",
        soft_wrap=True,
    )
