"""One image on one Metal device: its pipeline, its relocation table, its launches.

The words of the manifest lie in a table in a buffer of the device (`RelocationTable`); the table's GPU address travels
in the state words of every dispatch, and what its addresses point to is declared resident with it.

A launch is one command buffer: arguments and state words in ``buffer(0)``, the resident buffers, one dispatch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from sterna.abi import ArgLayout, pack_state, state_offsets, state_padding
from sterna.errors import LaunchError, LinkError
from sterna.relocation.record import WORD_BYTES, RelocationRecord, baked_word
from sterna.runtime.config import LaunchConfig, keep_prepared
from sterna.runtime.exceptions import Failure
from sterna.runtime.seeds import next_seed
from sterna.targets.metal.api import metal
from sterna.targets.metal.memory import SharedBuffer
from sterna.targets.metal.queue import Queue, Submission
from sterna.targets.metal.table import RelocationTable

if TYPE_CHECKING:
    from sterna.image.format import KernelImage
    from sterna.targets.metal.device import MetalDevice

__all__ = ["MetalModule"]

_MOST_BYTES = 4096
"""Arguments up to this size travel in the command buffer itself, by Metal's rule."""
_ARGUMENTS, _SHARED = 0, 0
"""Indices of the argument buffer and of the thread group's memory."""
_GRANULE = 16
"""Thread group memory comes in multiples of this many bytes."""
_WORD = struct.Struct("=Q")


class _Prepared:
    """What a module keeps of a configuration."""

    __slots__ = ("blocks", "config", "shared_bytes", "tail", "threads")

    def __init__(self, config: LaunchConfig, blocks: Any, threads: Any, shared_bytes: int, tail: bytes) -> None:
        self.config, self.blocks, self.threads = config, blocks, threads
        self.shared_bytes, self.tail = shared_bytes, tail


