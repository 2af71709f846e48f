"""What the CUDA parts share: timing by events, the C driver program, nvcc, kernels of several sizes of signature."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sterna
from sterna.relocation.record import SLOTS

__all__ = ["bare_driver", "device", "event_time", "nvcc_cubin", "tool"]

SUITE = Path(__file__).resolve().parent


def device() -> Any:
    """The first CUDA device."""
    return sterna.device("cuda")


def tool(name: str) -> str | None:
    """A program of the CUDA toolkit."""
    places = [os.environ.get("PATH", ""), "/usr/local/cuda/bin"]
    return shutil.which(name, path=os.pathsep.join(places))


def event_time(launch: Callable[[], Any], rounds: int = 20, repeat: int = 10) -> float:
    """Least time on the device of one launch, in microseconds, of `rounds` times `repeat` launches in a row."""
    gpu = device()
    launch()
    gpu.synchronize()
    best = float("inf")
    for _ in range(rounds):
        start, end = sterna.event(gpu), sterna.event(gpu)
        start.record()
        for _ in range(repeat):
            launch()
        end.record()
        best = min(best, end.elapsed_ms(start) * 1000 / repeat)
    return best


def bare_driver(folder: Path, image: Any, arguments: int, *, launch: bool = True) -> dict[str, Any] | None:
    """Times of the bare driver calls on an image's cubin; None without a C compiler or CUDA's headers."""
    program, nvcc = folder / "driver", tool("nvcc")
    if not program.exists():
        if nvcc is None:
            return None
        source = folder / "driver.cu"
        source.write_text((SUITE / "driver.c").read_text())
        subprocess.run([nvcc, "-O2", "-o", str(program), str(source), "-lcuda"], check=True)
    cubin = folder / f"{image.key}.cubin"
    cubin.write_bytes(image.payloads["cubin"])
    slots = [SLOTS] if image.manifest.table_words else []
    command = [str(program), str(cubin), image.entry, str(arguments), *slots]
    environment = {**os.environ, **({} if launch else {"NO_LAUNCH": "1"})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def nvcc_cubin(folder: Path, source: Path, arch: str, *options: str) -> Path | None:
    """A cubin made by nvcc; None where it is not installed."""
    nvcc = tool("nvcc")
    if nvcc is None:
        return None
    target = folder / f"{source.stem}{''.join(options).replace('-', '_').replace('=', '_')}.cubin"
    subprocess.run([nvcc, "-O3", f"-arch={arch}", "-cubin", *options, "-o", str(target), str(source)], check=True)
    return target
