"""Load, patch, first launch and launch on CUDA against the bare driver calls from C; cold compile to a cubin."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import linking
import sterna
from common import minimum, options, scratch, show, write
from suite.on_cuda import bare_driver, device

ROUNDS = 300


class _Work:
    """One kernel, ready to be loaded and linked again and again; least times in microseconds."""

    def __init__(self, kernel: Any, x: Any) -> None:
        from sterna.abi import arg_layout
        from sterna.typeof import type_of

        kernel[1, 1](*x)
        self.gpu, self.kernel = device(), kernel
        self.compiled = kernel.specialize(*x, device=self.gpu)
        self.layout = arg_layout(tuple(type_of(a) for a in x))
        self.known = self.compiled._found.scan.values()
        self.config = kernel[1, 1].config_for(self.gpu)
        self.data = self.compiled._found.packer.pack(x)
        self.best = {"load": 1e9, "link": 1e9, "first_launch": 1e9}

    def turn(self) -> None:
        """Load alone; then resolve, link and launch, the image being in memory and the function scanned."""
        from sterna.relocation.resolve import resolve_manifest
        from sterna.runtime.link import link

        best, image, function = self.best, self.compiled.image, self.kernel.function
        start = time.perf_counter()
        module = self.gpu.load(image, self.layout)
        best["load"] = min(best["load"], (time.perf_counter() - start) * 1e6)
        module.unload()
        start = time.perf_counter()
        resolution = resolve_manifest(image.manifest, function, self.gpu, image.name, self.known)
        loaded = link(image, function, self.gpu, self.layout, resolution)
        linked = time.perf_counter()
        loaded.module.launch(self.config, self.data, None)
        launched = time.perf_counter()
        self.gpu.synchronize()
        best["link"] = min(best["link"], (linked - start) * 1e6)
        best["first_launch"] = min(best["first_launch"], (launched - linked) * 1e6)
        loaded.module.unload()


def _cold_compiles() -> dict[str, float]:
    """Milliseconds to a cubin, the compiler being loaded; the least of several sources."""
    found = {}
    for name, kernel, types in (
        ("plain", linking.plain, ("float32[:]",)),
        ("64 globals", linking.many_globals, ("float32[:]",)),
    ):
        found[name] = minimum(lambda k=kernel, t=types: k.build(*t, target="cuda-sm_90"), 10) / 1000  # type: ignore[misc]
    return found


def main() -> None:
    """Measure and report."""
    given = options(__doc__ or "")
    results: dict[str, Any] = {"compile_ms": _cold_compiles()}
    gpu = device()
    x = sterna.zeros(1024, np.float32, gpu)
    rows = []
    works = {
        "no record": _Work(linking.plain, (x,)),
        "1 record": _Work(linking.one_record, (x,)),
        "64 records": _Work(linking.many_globals, (x,)),
    }
    for _ in range(ROUNDS):  # in turn: the machine's speed changes while this runs
        for work in works.values():
            work.turn()
    with scratch() as folder:
        for name, work in works.items():
            ours = work.best
            bare = bare_driver(folder, work.compiled.image, 40)
            results[name] = {"sterna": ours, "driver": bare}
            if bare is not None:
                whole = bare["load"] + bare["patch_each"] + bare["get_function"]
                rows.append(
                    [
                        name,
                        bare["load"],
                        ours["load"],
                        bare["patch_each"],
                        bare["patch_once"],
                        whole,
                        ours["link"],
                        bare["first_launch"],
                        ours["first_launch"],
                    ]
                )
    show(
        "Linking on CUDA, us",
        ["", "load C", "load", "patch each C", "patch one C", "link C", "link", "launch C", "launch"],
        rows,
    )
    show("Cold compile to a cubin, ms", ["kernel", "ms"], [[k, v] for k, v in results["compile_ms"].items()])
    write("cuda_linking", given.output, results)


if __name__ == "__main__":
    main()
