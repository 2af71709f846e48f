"""``sterna demo``: the darkroom developed twice, in a process that compiles and in a fresh one that cannot.

Both are real processes with a store of their own in a temporary folder, so that cold is cold; this one prepares
the picture, starts them, compares what they wrote, and reports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["DemoError", "run_demo"]

_TIMEOUT = 600


class DemoError(Exception):
    """Why the demo could not run, or what it found wrong."""


@dataclass(frozen=True)
class Package:
    """The example package: its import name, and the folder to put on the path (empty when installed)."""

    name: str
    folder: str

    def module(self, name: str) -> Any:
        """Import one of its modules."""
        if self.folder and self.folder not in sys.path:
            sys.path.insert(0, self.folder)
        return import_module(f"{self.name}.{name}")


def find_darkroom() -> Package:
    """The installed example package, or the checkout's.

    Raises
    ------
    DemoError
        When neither is there.
    """
    if find_spec("sterna_examples") is not None:
        return Package("sterna_examples.darkroom", "")
    for parent in Path(__file__).resolve().parents:
        if (parent / "examples" / "darkroom" / "kernels.py").is_file():
            return Package("darkroom", str(parent / "examples"))
    raise DemoError("the example package is not installed; install with: pip install 'sterna[demo]'")


def run_demo(picture: Path | None, output: Path, monochrome: bool, console: Console) -> None:
    """Run the demo and write ``picture.png``, ``histogram.png`` and ``report.json`` to `output`.

    Parameters
    ----------
    picture : Path, optional
        Any image; the default is the portrait in matplotlib's sample data.
    output : Path
        Folder for the results, made if need be.
    monochrome : bool
        Which film.
    console : Console
        Where to print.

    Raises
    ------
    DemoError
        When something is missing, a process fails, or a result is not what it must be.
    """
    package = find_darkroom()
    try:
        pictures = package.module("pictures")
        source = picture or pictures.default_picture()
        pixels = pictures.read_picture(source)
    except ModuleNotFoundError as error:
        raise DemoError(f"the demo needs {error.name}; install it with: pip install 'sterna[demo]'") from None
    except OSError as error:
        raise DemoError(f"cannot read the picture {picture}: {error}") from None
    console.print(f"Developing {source.name}, {pixels.shape[1]} by {pixels.shape[0]} pixels, on the CPU …")
    with tempfile.TemporaryDirectory(prefix="sterna-demo-") as name:
        folder = Path(name)
        _prepare(folder, pixels, monochrome)
        first = _session(package, folder, "first")
        fresh = _session(package, folder, "fresh")
        _compare(folder, first, fresh)
        _write(pictures, folder, pixels, output)
    (output / "report.json").write_text(json.dumps({"first": first, "fresh": fresh}, indent=2), encoding="utf-8")
    _report(first, fresh, console)
    console.print(f"Written to {output}: picture.png, histogram.png, report.json")


def _prepare(folder: Path, pixels: Any, monochrome: bool) -> None:
    import numpy as np

    np.save(folder / "picture.npy", pixels)
    order: dict[str, Any] = {"film": "monochrome" if monochrome else "colour", "recipe": {}}
    (folder / "order.json").write_text(json.dumps(order), encoding="utf-8")


def _session(package: Package, folder: Path, role: str) -> dict[str, Any]:
    """Run one process of the demo to its end and read its report."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STERNA_")}
    environment["STERNA_CACHE_DIR"] = str(folder / "store")
    paths = [package.folder, str(Path(__file__).resolve().parents[2]), environment.get("PYTHONPATH", "")]
    if package.folder:  # run from a checkout: the children need the same places on their path
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", f"{package.name}.session", str(folder), role],
        env=environment, capture_output=True, text=True, timeout=_TIMEOUT, check=False,
    )  # fmt: skip
    if done.returncode:
        raise DemoError(f"the {role} process failed (exit code {done.returncode}):\n{done.stderr.strip()}")
    report: dict[str, Any] = json.loads((folder / f"{role}.json").read_text(encoding="utf-8"))
    return report | {"process_ms": (time.perf_counter() - start) * 1e3}


def _compare(folder: Path, first: dict[str, Any], fresh: dict[str, Any]) -> None:
    """Everything the demo claims, checked."""
    same = (folder / "first.npy").read_bytes() == (folder / "fresh.npy").read_bytes()
    counted = (folder / "first-counts.npy").read_bytes() == (folder / "fresh-counts.npy").read_bytes()
    claims = {
        "the fresh process made another picture": not (same and counted),
        "the fresh process compiled something": fresh["stats"]["compiles"] != 0 or fresh["compiler_imported"],
        "the first process did not compile every kernel just once": first["stats"]["compiles"] != len(first["kernels"]),
        "the picture differs from the NumPy reference": first["difference"]["level"] > 1,
        "the histogram differs from the NumPy reference": first["difference"]["count"] != 0,
        "a captured thing lay at the same address in both processes": any(
            fresh["addresses"][name] == address for name, address in first["addresses"].items()
        ),
        "the exposure was not changed between the launches": first["exposures"][0] == first["exposures"][1],
    }
    wrong = [claim for claim, is_wrong in claims.items() if is_wrong]
    if wrong:
        raise DemoError("; ".join(wrong))


def _write(pictures: Any, folder: Path, pixels: Any, output: Path) -> None:
    import numpy as np

    output.mkdir(parents=True, exist_ok=True)
    before = np.stack([np.bincount(pixels[..., channel].ravel(), minlength=256) for channel in range(3)])
    pictures.write_picture(np.load(folder / "fresh.npy"), output / "picture.png")
    pictures.plot_histogram(before, np.load(folder / "fresh-counts.npy"), output / "histogram.png")


def _report(first: dict[str, Any], fresh: dict[str, Any], console: Console) -> None:
    table = Table(title="kernels", title_justify="left")
    table.add_column("kernel")
    for heading in ("cold:\ncompile, ms", "warm: first\nlaunch, ms", "launched\nagain, ms", "records\nrelocated"):
        table.add_column(heading, justify="right")
    times = (first["compile_ms"], fresh["first_launch_ms"], fresh["again_ms"])
    records = fresh["records"]
    for name in records:
        table.add_row(name, *(f"{ms[name]:.1f}" for ms in times), str(records[name]))
    table.add_row("all", *(f"{sum(ms.values()):.1f}" for ms in times), str(sum(records.values())), style="bold")
    console.print(table)
    moved = Table(title="addresses", title_justify="left")
    for heading in ("captured", "first process", "fresh process"):
        moved.add_column(heading, overflow="fold")
    for name, address in first["addresses"].items():
        moved.add_row(name, hex(address), hex(fresh["addresses"][name]))
    console.print(moved)
    console.print(
        f"First process: {first['stats']['compiles']} compilations; importing the compiler took "
        f"{first['compiler_ms']:.0f} ms more. Fresh process: no compilation, its compiler cannot be imported."
    )
    before, after = first["exposures"]
    console.print(f"Exposure changed from {before:.2f} to {after:.2f} between two launches without compiling.")
    difference = first["difference"]["level"]
    console.print(f"Both pictures are equal to the byte; the largest difference to NumPy is {difference} of 255.")
