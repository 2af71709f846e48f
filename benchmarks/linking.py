"""First launch from a store (own time), 64 records against 1, and reading a reference against a baked constant."""

from __future__ import annotations

import time
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
times, work = {}, {}
for name in ("one_record", "many_globals", "plain"):
    kernel = getattr(linking, name)
    before, busy = time.perf_counter(), time.process_time()
    kernel.over(1000)(x)
    sterna.synchronize()
    times[name], work[name] = (time.perf_counter() - before) * 1e3, (time.process_time() - busy) * 1e3
print(json.dumps({"import": (imported - start) * 1e3, "first": times, "work": work,
                  "compiles": sterna.stats()["compiles"]}))
"""

REFERENCE = sterna.Global(1.5, np.float32)
CONSTANT = np.float32(1.5)
TABLE = np.full(16, 1.5, np.float32)
MANY = 64
globals().update({f"G{k}": sterna.Global(float(k), np.float32) for k in range(MANY)})
globals().update({f"O{k}": object() for k in range(MANY)})

_GLOBALS = "\n".join(
    ["@sterna.kernel", "def many_globals(x):", "    i = sterna.grid(1)", "    total = np.float32(0)",
     *(f"    total += G{k}" for k in range(MANY)), "    x[i] = total", ""]
)  # fmt: skip
_OBJECTS = "\n".join(
    ["@sterna.kernel", "def many_objects(words):", *(f"    words[{k}] = O{k}" for k in range(MANY)), ""]
)


def _define(source: str, name: str) -> Any:
    """Define a generated kernel; its text is registered as `linecache` wants, so that it can be compiled."""
    import linecache

    filename = f"<generated {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), globals())
    return globals()[name]


many_globals = _define(_GLOBALS, "many_globals")
many_objects = _define(_OBJECTS, "many_objects")


@sterna.kernel
def one_record(x):
    i = sterna.grid(1)
    x[i] = x[i] * REFERENCE


@sterna.kernel
def one_object(words):
    words[0] = O0  # noqa: F821 - made above


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
    """Microseconds from an image in memory to a loaded kernel: no record, one, and `MANY` of a kind."""
    kernels = {"no record": (plain, "float32[:]"), "1 object": (one_object, "uint64[:]"),
               f"{MANY} objects": (many_objects, "uint64[:]"), "1 global": (one_record, "float32[:]"),
               f"{MANY} globals": (many_globals, "float32[:]")}  # fmt: skip
    work = {name: _linker(kernel, spelling) for name, (kernel, spelling) in kernels.items()}
    best = dict.fromkeys(work, float("inf"))
    for _ in range(max(rounds, 10) * 20):
        for name, call in work.items():
            start = time.perf_counter()
            loaded = call()
            best[name] = min(best[name], (time.perf_counter() - start) * 1e6)
            loaded.unload()
    return best


def _linker(kernel: Any, spelling: str) -> Any:
    """What dispatch does once it has found the image: resolve every record, load, deliver."""
    from sterna.abi import arg_layout
    from sterna.relocation.resolve import resolve_manifest
    from sterna.runtime.link import link
    from sterna.source.captures import scan
    from sterna.typespec import parse_type

    image, function, device = kernel.specialize(spelling, over=1).image, kernel.function, sterna.device()
    layout, captures = arg_layout((parse_type(spelling),)), scan(kernel.function)

    def call() -> Any:
        resolution = resolve_manifest(image.manifest, function, device, image.name, captures.values())
        return link(image, function, device, layout, resolution)

    return call


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
        runs = [fresh(FRESH, STERNA_CACHE_DIR=str(folder)) for _ in range(given.rounds * 4 + 1)][1:]
    if any(run["compiles"] for run in runs):
        raise SystemExit("a warm process compiled: its figures mean nothing")
    first, work = ({name: min(run[kind][name] for run in runs) for name in runs[0][kind]} for kind in ("first", "work"))
    links, reads = link_times(given.rounds), read_times(given.rounds)
    table = [(name, first[name], work[name]) for name in first]
    show("first launch from a store, fresh process (ms; in this order)", ("kernel", "clock", "processor"), table)
    ratios = [(f"{MANY} ÷ 1 {kind}", links[f"{MANY} {kind}s"] / links[f"1 {kind}"]) for kind in ("object", "global")]
    rows = [*links.items(), *ratios]
    show("link (µs)", ("kernel", "µs"), rows)
    show("reading a reference, 64 Ki elements (µs)", ("read", "µs"), list(reads.items()))
    write(
        "linking",
        given.output,
        {"first_launch_ms": first, "first_launch_processor_ms": work, "link_us": links, "read_us": reads},
    )


if __name__ == "__main__":
    main()
