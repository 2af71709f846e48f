"""Kernel times on CUDA: references by `patch` and `bake`, checked and unchecked indexing, volumerhs and nvcc."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sterna
from common import options, scratch, show, write
from sterna.types import LiteralType
from suite import volumerhs
from suite.on_cuda import SUITE, device, event_time, nvcc_cubin, tool

ELEMENTS = 240_000
SIZE = 1 << 26
GAIN = sterna.Global(1.5, np.float32)
TABLE = np.full(32, 1.5, np.float32)
BOUNDS: tuple[tuple[int, ...], ...] = ((25,), (25, 20), (25, 24), (25, 28), (25, 32))
AS_NVCC: dict[str, Any] = {"boundscheck": False, "noalias": True, "contract": True}
BUILDS: dict[str, tuple[str, dict[str, Any]]] = {
    "": ("asserted", AS_NVCC),
    " fast": ("asserted", {"boundscheck": False, "noalias": True, "fastmath": True}),
    " that may alias": ("asserted", {"boundscheck": False, "contract": True}),
    " exact": ("asserted", {"boundscheck": False}),
    " checked": ("asserted", {**AS_NVCC, "boundscheck": True}),
    " of any shapes": ("any", AS_NVCC),
    " of any shapes, checked": ("any", {**AS_NVCC, "boundscheck": True}),
}
"""Sterna's builds of volumerhs: what is said of the shapes, and options."""


def _scaled(x, y):
    i = sterna.grid(1)
    y[i] = x[i] * GAIN + TABLE[3]


def _copied(x, y):
    i = sterna.grid(1)
    y[i] = x[i]


def _stencil(x, y):
    i = sterna.grid(1)
    n = x.shape[0]
    if 0 < i < n - 1:
        y[i] = 0.25 * x[i - 1] + 0.5 * x[i] + 0.25 * x[i + 1]


def _gathered(x, y, at):
    i = sterna.grid(1)
    y[i] = x[at[i]]


def _summed(x, y):
    i = sterna.grid(1)
    total = np.float32(0)
    for k in range(x.shape[1]):
        total += x[i, k]
    y[i] = total


