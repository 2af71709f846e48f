"""Import time of Sterna beyond numpy, in fresh processes; numba's beside it."""

from __future__ import annotations

from common import fresh, options, show, write

CODE = """
import json, sys, time
start = time.perf_counter()
import numpy
middle = time.perf_counter()
exec(sys.argv[1])
end = time.perf_counter()
print(json.dumps({"numpy": (middle - start) * 1e3, "beyond": (end - middle) * 1e3, "modules": len(sys.modules)}))
"""


def main() -> None:
    """Measure and report."""
    given = options(__doc__ or "")
    names = (
        "import numpy",
        "import sterna",
        "from sterna import kernel, grid, to_device, synchronize",
        "import sterna.compiler",
        "import llvmlite.binding",
        "import numba",
    )
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(max(given.rounds, 5) * 2):
        for name in names:
            runs[name].append(fresh(CODE, name))
    results = {
        name: {"numpy_ms": min(r["numpy"] for r in found), "beyond_numpy_ms": min(r["beyond"] for r in found),
               "modules": found[0]["modules"]}
        for name, found in runs.items()
    }  # fmt: skip
    rows = [(name, r["numpy_ms"], r["beyond_numpy_ms"], r["modules"]) for name, r in results.items()]
    show("import, fresh process (ms)", ("statement", "numpy", "beyond numpy", "modules"), rows)
    write("imports", given.output, results)


if __name__ == "__main__":
    main()
