"""What comes after what on CUDA, against the recording double: streams, recordings, threads, other libraries."""

from __future__ import annotations

import ctypes
import gc
import struct
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sterna
from helpers.cuda_double import DriverDouble, cuda_double
from sterna.dlpack import ImportedTensor
from sterna.errors import SignatureError

pytest.importorskip("cuda.bindings.nvjitlink")

GAIN = sterna.Global(2.5, "float32")


@sterna.kernel
def one(x):
    x[sterna.grid(1)] = GAIN


@sterna.kernel
def first(x):
    x[0] = GAIN


@sterna.kernel(cooperative=True)
def meet(x):
    sterna.grid.sync()
    x[0] = 1


@pytest.fixture(autouse=True)
def _no_store(monkeypatch):
    monkeypatch.setenv("STERNA_CACHE", "0")


@pytest.fixture
def cu() -> Iterator[DriverDouble]:
    with cuda_double() as double:
        yield double
        gc.collect()


class Foreign:
    """An array of another library."""

    def __init__(self, address: int, shape: tuple[int, ...], stream: int | None = None) -> None:
        self.interface = {
            "shape": shape, "typestr": "<f4", "data": (address, False), "version": 3, "stream": stream,
        }  # fmt: skip

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.interface


def noted(cu: Any, *names: str) -> list[tuple[Any, ...]]:
    """Calls of these functions from now on, with plain arguments."""
    found: list[tuple[Any, ...]] = []
    for name in names:
        before = getattr(cu, "_" + name, lambda *arguments: 0)

        def call(*arguments: Any, name: str = name, before: Any = before) -> Any:
            found.append((name, *arguments))
            return before(*arguments)

        setattr(cu, "_" + name, call)
    return found


def fail(module: Any) -> None:
    """As a thread that fails in a kernel writes it."""
    record = module._record
    record._bytes[:8] = struct.pack("=2i", 2, 0)


def test_a_cooperative_launch_waits_for_one_in_a_stream_that_is_gone(cu):
    x = sterna.zeros(4, np.int32, "cuda")
    stream = sterna.stream("cuda")
    handle = stream.handle
    meet[1, 1, stream](x)
    calls = noted(cu, "cuEventRecord", "cuStreamWaitEvent", "cuStreamDestroy_v2")
    del stream
    gc.collect()
    gone = next(n for n, call in enumerate(calls) if call[0] == "cuStreamDestroy_v2")
    meet[1, 1](x)
    after = calls[gone + 1 :]
    assert ("cuStreamWaitEvent", 0) in [call[:2] for call in after]
    assert all(call[2] != handle for call in after if call[0] == "cuEventRecord")


def test_replays_of_a_cooperative_kernel_take_turns(cu):
    x = sterna.zeros(4, np.int32, "cuda")
    with sterna.on("cuda"), sterna.capture() as graph:
        meet[1, 1](x)
    a, b = sterna.stream("cuda"), sterna.stream("cuda")
    graph.launch(a)
    calls = noted(cu, "cuStreamWaitEvent", "cuGraphLaunch")
    graph.launch(b)
    assert [call[0] for call in calls if call[0] == "cuGraphLaunch" or call[1] == b.handle][-2:] == [
        "cuStreamWaitEvent",
        "cuGraphLaunch",
    ]


def test_a_failure_launched_while_another_thread_waits_is_not_lost(cu):
    device = sterna.device("cuda")
    x = sterna.zeros(4, np.float32, device)
    one[1, 4](x)
    (module,) = device._watched.values()
    turns = []

    def wait() -> int:
        turns.append(1)
        if len(turns) == 1:  # the device was idle; then, before this thread goes on, another one launches
            one[1, 4](x)
        return 0

    cu._cuCtxSynchronize = wait
    device.synchronize()
    fail(module)
    with pytest.raises(IndexError):
        device.synchronize()
    device.synchronize()


def test_a_foreign_array_in_a_recording_waits_outside_of_it(cu):
    device = sterna.device("cuda")
    x = sterna.zeros(4, np.float32, device)
    one[1, 4](x)
    for stream in (1, 0x77):
        calls = noted(cu, "cuStreamWaitEvent", "cuStreamSynchronize")
        with sterna.on(device), sterna.capture():
            one[1, 4](Foreign(x.address, (4,), stream))
        assert [call for call in calls if call[0] == "cuStreamWaitEvent"] == []
        assert ("cuStreamSynchronize", 0 if stream == 1 else stream) in calls


def test_occupancy_with_much_shared_memory_asks_for_it_first(cu):
    compiled = first.specialize("float32[:]", device="cuda")
    cu.calls.clear()
    compiled.suggest(shared_bytes=100_000)
    assert cu.calls.index("cuFuncSetAttribute") < cu.calls.index("cuOccupancyMaxPotentialBlockSize")


def test_memory_filled_in_another_stream_is_freed_behind_it(cu):
    device = sterna.device("cuda")
    stream = sterna.stream(device, blocking=False)
    for given in (stream, 0x66):
        with sterna.on(device, given):
            x = sterna.zeros(4, np.float32, device)
        calls = noted(cu, "cuMemFreeAsync")
        del x
        gc.collect()
        assert calls and all(call[2] != 0 for call in calls)  # in the stream that waits for all others