def _pairs(gpu: Any) -> dict[str, dict[str, float]]:
    """The same kernel under two options, measured in turn."""
    rng = np.random.default_rng(1)
    x, y = sterna.to_device(rng.random(SIZE, np.float32), gpu), sterna.zeros(SIZE, np.float32, gpu)
    at = sterna.to_device(rng.integers(0, SIZE, SIZE), gpu)
    wide, rows = (
        sterna.to_device(rng.random((SIZE // 64, 64), np.float32), gpu),
        sterna.zeros(SIZE // 64, np.float32, gpu),
    )
    found = {}
    work: dict[str, tuple[Any, tuple[Any, ...], int]] = {
        "copy": (_copied, (x, y), SIZE), "stencil": (_stencil, (x, y), SIZE), "gather": (_gathered, (x, y, at), SIZE),
        "row sums": (_summed, (wide, rows), SIZE // 64),
    }  # fmt: skip
    for name, (function, args, n) in work.items():
        found[name] = _turns({
            "unchecked": sterna.kernel(boundscheck=False)(function), "checked": sterna.kernel(function),
        }, args, n)  # fmt: skip
    found["reference"] = _turns({
        "bake": sterna.kernel(strategy="bake")(_scaled), "patch": sterna.kernel(_scaled),
        "table": sterna.kernel(strategy="table")(_scaled),
    }, (x, y), SIZE)  # fmt: skip
    small = (x[:4096], y[:4096])
    found["reference, small"] = _turns({
        "bake": sterna.kernel(strategy="bake")(_scaled), "patch": sterna.kernel(_scaled),
        "table": sterna.kernel(strategy="table")(_scaled),
    }, small, 4096)  # fmt: skip
    return found


def _turns(kernels: dict[str, Any], args: tuple[Any, ...], n: int, rounds: int = 3) -> dict[str, float]:
    best = dict.fromkeys(kernels, float("inf"))
    for _ in range(rounds):
        for name, kernel in kernels.items():
            best[name] = min(best[name], event_time(lambda k=kernel: k.over(n)(*args)))  # type: ignore[misc]
    return best


def _raw_launch(gpu: Any, cubin: Path, arrays: list[Any], gravity: float) -> Callable[[], None]:
    """Launches of a function made by nvcc, through the driver."""
    from sterna.targets.cuda.memory import new_handle

    cu = gpu.context.enter()
    module = new_handle(cu.cuModuleLoadDataEx, cubin.read_bytes(), 0, None, None)
    function = new_handle(cu.cuModuleGetFunction, module, b"volumerhs")
    rhs, q, vgeo, d = (ctypes.c_uint64(a.address) for a in arrays)
    values = (rhs, q, vgeo, ctypes.c_float(gravity), d)
    params = (ctypes.c_void_p * 5)(*(ctypes.addressof(v) for v in values))
    return lambda: (cu.cuLaunchKernel(function, ELEMENTS, 1, 1, 5, 5, 1, 0, 0, params, None), values)[1]  # type: ignore


def _volumerhs(gpu: Any, folder: Path) -> dict[str, float]:
    """Microseconds of each build; results of the first elements are compared first."""
    rhs, q, vgeo, gravity, d = volumerhs.inputs(ELEMENTS)
    there = [sterna.to_device(a, gpu) for a in (rhs, q, vgeo)]
    d_there = sterna.to_device(d, gpu)
    found: dict[str, float] = {}
    results: dict[str, np.ndarray] = {}

    def measure(name: str, launch: Callable[[], Any]) -> None:
        there[0].fill(0)
        launch()
        results[name] = there[0][:1000].copy_to_host()
        found[name] = event_time(launch, 5, 3)

    for label, opts in (("", ()), (" fast", ("--use_fast_math",)), (" that may alias", ("-D__restrict__=",))):
        for bounds in BOUNDS:
            source = folder / f"volumerhs{label.replace(' ', '_')}{'_'.join(map(str, bounds))}.cu"
            text = (SUITE / "volumerhs.cu").read_text()
            source.write_text(
                text.replace("__launch_bounds__(25)", f"__launch_bounds__({', '.join(map(str, bounds))})")
            )
            cubin = nvcc_cubin(folder, source, gpu.target.arch, *opts)
            if cubin is not None:
                measure(
                    f"nvcc{label} {bounds}",
                    _raw_launch(gpu, cubin, [there[0], there[1], there[2], d_there], float(gravity)),
                )
    args = (*there, gravity, d_there)
    for label, (shapes, chosen) in BUILDS.items():
        for bounds in BOUNDS:
            kernel = sterna.kernel(launch_bounds=bounds, **chosen)(volumerhs.volumerhs)
            launcher = kernel[ELEMENTS, (5, 5)]
            name = f"sterna{label} {bounds}"
            measure(name, lambda k=launcher, s=shapes: k(*args, s))  # type: ignore[misc]
            compiled = kernel.specialize(*args, LiteralType(shapes), device=gpu)
            print(
                f"{name}: {compiled.registers} registers, {compiled.local_bytes} bytes of local memory, "
                f"{found[name]:.0f} us"
            )
            (folder / f"{name.replace(' ', '_')}.cubin").write_bytes(compiled.image.payloads["cubin"])
    reference = next(iter(results.values()))
    for name, values in results.items():
        error = float(np.max(np.abs(values - reference)) / np.max(np.abs(reference)))
        if not error < 1e-4:
            print(f"{name} differs from the first by {error:.1e}")
    return found


def _operations(cubin: Path) -> dict[str, int]:
    """How often each machine instruction is in a cubin, modifiers left out; empty without nvdisasm."""
    program = tool("nvdisasm")
    if program is None:
        return {}
    text = subprocess.run([program, "-c", str(cubin)], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9]*)", text, re.MULTILINE)
    return dict(Counter(names).most_common())


def _compare_code(folder: Path, found: dict[str, float]) -> dict[str, dict[str, int]]:
    """Machine instructions of the fastest build of nvcc and of each of Sterna's."""
    best: dict[str, str] = {}
    for name in sorted(found, key=lambda n: found[n]):
        best.setdefault(name.split(" (")[0], name)
    result = {}
    for kind, name in best.items():
        bounds = "_".join(re.findall(r"\d+", name.split(" (")[1]))
        pattern = f"volumerhs{bounds}.cubin" if kind == "nvcc" else f"{name.replace(' ', '_')}.cubin"
        for cubin in folder.glob(pattern):
            result[name] = _operations(cubin)
    return result


def main() -> None:
    """Measure and report."""
    given = options(__doc__ or "")
    gpu = device()
    results: dict[str, Any] = {"pairs": _pairs(gpu)}
    names = list(dict.fromkeys(n for times in results["pairs"].values() for n in times))
    rows = [[k, *(times.get(n, "") for n in names)] for k, times in results["pairs"].items()]
    show("Kernel time, us", ["", *names], rows)
    with scratch() as folder:
        results["volumerhs"] = _volumerhs(gpu, folder)
        results["instructions"] = _compare_code(folder, results["volumerhs"])
    show("volumerhs, us", ["build", "us"], [[k, v] for k, v in results["volumerhs"].items()])
    write("cuda_kernels", given.output, results)


if __name__ == "__main__":
    main()
