"""The CPU as a device: loading images, launching over the thread pool, memory without copies.

Runtime half of the target.  A launch hands the native entry two pointers (arguments and a launch structure; the
layout is in `sterna.abi`) and returns when all blocks have run; a failing thread leaves its record in the
launch structure, and the device raises it at the next synchronise.

Launch structures are recycled through a list per module, so that concurrent launches never share one.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from time import perf_counter_ns
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from sterna.abi import BLOCK_RANGES, LAUNCH_FIELDS
from sterna.errors import LinkError
from sterna.relocation.record import SLOTS, WORD_BYTES, RelocationRecord, baked_word
from sterna.runtime.config import LaunchConfig, Triple, keep_prepared
from sterna.targets.base import Limits, Target
from sterna.targets.cpu.loader import LoadedObject, load_object
from sterna.targets.cpu.threads import thread_count
from sterna.targets.registry import target

if TYPE_CHECKING:
    from sterna.abi import ArgLayout
    from sterna.array.memory import HostMemory
    from sterna.image.format import KernelImage
    from sterna.runtime.exceptions import PendingFailures
    from sterna.targets.cpu.packing import NativePacker
    from sterna.types import Type

__all__ = ["RUNTIME", "CpuDevice", "CpuModule", "CpuRuntime"]

_FIXED = struct.Struct("=6Q")
"""Fields that stay: exception record, relocation table, seed, dynamic shared bytes, print function, entry."""
_SEED_AT, _SHARED_AT = 8 * LAUNCH_FIELDS["seed"], 8 * LAUNCH_FIELDS["shared_bytes"]
_RECORD_AT, _RECORD_BYTES = _FIXED.size, 80
"""Where the exception record lies and its size (`sterna.runtime.exceptions`, not imported before a kernel fails)."""
_HEADER = struct.Struct("=11Q40x")
"""Fields of a configuration: parts, chunk, grid x y z, block x y z, extents x y z."""
_HEADER_AT = 8 * LAUNCH_FIELDS["parts"]
_RANGE = struct.Struct("=2Q48x")
"""A range of blocks: the next one to take, the end."""
_RANGES_AT, _LINE = 8 * BLOCK_RANGES[0], _RANGE.size
_WORD = struct.Struct("=Q")
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64)
_GUESS_NS = 20.0
"""Assumed time of one thread of a kernel that has not run yet."""
_SHARE_NS = 50_000.0
"""Work worth waking one more thread for."""
_LARGE, _SETTLED = 2, 30
"""Work so many times larger than what all threads are worth waking for is measured at one launch in so many."""
_LEAST_SHARE = 512
"""The last shares of blocks that a thread takes are this part of its range."""
_MAX_BLOCK = 1024
_MIN_BLOCK = 16


@cache
def _thread_limit() -> int:
    """Most threads of a launch, as they were counted at the first one: launch structures have room for so many."""
    return thread_count()


class _LaunchBlock:
    """One launch structure: the memory, and views of what changes and of the exception status."""

    __slots__ = ("_memory", "_table", "address", "header", "shared_bytes", "status", "whole")

    def __init__(self, entry: int, table: Any, prints: bool) -> None:
        size = _RANGES_AT + _LINE * _thread_limit()
        self._memory, self._table, self.shared_bytes = ctypes.create_string_buffer(size + _LINE), table, 0
        start = -ctypes.addressof(self._memory) % _LINE
        self.address = ctypes.addressof(self._memory) + start
        words = 0 if table is None else ctypes.addressof(table)
        record, printer = self.address + _RECORD_AT, _printer()[1] if prints else 0
        _FIXED.pack_into(self._memory, start, record, words, 0, 0, printer, entry)
        self.whole = memoryview(self._memory).cast("B")[start : start + size]
        self.header = self.whole[_HEADER_AT : _RANGES_AT + _LINE]
        self.status = self.whole[_RECORD_AT : _RECORD_AT + 8].cast("i")

    def set_shared(self, nbytes: int) -> None:
        """Set the bytes of dynamic shared memory."""
        _WORD.pack_into(self.whole, _SHARED_AT, nbytes)
        self.shared_bytes = nbytes

    def set_seed(self, seed: int) -> None:
        """Set the key of the launch's random numbers."""
        _WORD.pack_into(self.whole, _SEED_AT, seed)

    def take_record(self) -> bytes:
        """The exception record, which is free again afterwards."""
        record = bytes(self.whole[_RECORD_AT : _RECORD_AT + _RECORD_BYTES])
        self.whole[_RECORD_AT : _RECORD_AT + _RECORD_BYTES] = bytes(_RECORD_BYTES)
        return record


