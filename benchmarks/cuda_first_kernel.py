"""First kernel in a fresh process with a warm disk cache: whole process, imports, launch alone; against the peers."""

from __future__ import annotations

import time
from typing import Any

from common import HERE, fresh, options, scratch, show, write

_HEAD = "import json, os, sys, time\nt0 = time.perf_counter()\nimport numpy as np\nt1 = time.perf_counter()\n"
_TAIL = "\nprint(json.dumps({'numpy': t1 - t0, 'import': t2 - t1, 'context': t3 - t2, 'launch': t4 - t3}))\n"
PEERS = {
    "sterna": """
import sterna, first_kernels
t2 = time.perf_counter()
x = sterna.zeros(1024, np.float32, "cuda")
x.device.synchronize()
t3 = time.perf_counter()
first_kernels.add_one.over(1024)(x)
x.device.synchronize()
t4 = time.perf_counter()
assert x.copy_to_host()[5] == 1
if len(sys.argv) > 1: assert sterna.stats()["compiles"] == 0
""",
    "cupy": """
import cupy
t2 = time.perf_counter()
x = cupy.zeros(1024, cupy.float32)
cupy.cuda.Device().synchronize()
t3 = time.perf_counter()
k = cupy.RawKernel('extern "C" __global__ void k(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }', "k")
k((4,), (256,), (x,))
cupy.cuda.Device().synchronize()
t4 = time.perf_counter()
""",
    "numba-cuda": """
np.row_stack = np.vstack  # numba-cuda asks for it; NumPy 2.5 has it no more
from numba import cuda
import first_kernels_numba
t2 = time.perf_counter()
x = cuda.device_array(1024, np.float32)
cuda.synchronize()
t3 = time.perf_counter()
first_kernels_numba.add_one[4, 256](x)
cuda.synchronize()
t4 = time.perf_counter()
""",
    "triton": """
import torch, first_kernels_triton
t2 = time.perf_counter()
x = torch.zeros(1024, device="cuda")
torch.cuda.synchronize()
t3 = time.perf_counter()
first_kernels_triton.add_one[(4,)](x, 256)
torch.cuda.synchronize()
t4 = time.perf_counter()
""",
}
_MODULES = {
    "first_kernels": "import sterna\n@sterna.kernel\ndef add_one(x):\n    i = sterna.grid(1)\n    x[i] = x[i] + 1\n",
    "first_kernels_numba": "from numba import cuda\n@cuda.jit(cache=True)\n"
    "def add_one(x):\n    i = cuda.grid(1)\n    x[i] += 1\n",
    "first_kernels_triton": "import triton\nimport triton.language as tl\n@triton.jit\n"
    "def add_one(x, B: tl.constexpr):\n"
    "    i = tl.program_id(0) * B + tl.arange(0, B)\n    tl.store(x + i, tl.load(x + i) + 1)\n",
}


def main() -> None:
    """Measure and report."""
    given = options(__doc__ or "")
    results: dict[str, Any] = {}
    with scratch() as folder:
        for name, text in _MODULES.items():
            (folder / f"{name}.py").write_text(text)
        environment = {
            "STERNA_CACHE_DIR": str(folder / "sterna"),
            "CUPY_CACHE_DIR": str(folder / "cupy"),
            "NUMBA_CACHE_DIR": str(folder / "numba"),
            "TRITON_CACHE_DIR": str(folder / "triton"),
        }
        for name, code in PEERS.items():
            script = f"import sys\nsys.path[:0] = [{str(folder)!r}, {str(HERE)!r}]\n{_HEAD}{code}{_TAIL}"
            try:
                fresh(script, **environment)  # fills the caches
            except RuntimeError as error:
                print(f"{name}: not measured: {str(error).strip().splitlines()[-1]}")
                continue
            best: dict[str, float] = {}
            for _ in range(given.rounds):
                start = time.perf_counter()
                found = {k: 1000 * v for k, v in fresh(script, "warm", **environment).items()}
                found["process"] = 1000 * (time.perf_counter() - start)
                best = {k: min(v, best.get(k, v)) for k, v in found.items()}
            results[name] = best
    columns = ("process", "numpy", "import", "context", "launch")
    show(
        "First kernel in a fresh process, ms",
        ["", *columns],
        [[k, *(v[c] for c in columns)] for k, v in results.items()],
    )
    write("cuda_first_kernel", given.output, results)


if __name__ == "__main__":
    main()
