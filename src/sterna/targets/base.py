"""What a target is: a frozen value with facts, and where its compiler and runtime halves are found.

The two halves are named as module paths and imported only when asked for, so that a process that
launches stored images never imports a compiler (I1), and `import sterna` imports neither.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

from sterna.frozen import frozen

if TYPE_CHECKING:
    import numpy as np

    from sterna.abi import ArgLayout
    from sterna.image.format import KernelImage
    from sterna.relocation.record import RelocationRecord

__all__ = ["Device", "ModuleLost", "Limits", "LoadedModule", "Target", "TargetCompiler", "TargetRuntime"]


class ModuleLost(Exception):
    """Internal: a loaded kernel's context is gone; it has to be loaded and linked again."""


@frozen
class Limits:
    """What a launch on this target may ask for."""

    max_threads: int = 1024
    max_block: tuple[int, int, int] = (1024, 1024, 64)
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    shared_bytes: int = 48 * 1024
    warp_size: int = 32
    stack_bytes: int = 4 << 20
    """For the local arrays of recursive functions: half of a CPU thread's stack."""


@frozen
class Target:
    """A place where kernels run, refined by an architecture.

    Attributes
    ----------
    name : str
        ``cpu``, ``cuda``, ``opencl``, ``metal``.
    arch : str
        ``x86-64-v3``, ``sm_90``, ``spirv64`` …
    strategies : tuple of str
        Relocation strategies it can do; the first is its own.
    limits : Limits
        Launch limits, before a device narrows them.
    unsupported_types : frozenset of str
        Scalar types kernels may not use (``float64`` on metal).
    fallbacks : tuple of str
        Architectures whose images run here too, if slower or after a translation; the closest first (I10).
    """

    name: str
    arch: str
    strategies: tuple[str, ...]
    limits: Limits
    unsupported_types: frozenset[str] = frozenset()
    fallbacks: tuple[str, ...] = ()
    compiler_module: str = ""
    runtime_module: str = ""

    def __str__(self) -> str:
        return f"{self.name}-{self.arch}"

    def compiler(self) -> TargetCompiler:
        """The compiler half (imports it)."""
        return importlib.import_module(self.compiler_module).COMPILER  # type: ignore[no-any-return]

    def runtime(self) -> TargetRuntime:
        """The runtime half (imports it)."""
        return importlib.import_module(self.runtime_module).RUNTIME  # type: ignore[no-any-return]


class TargetCompiler(Protocol):
    """Compiler half: kernel IR to payloads.

    It may have a method ``finish(module, target, options)`` that changes the *typed* IR of a kernel before host
    references are lowered; the default is `sterna.compiler.passes.start_generator`.
    """

    def versions(self) -> dict[str, str]:
        """Versions that influence the code, by component; part of the key."""
        ...

    def compile(
        self, module: Any, target: Target, options: Any
    ) -> tuple[dict[str, bytes], dict[str, Any], dict[str, str]]:
        """Compile a lowered IR module.

        Returns
        -------
        payloads : dict of str to bytes
            What the image stores (``object``…).
        facts : dict
            Launch facts: ``shared_bytes``, …
        texts : dict of str to str
            For inspection only, never stored: ``llvm``, ``asm``…
        """
        ...


class LoadedModule(Protocol):
    """One image loaded on one device: slots can be written, then the entry launched.

    It may have a method ``note_baked(words)``, for devices that must know what the addresses in the code point to.

    Attributes
    ----------
    function : function or None
        The live kernel function; the linker sets it, and error reports start from it.
    """

    function: FunctionType | None

    def slots_size(self) -> int | None:
        """Bytes that the code has for the words of all records (`sterna.relocation.record.SLOTS`), None if none."""
        ...

    def write_slots(self, words: Sequence[int]) -> None:
        """Deliver the words (unsigned 64-bit) of all records, in the manifest's order, in one copy."""
        ...

    def set_table(self, words: Sequence[int]) -> None:
        """Deliver the relocation table (``table`` strategy)."""
        ...

    def write_word(self, record: RelocationRecord, word: int, stream: Any = None) -> None:
        """Rewrite the one word of a `global` record in place, ordered on `stream`."""
        ...

    def launch(self, config: Any, args: bytes | bytearray, stream: Any) -> None:
        """Start the kernel on packed arguments (`sterna.abi`)."""
        ...

    def unload(self) -> None:
        """Release code and slots; the module must not be used afterwards."""
        ...


class Device(Protocol):
    """One device of a target."""

    name: str
    target: Target
    limits: Limits
    reads_host_memory: bool
    """Whether kernels can use the addresses of NumPy arrays."""

    def load(self, image: KernelImage, layout: ArgLayout) -> LoadedModule:
        """Load an image's code in this device's context."""
        ...

    def allocate(self, nbytes: int) -> Any:
        """Device memory; an object with ``.address`` that frees itself when collected."""
        ...

    def capture(self, value: Any) -> Any:
        """An array on this device for a captured one: NumPy arrays are copied in C order, ours are returned
        as they are, arrays of another device are refused (LinkError)."""
        ...

    def suggest(self, shape: tuple[int, ...]) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Blocks and threads for an ``over(shape)`` launch; the last axis runs along x."""
        ...

    def copy_in(self, address: int, host: np.ndarray) -> None: ...

    def copy_out(self, host: np.ndarray, address: int) -> None: ...

    def synchronize(self) -> None:
        """Wait for everything; raise the first pending kernel exception."""
        ...


class TargetRuntime(Protocol):
    """Runtime half: devices."""

    def device_count(self) -> int: ...

    def device(self, index: int) -> Device: ...
