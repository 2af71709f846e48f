"""First launch from a store (own time), 64 records against 1, and reading a reference against a baked constant."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import sterna
from common import fresh, options, paired, scratch, show, write

FRESH = """
import json, sys, time
import numpy as np
start = time.perf_counter()
import sterna
imported = time.perf_counter()
import linking
defined = time.perf_counter()
x = np.ones(1000, np.float32)
times = {}
for name in ("one_record", "many_records", "plain"):
    kernel = getattr(linking, name)
    before = time.perf_counter()
    kernel.over(1000)(x)
    sterna.synchronize()
    times[name] = (time.perf_counter() - before) * 1e3
print(json.dumps({"import": (imported - start) * 1e3, "first": times, "compiles": sterna.stats()["compiles"],
                  "total": times["plain"]}))
"""

REFERENCE = sterna.Global(1.5, np.float32)
CONSTANT = np.float32(1.5)
TABLE = np.full(16, 1.5, np.float32)
NAMES = [f"G{k}" for k in range(64)]
globals().update({name: sterna.Global(float(k), np.float32) for k, name in enumerate(NAMES)})

_LINES = [f"    total += {name}" for name in NAMES]
_SOURCE = "\n".join(
    ["@sterna.kernel", "def many_records(x):", "    i = sterna.grid(1)", "    total = np.float32(0)", *_LINES,
     "    x[i] = total", ""]
)  # fmt: skip


def _define(source: str, name: str) -> Any:
    """Define a generated kernel; its text is registered as `linecache` wants, so that it can be compiled."""
    import linecache

    filename = f"<generated {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), globals())
    return globals()[name]


many_records = _define(_SOURCE, "many_records")


@sterna.kernel
def one_record(x):
    i = sterna.grid(1)
    x[i] = x[i] * REFERENCE


@sterna.kernel
def plain(x):
    i = sterna.grid(1)
    x[i] = x[i] * CONSTANT


@sterna.kernel
def read_global(x, y):
    i = sterna.grid(1)
    y[i] = x[i] * REFERENCE


@sterna.kernel
def read_constant(x, y):
    i = sterna.grid(1)
    y[i] = x[i] * CONSTANT


@sterna.kernel
def read_table(x, y):
    i = sterna.grid(1)
    y[i] = x[i] * TABLE[i % 16]


@sterna.kernel(strategy="bake")
def read_baked_table(x, y):
    i = sterna.grid(1)
    y[i] = x[i] * TABLE[i % 16]


def link_times(rounds: int) -> dict[str, float]:
    """Microseconds from a stored image to a loaded kernel, one record and 64."""
    from sterna.abi import arg_layout
    from sterna.runtime.link import link

    built = {name: kernel.specialize("float32[:]", over=1) for name, kernel in
             (("plain", plain), ("one_record", one_record), ("many_records", many_records))}  # fmt: skip
    device = sterna.device()

    def linker(name: str) -> Any:
        image, function = built[name].image, globals()[name].function
        layout = arg_layout(built[name]._found.types)
        return lambda: link(image, function, device, layout).unload()

    work = {name: linker(name) for name in built}
    for call in work.values():
        call()
    return paired(work, max(rounds, 10), repeat=20)


def read_times(rounds: int) -> dict[str, float]:
    """Microseconds of kernels that read a word, a table, and the same as constants."""
    x, y = np.ones(1 << 16, np.float32), np.zeros(1 << 16, np.float32)
    kernels = {"global": read_global, "constant": read_constant, "table": read_table, "baked table": read_baked_table}
    work = {name: partial(kernel.over(x.size), x, y) for name, kernel in kernels.items()}
    for call in work.values():
        call()
    return paired(work, max(rounds, 20), repeat=200)


def main() -> None:
    """Measure and report."""
    given = options(__doc__ or "")
    with scratch() as folder:
        runs = [fresh(FRESH, STERNA_CACHE_DIR=str(folder)) for _ in range(given.rounds * 2 + 1)][1:]
    if any(run["compiles"] for run in runs):
        raise SystemExit("a warm process compiled: its figures mean nothing")
    first = {name: min(run["first"][name] for run in runs) for name in runs[0]["first"]}
    links, reads = link_times(given.rounds), read_times(given.rounds)
    show("first launch from a store, fresh process (ms; in this order)", ("kernel", "ms"), list(first.items()))
    rows = [*links.items(), ("64 records ÷ 1", links["many_records"] / links["one_record"])]
    show("link (µs)", ("kernel", "µs"), rows)
    show("reading a reference, 64 Ki elements (µs)", ("read", "µs"), list(reads.items()))
    write("linking", given.output, {"first_launch_ms": first, "link_us": links, "read_us": reads})


if __name__ == "__main__":
    main()
