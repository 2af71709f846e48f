"""The simulated API as one object, as `sterna.targets.metal.api.use` takes it, and devices over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from helpers.metal.device import SimulatedDevice
from helpers.metal.objects import (
    CONSTANTS,
    NSURL,
    BinaryArchiveDescriptor,
    CompileOptions,
    ComputePipelineDescriptor,
    ProcessInfo,
    Size,
)
from sterna.runtime import devices as runtime_devices
from sterna.targets.metal import api
from sterna.targets.metal import device as metal_device

__all__ = ["SimulatedMetal", "install", "simulated"]


class SimulatedMetal:
    """What `Metal`, `Foundation` and `objc` give, as far as Sterna uses it."""

    MTLCompileOptions = CompileOptions
    MTLComputePipelineDescriptor = ComputePipelineDescriptor
    MTLBinaryArchiveDescriptor = BinaryArchiveDescriptor
    MTLSize = Size
    NSURL = NSURL
    NSProcessInfo = ProcessInfo
    autorelease_pool = nullcontext

    def __init__(self, devices: int = 2) -> None:
        self.devices = [SimulatedDevice(n) for n in range(devices)]

    def __getattr__(self, name: str) -> Any:
        if name in CONSTANTS:
            return CONSTANTS[name]
        raise AttributeError(name)

    def MTLCopyAllDevices(self) -> list[SimulatedDevice]:
        return list(self.devices)


def install(devices: int = 2) -> SimulatedMetal:
    """Have this process's ``metal`` devices be simulated ones from now on."""
    made = SimulatedMetal(devices)
    _use(made)
    return made


def _use(module: Any) -> Any:
    for name in [n for n in runtime_devices._devices if n.startswith("metal")]:
        del runtime_devices._devices[name]
    metal_device.forget_devices()
    return api.use(module)


@contextmanager
def simulated(devices: int = 2) -> Iterator[SimulatedMetal]:
    """Simulated devices inside a ``with`` block."""
    made = SimulatedMetal(devices)
    previous = _use(made)
    try:
        yield made
    finally:
        _use(previous)
