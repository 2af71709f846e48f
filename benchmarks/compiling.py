"""Cold compilation of each kernel in a process whose compiler is loaded and warmed up by another kernel.

Compiling waits for nothing and uses one thread: it is measured in processor time, which other processes disturb less.
"""

from __future__ import annotations

from typing import Any

from common import fresh, options, scratch, show, write
from suite.inputs import CASES
from suite.large import LINES

CODE = """
import json, time
import sterna
from suite.inputs import CASES, make_inputs
from suite.with_sterna import KERNELS

@sterna.kernel
def warm_up(x):
    x[sterna.grid(1)] = 0

start = time.process_time()
from sterna.targets.registry import target
target().compiler()
loaded = time.process_time()
warm_up.specialize("float32[:]", over=1)
ready = time.process_time()
times, sizes = {}, {}
for case in CASES:
    kernel, axes = KERNELS[case]
    inputs = make_inputs(case, small=True)
    before = time.process_time()
    built = kernel.specialize(*inputs, over=axes)
    times[case] = (time.process_time() - before) * 1e3
    sizes[case] = len(built.image.to_bytes())
from suite import large
kernel = large.kernel()
before = time.process_time()
built = kernel.specialize(*large.SIGNATURE, over=2)
times["large"], sizes["large"] = (time.process_time() - before) * 1e3, len(built.image.to_bytes())
print(json.dumps({"import": (loaded - start) * 1e3, "warm_up": (ready - loaded) * 1e3, "compile": times, "bytes": sizes,
                  "compiles": sterna.stats()["compiles"]}))
"""

STAGES = """
import json, time
from dataclasses import replace
import sterna
from sterna.compiler.frontend import build_module
from sterna.compiler.passes.lower_references import lower_references
from sterna.compiler.runtime_library import runtime_library
from sterna.overlays import tables_for
from sterna.source.captures import scan
from sterna.targets.cpu import compiler
from sterna.typespec import parse_type
from suite import large

@sterna.kernel
def warm_up(x):
    x[sterna.grid(1)] = 0

warm_up.specialize("float32[:]", over=1)
kernel, target = large.kernel(), sterna.device().target
options = kernel.options.with_(over=2, strategy="patch")
times, last = {}, time.process_time()

def stage(name):
    global last
    now = time.process_time()
    times[name], last = (now - last) * 1e3, now

captures = scan(kernel.function, tables=tables_for(target))
stage("captures")
module = build_module(captures, tuple(map(parse_type, large.SIGNATURE)), options, target)
stage("frontend")
lowered = lower_references(module, "patch", None)
lowered = replace(lowered, runtime=runtime_library(lowered, captures.tables, target))
text, _ = compiler.generate(lowered, target, options)
stage("passes and LLVM text")
machine = compiler._machine(target.arch, options.level)
parsed = compiler.parse_module(text)
stage("LLVM parser and verifier")
compiler._optimise(parsed, machine, options.level)
stage("LLVM optimiser")
machine.emit_object(parsed)
stage("LLVM code generator")
print(json.dumps(times))
"""

PROFILE = """
import cProfile, io, json, pstats
import sterna
from suite.inputs import make_inputs
from suite.with_sterna import KERNELS
KERNELS["saxpy"][0].specialize(*make_inputs("saxpy", small=True), over=1)
kernel, axes = KERNELS["black_scholes"]
inputs = make_inputs("black_scholes", small=True)
profile = cProfile.Profile()
profile.enable()
kernel.specialize(*inputs, over=axes)
profile.disable()
rows = {}
for (file, line, name), (_, calls, own, total, _) in pstats.Stats(profile).stats.items():
    at = file.replace("\\\\", "/").split("/sterna/")
    where = "sterna/" + at[1] if len(at) > 1 else file.rsplit("/", 1)[-1]
    rows[f"{where}:{name}"] = (total * 1e3, calls)
print(json.dumps(dict(sorted(rows.items(), key=lambda item: -item[1][0])[:25])))
"""


def main() -> None:
    """Measure and report."""
    given = options(__doc__ or "")
    runs: list[dict[str, Any]] = []
    with scratch() as folder:
        for k in range(given.rounds):
            runs.append(fresh(CODE, STERNA_CACHE_DIR=str(folder / str(k))))
        profile = fresh(PROFILE, STERNA_CACHE_DIR=str(folder / "profile"))
        staged = [fresh(STAGES, STERNA_CACHE_DIR=str(folder / "stages")) for _ in range(given.rounds)]
    results = {
        "import_ms": min(run["import"] for run in runs),
        "first_compilation_ms": min(run["warm_up"] for run in runs),
        "compile_ms": {case: min(run["compile"][case] for run in runs) for case in (*CASES, "large")},
        "large_lines": LINES,
        "large_stages_ms": {name: min(run[name] for run in staged) for name in staged[0]},
        "image_bytes": runs[0]["bytes"],
    }
    rows = [(case, results["compile_ms"][case], results["image_bytes"][case]) for case in (*CASES, "large")]
    show("cold compilation", ("kernel", "ms", "image bytes"), rows)
    print(f"importing the compiler: {results['import_ms']:.1f} ms")
    print(f"first compilation of a process: {results['first_compilation_ms']:.1f} ms")
    stages = list(results["large_stages_ms"].items())
    show(f"where a kernel of {LINES} lines with ten functions goes (ms)", ("stage", "ms"), stages)
    rows = [(name, total, calls) for name, (total, calls) in profile.items()]
    show("where black_scholes goes (profiled, so slower; cumulative ms)", ("function", "ms", "calls"), rows)
    write("compiling", given.output, results)


if __name__ == "__main__":
    main()
