"""Host time of one launch on CUDA with 0, 3 and 10 arrays, against raw cuLaunchKernel from C and the peers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import sterna
from common import options, scratch, show, write
from suite.on_cuda import bare_driver, device

COUNTS = (0, 3, 10)


def _define(count: int) -> Any:
    import linecache

    names = ", ".join(f"a{n}" for n in range(count))
    text = f"@sterna.kernel\ndef k{count}({names}):\n    i = sterna.grid(1)\n" + "".join(
        f"    if i > 1000000:\n        a{n}[0] = 1\n" for n in range(count)
    )
    name = f"<launching {count}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"sterna": sterna}
    exec(compile(text, name, "exec"), space)
    return space[f"k{count}"]


def _cupy(count: int) -> Callable[[], Any] | None:
    try:
        import cupy
    except ImportError:
        return None
    parameters = ", ".join(f"float *a{n}, long long n{n}" for n in range(count))
    kernel = cupy.RawKernel(f'extern "C" __global__ void k({parameters}) {{}}', "k")
    arrays = [cupy.zeros(16, cupy.float32) for _ in range(count)]
    args = tuple(x for a in arrays for x in (a, 16))
    return lambda: kernel((1,), (32,), args)


def _numba(count: int) -> Callable[[], Any] | None:
    np.row_stack = getattr(np, "row_stack", np.vstack)  # numba-cuda asks for it; NumPy 2.5 has it no more
    try:
        from numba import cuda
    except ImportError:
        return None
    names = ", ".join(f"a{n}" for n in range(count))
    space: dict[str, Any] = {}
    exec(f"def k({names}):\n    pass\n", space)
    kernel = cuda.jit(space["k"])
    arrays = [cuda.device_array(16, np.float32) for _ in range(count)]
    configured = kernel[1, 32]
    return lambda: configured(*arrays)


def _triton(count: int) -> Callable[[], Any] | None:
    try:
        import torch

        from suite import triton_kernels
    except ImportError:
        return None
    kernel = getattr(triton_kernels, f"k{count}")
    arrays = [torch.zeros(16, device="cuda") for _ in range(count)]
    return lambda: kernel[(1,)](*arrays)


def _host_times(works: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Least host microseconds of each launch: bursts short enough never to fill the queue, in turn."""
    gpu = device()
    best: dict[str, float] = {}
    for name, launch in list(works.items()):
        try:
            launch()
            best[name] = float("inf")
        except Exception as error:  # a peer that does not run with this machine's other packages
            print(f"{name}: not measured: {error}")
    gpu.synchronize()
    for _ in range(rounds * 20):
        for name in best:
            launch = works[name]
            start = time.perf_counter()
            for _ in range(100):
                launch()
            best[name] = min(best[name], (time.perf_counter() - start) / 100)
            gpu.synchronize()
    return {name: seconds * 1e6 for name, seconds in best.items()}


def main() -> None:
    """Measure and report."""
    given = options(__doc__ or "")
    gpu = device()
    results: dict[str, Any] = {}
    with scratch() as folder:
        for count in COUNTS:
            kernel = _define(count)
            arrays = [sterna.zeros(16, np.float32, gpu) for _ in range(count)]
            launcher = kernel[1, 32]
            works: dict[str, Callable[[], Any] | None] = {
                "sterna": lambda k=launcher, a=arrays: k(*a),  # type: ignore[misc]
                "cupy": _cupy(count), "numba": _numba(count), "triton": _triton(count),
            }  # fmt: skip
            with sterna.on(gpu):
                times = _host_times({name: work for name, work in works.items() if work is not None}, given.rounds)
                image = kernel.specialize(*arrays, device=gpu).image
            bare = bare_driver(folder, image, 16 * count + 24)
            if bare is not None:
                times = {"cuLaunchKernel from C": bare["launch"], **times}
            results[str(count)] = times
    names = list(dict.fromkeys(n for times in results.values() for n in times))
    rows = [[f"{count} arrays", *(results[str(count)].get(n, float("nan")) for n in names)] for count in COUNTS]
    show("Host time of a launch, us", ["", *names], rows)
    write("cuda_launching", given.output, results)


if __name__ == "__main__":
    main()
