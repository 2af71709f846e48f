"""Simulated Metal devices, their buffers, libraries, pipelines and binary archives."""

from __future__ import annotations

import ctypes
import hashlib
import json
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

from helpers.metal.library import CompileFailure, Entry, build, entries
from helpers.metal.memory import Pages
from helpers.metal.objects import Error, ProcessInfo, Size
from helpers.metal.queue import CommandQueue, Event

__all__ = ["Buffer", "Pipeline", "SimulatedDevice"]

_MAGIC = b"simulated MTLBinaryArchive 1\n"
_FAIL_ON_MISS = 4


class _Contents:
    """PyObjC's view of a C array without a length."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer

    def as_buffer(self, count: int) -> memoryview:
        assert count <= self._buffer.length()
        view = (ctypes.c_ubyte * count).from_address(self._buffer.pages.host)
        view._owner = self._buffer  # type: ignore[attr-defined]
        return memoryview(view).cast("B")


class Buffer:
    """MTLBuffer in shared storage."""

    def __init__(self, device: SimulatedDevice, nbytes: int) -> None:
        self._device, self.pages = device, Pages(nbytes)

    def device(self) -> SimulatedDevice:
        return self._device

    def length(self) -> int:
        return self.pages.nbytes

    def gpuAddress(self) -> int:
        return self.pages.gpu

    def contents(self) -> _Contents:
        return _Contents(self)


class Library:
    """MTLLibrary."""

    def __init__(self, device: SimulatedDevice, text: str, code: Path) -> None:
        self._device, self.code, self.entries = device, code, entries(text)

    def functionNames(self) -> list[str]:
        return sorted(self.entries)

    def newFunctionWithName_(self, name: str) -> Function | None:
        return Function(self._device, self.code, self.entries[name]) if name in self.entries else None


class Function:
    """MTLFunction."""

    def __init__(self, device: SimulatedDevice, code: Path, entry: Entry) -> None:
        self._device, self.code, self.entry = device, code, entry

    def name(self) -> str:
        return self.entry.name

    @property
    def digest(self) -> str:
        """What an archive knows it by: the bytes of its library."""
        return f"{self.code.stem}:{self.entry.name}"


class Pipeline:
    """MTLComputePipelineState."""

    def __init__(self, function: Function) -> None:
        self._device, self.code, self.entry = function._device, function.code, function.entry

    def device(self) -> SimulatedDevice:
        return self._device

    def maxTotalThreadsPerThreadgroup(self) -> int:
        return self.entry.max_threads

    def threadExecutionWidth(self) -> int:
        return 32

    def staticThreadgroupMemoryLength(self) -> int:
        return 0


class BinaryArchive:
    """MTLBinaryArchive: a real file that only the device and system that wrote it take."""

    def __init__(self, device: SimulatedDevice, known: set[str]) -> None:
        self._device, self._known = device, known

    def holds(self, function: Function) -> bool:
        return function.digest in self._known

    def addComputePipelineFunctionsWithDescriptor_error_(self, descriptor: Any, _: None) -> tuple[bool, Error | None]:
        self._device.counts["harvests"] += 1
        self._known.add(descriptor.computeFunction().digest)
        return True, None

    def serializeToURL_error_(self, url: Any, _: None) -> tuple[bool, Error | None]:
        facts = {"maker": self._device.maker, "functions": sorted(self._known), "code": "0" * 4096}
        body = json.dumps(facts).encode()
        try:
            Path(url.path()).write_bytes(_MAGIC + hashlib.sha256(body).digest() + body)
        except OSError as error:
            return False, Error("MTLBinaryArchiveDomain", 4, str(error))
        self._device.counts["serialised"] += 1
        return True, None


class SimulatedDevice:
    """MTLDevice.

    Attributes
    ----------
    counts : Counter
        ``libraries`` made from text, ``compiles`` of machine code, ``archive_hits``, ``harvests``, ``serialised``,
        ``apart``: barriers that not all threads of a group
        came to.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self.counts: Counter[str] = Counter()
        self.queues: weakref.WeakSet[CommandQueue] = weakref.WeakSet()
        self.live: weakref.WeakSet[Buffer] = weakref.WeakSet()
        self.memory_limit = 1 << 32

    @property
    def maker(self) -> str:
        """Whose machine code this is."""
        return f"{self.name()}/{ProcessInfo.build}"

    # ---- facts -------------------------------------------------------------------------------

    def name(self) -> str:
        return f"Simulated M{self._number + 1}"

    def registryID(self) -> int:
        return 0x100000000 + self._number

    def maxThreadsPerThreadgroup(self) -> Size:
        return Size(1024, 1024, 1024)

    def maxThreadgroupMemoryLength(self) -> int:
        return 32768

    def maxBufferLength(self) -> int:
        return self.memory_limit

    def recommendedMaxWorkingSetSize(self) -> int:
        return self.memory_limit

    def currentAllocatedSize(self) -> int:
        return sum(buffer.length() for buffer in self.live)

    # ---- making things -----------------------------------------------------------------------

    def newBufferWithLength_options_(self, nbytes: int, options: int) -> Buffer | None:
        assert options == 0, "shared storage is what the host can read"
        assert nbytes > 0, "a buffer of no bytes"
        if nbytes + self.currentAllocatedSize() > self.memory_limit:
            return None
        made = Buffer(self, nbytes)
        self.live.add(made)
        return made

    def newCommandQueue(self) -> CommandQueue:
        return CommandQueue(self)

    def newEvent(self) -> Event:
        return Event()

    def newLibraryWithSource_options_error_(
        self, text: str, options: Any, _: None
    ) -> tuple[Library | None, Error | None]:
        said = [options.values.get(name) for name in ("mathMode", "fastMathEnabled")]
        assert said != [None, None], "how to compute is not said"
        self.counts["libraries"] += 1
        try:
            return Library(self, text, build(text)), None
        except CompileFailure as failure:
            return None, Error("MTLLibraryErrorDomain", 3, f"program_source:{failure}")

    def newLibraryWithURL_error_(self, url: Any, _: None) -> tuple[Library | None, Error | None]:
        """A metallib of the simulated tool chain: its text behind a mark."""
        data = Path(url.path()).read_bytes()
        if not data.startswith(b"MTLB"):
            return None, Error("MTLLibraryErrorDomain", 1, "Invalid library file")
        text = data[4:].decode()
        return Library(self, text, build(text)), None

    def newComputePipelineStateWithFunction_error_(
        self, function: Function, _: None
    ) -> tuple[Pipeline | None, Error | None]:
        self.counts["compiles"] += 1
        return Pipeline(function), None

    def newComputePipelineStateWithDescriptor_options_reflection_error_(
        self, descriptor: Any, options: int, reflection: None, _: None
    ) -> tuple[Pipeline | None, Error | None]:
        function = descriptor.computeFunction()
        if any(archive.holds(function) for archive in descriptor.binaryArchives() or ()):
            self.counts["archive_hits"] += 1
            return Pipeline(function), None
        if options & _FAIL_ON_MISS:
            return None, Error("MTLBinaryArchiveDomain", 2, "not in the archive")
        return self.newComputePipelineStateWithFunction_error_(function, None)

    def newBinaryArchiveWithDescriptor_error_(
        self, descriptor: Any, _: None
    ) -> tuple[BinaryArchive | None, Error | None]:
        if descriptor.url() is None:
            return BinaryArchive(self, set()), None
        invalid = Error("MTLBinaryArchiveDomain", 1, "Invalid binary archive")
        try:
            data = Path(descriptor.url().path()).read_bytes()
        except OSError:
            return None, invalid
        start, body = data[: len(_MAGIC)], data[len(_MAGIC) + 32 :]
        if start != _MAGIC or hashlib.sha256(body).digest() != data[len(_MAGIC) : len(_MAGIC) + 32]:
            return None, invalid
        facts = json.loads(body)
        if facts["maker"] != self.maker:
            return None, Error("MTLBinaryArchiveDomain", 1, "made by another device or system")
        return BinaryArchive(self, set(facts["functions"])), None
