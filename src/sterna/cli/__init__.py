"""The command line: ``sterna demo``, ``sterna info``, ``sterna inspect``, ``sterna cache``.

The outermost room: it imports everything, nothing imports it, and typer and rich are loaded here only.
"""

from __future__ import annotations

import sys

__all__ = ["main"]

_TERMINAL = ("typer", "rich")


def main() -> None:
    """Entry point of the ``sterna`` command."""
    try:
        from sterna.cli.app import app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _TERMINAL:
            raise
        sys.exit(f"sterna: the command line needs {missing}; install it with: pip install 'sterna[cli]'")
    app()
