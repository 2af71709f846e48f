"""Kernels from text: real modules with real files, so that their source can be found."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["write_module"]


def write_module(folder: Path, source: str) -> ModuleType:
    """Write `source` to a file of `folder` and import it; the module's name comes from the text alone."""
    name = f"generated_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
