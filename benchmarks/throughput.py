"""CPU kernels against numba ``prange`` on the same loops, same number of threads, results compared first.

Each library runs in processes of its own, in turn: numba's threads go on spinning for a while after a call, on a
processor that the other library then wants.  A round is one process of each; the ratio reported is the median over the
rounds of the ratio of their least times, which disturbances of the machine change least.  With one thread
(``STERNA_NUM_THREADS=1``) it is processor time that is measured.
"""

from __future__ import annotations

import os
import statistics
from typing import Any

from common import fresh, options, scratch, show, write
from suite.inputs import CASES

CODE = """
import importlib, json, sys, time
from suite.inputs import make_inputs
module, seconds = importlib.import_module("suite.with_" + sys.argv[1]), float(sys.argv[2])
clock = time.process_time if sys.argv[4] == "1" else time.perf_counter
found = {}
for case in sys.argv[3].split(","):
    inputs = make_inputs(case)
    launch = module.LAUNCH[case]
    for _ in range(8):
        launch(*inputs)
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = clock()
        launch(*inputs)
        times.append(clock() - start)
    found[case] = min(times) * 1e6
print(json.dumps(found))
"""
CHECK = """
import json
import numpy as np
from suite import with_numba, with_sterna
from suite.inputs import CASES, make_inputs
for case in CASES:
    ours, theirs = make_inputs(case, small=True), make_inputs(case, small=True)
    with_sterna.LAUNCH[case](*ours)
    with_numba.LAUNCH[case](*theirs)
    for mine, other in zip(ours, theirs):
        if isinstance(mine, np.ndarray) and case != "mandelbrot":
            np.testing.assert_allclose(mine, other, rtol=2e-3, atol=2e-3, err_msg=case)
        elif isinstance(mine, np.ndarray) and np.mean(mine != other) > 0.01:
            # a point on the boundary may escape a step earlier or later
            raise AssertionError(f"{case}: {np.mean(mine != other):.2%} of the points differ")
print(json.dumps({}))
"""
LIBRARIES = ("sterna", "numba")


def main() -> None:
    """Measure and report."""
    given = options(__doc__ or "")
    threads = os.environ.get("STERNA_NUM_THREADS") or str(len(os.sched_getaffinity(0)))
    with scratch() as folder:
        places = {"STERNA_CACHE_DIR": str(folder / "s"), "NUMBA_CACHE_DIR": str(folder / "n")}
        places |= {"STERNA_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}
        fresh(CHECK, **places)
        rounds: list[dict[str, dict[str, float]]] = []
        for number in range(max(given.rounds, 3) + 1):
            order = LIBRARIES if number % 2 else LIBRARIES[::-1]
            given_to = "0.4" if number else "0", ",".join(CASES), threads
            rounds.append({name: fresh(CODE, name, *given_to, **places) for name in order})
    results: dict[str, Any] = {}
    for case in CASES:
        best = {name: min(r[name][case] for r in rounds[1:]) for name in LIBRARIES}  # the first one compiled
        ratios = [r["numba"][case] / r["sterna"][case] for r in rounds[1:]]
        results[case] = {
            "sterna_us": best["sterna"], "numba_us": best["numba"], "speedup": statistics.median(ratios),
            "speedup_of_minima": best["numba"] / best["sterna"],
        }  # fmt: skip
    rows = [(case, *(float(x) for x in result.values())) for case, result in results.items()]
    header = ("kernel", "sterna µs", "numba µs", "numba ÷ sterna", "of the minima")
    show(f"CPU kernels, {threads} threads", header, rows)
    write(
        "throughput" if threads != "1" else "throughput_one_thread", given.output, {**results, "threads": int(threads)}
    )


if __name__ == "__main__":
    main()
