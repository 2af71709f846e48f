"""The frontend: a Python function and argument types become typed kernel IR.

First station of compilation (`docs/architecture.md`).  It reads the syntax trees that `sterna.source` located and
the captures that it scanned, specialises every function that device code reaches, and gives a module at
stage ``typed``; whatever it does not understand it refuses, with the user's line.
"""

from __future__ import annotations

from sterna.compiler.frontend.build import build_function, build_module

__all__ = ["build_function", "build_module"]
