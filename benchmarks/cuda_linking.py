"""Load, patch, first launch and launch on CUDA against the bare driver calls from C; cold compile to a cubin."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import linking
import sterna
from common import minimum, options, scratch, show, write
from suite.on_cuda import bare_driver, device


@sterna.kernel
def empty():
    pass


def _link_times(kernel: Any, x: Any, rounds: int = 200) -> dict[str, float]:
    """Least own time of loading, of linking whole, and of the first launch, the image being in memory."""
    from sterna.abi import arg_layout
    from sterna.runtime.link import link
    from sterna.typeof import type_of

    gpu = device()
    kernel[1, 1](*x)
    compiled = kernel.specialize(*x, device=gpu)
    layout = arg_layout(tuple(type_of(a) for a in x))
    resolution = compiled._found.loaded.resolution_for(compiled.image.manifest)
    best = {"load": 1e9, "link": 1e9, "first_launch": 1e9}
    config = kernel[1, 1].config_for(gpu)
    data = compiled._found.packer.pack(x)
    for _ in range(rounds):
        start = time.perf_counter()
        module = gpu.load(compiled.image, layout)
        best["load"] = min(best["load"], (time.perf_counter() - start) * 1e6)
        module.unload()
        start = time.perf_counter()
        loaded = link(compiled.image, kernel.function, gpu, layout, resolution)
        linked = time.perf_counter()
        loaded.module.launch(config, data, None)
        launched = time.perf_counter()
        gpu.synchronize()
        best["link"] = min(best["link"], (linked - start) * 1e6)
        best["first_launch"] = min(best["first_launch"], (launched - linked) * 1e6)
        loaded.module.unload()
    return best


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
    with scratch() as folder:
        for name, kernel, args in (
            ("no record", linking.plain, (x,)),
            ("1 record", linking.one_record, (x,)),
            ("64 records", linking.many_globals, (x,)),
        ):
            ours = _link_times(kernel, args)
            image = kernel.specialize(*args, device=gpu).image
            bare = bare_driver(folder, image, 40)
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
