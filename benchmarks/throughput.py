"""CPU kernels against numba ``prange`` on the same loops, same number of threads, results compared first."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from common import options, paired, show, write
from suite.inputs import CASES, make_inputs


def _check(case: str, ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> None:
    """Both implementations computed the same thing."""
    for mine, other in zip(ours, theirs, strict=True):
        if isinstance(mine, np.ndarray) and case != "mandelbrot":
            np.testing.assert_allclose(mine, other, rtol=2e-3, atol=2e-3, err_msg=case)
        elif isinstance(mine, np.ndarray) and np.mean(mine != other) > 0.01:
            # a point on the boundary may escape a step earlier or later
            raise AssertionError(f"{case}: {np.mean(mine != other):.2%} of the points differ")


def main() -> None:
    """Measure and report."""
    given = options(__doc__ or "")
    threads = str(len(os.sched_getaffinity(0)))
    os.environ.setdefault("STERNA_NUM_THREADS", threads)
    os.environ.setdefault("NUMBA_NUM_THREADS", threads)
    from suite import with_numba, with_sterna

    results, rows = {}, []
    for case in CASES:
        inputs: dict[str, tuple[Any, ...]] = {}
        work: dict[str, Callable[[], Any]] = {}
        for name, module in (("sterna", with_sterna), ("numba", with_numba)):
            inputs[name] = make_inputs(case)
            work[name] = partial(module.LAUNCH[case], *inputs[name])
            work[name]()
        _check(case, inputs["sterna"], inputs["numba"])
        best = paired(work, rounds=max(given.rounds, 7), repeat=3)
        results[case] = {
            "sterna_us": best["sterna"],
            "numba_us": best["numba"],
            "speedup": best["numba"] / best["sterna"],
        }
        rows.append((case, best["sterna"], best["numba"], best["numba"] / best["sterna"]))
        show(case, ("kernel", "sterna µs", "numba µs", "numba ÷ sterna"), rows[-1:])
    show(f"CPU kernels, {threads} threads", ("kernel", "sterna µs", "numba µs", "numba ÷ sterna"), rows)
    write("throughput", given.output, results)


if __name__ == "__main__":
    main()
