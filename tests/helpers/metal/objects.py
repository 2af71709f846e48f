"""Simulated Metal objects without a device: errors, descriptors, sizes, constants, Foundation's few."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["CONSTANTS", "NSURL", "CompileOptions", "Descriptor", "Error", "ProcessInfo", "Size"]

CONSTANTS = {
    "MTLResourceStorageModeShared": 0,
    "MTLResourceUsageRead": 1,
    "MTLResourceUsageWrite": 2,
    "MTLPipelineOptionNone": 0,
    "MTLPipelineOptionFailOnBinaryArchiveMiss": 4,
    "MTLCommandBufferStatusNotEnqueued": 0,
    "MTLCommandBufferStatusEnqueued": 1,
    "MTLCommandBufferStatusCommitted": 2,
    "MTLCommandBufferStatusScheduled": 3,
    "MTLCommandBufferStatusCompleted": 4,
    "MTLCommandBufferStatusError": 5,
    "MTLMathModeSafe": 0,
    "MTLMathModeRelaxed": 1,
    "MTLMathModeFast": 2,
    "MTLMathFloatingPointFunctionsFast": 0,
    "MTLMathFloatingPointFunctionsPrecise": 1,
    "MTLLanguageVersion3_0": 196608,
    "MTLLanguageVersion3_1": 196609,
}
"""Constants and their values in Apple's headers."""


class Size(NamedTuple):
    """MTLSize."""

    width: int
    height: int
    depth: int


class Error:
    """NSError."""

    def __init__(self, domain: str, code: int, text: str) -> None:
        self._domain, self._code, self._text = domain, code, text

    def domain(self) -> str:
        return self._domain

    def code(self) -> int:
        return self._code

    def localizedDescription(self) -> str:
        return self._text


class NSURL:
    """A file's URL."""

    def __init__(self, path: str) -> None:
        self._path = path

    @classmethod
    def fileURLWithPath_(cls, path: str) -> NSURL:
        return cls(path)

    def path(self) -> str:
        return self._path


class ProcessInfo:
    """NSProcessInfo of a machine whose system's build a test may change."""

    build = "24D60"

    @classmethod
    def processInfo(cls) -> ProcessInfo:
        return cls()

    def operatingSystemVersionString(self) -> str:
        return f"Version 15.3 (Build {self.build})"


class Descriptor:
    """Any of Metal's descriptors: a property `x` is set by ``setX_`` and read by ``x``."""

    properties: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.values: dict[str, Any] = dict.fromkeys(self.properties)

    @classmethod
    def new(cls) -> Descriptor:
        return cls()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("set") and name.endswith("_"):
            key = name[3].lower() + name[4:-1]
            if key in self.properties:
                return lambda value: self.values.__setitem__(key, value)
        if name in self.properties:
            return lambda: self.values[name]
        raise AttributeError(name)


class CompileOptions(Descriptor):
    properties = ("mathMode", "mathFloatingPointFunctions", "fastMathEnabled", "languageVersion")


class ComputePipelineDescriptor(Descriptor):
    properties = ("computeFunction", "binaryArchives", "label")


class BinaryArchiveDescriptor(Descriptor):
    properties = ("url",)
