"""One process of the demo: ``python -m <package>.session FOLDER first|fresh``.

It reads ``picture.npy`` and ``order.json`` of FOLDER, develops, and writes ``<role>.npy``,
``<role>-counts.npy`` and ``<role>.json``.  The *fresh* process cannot import the compiler: an import hook refuses
it and llvmlite.  The hook is in place before Sterna is imported, which is why imports here are inside functions.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

__all__ = ["RefuseCompiler", "main"]

REFUSED = ("sterna.compiler", "sterna.targets.cpu.compiler", "llvmlite", "numba")


class RefuseCompiler(MetaPathFinder):
    """Import hook: no compiler can be imported, whether installed or not."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """Refuse the compiler, leave everything else to the other finders."""
        if any(fullname == name or fullname.startswith(f"{name}.") for name in REFUSED):
            raise ModuleNotFoundError(f"{fullname} is refused in this process", name=fullname)


def main(folder: Path, role: str) -> None:
    """Develop the picture of `folder` and write what came out, with times, counters and addresses."""
    if role == "fresh":
        sys.meta_path.insert(0, RefuseCompiler())
        ballast = bytearray(3 << 20)  # so that nothing can lie where it lay in the first process by chance
    import numpy as np

    start = time.perf_counter()
    import sterna

    imported = (time.perf_counter() - start) * 1e3
    from . import film, kernels
    from .develop import Stopwatch, develop

    order = json.loads((folder / "order.json").read_text(encoding="utf-8"))
    chosen, recipe = film.Film(order["film"]), film.Recipe(**order["recipe"])
    picture = np.load(folder / "picture.npy")
    report: dict[str, Any] = {"import_ms": imported, "compiler_ms": 0.0}
    if role == "first":
        report["compiler_ms"] = _load_compiler()
    else:
        sterna.require_precompiled()
    watch = Stopwatch(compiling=role == "first")
    developed = develop(picture, chosen, recipe, watch)
    if role == "first":
        report["difference"] = _check(picture, chosen, recipe, developed)
    else:
        del ballast
    np.save(folder / f"{role}.npy", developed.picture)
    np.save(folder / f"{role}-counts.npy", developed.counts)
    report |= {
        "kernels": list(kernels.__all__),
        "compile_ms": watch.compile_ms,
        "first_launch_ms": watch.first_launch_ms,
        "again_ms": watch.again_ms,
        "records": {name: len(compiled.relocations) for name, compiled in watch.compiled.items()},
        "addresses": _addresses(watch.compiled),
        "exposures": developed.exposures,
        "stats": sterna.stats(),
        "compiler_imported": any(name in sys.modules for name in REFUSED),
    }
    (folder / f"{role}.json").write_text(json.dumps(report), encoding="utf-8")


def _load_compiler() -> float:
    """Import the compiler, so that its import is not counted as the first kernel's compilation; milliseconds."""
    from sterna.targets.registry import target

    start = time.perf_counter()
    target().compiler()
    return (time.perf_counter() - start) * 1e3


def _check(picture: Any, chosen: Any, recipe: Any, developed: Any) -> dict[str, int]:
    """Largest difference of a level, and of a histogram count, to the NumPy reference."""
    import numpy as np

    from .reference import develop_reference, histogram_reference

    expected = develop_reference(picture, chosen, recipe, developed.exposures[1])
    level = np.abs(developed.picture.astype(int) - expected).max(initial=0)
    count = np.abs(developed.counts - histogram_reference(developed.picture)).max(initial=0)
    return {"level": int(level), "count": int(count)}


def _addresses(compiled: dict[str, Any]) -> dict[str, int]:
    """First word of every record that is an address: "kernel path" to the word this process delivered."""
    return {
        f"{name} {record.path}": kernel.words[record.slot][0]
        for name, kernel in compiled.items()
        for record in kernel.relocations
        if record.kind != "global"
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
