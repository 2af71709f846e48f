"""Random numbers in CPU kernels against NumPy's generators, one thread each: time for one number of an array."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("STERNA_NUM_THREADS", "1")

import numpy as np

import sterna
from common import options, paired, show, write

SIZE, DRAWS = 1 << 15, 32
random = sterna.random


@sterna.kernel
def uniform(out: Any) -> None:
    i = sterna.grid(1)
    for k in range(out.shape[1]):
        out[i, k] = random.uniform(out.dtype)


@sterna.kernel
def normal(out: Any) -> None:
    i = sterna.grid(1)
    for k in range(out.shape[1]):
        out[i, k] = random.normal(out.dtype)


@sterna.kernel
def integers(out: Any) -> None:
    i = sterna.grid(1)
    for k in range(out.shape[1]):
        out[i, k] = random.integers(0, 1000, out.dtype)


def _launch(kernel: Any, out: np.ndarray) -> Callable[[], None]:
    def work() -> None:
        kernel.over(SIZE)(out)
        sterna.synchronize()

    work()
    return work


def main() -> None:
    """Measure and report."""
    given = options(__doc__ or "")
    philox, pcg = np.random.Generator(np.random.Philox(1)), np.random.Generator(np.random.PCG64(1))
    count = SIZE * DRAWS
    results, rows = {}, []
    cases: list[tuple[Any, type, Callable[[Any], Callable[[], Any]]]] = [
        (uniform, np.float32, lambda g: lambda: g.random(count, np.float32)),
        (uniform, np.float64, lambda g: lambda: g.random(count)),
        (normal, np.float32, lambda g: lambda: g.standard_normal(count, np.float32)),
        (normal, np.float64, lambda g: lambda: g.standard_normal(count)),
        (integers, np.int32, lambda g: lambda: g.integers(0, 1000, count, np.int32)),
    ]
    for kernel, dtype, theirs in cases:
        ours = _launch(kernel, np.empty((SIZE, DRAWS), dtype))
        work = {"sterna": ours, "philox": theirs(philox), "pcg64": theirs(pcg)}
        best = {name: 1000 * us / count for name, us in paired(work, rounds=max(given.rounds, 7)).items()}
        name = f"{kernel.function.__name__} {np.dtype(dtype)}"
        results[name] = {f"{k}_ns": v for k, v in best.items()}
        rows.append((name, best["sterna"], best["philox"], best["pcg64"]))
    show("nanoseconds a number", ("numbers", "sterna", "NumPy Philox", "NumPy PCG64"), rows)
    write("random_numbers", given.output, results)


if __name__ == "__main__":
    main()
