"""What all parts share: timing, fresh processes, facts of the machine, result files, tables."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["HERE", "compared", "fresh", "machine", "minimum", "options", "paired", "scratch", "show", "write"]

HERE = Path(__file__).resolve().parent
_ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
"""Bytecode is cached as in any installation, or import times would be those of parsing."""
_PACKAGES = ("sterna", "numpy", "llvmlite", "numba")


def options(description: str) -> argparse.Namespace:
    """Command-line options of a part."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of which the minimum counts")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="folder of the JSON result")
    return parser.parse_args()


def machine() -> dict[str, Any]:
    """Facts that a figure depends on; nothing that names the machine."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    return {
        "cpu": model,
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.system(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "date": time.strftime("%Y-%m-%d"),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def minimum(work: Callable[[], Any], rounds: int = 5, repeat: int = 1) -> float:
    """Least time of one call in microseconds, of `rounds` rounds of `repeat` calls."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeat):
            work()
        best = min(best, (time.perf_counter() - start) / repeat)
    return best * 1e6


def paired(work: dict[str, Callable[[], Any]], rounds: int = 5, repeat: int = 1) -> dict[str, float]:
    """`minimum` of several things, measured in turn, so that all see the same machine."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, call in work.items():
            best[name] = min(best[name], minimum(call, 1, repeat))
    return best


def compared(first: Callable[[], Any], second: Callable[[], Any], rounds: int) -> tuple[float, float, float]:
    """Two things in turn: least microseconds of each, and the median of first ÷ second over the rounds.

    What disturbs the machine disturbs both calls of a round, so the median ratio says more than that of the minima.
    """
    pairs = [(minimum(first, 1), minimum(second, 1)) for _ in range(rounds)]
    return min(a for a, _ in pairs), min(b for _, b in pairs), statistics.median(a / b for a, b in pairs)


def fresh(code: str, *args: str, **environment: str) -> dict[str, Any]:
    """Run `code` in a new interpreter; it prints one JSON object."""
    places = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        env={**_ENVIRONMENT, "PYTHONPATH": places, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"a measuring process failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder for stores and caches."""
    with tempfile.TemporaryDirectory(prefix="sterna-bench-") as name:
        yield Path(name)


def write(part: str, output: Path, results: dict[str, Any]) -> None:
    """Write ``<part>.json`` with the machine's facts."""
    output.mkdir(parents=True, exist_ok=True)
    data = {"part": part, "machine": machine(), "results": results}
    (output / f"{part}.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; floats with three digits."""
    text = [list(header)] + [[f"{v:.3g}" if isinstance(v, float) else str(v) for v in row] for row in rows]
    widths = [max(len(row[k]) for row in text) for k in range(len(header))]
    print(f"\n{title}")
    for row in text:
        print(
            "  ".join(
                cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
        )
