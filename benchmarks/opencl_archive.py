"""What the archive of machine code saves on an OpenCL device: building a kernel's SPIR-V against loading it back.

    python benchmarks/opencl_archive.py [rounds]

Times are of the loader alone (image in memory → program ready to run), the least and the median of several rounds.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time

import numpy as np

TABLE = np.arange(64, dtype=np.float32)
TILE = 16


def kernels() -> dict:
    import sterna

    @sterna.kernel
    def saxpy(a, x, y):
        i = sterna.grid(1)
        y[i] = a * x[i] + y[i]

    @sterna.kernel
    def product(a, b, c):
        left = sterna.shared.array((TILE, TILE), np.float32)
        right = sterna.shared.array((TILE, TILE), np.float32)
        x, y = sterna.grid(2)
        tx, ty = sterna.threadIdx.x, sterna.threadIdx.y
        total = np.float32(0)
        for k in range(a.shape[1] // TILE):
            left[ty, tx] = a[y, k * TILE + tx]
            right[ty, tx] = b[k * TILE + ty, x]
            sterna.syncthreads()
            for n in range(TILE):
                total += left[ty, n] * right[n, tx]
            sterna.syncthreads()
        c[y, x] = total * TABLE[x % 64]

    vector, matrix = "float32[:]", "float32[:, :]"
    return {"saxpy": (saxpy, ("float32", vector, vector)), "product": (product, (matrix, matrix, matrix))}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    os.environ["STERNA_CACHE_DIR"] = tempfile.mkdtemp(prefix="sterna-archive-")
    import sterna
    from sterna.image.archive import default_archive, machine_code_archive
    from sterna.targets.opencl.driver import call
    from sterna.targets.opencl.loader import load_program

    device = sterna.device("opencl")
    print(f"{device!r}, driver {device.handle.driver_version}")
    for name, (kernel, types) in kernels().items():
        image = kernel.specialize(*types, device=device).image
        times: dict[str, list[float]] = {"build": [], "reload": []}
        for _ in range(rounds):
            for what in times:
                machine_code_archive(what == "reload")
                start = time.perf_counter()
                program = load_program(device, image)
                times[what].append((time.perf_counter() - start) * 1e3)
                call("clReleaseProgram", program)
        machine_code_archive(None)
        for what, found in times.items():
            print(f"{name:8} {what:7} least {min(found):8.2f} ms   median {statistics.median(found):8.2f} ms")
    archive = default_archive()
    assert archive is not None
    print(f"archive: {archive.counters}")


if __name__ == "__main__":
    main()
