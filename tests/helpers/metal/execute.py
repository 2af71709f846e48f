"""Running one dispatch of a simulated device: what hardware would refuse is checked, faults become errors."""

from __future__ import annotations

import ctypes
import signal
from dataclasses import dataclass, field

from helpers.metal.library import Entry, load, runtime
from helpers.metal.memory import Pages, opened

__all__ = ["Dispatch", "Fault", "run"]

SLOTS = 31
MAX_GROUP_BYTES = 32 * 1024


class Fault(Exception):
    """The GPU cannot go on with this command buffer."""


class _Dispatch(ctypes.Structure):
    _fields_ = (
        ("groups", ctypes.c_uint32 * 3),
        ("threads", ctypes.c_uint32 * 3),
        ("buffers", ctypes.c_void_p * SLOTS),
        ("group_bytes", ctypes.c_uint32 * SLOTS),
        ("group_memory", ctypes.c_void_p * SLOTS),
    )


class _Report(ctypes.Structure):
    _fields_ = (
        ("signal", ctypes.c_int32),
        ("address", ctypes.c_uint64),
        ("apart", ctypes.c_uint64),
    )


@dataclass
class Dispatch:
    """One encoded dispatch.

    Attributes
    ----------
    code : path of the compiled text
    buffers : mapping of int to (Pages, int)
        What is bound to each index, and the offset in it.
    resident : list of Pages
        Everything that was declared beside those.
    """

    code: object
    entry: Entry
    groups: tuple[int, int, int]
    threads: tuple[int, int, int]
    buffers: dict[int, tuple[Pages, int]] = field(default_factory=dict)
    group_bytes: dict[int, int] = field(default_factory=dict)
    resident: list[Pages] = field(default_factory=list)

    def check(self) -> None:
        """What Metal's validation says before anything runs.

        Raises
        ------
        AssertionError
            As an application that breaks these rules ends.
        """
        count = self.threads[0] * self.threads[1] * self.threads[2]
        assert 0 < count <= self.entry.max_threads, f"{count} threads in a group; at most {self.entry.max_threads}"
        assert min(self.groups) > 0, f"an empty grid: {self.groups}"
        for index in self.entry.buffers:
            assert index in self.buffers, f"nothing is bound to buffer({index}) of {self.entry.name}"
        for index in self.entry.group_memory:
            assert self.group_bytes.get(index), f"threadgroup({index}) of {self.entry.name} has no length"
        assert sum(self.group_bytes.values()) <= MAX_GROUP_BYTES, f"{self.group_bytes} bytes of threadgroup memory"


def run(dispatch: Dispatch) -> int:
    """Run it; the number of barriers to which some thread of its group did not come, or not to the same one.

    Raises
    ------
    Fault
        When the kernel touches memory that is not resident, or does something impossible.
    """
    made, report = _Dispatch(), _Report()
    made.groups[:], made.threads[:] = dispatch.groups, dispatch.threads
    for index, (pages, offset) in dispatch.buffers.items():
        made.buffers[index] = pages.gpu + offset
    for index, nbytes in dispatch.group_bytes.items():
        made.group_bytes[index] = nbytes
    entry = ctypes.c_void_p(load(dispatch.code, dispatch.entry.name))  # type: ignore[arg-type]
    with opened([*(pages for pages, _ in dispatch.buffers.values()), *dispatch.resident]):
        whole = runtime().sterna_sim_run(entry, ctypes.byref(made), ctypes.byref(report))
    if whole:
        return report.apart
    if report.signal in (signal.SIGSEGV, signal.SIGBUS):
        raise Fault(f"Caused GPU Address Fault Error: kernel {dispatch.entry.name} touched {report.address:#x}")
    raise Fault(f"kernel {dispatch.entry.name}: {signal.Signals(report.signal).name}")
