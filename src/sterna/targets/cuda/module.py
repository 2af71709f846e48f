"""One image loaded in one context: its slots, its function, its launches.

The order of linking is the order of the calls here: load the code, look the slots up, check and write them, and only
then get the function.  All slots are parts of one symbol, in the manifest's order, so that one look-up and one copy
serve any number of them; the driver refuses a copy that reaches past one symbol.

A launch is `CudaModule.launch` and nothing else: one call of the driver, with the arguments and the state words behind
them in one buffer.
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
from sterna.relocation.record import SLOTS, WORD_BYTES, RelocationRecord, baked_word
from sterna.runtime.config import LaunchConfig, keep_prepared
from sterna.runtime.exceptions import Failure
from sterna.runtime.seeds import next_seed
from sterna.targets.base import ModuleLost
from sterna.targets.cuda.driver import DriverError, driver
from sterna.targets.cuda.memory import CudaMemory, new_handle
from sterna.targets.cuda.streams import Event

if TYPE_CHECKING:
    from sterna.image.format import KernelImage
    from sterna.targets.cuda.device import CudaDevice

__all__ = ["CudaModule"]

_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_DEFAULT_SHARED = 48 * 1024
_GRID_SIDE = 65535
_GRID_STATE = "sterna_grid"
_IMPOSSIBLE = (
    "CUDA_ERROR_INVALID_VALUE",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "CUDA_ERROR_INVALID_CLUSTER_SIZE",
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
)
"""Names of errors of a launch whose configuration the device cannot run."""
_SEED = struct.Struct("=Q")
_FUNCTION_FACTS = {"max_threads": 0, "shared_bytes": 1, "local_bytes": 3, "registers": 4}


class _Prepared:
    """What a module keeps of a configuration: everything of the driver call but function, stream and arguments."""

    __slots__ = ("config", "dims", "tail")

    def __init__(self, config: LaunchConfig, dims: tuple[int, ...], tail: bytes) -> None:
        self.config, self.dims, self.tail = config, dims, tail


class CudaModule:
    """An image in a context.

    Attributes
    ----------
    function : function or None
        The live kernel function, which error reports start from; the linker sets it.
    is_watched : bool
        Whether it was launched since the device was last waited for.
    """

    def __init__(self, device: CudaDevice, image: KernelImage, handle: int, size: int) -> None:
        self.function: FunctionType | None = None
        self.device, self.image = device, image
        self._handle, self._generation = handle, device.context.generation
        self._state = frozenset(image.facts["state"])
        self._draws = "seed" in self._state
        self._padding = state_padding(size, self._state)
        self._kernel: Any = None
        self._table: CudaMemory | None = None
        self._record = device.records.take()
        self._slots: tuple[int, int | None] | None = None
        self._prepared: _Prepared | None = None
        self._configs: dict[LaunchConfig, _Prepared] = {}
        self._raises = bool(image.facts.get("raises", True))
        self._prints: Sequence[Any] = image.facts.get("prints") or ()
        self.is_watched = False
        self._collecting = threading.Lock()
        self._dynamic = 0
        self._cooperative = bool(image.facts.get("cooperative"))
        if self._prints:
            device.print_buffer.register(self._record.address, self._prints)
        self._turn: tuple[int, Event] | None = None
        self._call: Any = device.launch_call(self._cooperative)

    # ---- words -------------------------------------------------------------------------------

    def slots_size(self) -> int | None:
        """Bytes that the code has for the words of all records, or None if it has no place for them."""
        if self._slots is None:
            self._slots = self._look_up(SLOTS)
        return self._slots[1]

    def _look_up(self, name: str) -> tuple[int, int | None]:
        """Address and size of a variable, from the driver."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        cu = self.device.context.enter()
        try:
            cu.cuModuleGetGlobal_v2(ctypes.byref(address), ctypes.byref(size), self._handle, name.encode())
        except DriverError as error:
            if error.name == "CUDA_ERROR_NOT_FOUND":
                return 0, None
            raise
        return address.value, size.value

    def write_slots(self, words: Sequence[int]) -> None:
        """Deliver the words of all records in one copy; the kernel can be launched then."""
        if words:
            self._slots = self._slots or self._look_up(SLOTS)
            self.device.write_now({self._slots[0]: struct.pack(f"={len(words)}Q", *words)})
        self._finish()

    def set_table(self, words: Sequence[int]) -> None:
        """Deliver the relocation table of the ``table`` strategy; the kernel can be launched then."""
        self._table = self.device.memory.allocate(WORD_BYTES * max(len(words), 1), self.device.loader)
        if words:
            self.device.write_now({self._table.address: struct.pack(f"={len(words)}Q", *words)})
        self._finish()

    def write_word(self, record: RelocationRecord, word: int, stream: Any = None) -> None:
        """Rewrite the one word of `record` in place, ordered on `stream` (the current one without).

        Raises
        ------
        LinkError
            When the code has the word baked in.
        """
        base = self._slots[0] if self._table is None and self._slots is not None else 0
        if self._table is not None:
            base = self._table.address
        if not base:
            raise baked_word(self.image.name, record, self.device.target.strategies)
        if self._generation != self.device.context.generation:
            return
        self.device.write_word(base + WORD_BYTES * record.index, word, stream)

    def _finish(self) -> None:
        cu = self.device.context.enter()
        self.device.context.need_stack(int(self.image.facts.get("stack_bytes", 0)))
        name = self.image.entry.encode()
        self._kernel = ctypes.c_void_p(new_handle(cu.cuModuleGetFunction, self._handle, name))

    # ---- launching ---------------------------------------------------------------------------

    def launch(self, config: LaunchConfig, args: bytes | bytearray, stream: Any = None) -> None:
        """Start the kernel on packed arguments; its exception waits for the next synchronise.

        Raises
        ------
        DriverError
            When the driver refuses the launch.
        ModuleLost
            When the context was reset since the kernel was linked.
        """
        prepared = self._prepared
        if prepared is None or prepared.config is not config:
            prepared = self._prepare(config)
        if stream is not None:
            self._launch_beside(prepared, args, stream)
            return
        if self._cooperative:
            self.take_turn(0)
        tail = prepared.tail + _SEED.pack(next_seed()) if self._draws else prepared.tail
        cell = ctypes.c_char_p(bytes(args) + tail)
        code = self._call(self._kernel, *prepared.dims, None, ctypes.byref(cell), None)
        if code:
            self._retry(code, prepared, None, cell)
        if self._cooperative:
            self.end_turn(0)
        if not self.is_watched:
            self.note_launch()

    def _launch_beside(self, prepared: _Prepared, args: bytes | bytearray, given: Any) -> None:
        """A launch into another stream than the default one."""
        stream = self.device.stream_of(given)
        memory = self.device.memory
        handle = stream.handle
        is_recording = getattr(stream, "is_capturing", False)  # a graph waits for nothing outside; its replay does
        if handle and not is_recording:
            memory.enter_stream(handle, stream.is_blocking, stream.is_foreign)
        if not is_recording:
            self.take_turn(handle)
        tail = prepared.tail + _SEED.pack(next_seed()) if self._draws else prepared.tail
        cell = ctypes.c_char_p(bytes(args) + tail)
        code = self._call(self._kernel, *prepared.dims, ctypes.c_void_p(handle), ctypes.byref(cell), None)
        if code:
            self._retry(code, prepared, ctypes.c_void_p(handle), cell)
        if not is_recording:
            self.end_turn(handle)
        if handle and stream.is_foreign:
            memory.leave_stream(handle)
        if not self.is_watched:
            self.note_launch()

    def take_turn(self, stream: int) -> None:
        """Launches of a cooperative kernel share its grid barrier: one in another stream comes after the last one."""
        if self._cooperative and self._turn is not None and self._turn[0] != stream:
            self.device.context.enter().cuStreamWaitEvent(stream, self._turn[1].handle, 0)

    def end_turn(self, stream: int) -> None:
        """Mark where the launch is done; the stream itself may be gone when the next one asks."""
        if self._cooperative:
            event = self._turn[1] if self._turn is not None else Event(self.device, timing=False)
            self.device.context.enter().cuEventRecord(event.handle, stream)
            self._turn = stream, event

    def _retry(self, code: int, prepared: _Prepared, stream: Any, cell: Any) -> None:
        """A launch was refused: another library may have made another context current in this thread."""
        if self._kernel is None:
            raise LinkError(f"kernel {self.image.name} was unloaded")
        if self._generation != self.device.context.generation:
            raise ModuleLost(self.image.name)
        cu = self.device.context.enter()
        again = self._call(self._kernel, *prepared.dims, stream, ctypes.byref(cell), None)
        if not again:
            return
        error = cu.error("cuLaunchKernel", again)
        if error.name in ("CUDA_ERROR_CONTEXT_IS_DESTROYED", "CUDA_ERROR_INVALID_HANDLE", "CUDA_ERROR_INVALID_CONTEXT"):
            self.device.context.lost()
            raise ModuleLost(self.image.name)
        raise self._explain(error, prepared.config)

    def _explain(self, error: DriverError, config: LaunchConfig) -> Exception:
        if error.name in _IMPOSSIBLE:
            facts = self.facts()
            return LaunchError(
                f"kernel {self.image.name}: the device refuses blocks = {config.blocks}, threads = {config.threads}, "
                f"shared_bytes = {config.shared_bytes} ({error.name}); the kernel uses "
                f"{facts['registers']} registers a thread "
                f"and {facts['shared_bytes']} bytes of static shared memory, and allows "
                f"{facts['max_threads']} threads a block"
            )
        return error

    def _prepare(self, config: LaunchConfig) -> _Prepared:
        if self._generation != self.device.context.generation:
            raise ModuleLost(self.image.name)
        self.device.context.enter()
        prepared = self._prepared = keep_prepared(self._configs, config, self._make)
        return prepared

    def _make(self, config: LaunchConfig) -> _Prepared:
        self._allow_shared(config.shared_bytes)
        blocks, flat = config.blocks, (0, 0)
        if config.over and max(blocks[1:]) > _GRID_SIDE:
            total = blocks[0] * blocks[1] * blocks[2]
            if total >= 2**31:
                raise LaunchError(
                    f"kernel {self.image.name}: over({config.over}) needs {total} blocks; "
                    f"the device counts to {2**31 - 1}"
                )
            blocks, flat = (total, 1, 1), blocks[:2]
        cluster = (*self.image.facts.get("cluster", ()), 1, 1, 1)[:3]
        if config.over:  # blocks past the extents leave at once
            blocks = tuple(-(-n // by) * by for n, by in zip(blocks, cluster, strict=True))
        dims = (*blocks, *config.threads, config.shared_bytes)
        return _Prepared(config, dims, self._padding + self._pack_state(config, flat))

    def _pack_state(self, config: LaunchConfig, flat: tuple[int, int]) -> bytes:
        """The state words that the kernel reads, but the seed, which each launch adds."""
        values: dict[str, tuple[int, ...]] = {
            "record": (self._record.address,),
            "table": (0 if self._table is None else self._table.address,),
            "print": (self.device.print_buffer.address if self._prints else 0,),
            "extents": config.extents,
            "flat": flat,
        }
        return pack_state(self._state, values)

    def _allow_shared(self, nbytes: int) -> None:
        """More dynamic shared memory than every kernel may have must be asked for."""
        if nbytes + int(self.image.facts.get("shared_bytes", 0)) <= _DEFAULT_SHARED or nbytes <= self._dynamic:
            return
        try:
            driver().cuFuncSetAttribute(self._kernel, _DYNAMIC_SHARED, nbytes)
        except DriverError as error:
            raise LaunchError(
                f"kernel {self.image.name}: shared_bytes = {nbytes} beside "
                f"{self.facts()['shared_bytes']} static ones is more "
                f"than this device has ({self.device.limits.shared_bytes}) ({error.name})"
            ) from None
        self._dynamic = nbytes

    # ---- after launching ---------------------------------------------------------------------

    def forget_context(self) -> None:
        """The context is gone: the next launch must not use a handle of it."""
        self._prepared, self._configs = None, {}

    def note_launch(self) -> None:
        """It was launched, here or by a graph: its record is looked at by the next synchronise."""
        if self._raises or self._prints:
            self.device.watch(self)
        else:
            self.is_watched = True

    def collect(self, is_idle: bool) -> None:
        """Take the record, if a thread has failed; `is_idle` says that nothing runs on the device any more."""
        with self._collecting:
            found = self._record.take() if self._record.is_written else None
        if found is None:
            return
        if self._cooperative and is_idle:
            address, size = self._look_up(_GRID_STATE)
            if size:
                self.device.write_now({address: bytes(size)})
        self.device.pending.add(Failure.of(self.image, found, self.function))

    def facts(self) -> dict[str, int]:
        """Registers, bytes of memory and the largest block, as the driver says."""
        cu = self.device.context.enter()
        found = {}
        for name, number in _FUNCTION_FACTS.items():
            value = ctypes.c_int()
            cu.cuFuncGetAttribute(ctypes.byref(value), number, self._kernel)
            found[name] = value.value
        return found

    def suggest(self, shared_bytes: int = 0) -> tuple[int, int]:
        """Blocks and threads that fill the device, as the driver's occupancy calculator says."""
        cu = self.device.context.enter()
        self._allow_shared(shared_bytes)
        blocks, threads = ctypes.c_int(), ctypes.c_int()
        cu.cuOccupancyMaxPotentialBlockSize(
            ctypes.byref(blocks), ctypes.byref(threads), self._kernel, None, shared_bytes, 0
        )
        return blocks.value, threads.value

    def unload(self) -> None:
        """Wait for its launches, then release code and slots; the module must not be used afterwards."""
        device = self.device
        self._prepared, self._configs, self._kernel = None, {}, None
        self._call = _unloaded
        if self._handle and self._generation == device.context.generation:
            handle, self._handle = self._handle, 0
            try:
                cu = device.context.enter()
            except (OSError, DriverError):  # a forked child, or the driver is gone: nothing of it is left to release
                return
            if self.is_watched or device.watches(self):
                cu.cuCtxSynchronize()
                self.collect(True)
            device.unwatch(self)
            cu.cuModuleUnload(handle)
            device.records.give(self._record)


def _unloaded(*args: Any) -> int:
    raise LinkError("this kernel was unloaded")
