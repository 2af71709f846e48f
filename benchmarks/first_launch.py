"""First launch in a fresh process: cold (empty store) and warm, Sterna against numba ``cache=True``.

Every process imports one implementation, makes small inputs, and times the first launch of each kernel to
completion, by the clock and in processor time of the process, which waiting for other processes does not change.  Three
implementations take turns: Sterna, numba with ``parallel=True``, numba serial.  Import times are
reported beside, not in, the launch times.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from common import fresh, options, scratch, show, write
from suite.inputs import CASES

CODE = """
import json, sys, time
import numpy
from suite.inputs import CASES, make_inputs
start = time.perf_counter()
__import__(sys.argv[1])
imported = time.perf_counter()
module = __import__("suite." + sys.argv[2], fromlist=["LAUNCH"])
ready = time.perf_counter()
times, work = {}, 0.0
for case in CASES:
    inputs = make_inputs(case, small=True)
    before, busy = time.perf_counter(), time.process_time()
    module.LAUNCH[case](*inputs)
    times[case] = (time.perf_counter() - before) * 1e3
    work += (time.process_time() - busy) * 1e3
compiles = None
if sys.argv[1] == "sterna":
    import sterna
    compiles = sterna.stats()["compiles"]
print(json.dumps({"import": (imported - start) * 1e3, "define": (ready - imported) * 1e3, "first": times,
                  "work": work, "compiles": compiles}))
"""

PEERS = {
    "sterna": ("sterna", "with_sterna", {}),
    "numba parallel": ("numba", "with_numba", {}),
    "numba serial": ("numba", "with_numba", {"SUITE_NUMBA_SERIAL": "1"}),
}


def _run(peer: str, cache: Path) -> dict[str, Any]:
    package, module, environment = PEERS[peer]
    places = {"STERNA_CACHE_DIR": str(cache), "NUMBA_CACHE_DIR": str(cache)}
    return fresh(CODE, package, module, **places, **environment)


def _best(runs: list[dict[str, Any]]) -> dict[str, Any]:
    first = {case: min(run["first"][case] for run in runs) for case in CASES}
    starts = [run["import"] + run["define"] + run["first"][CASES[0]] for run in runs]
    return {
        "start_ms": min(starts), "import_ms": min(run["import"] for run in runs),
        "define_ms": min(run["define"] for run in runs),
        "first_ms": first, "very_first_ms": first[CASES[0]], "sum_ms": sum(first.values()),
        "processor_ms": min(run["work"] for run in runs),
        "compiles": runs[-1]["compiles"],
    }  # fmt: skip


def main() -> None:
    """Measure and report."""
    given = options(__doc__ or "")
    rounds = max(given.rounds // 2, 2)
    cold: dict[str, list[dict[str, Any]]] = {peer: [] for peer in PEERS}
    warm: dict[str, list[dict[str, Any]]] = {peer: [] for peer in PEERS}
    with scratch() as folder:
        for _ in range(rounds):
            for k, peer in enumerate(PEERS):
                cache = folder / f"cache{k}"
                shutil.rmtree(cache, ignore_errors=True)
                cold[peer].append(_run(peer, cache))
        for _ in range(given.rounds * 2):
            for k, peer in enumerate(PEERS):
                warm[peer].append(_run(peer, folder / f"cache{k}"))
    results = {kind: {peer: _best(runs) for peer, runs in found.items()} for kind, found in
               (("cold", cold), ("warm", warm))}  # fmt: skip
    for kind, found in results.items():
        ours = found["sterna"]["first_ms"]
        rows = [
            (case, *(found[peer]["first_ms"][case] for peer in PEERS),
             *(found[peer]["first_ms"][case] / ours[case] for peer in PEERS if peer != "sterna"))
            for case in CASES
        ]  # fmt: skip
        sums = [found[peer]["sum_ms"] for peer in PEERS]
        rows.append(("sum", *sums, *(other / sums[0] for other in sums[1:])))
        work = [found[peer]["processor_ms"] for peer in PEERS]
        rows.append(("processor time", *work, *(other / work[0] for other in work[1:])))
        starts = [found[peer]["start_ms"] for peer in PEERS]
        rows.append(("import to first result", *starts, *(other / starts[0] for other in starts[1:])))
        show(f"first launch, fresh process, {kind} (ms)", ("kernel", *PEERS, "× parallel", "× serial"), rows)
    if results["warm"]["sterna"]["compiles"]:
        raise SystemExit("the warm processes compiled: their figures mean nothing")
    write("first_launch", given.output, results)


if __name__ == "__main__":
    main()