def test_what_a_recording_fills_is_filled_before_it_is_replayed(cu):
    device = sterna.device("cuda")
    with sterna.on(device), sterna.capture():
        calls = noted(cu, "cuMemsetD8Async", "cuStreamSynchronize")
        sterna.zeros(4, np.float32, device)
    fill = next(n for n, call in enumerate(calls) if call[0] == "cuMemsetD8Async")
    assert ("cuStreamSynchronize", calls[fill][4]) in calls[fill:]


def test_a_word_is_ordered_on_a_stream_of_its_own_device_alone():
    with cuda_double(2) as cu:
        devices = [sterna.device(f"cuda:{n}") for n in range(2)]
        for device in devices:
            first[1, 1](sterna.zeros(1, np.float32, device))
        stream = sterna.stream(devices[0])
        calls = noted(cu, "cuMemcpyHtoDAsync_v2")
        before = GAIN.value
        GAIN.set(4.0, stream)
        assert {call[4] for call in calls} == {stream.handle, 0}
        GAIN.value = before
        del stream
        gc.collect()


def test_dlpack_without_a_stream_is_for_the_default_one(cu):
    device = sterna.device("cuda")
    x = sterna.zeros(4, np.float32, device)
    stream = sterna.stream(device, blocking=False)
    calls = noted(cu, "cuStreamWaitEvent")
    with sterna.on(device, stream):
        x.__dlpack__(stream=-1)
        assert not calls
        x.__dlpack__()
        assert calls[-1][1] == 0


def test_what_is_read_only_says_so_to_other_libraries(cu):
    x = sterna.zeros(4, np.float32, "cuda")
    theirs = Foreign(x.address, (4,))
    theirs.interface["data"] = (x.address, True)
    adopted = sterna.from_dlpack(theirs)
    assert adopted.__cuda_array_interface__["data"] == (x.address, True)
    assert x.__cuda_array_interface__["data"] == (x.address, False)
    with pytest.raises(BufferError, match="read-only"):
        adopted.__dlpack__(stream=1)


class Exporter:
    """An array of a library that has DLPack and nothing else."""

    def __init__(self, array: Any) -> None:
        self._array, self.streams = array, []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __dlpack__(self, stream: int | None = None) -> Any:
        self.streams.append(stream)
        return self._array.__dlpack__(stream=-1)


def test_an_array_with_dlpack_alone_is_taken_in_place(cu):
    from sterna.targets.cuda import dlpack

    device = sterna.device("cuda")
    x = sterna.zeros((4, 6), np.float32, device)
    before = len(dlpack._alive)
    theirs = Exporter(x[::2, 1:])
    adopted = sterna.from_dlpack(theirs)
    assert (adopted.address, adopted.shape, adopted.strides) == (x.address + 4, (2, 5), (48, 4))
    assert adopted.dtype == np.float32 and adopted.device is device and theirs.streams == [1]
    stream = sterna.stream(device)
    with sterna.on(device, stream):
        assert sterna.from_dlpack(theirs).address == x.address + 4
    assert theirs.streams[-1] == stream.handle
    assert len(dlpack._alive) == before + 1
    del adopted
    gc.collect()
    assert len(dlpack._alive) == before
    seen = []
    cu.on_launch = lambda launched: seen.append(struct.unpack("=Qq", ctypes.string_at(launched.params, 16)))
    one[1, 4](Exporter(x[1]))
    assert seen == [(x.address + 24, 6)]
    gc.collect()
    assert len(dlpack._alive) == before


def test_a_captured_array_with_dlpack_alone(cu):
    x, out = sterna.zeros(4, np.float32, "cuda"), sterna.zeros(4, np.float32, "cuda")
    held = Exporter(x)

    @sterna.kernel
    def k(out):
        out[0] = held[1]

    k[1, 1](out)
    assert x.address in next(iter(k.specialize("float32[:]", device="cuda").words.values()))


def test_an_array_that_dlpack_cannot_say_is_refused(cu):
    class Half(Exporter):
        def __dlpack__(self, stream: int | None = None) -> Any:
            raise BufferError("it needs its gradient")

    with pytest.raises(SignatureError, match="gradient"):
        one[1, 4](Half(sterna.zeros(4, np.float32, "cuda")))


def test_a_capsule_is_read_and_given_back():
    array = np.arange(24, dtype=np.int16).reshape(4, 6)[::-2, 1:]
    count = sys.getrefcount(array)
    tensor = ImportedTensor(array, None)
    assert tensor.address == array.__array_interface__["data"][0]
    assert (tensor.shape, tensor.strides, tensor.dtype) == (array.shape, array.strides, array.dtype)
    assert sys.getrefcount(array) == count + 1
    del tensor
    assert sys.getrefcount(array) == count
    assert ImportedTensor(np.array(1.5), None).shape == ()
    assert ImportedTensor(np.zeros(3, np.bool_), None).dtype == np.bool_
