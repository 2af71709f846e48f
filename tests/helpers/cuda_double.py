"""A recording double of NVIDIA's driver: every call is noted, memory is this process's, kernels do not run.

It takes real cubins (their globals get real addresses by the cubin's own symbol table), so the whole sequence of
linking, launching, copying and freeing can be checked with no GPU.  `no_launch` may be replaced to emulate a
kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sterna.runtime import devices as runtime_devices
from sterna.targets.cuda import device as cuda_device
from sterna.targets.cuda.cubin import read_cubin
from sterna.targets.cuda.driver import DriverError, install_driver

__all__ = ["DriverDouble", "Launched", "cuda_double"]

_ALIGN = 64
_ATTRIBUTES = {
    1: 1024,
    2: 1024,
    3: 1024,
    4: 64,
    5: 2**31 - 1,
    6: 65535,
    7: 65535,
    8: 49152,
    10: 32,
    16: 132,
    39: 2048,
    75: 9,
    76: 0,
    95: 1,
    97: 232448,
    115: 1,
}


@dataclass
class Launched:
    """One launch as the driver saw it."""

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    stream: int
    params: int


@dataclass
class _Module:
    context: int
    symbols: dict[str, tuple[int, int]]
    entries: tuple[str, ...]
    memory: dict[int, Any] = field(default_factory=dict)


class DriverDouble:
    """Stands in for `sterna.targets.cuda.driver.Driver`.

    Attributes
    ----------
    calls : list of str
        Names of all calls, in order.
    launches : list of Launched
        All launches.
    refuse : dict of str to str
        Function → error name that it fails with.
    """

    def __init__(self, devices: int = 1) -> None:
        self.devices, self.calls, self.launches = devices, [], []
        self.refuse: dict[str, str] = {}
        self.on_launch: Callable[[Launched], None] = lambda launched: None
        self.modules: dict[int, _Module] = {}
        self.functions: dict[int, str] = {}
        self.live: dict[int, Any] = {}
        self.current: int | None = None
        self.graphs: dict[int, list[Launched]] = {}
        self._recording: dict[int, list[Launched]] = {}
        self._next = 0x1000

    # ---- machinery ---------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return self._noted(name, getattr(self, "_" + name, lambda *arguments: 0))

    def _noted(self, name: str, function: Any) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            if name in self.refuse:
                raise DriverError(name, 200, self.refuse[name], "by the double")
            return function(*arguments) or 0

        return call

    def raw(self, name: str) -> Any:
        return self._noted(name, getattr(self, "_" + name))

    def error(self, function: str, code: int) -> DriverError:
        return DriverError(function, code, f"CUDA_ERROR_{code}", "")

    def handle(self) -> int:
        self._next += 0x10
        return self._next

    def _allocate(self, nbytes: int) -> int:
        memory = np.zeros(nbytes + _ALIGN, np.uint8)
        address = int(memory.__array_interface__["data"][0])
        address += -address % _ALIGN
        self.live[address] = memory
        return address

    def count(self, name: str) -> int:
        return self.calls.count(name)

    # ---- devices and contexts ----------------------------------------------------------------

    def _cuDeviceGetCount(self, out: Any) -> None:
        out._obj.value = self.devices

    def _cuDeviceGet(self, out: Any, index: int) -> None:
        out._obj.value = index

    def _cuDeviceGetName(self, out: Any, size: int, device: int) -> None:
        out.value = b"Double"

    def _cuDeviceGetAttribute(self, out: Any, attribute: int, device: int) -> None:
        out._obj.value = _ATTRIBUTES.get(attribute, 0)

    def _cuDevicePrimaryCtxRetain(self, out: Any, device: int) -> None:
        out._obj.value = 0xC000 + device

    def _cuCtxSetCurrent(self, context: int) -> None:
        self.current = context

    # ---- memory ------------------------------------------------------------------------------

    def _cuMemAllocAsync(self, out: Any, nbytes: int, stream: int) -> None:
        out._obj.value = self._allocate(nbytes)

    def _cuMemFreeAsync(self, address: int, stream: int) -> None:
        del self.live[address]

    def _cuMemHostAlloc(self, out: Any, nbytes: int, flags: int) -> None:
        out._obj.value = self._allocate(nbytes)

    def _cuMemHostGetDevicePointer_v2(self, out: Any, host: int, flags: int) -> None:
        out._obj.value = host

    def _cuMemFreeHost(self, host: int) -> None:
        del self.live[host]

    def _check_symbol(self, target: int, nbytes: int) -> None:
        """A copy into a module's variables stays inside one of them, as the driver demands."""
        for module in self.modules.values():
            if any(
                base <= target < base + memory.nbytes - _ALIGN for base, memory in module.memory.items()
            ) and not any(
                address <= target and target + nbytes <= address + size for address, size in module.symbols.values()
            ):
                raise DriverError("cuMemcpyHtoDAsync_v2", 1, "CUDA_ERROR_INVALID_VALUE", "not inside one symbol")

    def _cuMemcpyHtoDAsync_v2(self, target: int, source: Any, nbytes: int, stream: int) -> None:
        self._check_symbol(target, nbytes)
        ctypes.memmove(target, source, nbytes)

    def _cuMemcpyDtoHAsync_v2(self, target: int, source: int, nbytes: int, stream: int) -> None:
        ctypes.memmove(target, source, nbytes)

    def _cuMemcpyDtoDAsync_v2(self, target: int, source: int, nbytes: int, stream: int) -> None:
        ctypes.memmove(target, source, nbytes)

    def _cuMemcpyPeerAsync(self, target: int, _: int, source: int, __: int, nbytes: int, stream: int) -> None:
        ctypes.memmove(target, source, nbytes)

    def _cuMemsetD8Async(self, address: int, value: int, nbytes: int, stream: int) -> None:
        ctypes.memset(address, value, nbytes)

    def _cuPointerGetAttribute(self, out: Any, attribute: int, address: int) -> None:
        out._obj.value = 0

    # ---- modules -----------------------------------------------------------------------------

    def _cuModuleLoadDataEx(self, out: Any, code: bytes, *options: Any) -> None:
        handle = out._obj.value = self.handle()
        if code[:4] != b"\x7fELF":
            text = code.decode()
            entries = tuple(
                line.split()[2].rstrip("(") for line in text.splitlines() if line.startswith(".visible .entry")
            )
            self.modules[handle] = _Module(self.current or 0, {}, entries)
            return
        cubin = read_cubin(code)
        module = self.modules[handle] = _Module(self.current or 0, {}, tuple(cubin.entries))
        sizes: dict[int, int] = {}
        for slot in cubin.variables.values():
            sizes[slot.section] = max(sizes.get(slot.section, 0), slot.offset + slot.size)
        bases = {section: self._allocate(size) for section, size in sizes.items()}
        module.memory = {base: self.live.pop(base) for base in bases.values()}
        module.symbols = {n: (bases[s.section] + s.offset, s.size) for n, s in cubin.variables.items()}

    def _cuModuleGetGlobal_v2(self, address: Any, size: Any, module: int, name: bytes) -> None:
        found = self.modules[module].symbols.get(name.decode())
        if found is None:
            raise DriverError("cuModuleGetGlobal_v2", 500, "CUDA_ERROR_NOT_FOUND", "")
        address._obj.value, size._obj.value = found

    def _cuModuleGetFunction(self, out: Any, module: int, name: bytes) -> None:
        assert name.decode() in self.modules[module].entries, (name, self.modules[module].entries)
        out._obj.value = self.handle()
        self.functions[out._obj.value] = name.decode()

    def _cuModuleUnload(self, module: int) -> None:
        del self.modules[module]

    def _cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        *dims, stream, params, _ = rest
        cell = params._obj
        x = dims
        launched = Launched(
            self.functions[function.value],
            (x[0], x[1], x[2]),
            (x[3], x[4], x[5]),
            x[6],
            0 if stream is None else stream.value or 0,
            ctypes.cast(cell, ctypes.c_void_p).value or 0,
        )
        self.launches.append(launched)
        recording = self._recording.get(launched.stream)
        if recording is None:
            self.on_launch(launched)
        else:
            recording.append(launched)
        return 0

    def _cuLaunchCooperativeKernel(self, function: Any, *rest: Any) -> int:
        return self._cuLaunchKernel(function, *rest, None)

    # ---- streams, events, graphs -------------------------------------------------------------

    def _new(self, out: Any, *rest: Any) -> None:
        out._obj.value = self.handle()

    _cuStreamCreateWithPriority = _cuEventCreate = _new

    def _cuStreamIsCapturing(self, stream: int, out: Any) -> None:
        out._obj.value = int(stream in self._recording)

    def _cuStreamBeginCapture_v2(self, stream: int, mode: int) -> None:
        self._recording[stream] = []

    def _cuStreamEndCapture(self, stream: int, out: Any) -> None:
        out._obj.value = self.handle()
        self.graphs[out._obj.value] = self._recording.pop(stream)

    def _cuGraphInstantiateWithFlags(self, out: Any, graph: Any, flags: int) -> None:
        out._obj.value = self.handle()
        self.graphs[out._obj.value] = self.graphs[graph.value]

    def _cuGraphLaunch(self, graph: int, stream: int) -> None:
        for launched in self.graphs[graph]:
            self.on_launch(launched)

    def _cuEventElapsedTime(self, out: Any, *events: Any) -> None:
        out._obj.value = 1.5


@contextmanager
def cuda_double(devices: int = 1) -> Iterator[DriverDouble]:
    """CUDA devices over a fresh double, inside a ``with`` block."""
    double = DriverDouble(devices)
    previous = install_driver(double)
    cuda_device._device.cache_clear()
    kept = {name: d for name, d in runtime_devices._devices.items() if name.startswith("cuda")}
    for name in kept:
        del runtime_devices._devices[name]
    try:
        yield double
    finally:
        for name in [n for n in runtime_devices._devices if n.startswith("cuda")]:
            runtime_devices._devices.pop(name).context.lost()  # what still refers to it leaves the driver alone
        runtime_devices._devices.update(kept)
        cuda_device._device.cache_clear()
        install_driver(previous)
