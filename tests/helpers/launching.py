"""Runs one kernel on one *place*: a device of any target, or the interpreter.

A behaviour test is written once against `Place`, with NumPy arrays in and out; the fixture `place` runs it
everywhere (`tests/device/conftest.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import sterna
from helpers.metal.marks import HAS_METAL, METAL
from sterna.errors import CompileError

__all__ = ["GPU", "INTERPRETER", "OPENCL", "Place", "places", "ready", "what_metal_lacks"]

INTERPRETER = "interpreter"
GPU = (
    pytest.mark.gpu,
    pytest.mark.skipif(not any(d.name.startswith("cuda") for d in sterna.devices()), reason="no CUDA device here"),
)
"""Marks of a test that needs a CUDA device."""
OPENCL = (
    pytest.mark.skipif(not any(d.name.startswith("opencl") for d in sterna.devices()), reason="no OpenCL device here"),
)
"""Marks of a test that needs an OpenCL device; a processor is one where Intel's runtime is installed."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a kernel runs: the name of a device, or ``interpreter``."""

    name: str

    @property
    def is_interpreter(self) -> bool:
        """Whether kernels run in CPython."""
        return self.name == INTERPRETER

    @property
    def is_metal(self) -> bool:
        """Whether it is a simulated Metal device, which has no float64 and few threads at a time."""
        return self.name.startswith("metal")

    @property
    def shares_memory(self) -> bool:
        """Whether NumPy arrays are launch arguments as they are."""
        return self.is_interpreter or self.name.startswith("cpu")

    @property
    def recurses(self) -> bool:
        """Whether device functions may call themselves."""
        return not self.name.startswith("opencl")

    def launch(self, kernel: Any, blocks: Any, threads: Any, *args: Any, shared_bytes: int = 0) -> None:
        """``kernel[blocks, threads]`` on NumPy arrays, finished on return, failures raised."""
        self._run(lambda k: k[blocks, threads, None, shared_bytes], kernel, args)

    def over(self, kernel: Any, shape: Any, *args: Any) -> None:
        """``kernel.over(shape)`` on NumPy arrays, finished on return, failures raised."""
        self._run(lambda k: k.over(shape), kernel, args)

    def _run(self, configure: Any, kernel: Any, args: tuple[Any, ...]) -> None:
        if self.is_interpreter:
            configure(sterna.interpret(kernel))(*args)
            return
        with sterna.on(self.name):
            moved = [self._to_device(arg) for arg in args]
            configure(kernel)(*moved)
            try:
                sterna.synchronize()
            finally:  # what threads wrote before one failed counts too
                for host, there in zip(args, moved, strict=True):
                    if there is not host and isinstance(host, np.ndarray):
                        host[...] = there.copy_to_host()

    def _to_device(self, arg: Any) -> Any:
        if isinstance(arg, np.ndarray) and not self.shares_memory:
            return sterna.to_device(arg)
        return arg


def places(interpreter: bool = True) -> list[Any]:
    """Parameters of a fixture: the interpreter, the first device of every target, and Metal, simulated or real.

    CUDA is always among them, marked ``gpu``; without a CUDA device its tests are skipped, and so counted and named.
    """
    names = [d.name for d in sterna.devices() if not d.name.startswith(("cuda", "metal"))]
    found = [pytest.param(Place(name), id=name) for name in ([INTERPRETER] if interpreter else []) + names]
    metal = pytest.param(Place("metal:0"), id="metal", marks=METAL)
    return [*found, metal, pytest.param(Place("cuda:0"), id="cuda", marks=GPU)]


@contextmanager
def ready(place: Place) -> Iterator[Place]:
    """The place, with Metal simulated as long as a test needs it, where there is none."""
    if not place.is_metal or HAS_METAL:
        yield place
        return
    from helpers.metal.api import simulated

    with simulated(1):
        yield place


_LACKS = re.compile(
    r"target metal has (?:no (?P<what>float64|complex128|recursion)|(?P<atomics>atomic operations of 32 bits only))"
    r"|(?P<wide>float64|complex128) is not available on target metal|(?P<function>\S+) is not available on target metal"
)


def what_metal_lacks(error: CompileError) -> str:
    """Why a kernel cannot run on Metal, in a few words; empty if it could."""
    match = _LACKS.search(error.message)
    if match is None:
        return ""
    if match["atomics"]:
        return "Metal has atomic operations of 32 bits only"
    return f"Metal has no {match['what'] or match['wide'] or match['function']}"
