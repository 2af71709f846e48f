"""One image loaded on one device: its table, its kernel, its launches.

A launch sets the arguments, the state words behind them in one structure, and puts the kernel into a queue; both
calls are made under a lock, since the arguments belong to the kernel object.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from sterna.abi import pack_state, state_padding
from sterna.errors import LaunchError, LinkError
from sterna.relocation.record import WORD_BYTES, RelocationRecord, baked_word
from sterna.runtime.config import LaunchConfig, keep_prepared
from sterna.runtime.exceptions import Failure
from sterna.runtime.seeds import next_seed
from sterna.targets.opencl.driver import OpenclError, call, function
from sterna.targets.opencl.memory import SvmMemory

if TYPE_CHECKING:
    from sterna.image.format import KernelImage
    from sterna.targets.opencl.device import OpenclDevice

__all__ = ["OpenclModule"]

_INDIRECT_FINE_GRAIN_SYSTEM, _INDIRECT_POINTERS = 0x11B7, 0x11B6
_WORK_GROUP_SIZE, _LOCAL_MEM_SIZE, _PRIVATE_MEM_SIZE = 0x11B0, 0x11B2, 0x11B4
_SEED = struct.Struct("=Q")
_IMPOSSIBLE = frozenset(
    {"INVALID_WORK_GROUP_SIZE", "INVALID_WORK_ITEM_SIZE", "OUT_OF_RESOURCES", "INVALID_GLOBAL_WORK_SIZE",
     "INVALID_ARG_SIZE", "INVALID_KERNEL_ARGS"}
)  # fmt: skip
"""Names of errors of a launch whose configuration the device cannot run."""
_Sizes = ctypes.c_size_t * 3


class _Prepared:
    """What a module keeps of a configuration: sizes, and what follows the arguments."""

    __slots__ = ("blocks", "config", "shared_bytes", "tail", "threads", "total")

    def __init__(self, config: LaunchConfig, tail: bytes) -> None:
        self.config, self.tail, self.shared_bytes = config, tail, config.shared_bytes
        self.threads = _Sizes(*config.threads)
        self.total = _Sizes(*(n * by for n, by in zip(config.blocks, config.threads, strict=True)))


class OpenclModule:
    """An image on a device.

    Attributes
    ----------
    function : function or None
        The live kernel function, which error reports start from; the linker sets it.
    """

    def __init__(self, device: OpenclDevice, image: KernelImage, program: int, size: int) -> None:
        self.function: FunctionType | None = None
        self.device, self.image = device, image
        self._program, self._kernel = program, 0
        self._state = frozenset(image.facts["state"])
        self._draws, self._dynamic = "seed" in self._state, "dynamic" in self._state
        self._padding = state_padding(size, self._state)
        self._table: SvmMemory | None = None
        self._record = device.records.take()
        self._prints: Sequence[Any] = image.facts.get("prints") or ()
        self._reports = bool(image.facts.get("raises", True)) or bool(self._prints)
        self._prepared: _Prepared | None = None
        self._configs: dict[LaunchConfig, _Prepared] = {}
        self._lock = threading.Lock()
        self._watched = False
        if self._prints:
            device.print_buffer.register(self._record.address, self._prints)
        self._set_argument = function("clSetKernelArg")
        self._enqueue = function("clEnqueueNDRangeKernel")

    # ---- words -------------------------------------------------------------------------------

    def slots_size(self) -> int | None:
        """Bytes of the table that the code reads, or None if it reads none.

        SPIR-V has no variable that a host can write: code that bakes its other words in reads those that may change
        from a table.
        """
        return WORD_BYTES * self.image.manifest.table_words if "table" in self._state else None

    def write_slots(self, words: Sequence[int]) -> None:
        """Deliver the words that code with baked words still reads; the kernel can be launched then."""
        self.set_table(words)

    def set_table(self, words: Sequence[int]) -> None:
        """Deliver the relocation table; the kernel can be launched then."""
        if words:
            self._table = SvmMemory(self.device, WORD_BYTES * len(words))
            self.device.write_now(self._table.address, struct.pack(f"={len(words)}Q", *words))
        self._finish()

    def write_word(self, record: RelocationRecord, word: int, stream: Any = None) -> None:
        """Rewrite the one word of `record` in place, ordered on `stream` (the current one without).

        Raises
        ------
        LinkError
            When the code has the word baked in.
        """
        if self._table is None or record.index * WORD_BYTES >= self._table.nbytes:
            raise baked_word(self.image.name, record, self.device.target.strategies)
        self.device.write_word(self._table.address + WORD_BYTES * record.index, word, stream)

    def _finish(self) -> None:
        code = ctypes.c_int()
        made = function("clCreateKernel")(self._program, self.image.entry.encode(), ctypes.byref(code))
        if code.value or not made:
            raise LinkError(f"kernel {self.image.name}: {OpenclError('clCreateKernel', code.value)}")
        self._kernel = int(made)
        self._declare_indirect()

    def _declare_indirect(self) -> None:
        """Tell the driver that addresses reach the kernel inside structures and tables."""
        if self.device.shares_system_memory:
            yes = ctypes.c_uint(1)
            call("clSetKernelExecInfo", self._kernel, _INDIRECT_FINE_GRAIN_SYSTEM, 4, ctypes.byref(yes))

    def _declare_pointers(self) -> None:
        """Where not all of the system's memory is shared, every allocation that a kernel may reach is named."""
        addresses = self.device.living_addresses()
        cells = (ctypes.c_void_p * len(addresses))(*addresses)
        call("clSetKernelExecInfo", self._kernel, _INDIRECT_POINTERS, ctypes.sizeof(cells), cells)

    # ---- launching ---------------------------------------------------------------------------

    def launch(self, config: LaunchConfig, args: bytes | bytearray, stream: Any = None) -> None:
        """Start the kernel on packed arguments; its exception waits for the next synchronise.

        Raises
        ------
        OpenclError
            When the driver refuses the launch.
        LaunchError
            When the device cannot run the configuration.
        """
        prepared = self._prepared
        if prepared is None or prepared.config is not config:
            prepared = self._prepare(config)
        device = self.device
        queue = device.enter_queue(stream)
        data = bytes(args) + prepared.tail
        if self._draws:
            data += _SEED.pack(next_seed())
        with self._lock:
            if not device.shares_system_memory:
                self._declare_pointers()
            code = self._set_argument(self._kernel, 0, len(data), data)
            if self._dynamic and not code:
                code = self._set_argument(self._kernel, 1, max(prepared.shared_bytes, 16), None)
            if not code:
                sizes = prepared.total, prepared.threads
                code = self._enqueue(queue, self._kernel, 3, None, *sizes, 0, None, None)
        if code:
            raise self._explain(OpenclError("clEnqueueNDRangeKernel", code), config, len(data))
        call("clFlush", queue)
        if not self._watched and self._reports:
            self._watched = True
            device.watch(self)

    def _explain(self, error: OpenclError, config: LaunchConfig, nbytes: int) -> Exception:
        if not self._kernel:
            return LinkError(f"kernel {self.image.name} was unloaded")
        if error.name not in _IMPOSSIBLE:
            return error
        facts = self.facts()
        return LaunchError(
            f"kernel {self.image.name}: the device refuses blocks = {config.blocks}, threads = {config.threads}, "
            f"shared_bytes = {config.shared_bytes}, {nbytes} bytes of arguments ({error.name}); it allows this kernel "
            f"{facts['max_threads']} threads a block and {self.device.argument_bytes} bytes of arguments, and "
            f"{self.device.limits.shared_bytes} bytes of shared memory, of which the kernel has "
            f"{facts['shared_bytes']} by itself"
        )

    def _prepare(self, config: LaunchConfig) -> _Prepared:
        prepared = self._prepared = keep_prepared(self._configs, config, self._make)
        return prepared

    def _make(self, config: LaunchConfig) -> _Prepared:
        return _Prepared(config, self._padding + self._pack_state(config))

    def _pack_state(self, config: LaunchConfig) -> bytes:
        """The state words that the kernel reads, but the seed, which each launch adds."""
        values: dict[str, tuple[int, ...]] = {
            "record": (self._record.address,),
            "table": (0 if self._table is None else self._table.address,),
            "print": (self.device.print_buffer.address if self._prints else 0,),
            "extents": config.extents,
            "flat": (0, 0),
            "dynamic": (config.shared_bytes,),
        }
        return pack_state(self._state, values)

    # ---- after launching ---------------------------------------------------------------------

    def collect(self, is_idle: bool) -> None:
        """Take the record, if a thread has failed; `is_idle` says that nothing runs on the device any more."""
        if self._record.is_written:
            found = self._record.take()
            if found is not None:
                self.device.pending.add(Failure.of(self.image, found, self.function))
        if is_idle:
            self._watched = False

    def facts(self) -> dict[str, int]:
        """Bytes of memory and the largest block, as the driver says."""
        found = {}
        for name, number in (
            ("max_threads", _WORK_GROUP_SIZE), ("shared_bytes", _LOCAL_MEM_SIZE), ("local_bytes", _PRIVATE_MEM_SIZE),
        ):  # fmt: skip
            value = ctypes.c_uint64()
            where = self.device.handle.int_ptr
            call("clGetKernelWorkGroupInfo", self._kernel, where, number, 8, ctypes.byref(value), None)
            found[name] = value.value
        found["max_threads"] = min(found["max_threads"], self.device.limits.max_threads)
        return found

    def unload(self) -> None:
        """Wait for its launches, then release code and table; the module must not be used afterwards."""
        device, self._prepared, self._configs = self.device, None, {}
        program, self._program = self._program, 0
        kernel, self._kernel = self._kernel, 0
        if not program:
            return
        if self._watched:
            device.finish()
            device.records.fetch()
            self.collect(True)
        device.unwatch(self)
        if kernel:
            call("clReleaseKernel", kernel)
        call("clReleaseProgram", program)
        device.records.give(self._record)
