"""CPU kernels against numba ``prange`` on the same loops, same number of threads, results compared first.

Both libraries run in one process and on the same arrays, in turns: where arrays lie in physical memory changes the time
of one and the same code by a factor of up to two from process to process.  Between turns there is a pause, since
numba's threads go on spinning for a while after a call, on a processor that the other library then wants.  The ratio
reported is the median, over the turns of several processes, of the ratio of medians in a turn.  With one thread
(``STERNA_NUM_THREADS=1``) it is processor time that is measured.
"""

from __future__ import annotations

import os
import statistics
from typing import Any

from common import fresh, options, scratch, show, write
from suite.inputs import CASES

CODE = """
import json, statistics, sys, time
from suite import with_numba, with_sterna
from suite.inputs import make_inputs
seconds, turns = float(sys.argv[1]), int(sys.argv[2])
clock = time.process_time if sys.argv[4] == "1" else time.perf_counter
libraries = {"sterna": with_sterna.LAUNCH, "numba": with_numba.LAUNCH}

def turn(launch, inputs):
    for _ in range(3):
        launch(*inputs)
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = clock()
        launch(*inputs)
        times.append((clock() - start) * 1e6)
    time.sleep(0.03)
    return statistics.median(times), min(times)

found = {}
for case in sys.argv[3].split(","):
    inputs = make_inputs(case)
    for table in libraries.values():
        turn(table[case], inputs)
    found[case] = [
        {name: turn(libraries[name][case], inputs) for name in sorted(libraries, reverse=bool(number % 2))}
        for number in range(turns)
    ]
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
_SECONDS, _TURNS = 0.1, 8


def main() -> None:
    """Measure and report."""
    given = options(__doc__ or "")
    threads = os.environ.get("STERNA_NUM_THREADS") or str(len(os.sched_getaffinity(0)))
    with scratch() as folder:
        places = {"STERNA_CACHE_DIR": str(folder / "s"), "NUMBA_CACHE_DIR": str(folder / "n")}
        places |= {"STERNA_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}
        fresh(CHECK, **places)
        fresh(CODE, "0", "1", ",".join(CASES), threads, **places)  # compiles
        processes = [
            fresh(CODE, str(_SECONDS), str(_TURNS), ",".join(CASES), threads, **places) for _ in range(given.rounds)
        ]
    results: dict[str, Any] = {}
    for case in CASES:
        turns = [turn for process in processes for turn in process[case]]
        best = {name: min(turn[name][1] for turn in turns) for name in ("sterna", "numba")}
        ratios = [turn["numba"][0] / turn["sterna"][0] for turn in turns]
        quarters = statistics.quantiles(ratios, n=4)
        results[case] = {
            "sterna_us": best["sterna"], "numba_us": best["numba"], "speedup": statistics.median(ratios),
            "quarter": quarters[0], "three_quarters": quarters[2], "speedup_of_minima": best["numba"] / best["sterna"],
        }  # fmt: skip
    rows = [(case, *(float(x) for x in result.values())) for case, result in results.items()]
    header = ("kernel", "sterna µs", "numba µs", "numba ÷ sterna", "a quarter below", "above", "of the minima")
    show(f"CPU kernels, {threads} threads", header, rows)
    write(
        "throughput" if threads != "1" else "throughput_one_thread", given.output, {**results, "threads": int(threads)}
    )


if __name__ == "__main__":
    main()