class _Prepared:
    """What a module keeps of a configuration: the sizes, and the packed header for one thread and for several."""

    __slots__ = ("_headers", "blocks", "config", "header", "helpers", "settled", "shared", "span", "threads")

    def __init__(self, config: LaunchConfig) -> None:
        grid, block = config.blocks, config.threads
        self.config = config
        self.blocks = 0 if config.is_empty else grid[0] * grid[1] * grid[2]
        self.threads = self.blocks * block[0] * block[1] * block[2]
        self.helpers = max(min(self.blocks, _thread_limit()) - 1, 0)
        self._headers: dict[int, bytes] = {}
        self.header = self.header_for(0)
        self.settled = 0
        self.shared, self.span = b"", slice(0, 0)

    def settle(self) -> None:
        """Let the next launches be of all threads, without measuring: they have work for more."""
        self.shared = self.header_for(self.helpers)
        self.span = slice(_HEADER_AT, _HEADER_AT + len(self.shared))
        self.settled = _SETTLED  # last: another thread may be launching

    def header_for(self, helpers: int) -> bytes:
        """What stands in a launch structure from its header on: the blocks are divided among so many threads more."""
        found = self._headers.get(helpers)
        if found is None:
            config, parts, blocks = self.config, helpers + 1, self.blocks
            chunk = max(1, blocks // (parts * _LEAST_SHARE))
            header = _HEADER.pack(parts, chunk, *config.blocks, *config.threads, *config.extents)
            ranges = [_RANGE.pack(blocks * n // parts, blocks * (n + 1) // parts) for n in range(parts)]
            found = self._headers[helpers] = b"".join([header, *ranges])
        return found


class CpuModule:
    """One image loaded into this process.

    Attributes
    ----------
    function : function or None
        The live kernel function, which error reports start from; the linker sets it.
    """

    def __init__(self, image: KernelImage, loaded: LoadedObject, device: CpuDevice) -> None:
        self.function: FunctionType | None = None
        self._image, self._object, self._device = image, loaded, device
        self._address = loaded.entry(image.entry)
        self._entry: Any = _ENTRY(self._address)
        self._host = image.payloads.get("host", b"")
        self._prints = bool(image.facts.get("prints", True))
        self._draws = "seed" in image.facts.get("state", ())
        self._table: Any = None
        self._prepared: _Prepared | None = None
        self._configs: dict[LaunchConfig, _Prepared] = {}
        self._free: list[_LaunchBlock] = []
        self._cost = _GUESS_NS

    # ---- words -------------------------------------------------------------------------------

    def slots_size(self) -> int | None:
        """Bytes that the code has for the words of all records, or None if it has no place for them."""
        slot = self._object.slot(SLOTS)
        return None if slot is None else slot[1]

    def write_slots(self, words: Sequence[int]) -> None:
        """Deliver the words of all records in one copy."""
        if words:
            self._object.write(SLOTS, words)

    def set_table(self, words: Sequence[int]) -> None:
        """Deliver the relocation table of the ``table`` strategy."""
        self._table = (ctypes.c_uint64 * max(len(words), 1))(*words)
        self._free = []

    def write_word(self, record: RelocationRecord, word: int, stream: Any = None) -> None:
        """Rewrite the one word of `record` in place; launches that are running may see either value.

        Raises
        ------
        LinkError
            When the code has the word baked in.
        """
        slot = self._object.slot(SLOTS)
        if self._table is not None and record.index < len(self._table):
            self._table[record.index] = word
        elif slot is not None and WORD_BYTES * record.index < slot[1]:
            ctypes.c_uint64.from_address(slot[0] + WORD_BYTES * record.index).value = word
        else:
            raise baked_word(self._image.name, record, self._device.target.strategies)

    # ---- launching ---------------------------------------------------------------------------

    def launch(self, config: LaunchConfig, args: bytes | bytearray, stream: Any = None) -> None:
        """Run the kernel on packed arguments and return when all its blocks have run.

        An exception of the kernel waits for the device's next synchronise.
        """
        prepared = self._prepared
        if prepared is None or prepared.config is not config:
            prepared = self._prepare(config)
        if prepared.blocks == 0:
            return
        if type(args) is not bytes:
            args = bytes(args)
        try:
            block = self._free.pop()
        except IndexError:
            block = _LaunchBlock(self._address, self._table, self._prints)
        if block.shared_bytes != config.shared_bytes:
            block.set_shared(config.shared_bytes)
        if self._draws:
            from sterna.runtime.seeds import next_seed  # few kernels draw random numbers

            block.set_seed(next_seed())
        if prepared.helpers:
            self._launch_many(prepared, args, block)
        else:
            block.header[:] = prepared.header
            self._entry(args, block.address, 0)
        if block.status[0]:
            self._fail(block)
        self._free.append(block)

    def native_packer(self, layout: ArgLayout, types: Sequence[Type], args: Sequence[Any]) -> NativePacker | None:
        """A function in native code that packs arguments like these, or None where only Python can."""
        from sterna.targets.cpu.packing import native_packer  # not for the first launches

        return native_packer(self._host, layout, types, args) if self._host else None

    def _launch_many(self, prepared: _Prepared, args: bytes, block: _LaunchBlock) -> None:
        """Run several blocks, with as many threads as the work seems to be worth."""
        if prepared.settled > 0:
            prepared.settled -= 1
            block.whole[prepared.span] = prepared.shared
            _workers(self._host).run(self._entry, args, block, prepared.helpers)
            return
        helpers = min(int(prepared.threads * self._cost / _SHARE_NS), prepared.helpers) if self._host else 0
        if helpers and self._prints and _writer[0] == threading.get_ident():
            helpers = 0  # they might wait to print until this thread has written its line
        start = perf_counter_ns()
        if helpers:
            header = prepared.header_for(helpers)
            block.whole[_HEADER_AT : _HEADER_AT + len(header)] = header
            _workers(self._host).run(self._entry, args, block, helpers)
        else:
            block.header[:] = prepared.header
            self._entry(args, block.address, 0)
        cost = (perf_counter_ns() - start) * (helpers + 1) / prepared.threads
        if not self._prints and helpers == prepared.helpers and cost * prepared.threads > _LARGE * helpers * _SHARE_NS:
            prepared.settle()
        self._cost = cost if self._cost == _GUESS_NS else 0.5 * (self._cost + cost)

    def _prepare(self, config: LaunchConfig) -> _Prepared:
        prepared = self._prepared = keep_prepared(self._configs, config, _Prepared)
        return prepared

    def _fail(self, block: _LaunchBlock) -> None:
        self._device.note_failure(self._image, block.take_record(), self.function)

    def unload(self) -> None:
        """Unmap the code; the module must not be used afterwards."""
        self._entry, self._prepared = _unloaded, None
        self._object.unload()


def _first_workers(host: bytes) -> Any:
    """The pool of threads, which a process with little work never imports; later calls go there at once."""
    global _workers
    from sterna.targets.cpu.pool import pool

    _workers = pool
    return pool(host)


_workers: Callable[[bytes], Any] = _first_workers


def _unloaded(args: Any, block: Any, part: int) -> None:
    raise LinkError("this kernel was unloaded")


class CpuDevice:
    """This machine's processors, as one device."""

    reads_host_memory = True

    def __init__(self) -> None:
        self.name = "cpu"
        self.target: Target = target("cpu")
        self.limits: Limits = self.target.limits
        self._pending: PendingFailures | None = None

    def __repr__(self) -> str:
        return f"<sterna device {self.name}: {self.target}, {thread_count()} threads>"

    def load(self, image: KernelImage, layout: ArgLayout) -> CpuModule:
        """Load an image's object into this process.

        Raises
        ------
        LinkError
            When the image has no object for this machine, or it cannot be loaded.
        """
        data = image.payloads.get("object")
        if data is None:
            raise LinkError(f"kernel {image.name}: the image holds {sorted(image.payloads)}; the CPU needs 'object'")
        return CpuModule(image, load_object(data), self)

    def allocate(self, nbytes: int) -> HostMemory:
        """Memory of this process, 64-byte aligned, not initialised."""
        from sterna.array.memory import HostMemory  # a launch on NumPy arrays needs no arrays of ours

        return HostMemory(nbytes)

    def copy_in(self, address: int, host: np.ndarray) -> None:
        """Copy a contiguous host array to `address`."""
        ctypes.memmove(address, int(host.__array_interface__["data"][0]), host.nbytes)

    def copy_out(self, host: np.ndarray, address: int) -> None:
        """Copy from `address` into a contiguous host array."""
        ctypes.memmove(int(host.__array_interface__["data"][0]), address, host.nbytes)

    def capture(self, value: Any) -> Any:
        """An array of this device for a captured one.

        A NumPy array or record is copied, C-ordered; an array that the host can read is used as it is.

        Raises
        ------
        LinkError
            For an array that lives on another device.
        """
        from sterna.runtime.captured import captured_array  # few kernels capture arrays

        return captured_array(value, self, _frozen_copy, _shared)

    def suggest(self, shape: tuple[int, ...]) -> tuple[Triple, Triple]:
        """Blocks and threads (x, y, z) for ``over(shape)``, last axis fastest."""
        return _suggest(shape, thread_count())

    def note_failure(self, image: KernelImage, record: bytes, function: FunctionType | None) -> None:
        """Keep the exception record of a launch until the next synchronise."""
        from sterna.runtime.exceptions import ExceptionRecord, Failure, PendingFailures

        found = ExceptionRecord.unpack(record)
        if found is None:
            return
        with _failure_lock:
            if self._pending is None:
                self._pending = PendingFailures()
        self._pending.add(Failure.of(image, found, function))

    def synchronize(self) -> None:
        """Raise what a kernel raised since the last call; launches have run to their end already."""
        pending = self._pending
        if pending is not None and pending.any:
            pending.raise_first()


def _frozen_copy(value: Any) -> np.ndarray:
    copied = np.array(value, order="C")
    copied.flags.writeable = False
    return copied


def _shared(value: Any) -> Any:
    from sterna.array import from_dlpack

    return from_dlpack(value)


@lru_cache(maxsize=1024)
def _suggest(shape: tuple[int, ...], workers: int) -> tuple[Triple, Triple]:
    """Long runs along x, for vectors; enough blocks for every worker; at most 1024 threads a block."""
    x, y, z = (*reversed(shape), 1, 1)[:3]
    if not x * y * z:
        return (0, 0, 0), (1, 1, 1)
    rows = y * z
    wanted = max(1, -(-4 * workers // rows))  # blocks along x, so that all workers have some
    width = min(max(-(-x // wanted), _MIN_BLOCK), _MAX_BLOCK, x)
    width = -(-x // -(-x // width))  # even parts
    width = min(-(-width // _MIN_BLOCK) * _MIN_BLOCK, _MAX_BLOCK, x)
    height = min(y, max(_MAX_BLOCK // width, 1), max(rows // (4 * workers), 1))
    return (-(-x // width), -(-y // height), z), (width, height, 1)


class CpuRuntime:
    """The CPU target's devices: one."""

    def __init__(self) -> None:
        self._device = CpuDevice()

    def device_count(self) -> int:
        """Always 1."""
        return 1

    def device(self, index: int) -> CpuDevice:
        """The device (index 0)."""
        if index != 0:
            raise ValueError(f"there is no cpu:{index}; the CPU is one device, cpu:0")
        return self._device


RUNTIME = CpuRuntime()

# ---- printing from kernels -----------------------------------------------------------------------

_print_lock, _failure_lock = threading.RLock(), threading.Lock()
_writer: list[int] = [0]
"""The thread that is writing to `sys.stdout`, which may be an object of the user's and launch kernels in its turn."""


def _print(data: int, size: int) -> None:
    text = ctypes.string_at(data, size).decode("utf-8", "replace")
    with _print_lock:  # whole lines
        outer, _writer[0] = _writer[0], threading.get_ident()
        try:
            if sys.stdout is not None:
                sys.stdout.write(text)
        finally:
            _writer[0] = outer


def _after_fork() -> None:
    """A forked child has none of the threads that held a lock or were writing."""
    global _print_lock, _failure_lock
    _print_lock, _failure_lock = threading.RLock(), threading.Lock()
    _writer[0] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _printer() -> tuple[Any, int]:
    """The print function as native code calls it, and its address."""
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(_print)
    return function, ctypes.cast(function, ctypes.c_void_p).value or 0