class MetalModule:
    """An image on a device.

    Attributes
    ----------
    function : function or None
        The live kernel function, which error reports start from; the linker sets it.
    """

    def __init__(self, device: MetalDevice, image: KernelImage, pipeline: Any, layout: ArgLayout) -> None:
        self.function: FunctionType | None = None
        self.device, self.image = device, image
        self._pipeline = pipeline
        self._state = frozenset(image.facts["state"])
        self._draws = "seed" in self._state
        self._padding = state_padding(layout.size, self._state)
        self._offsets = state_offsets(self._state)[0]
        self._words = tuple(field.offset for field in layout.fields if field.code == "Q")
        self._table: RelocationTable | None = None
        self._baked: list[SharedBuffer] = []
        self._record = device.records.take()
        self._prints: Sequence[Any] = image.facts.get("prints") or ()
        self._watches = bool(image.facts.get("raises", True) or self._prints)
        self._last: Submission | None = None
        self._prepared: _Prepared | None = None
        self._configs: dict[LaunchConfig, _Prepared] = {}
        if self._prints:
            device.print_buffer.register(self._record.address, self._prints)

    # ---- words -------------------------------------------------------------------------------

    def slots_size(self) -> int | None:
        """Bytes of the table that the code reads, or None if it reads none.

        Metal's language has no variable that a host can write: code that bakes its other words in reads those that
        may change from a table.
        """
        return WORD_BYTES * self.image.manifest.table_words if "table" in self._state else None

    def note_baked(self, words: Sequence[int]) -> None:
        """These words are in the code: what they point into is declared with every dispatch."""
        self._baked = self.device.memory.all_of(words)

    def write_slots(self, words: Sequence[int]) -> None:
        """Deliver the words that code with baked words still reads."""
        if words:
            self.set_table(words)

    def set_table(self, words: Sequence[int]) -> None:
        """Deliver the relocation table."""
        self._table = RelocationTable(self.device, words)
        self._prepared, self._configs = None, {}

    def write_word(self, record: RelocationRecord, word: int, stream: Any = None) -> None:
        """Rewrite the one word of `record`: launches from now on see it, earlier ones do not, in whatever stream.

        Raises
        ------
        LinkError
            When the code has the word baked in.
        """
        if self._table is None:
            raise baked_word(self.image.name, record, self.device.target.strategies)
        self._table.write(record.index, word)

    # ---- launching ---------------------------------------------------------------------------

    def launch(self, config: LaunchConfig, args: bytes | bytearray, stream: Any = None) -> None:
        """Start the kernel on packed arguments; its exception waits for the next synchronise.

        Raises
        ------
        LaunchError
            When the device cannot run the configuration.
        """
        if self._pipeline is None:
            raise LinkError(f"kernel {self.image.name} was unloaded")
        prepared = self._prepared
        if prepared is None or prepared.config is not config:
            prepared = self._prepare(config)
        queue = self.device.queue_of(stream)
        reached = self.device.memory.all_of([_WORD.unpack_from(args, offset)[0] for offset in self._words])
        reached += [*self._baked, self._record.page]
        if self._prints:
            reached.append(self.device.print_buffer.memory)
        table = self._table
        if table is None:
            self._last = self._submit(queue, prepared, bytes(args), reached, 0)
        else:
            with table.lock:  # nobody puts another buffer in its place meanwhile
                reached += table.resident
                self._last = self._submit(queue, prepared, bytes(args), reached, table.address)
                table.note_use(self._last)
        if self._watches:
            self.device.watch(self)

    def _submit(
        self, queue: Queue, prepared: _Prepared, args: bytes, resident: list[SharedBuffer], table: int
    ) -> Submission:
        words = args + self._padding + self._pack_state(prepared.tail, table)
        own = self.device.new_buffer(words) if len(words) > _MOST_BYTES else None
        usage = metal().MTLResourceUsageRead | metal().MTLResourceUsageWrite

        def encode(command: Any) -> None:
            encoder = command.computeCommandEncoder()
            encoder.setComputePipelineState_(self._pipeline)
            if own is None:
                encoder.setBytes_length_atIndex_(words, len(words), _ARGUMENTS)
            else:
                encoder.setBuffer_offset_atIndex_(own.handle, 0, _ARGUMENTS)
            for buffer in resident:
                encoder.useResource_usage_(buffer.handle, usage)
            if prepared.shared_bytes:
                encoder.setThreadgroupMemoryLength_atIndex_(prepared.shared_bytes, _SHARED)
            encoder.dispatchThreadgroups_threadsPerThreadgroup_(prepared.blocks, prepared.threads)
            encoder.endEncoding()

        return queue.submit(encode, [self._pipeline, self, own, *resident], f"kernel {self.image.name}")

    def _prepare(self, config: LaunchConfig) -> _Prepared:
        prepared = self._prepared = keep_prepared(self._configs, config, self._make)
        return prepared

    def _make(self, config: LaunchConfig) -> _Prepared:
        facts, threads = self.facts(), config.threads
        count = threads[0] * threads[1] * threads[2]
        if count > facts["max_threads"]:
            raise LaunchError(
                f"kernel {self.image.name}: threads = {threads} is {count} threads in a block; this kernel may have "
                f"{facts['max_threads']} on {self.device.name}"
            )
        static = int(self.image.facts.get("shared_bytes", 0))
        total = static + config.shared_bytes
        if config.shared_bytes:  # dynamic memory begins behind the static, aligned
            total = _whole(static) + config.shared_bytes
        if _whole(total) + facts["shared_bytes"] > self.device.limits.shared_bytes:
            raise LaunchError(
                f"kernel {self.image.name}: shared_bytes = {config.shared_bytes} beside {static} static ones is more "
                f"than {self.device.name} has ({self.device.limits.shared_bytes})"
            )
        memory = max(_whole(total), _GRANULE if self.image.facts.get("shared") else 0)
        size = metal().MTLSize
        return _Prepared(config, size(*config.blocks), size(*threads), memory, self._fixed_state(config))

    def _fixed_state(self, config: LaunchConfig) -> bytes:
        """The state words that depend on the configuration alone; those that a launch adds are 0."""
        values: dict[str, Sequence[int]] = {
            "record": (self._record.address,),
            "table": (0,),
            "print": (self.device.print_buffer.address if self._prints else 0,),
            "extents": config.extents,
            "flat": (0, 0),
            "dynamic": (config.shared_bytes,),
            "seed": (0,),
        }
        return pack_state(self._state, values)

    def _pack_state(self, fixed: bytes, table: int) -> bytes:
        """The state words of one launch: the table's address and the seed put into `fixed`."""
        if not table and not self._draws:
            return fixed
        words = bytearray(fixed)
        if table and "table" in self._offsets:
            _WORD.pack_into(words, WORD_BYTES * self._offsets["table"], table)
        if self._draws:
            _WORD.pack_into(words, WORD_BYTES * self._offsets["seed"], next_seed())
        return bytes(words)

    # ---- after launching ---------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether its last launch is done; launches in other streams may not be."""
        return self._last is None or self._last.is_done

    def collect(self) -> None:
        """Take the record, if a thread has failed; the launch that is asked about is done."""
        found = self._record.take()
        if found is not None:
            self.device.pending.add(Failure.of(self.image, found, self.function))

    def facts(self) -> dict[str, int]:
        """The largest block, bytes of static shared memory and the width of a SIMD-group, as Metal says."""
        most = int(self._pipeline.maxTotalThreadsPerThreadgroup())
        return {
            "max_threads": min(most, int(self.image.facts.get("max_threads") or most)),
            "shared_bytes": int(self._pipeline.staticThreadgroupMemoryLength()),
            "warp_size": int(self._pipeline.threadExecutionWidth()),
        }

    def unload(self) -> None:
        """Let go of the pipeline and the table; launches in flight keep theirs, and failures are still raised."""
        if self._pipeline is None:
            return
        self._pipeline = self._table = self._prepared = None
        self._configs = {}
        self.device.retire(self)

    def release_record(self) -> None:
        """Nothing of this kernel runs any more, and nothing will."""
        self.device.records.give(self._record)


def _whole(nbytes: int) -> int:
    return -(-nbytes // _GRANULE) * _GRANULE
