"""Runtime half of the toy target: two devices that interpret the tree, each with memory of its own."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from helpers.toy.evaluate import Leave, Thread
from helpers.toy.target import TARGET
from sterna.array.memory import HostMemory
from sterna.errors import LinkError
from sterna.runtime.config import LaunchConfig
from sterna.runtime.exceptions import ExceptionRecord, Failure, PendingFailures
from sterna.runtime.seeds import next_seed


class ToyModule:
    """One image loaded: the tree, the slots and the table."""

    def __init__(self, image: Any, layout: Any, device: ToyDevice) -> None:
        self.function: Any = None
        self.image, self.layout, self.device = image, layout, device
        self.tree = json.loads(image.payloads["tree"])
        self.slots: dict[str, list[int]] = {}
        self.table: list[int] = []
        self.seed = 0

    def slots_size(self) -> int | None:
        return 8 * self.image.manifest.table_words

    def write_slots(self, words: Any) -> None:
        self.slots = {r.slot: list(words[r.index : r.index + r.words]) for r in self.image.manifest}

    def set_table(self, words: Any) -> None:
        self.table = list(words)

    def write_word(self, record: Any, word: int, stream: Any = None) -> None:
        if self.table:
            self.table[record.index] = word
        else:
            self.slots[record.slot][0] = word

    def launch(self, config: LaunchConfig, args: bytes, stream: Any = None) -> None:
        if "seed" in self.image.facts["state"]:
            self.seed = next_seed()
        for block in range(config.blocks[0]):
            for thread in range(config.threads[0]):
                index = block * config.threads[0] + thread
                if config.over and index >= config.over[0]:
                    continue
                try:
                    Thread(self, args, index).run()
                except Leave as left:
                    record = ExceptionRecord(left.error, (block, 0, 0), (thread, 0, 0), left.details)
                    self.device.pending.add(Failure.of(self.image, record, self.function))

    def unload(self) -> None:
        self.tree = None


class ToyDevice:
    """One device; its memory is this process's, so host arrays go as they are."""

    reads_host_memory = True

    def __init__(self, index: int) -> None:
        self.name, self.target, self.limits = f"toy:{index}", TARGET, TARGET.limits
        self.pending = PendingFailures()

    def load(self, image: Any, layout: Any) -> ToyModule:
        return ToyModule(image, layout, self)

    def allocate(self, nbytes: int) -> HostMemory:
        return HostMemory(nbytes)

    def capture(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return np.array(value, order="C")
        if value.device is not self:
            raise LinkError(f"a captured array is on {value.device.name}, the kernel runs on {self.name}")
        return value

    def suggest(self, shape: tuple[int, ...]) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        return (-(-shape[-1] // 4), 1, 1), (4, 1, 1)

    def synchronize(self) -> None:
        self.pending.raise_first()


class ToyRuntime:
    """Two devices."""

    def __init__(self) -> None:
        self.devices = [ToyDevice(0), ToyDevice(1)]

    def device_count(self) -> int:
        return len(self.devices)

    def device(self, index: int) -> ToyDevice:
        return self.devices[index]


RUNTIME = ToyRuntime()
