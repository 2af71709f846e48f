"""Kernels with barriers on the CPU against numba's CUDA simulator, results compared; also Sterna's own interpreter.

The simulator runs every thread as a Python thread; it is measured in a process of its own (``NUMBA_ENABLE_CUDASIM``)
on inputs small enough for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import sterna
from common import fresh, options, paired, show, write

TILE, THREADS = 8, 64

_SIMULATOR = """
import json, sys, time
import numpy as np
from numba import cuda, float32
TILE, THREADS = 8, 64

@cuda.jit
def reverse(x, out):
    part = cuda.shared.array(64, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    part[t] = x[i]
    cuda.syncthreads()
    out[i] = part[THREADS - 1 - t]

@cuda.jit
def block_sum(x, out):
    part = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    part[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]

@cuda.jit
def matmul(a, b, c):
    left = cuda.shared.array((8, 8), float32)
    right = cuda.shared.array((8, 8), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for k in range(0, a.shape[1], TILE):
        left[y, x] = a[row, k + x]
        right[y, x] = b[k + y, column]
        cuda.syncthreads()
        for m in range(TILE):
            total += left[y, m] * right[m, x]
        cuda.syncthreads()
    c[row, column] = total

n = int(sys.argv[1])
x = (np.arange(n * THREADS) % 13).astype(np.float32)
a = (np.arange(1024) % 7).astype(np.float32).reshape(32, 32)
b = (np.arange(1024) % 5).astype(np.float32).reshape(32, 32)
result = {}
for name, config, args in (
    ("reverse", (n, THREADS), (x, np.zeros_like(x))), ("block_sum", (n, THREADS), (x, np.zeros(n, np.float32))),
    ("matmul", ((4, 4), (TILE, TILE)), (a, b, np.zeros((32, 32), np.float32))),
):
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        globals()[name][config](*args)
        best = min(best, time.perf_counter() - start)
    result[name] = {"us": best * 1e6, "sum": float((args[-1] * np.arange(args[-1].size).reshape(args[-1].shape)).sum())}
print(json.dumps(result))
"""


@sterna.kernel
def reverse(x, out):
    part = sterna.shared.array(THREADS, np.float32)
    t, i = sterna.threadIdx.x, sterna.grid(1)
    part[t] = x[i]
    sterna.syncthreads()
    out[i] = part[THREADS - 1 - t]


@sterna.kernel
def block_sum(x, out):
    part = sterna.shared.array(THREADS, np.float32)
    t = sterna.threadIdx.x
    part[t] = x[sterna.grid(1)]
    sterna.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        sterna.syncthreads()
        step //= 2
    if t == 0:
        out[sterna.blockIdx.x] = part[0]


@sterna.kernel
def matmul(a, b, c):
    left = sterna.shared.array((TILE, TILE), np.float32)
    right = sterna.shared.array((TILE, TILE), np.float32)
    x, y = sterna.threadIdx.x, sterna.threadIdx.y
    column, row = sterna.grid(2)
    total = np.float32(0)
    for k in range(0, a.shape[1], TILE):
        left[y, x] = a[row, k + x]
        right[y, x] = b[k + y, column]
        sterna.syncthreads()
        for m in range(TILE):
            total += left[y, m] * right[m, x]
        sterna.syncthreads()
    c[row, column] = total


def _cases(blocks: int) -> dict[str, tuple[Any, tuple[Any, Any], tuple[np.ndarray, ...]]]:
    x = (np.arange(blocks * THREADS) % 13).astype(np.float32)
    a, b = ((np.arange(1024) % k).astype(np.float32).reshape(32, 32) for k in (7, 5))
    return {
        "reverse": (reverse, (blocks, THREADS), (x, np.zeros_like(x))),
        "block_sum": (block_sum, (blocks, THREADS), (x, np.zeros(blocks, np.float32))),
        "matmul": (matmul, ((4, 4), (TILE, TILE)), (a, b, np.zeros((32, 32), np.float32))),
    }


def _compiled(kernel: Any, config: tuple[Any, Any], args: tuple[np.ndarray, ...]) -> None:
    kernel[config](*args)
    sterna.synchronize()


def main() -> None:
    """Measure and report."""
    given = options(__doc__ or "")
    blocks = 8
    simulated = fresh(_SIMULATOR, str(blocks), NUMBA_ENABLE_CUDASIM="1")
    results, rows = {}, []
    for name, (kernel, config, args) in _cases(blocks).items():
        work: dict[str, Callable[[], Any]] = {
            "compiled": partial(_compiled, kernel, config, args),
            "interpreted": partial(sterna.interpret(kernel)[config], *args),
        }
        for call in work.values():
            args[-1][...] = 0
            call()
            weights = np.arange(args[-1].size).reshape(args[-1].shape)
            assert float((args[-1] * weights).sum()) == simulated[name]["sum"], name
        best = {"compiled": paired({"compiled": work["compiled"]}, given.rounds, 20)["compiled"]}
        best["interpreted"] = paired({"interpreted": work["interpreted"]}, 2)["interpreted"]
        theirs = simulated[name]["us"]
        results[name] = {"compiled_us": best["compiled"], "interpreted_us": best["interpreted"], "simulator_us": theirs}
        rows.append((name, best["compiled"], best["interpreted"], theirs, theirs / best["compiled"]))
    header = ("kernel", "compiled µs", "interpreted µs", "simulator µs", "simulator ÷ compiled")
    show("Kernels with barriers", header, rows)
    write("simulator", given.output, results)


if __name__ == "__main__":
    main()
