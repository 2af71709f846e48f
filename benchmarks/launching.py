"""Host time of a launch, and what checked indexing costs."""

from __future__ import annotations

import statistics
from functools import partial

import numpy as np

import sterna
from common import compared, fresh, options, paired, show, write


@sterna.kernel
def empty():
    pass


@sterna.kernel
def three(x, y, z):
    i = sterna.grid(1)
    z[i] = x[i] + y[i]


@sterna.kernel
def copy_checked(source, target):
    i = sterna.grid(1)
    target[i] = source[i]


@sterna.kernel(boundscheck=False)
def copy_unchecked(source, target):
    i = sterna.grid(1)
    target[i] = source[i]


@sterna.kernel
def gather_checked(source, index, target):
    i = sterna.grid(1)
    target[i] = source[index[i]]


@sterna.kernel(boundscheck=False)
def gather_unchecked(source, index, target):
    i = sterna.grid(1)
    target[i] = source[index[i]]


@sterna.kernel
def blur_checked(source, target):
    i, j = sterna.grid(2)
    total = np.float32(0)
    for k in range(9):
        total += source[i, j + k]
    target[i, j] = total


@sterna.kernel(boundscheck=False)
def blur_unchecked(source, target):
    i, j = sterna.grid(2)
    total = np.float32(0)
    for k in range(9):
        total += source[i, j + k]
    target[i, j] = total


def overhead(rounds: int) -> dict[str, float]:
    """Microseconds of one launch, synchronised once a round."""
    x, y, z = (np.ones(4, np.float32) for _ in range(3))
    a, b, c = (sterna.to_device(np.ones(4, np.float32)) for _ in range(3))
    bound = three[1, 4]
    work = {
        "no arguments": lambda: empty[1, 1](),
        "three NumPy arrays": lambda: three[1, 4](x, y, z),
        "three NumPy arrays, launcher kept": lambda: bound(x, y, z),
        "three Sterna arrays": lambda: three[1, 4](a, b, c),
        "over(4), three NumPy arrays": lambda: three.over(4)(x, y, z),
        "synchronize": sterna.synchronize,
    }
    for call in work.values():
        call()
    found = paired(work, rounds, repeat=2000)
    sterna.synchronize()
    return found


def checks(rounds: int) -> dict[str, dict[str, float]]:
    """Checked against unchecked indexing, microseconds and ratio."""
    n = 1 << 20
    rng = np.random.default_rng(3)
    line, out = rng.random(n, dtype=np.float32), np.zeros(n, np.float32)
    index = rng.integers(0, n, n)
    wide, square = rng.random((1024, 1032), dtype=np.float32), np.zeros((1024, 1024), np.float32)
    cases = {
        "copy, 1 M": (copy_checked.over(n), copy_unchecked.over(n), (line, out)),
        "copy, 1000 blocks of 512": (copy_checked[1000, 512], copy_unchecked[1000, 512], (line, out)),
        "gather, 1 M": (gather_checked.over(n), gather_unchecked.over(n), (line, index, out)),
        "9-point row sum, 1 M": (blur_checked.over(square.shape), blur_unchecked.over(square.shape), (wide, square)),
    }
    results = {}
    for name, (checked, unchecked, args) in cases.items():
        work = partial(checked, *args), partial(unchecked, *args)
        for call in work:
            call()
        sterna.synchronize()
        first, second, ratio = compared(*work, max(rounds, 20) * 10)
        results[name] = {"checked": first, "unchecked": second, "ratio": ratio}
    sterna.synchronize()
    return results


CHECKS = "import json, sys, launching; print(json.dumps(launching.checks(int(sys.argv[1]))))"


def checks_in_processes(rounds: int) -> dict[str, dict[str, float]]:
    """`checks` in fresh processes, whose arrays lie elsewhere in memory: least times, and the median of the ratios."""
    runs = [fresh(CHECKS, str(rounds)) for _ in range(max(rounds, 7))]
    results = {}
    for name in runs[0]:
        found = [run[name] for run in runs]
        results[name] = {key: min(one[key] for one in found) for key in ("checked", "unchecked")}
        results[name]["ratio"] = statistics.median(one["ratio"] for one in found)
    return results


def main() -> None:
    """Measure and report."""
    given = options(__doc__ or "")
    launches, indexing = overhead(given.rounds), checks_in_processes(given.rounds)
    show("host time of a launch (µs)", ("launch", "µs"), list(launches.items()))
    rows = [(name, r["checked"], r["unchecked"], r["ratio"]) for name, r in indexing.items()]
    show("indexing (µs)", ("kernel", "checked", "unchecked", "ratio"), rows)
    write("launching", given.output, {"launch_us": launches, "indexing": indexing})


if __name__ == "__main__":
    main()
