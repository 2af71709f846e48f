"""The CPU device on hand-made kernels: launches, words, exceptions, suggestions, captures."""

from __future__ import annotations

import math
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

import sterna.array
from helpers.native import grid_kernel, load_kernel
from sterna.abi import BLOCK_RANGES, LAUNCH_FIELDS
from sterna.errors import LinkError
from sterna.relocation.record import RefKind, RelocationRecord
from sterna.runtime import devices
from sterna.runtime.config import LaunchConfig, make_config
from sterna.runtime.hostrefs import Global
from sterna.targets.base import Limits
from sterna.targets.cpu.device import RUNTIME, CpuDevice, _Prepared, _suggest
from sterna.targets.cpu.loader import host_machine

pytestmark = pytest.mark.skipif(host_machine() != 62, reason="hand-made kernels are x86-64")

ADD_SLOT = grid_kernel(
    """
  %word = load i64, ptr @sterna_refs
  %at = getelementptr i64, ptr %out, i64 %i
  %old = load i64, ptr %at
  %sum = add i64 %old, %word
  store i64 %sum, ptr %at
  br label %latch
""",
    "@sterna_refs = externally_initialized global [1 x i64] zeroinitializer",
)
ADD_TABLE = grid_kernel(
    """
  %entry.p = getelementptr i64, ptr %table, i64 2
  %word = load i64, ptr %entry.p
  %at = getelementptr i64, ptr %out, i64 %i
  store i64 %word, ptr %at
  br label %latch
"""
)
# Threads whose number divides by 7 with rest 3 fail, at error site 1; the others count.
FAILING = grid_kernel(
    """
  %rest = urem i64 %i, 7
  %bad = icmp eq i64 %rest, 3
  br i1 %bad, label %fail, label %good
good:
  %at = getelementptr i64, ptr %out, i64 %i
  %old = load i64, ptr %at
  %sum = add i64 %old, 1
  store i64 %sum, ptr %at
  br label %latch
fail:
  %claim = cmpxchg ptr %record, i32 0, i32 1 seq_cst seq_cst
  %won = extractvalue { i32, i1 } %claim, 1
  br i1 %won, label %write, label %latch
write:
  %site.p = getelementptr i32, ptr %record, i64 1
  store i32 1, ptr %site.p
  %b.p = getelementptr i64, ptr %record, i64 1
  store i64 %block, ptr %b.p
  %t.p = getelementptr i64, ptr %record, i64 4
  store i64 %t, ptr %t.p
  %d.p = getelementptr i64, ptr %record, i64 7
  store i64 %i, ptr %d.p
  %e.p = getelementptr i64, ptr %record, i64 9
  store i64 -5, ptr %e.p
  store i32 2, ptr %record
  br label %latch
"""
)
SITES = (
    {"exception": "ValueError", "message": "not this one", "function": 0, "statement": 0, "line": 1},
    {"exception": "IndexError", "message": "index {0} is out of {2} {3} {}", "function": 0, "statement": 9, "line": 2},
)


def arguments(out: np.ndarray) -> bytes:
    return struct.pack("=Q", out.ctypes.data)


def config(blocks: int, threads: int) -> LaunchConfig:
    return make_config(Limits(), blocks, threads)


@pytest.fixture(autouse=True)
def nothing_pending():
    yield
    RUNTIME.device(0).synchronize()


@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (1, 64), (7, 33), (20000, 64)])
def test_every_thread_runs_once(blocks: int, threads: int) -> None:
    module = load_kernel(ADD_SLOT)
    module.write_slots([3])
    out = np.zeros(blocks * threads, np.int64)
    for turn in range(1, 4):
        module.launch(config(blocks, threads), arguments(out))
        np.testing.assert_array_equal(out, 3 * turn)
    module.launch(config(blocks, threads), bytearray(arguments(out)))
    np.testing.assert_array_equal(out, 12)
    module.unload()


def test_launches_from_many_threads_do_not_mix() -> None:
    module = load_kernel(ADD_SLOT)
    module.write_slots([1])
    outs = [np.zeros(64 * (n + 1), np.int64) for n in range(8)]

    def work(number: int) -> None:
        for _ in range(100):
            module.launch(config(number + 1, 64), arguments(outs[number]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [set(out.tolist()) for out in outs] == [{100}] * 8


def test_an_empty_over_launch_does_nothing() -> None:
    module = load_kernel(ADD_SLOT)
    module.launch(LaunchConfig((0, 0, 0), (1, 1, 1), (0,)), struct.pack("=Q", 0))
    module.launch(LaunchConfig((1, 1, 1), (1, 1, 1), (4, 0)), struct.pack("=Q", 0))


def test_the_table_strategy() -> None:
    module = load_kernel(ADD_TABLE)
    out = np.zeros(4, np.int64)
    module.set_table([1, 2, 30, 4])
    module.launch(config(1, 4), arguments(out))
    assert out.tolist() == [30] * 4
    record = RelocationRecord("absent", 2, RefKind.GLOBAL, "globals:G")
    module.write_word(record, 2**64 - 9)
    module.launch(config(1, 4), arguments(out))
    assert out.tolist() == [-9] * 4
    module.set_table([0, 0, 5])
    module.launch(config(1, 4), arguments(out))
    assert out.tolist() == [5] * 4


def test_the_launch_block_holds_the_configuration() -> None:
    copy_block = grid_kernel(
        """
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %launch, i64 288, i1 false)
  br label %latch
""",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    )
    module = load_kernel(copy_block, facts={"prints": False})
    out = np.zeros(36, np.uint64)

    def field(name: str, count: int = 1) -> list[int]:
        return out[LAUNCH_FIELDS[name] :][:count].tolist()

    for shared in (0, 4096, 512):
        module.launch(LaunchConfig((1, 1, 1), (2, 1, 1), (3, 5), shared), arguments(out))
        assert [*field("parts"), *field("chunk")] == [1, 1]
        assert field("grid_dim", 3) + field("block_dim", 3) + field("extents", 3) == [1, 1, 1, 2, 1, 1, 5, 3, 1]
        assert field("shared_bytes") + field("print") + field("seed") == [shared, 0, 0]
        assert field("entry") == [module._address]
        assert out[BLOCK_RANGES[0] : BLOCK_RANGES[0] + 2].tolist() == [1, 1], "the one block has been taken"
    module.launch(make_config(Limits(), (1, 1, 1), (2, 3, 4)), arguments(out))
    assert field("block_dim", 3) + field("extents", 3) == [2, 3, 4, 1, 1, 1]


def test_the_ranges_of_a_launch_cover_its_blocks_once() -> None:
    for blocks, helpers in ((1, 0), (7, 1), (1000, 3), (5, 4), (2**31 - 1, 6)):
        header = _Prepared(config(blocks, 32)).header_for(helpers)
        ranges = [struct.unpack_from("=2Q", header, 128 + 64 * n) for n in range(helpers + 1)]
        assert len(header) == 128 + 64 * (helpers + 1)
        assert [first for first, _ in ranges] == [0, *(end for _, end in ranges[:-1])] and ranges[-1][1] == blocks
        sizes = {end - first for first, end in ranges}
        assert max(sizes) - min(sizes) <= 1


def test_many_configurations_in_turn() -> None:
    module = load_kernel(ADD_SLOT)
    module.write_slots([1])
    out = np.zeros(700, np.int64)
    expected = np.zeros(700, np.int64)
    for n in [*range(1, 700), *range(1, 20)]:
        module.launch(config(n, 1), arguments(out))
        expected[:n] += 1
    np.testing.assert_array_equal(out, expected)
    assert len(module._configs) <= 256


def test_a_global_is_written_in_place() -> None:
    module = load_kernel(ADD_SLOT)
    record = RelocationRecord("slot", 0, RefKind.GLOBAL, "globals:G")
    value = Global(5)
    value.attach(module, record)
    out = np.zeros(2, np.int64)
    module.launch(config(1, 2), arguments(out))
    value.value = -2
    module.launch(config(1, 2), arguments(out))
    assert out.tolist() == [3, 3]
    value.detach(module, record)
    value.value = 100
    module.launch(config(1, 2), arguments(out))
    assert out.tolist() == [1, 1]


def test_a_baked_word_cannot_be_changed() -> None:
    module = load_kernel(ADD_TABLE)
    record = RelocationRecord("absent", 0, RefKind.GLOBAL, "globals:G")
    value = Global(5)
    value.attach(module, record)
    with pytest.raises(LinkError, match="baked"):
        value.value = 6


def test_words_and_code_that_disagree() -> None:
    module = load_kernel(ADD_SLOT)
    assert module.slots_size() == 8
    assert load_kernel(ADD_TABLE).slots_size() is None
    with pytest.raises(LinkError):
        module.write_slots([1, 2])
    with pytest.raises(LinkError, match="baked"):  # a record outside the words that the code has
        module.write_word(RelocationRecord("slot", 1, RefKind.GLOBAL, "globals:G"), 7)
    with pytest.raises(LinkError, match="'object'"):
        load_kernel(ADD_SLOT, payloads={"ptx": b""})
    with pytest.raises(LinkError, match="no function"):
        load_kernel(ADD_SLOT, entry="elsewhere")


def test_an_unloaded_kernel_refuses_to_run() -> None:
    module = load_kernel(ADD_SLOT)
    module.unload()
    with pytest.raises(LinkError, match="unloaded"):
        module.launch(config(1, 1), bytes(8))


# ---- exceptions ----------------------------------------------------------------------------------


def example_kernel(a):
    b = a
    return b


def test_a_failure_is_raised_once_at_the_next_synchronise() -> None:
    module = load_kernel(FAILING, errors=SITES, sources=(("", "example_kernel"),), name="example_kernel")
    module.function = example_kernel
    out = np.zeros(3 * 64, np.int64)
    module.launch(config(3, 64), arguments(out))
    expected = (np.arange(192) % 7 != 3).astype(np.int64)
    np.testing.assert_array_equal(out, expected)  # the others went on
    with pytest.raises(IndexError) as caught:
        devices.synchronize()
    error = caught.value
    number = error.block[0] * 64 + error.thread[0]
    assert number % 7 == 3
    line = example_kernel.__code__.co_firstlineno + 2
    assert str(error) == (
        f"index {number} is out of -5 {{3}} {{}} (kernel example_kernel, {__file__}:{line}, "
        f"block {error.block}, thread {error.thread})"
    )
    assert (error.kernel, error.line, error.filename, error.function) == (
        "example_kernel", line, __file__, "example_kernel",
    )  # fmt: skip
    assert "return b" in error.__notes__[0]
    devices.synchronize()
    module.launch(config(1, 3), arguments(out))  # valid again: threads 0 to 2
    devices.synchronize()
    assert out[:3].tolist() == [2, 2, 2]


def test_reading_an_array_raises_what_is_pending() -> None:
    module = load_kernel(FAILING, errors=SITES)
    array = sterna.array.zeros(7, np.int64)
    for read in (array.copy_to_host, lambda: np.asarray(array), lambda: array[0], lambda: np.from_dlpack(array)):
        module.launch(config(1, 7), struct.pack("=Q", array.address))
        with pytest.raises(IndexError):
            read()
        read()
    assert array.copy_to_host().tolist() == [4, 4, 4, 0, 4, 4, 4]


def test_several_failures_are_one_exception_with_notes() -> None:
    module = load_kernel(FAILING, errors=SITES)
    out = np.zeros(64, np.int64)
    for _ in range(9):
        module.launch(config(1, 64), arguments(out))
    with pytest.raises(IndexError) as caught:
        devices.synchronize()
    notes = caught.value.__notes__
    assert sum("a later launch failed too: IndexError" in note for note in notes) == 5
    assert notes[-1] == "3 more launches failed"
    devices.synchronize()


UNREPORTED = """
import numpy as np, struct
import sys; sys.path[:0] = [{tests!r}]
from helpers.native import load_kernel
from none.test_cpu_device import FAILING, SITES, config
module = load_kernel(FAILING, errors=SITES)
out = np.zeros(64, np.int64)
module.launch(config(1, 64), struct.pack("=Q", out.ctypes.data))
"""


def test_a_failure_nobody_synchronised_on_is_reported_at_exit(tmp_path) -> None:
    script = tmp_path / "unreported.py"
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    script.write_text(UNREPORTED.format(tests=tests))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert done.stderr.startswith("sterna: a kernel failed and nothing synchronised after it:\n  IndexError: index 3 ")


# ---- suggestions, captures, printing -------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 16, 192])
@pytest.mark.parametrize(
    "shape",
    [(1,), (7,), (64,), (1000,), (1025,), (10**6,), (2**40 + 1,), (3, 5), (480, 640), (10**6, 3), (1, 10**6), (5, 6, 7),
     (100000, 1, 1), (1, 1, 70000)],
)  # fmt: skip
def test_suggestions_cover_the_shape_once(shape: tuple[int, ...], workers: int) -> None:
    blocks, threads = _suggest(shape, workers)
    extents = (*reversed(shape), 1, 1)[:3]
    assert math.prod(threads) <= 1024
    for count, width, extent in zip(blocks, threads, extents, strict=True):
        assert count >= 1 and width >= 1
        assert (count - 1) * width < extent <= count * width
    if math.prod(shape) >= 64 * workers and max(shape) > 8:
        assert math.prod(blocks) >= min(workers, math.prod(shape) // 16)


def test_suggestion_for_nothing() -> None:
    assert RUNTIME.device(0).suggest((0, 5)) == ((0, 0, 0), (1, 1, 1))


class Exporter:
    """An array of some other library on the host."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)  # type: ignore[arg-type]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class OnAnotherDevice:
    __cuda_array_interface__ = {"shape": (1,), "typestr": "<f4", "data": (4096, False), "version": 3}  # noqa: RUF012


def test_captured_arrays() -> None:
    device = RUNTIME.device(0)
    source = np.arange(12, dtype=np.float32).reshape(3, 4)
    for value in (source, source.T, source[:, ::2], source[1, 1:], np.float32(3).reshape(()), np.zeros((2, 0))):
        copy = device.capture(value)
        assert copy.flags.c_contiguous and not copy.flags.writeable and copy.shape == value.shape
        np.testing.assert_array_equal(np.asarray(copy), value)
        assert not np.shares_memory(np.asarray(copy), value)
    array = sterna.array.to_device(source)
    assert device.capture(array) is array
    record = np.zeros((), [("gain", "f4"), ("offset", "f8")])[()]
    assert device.capture(record).shape == ()
    assert np.shares_memory(np.asarray(device.capture(Exporter(source))), source)
    with pytest.raises(LinkError, match="CUDA"):
        device.capture(OnAnotherDevice())
    foreign = sterna.array.Array(array._view, array._memory, CpuDevice())
    with pytest.raises(LinkError, match="captured array is on"):
        device.capture(foreign)
    with pytest.raises(LinkError, match="not an array"):
        device.capture(object())


PRINT = """
  %launch.print = getelementptr i64, ptr %launch, i64 4
  %print = load ptr, ptr %launch.print
  call void %print(ptr @text, i64 14)
  br label %latch
"""
TEXT = '@text = private constant [14 x i8] c"a line, \\C3\\A9\\C2\\B5\\0A\\0A"'


def test_printing_from_a_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    load_kernel(grid_kernel(PRINT, TEXT)).launch(config(4, 8), bytes(8))
    assert capsys.readouterr().out == "a line, éµ\n\n" * 32


class _Launching:
    """Standard output that launches a kernel which prints, for every line."""

    def __init__(self, launch: Callable[[], None]) -> None:
        self.launch, self.lines, self.inside = launch, 0, False

    def write(self, text: str) -> None:
        self.lines += 1
        if not self.inside:
            self.inside = True
            self.launch()
            self.inside = False


def test_standard_output_may_launch_kernels_that_print(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load_kernel(grid_kernel(PRINT, TEXT))
    module._cost = 1e6  # every thread of the pool is worth waking
    out = _Launching(lambda: module.launch(config(8, 2), bytes(8)))
    monkeypatch.setattr(sys, "stdout", out)
    worker = threading.Thread(target=module.launch, args=(config(8, 2), bytes(8)), daemon=True)
    worker.start()
    worker.join(30)
    assert not worker.is_alive(), "threads wait for each other"
    assert out.lines > 16


class _Held:
    """Standard output that keeps the thread which writes until it is let go."""

    def __init__(self) -> None:
        self.writing, self.go = threading.Event(), threading.Event()

    def write(self, text: str) -> None:
        self.writing.set()
        self.go.wait(30)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_forked_while_another_thread_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    module, held = load_kernel(grid_kernel(PRINT, TEXT)), _Held()
    monkeypatch.setattr(sys, "stdout", held)
    printing = threading.Thread(target=module.launch, args=(config(1, 1), bytes(8)), daemon=True)
    printing.start()
    assert held.writing.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that waits for ever
        sys.stdout = None
        module.launch(config(1, 1), bytes(8))
        os._exit(0)
    held.go.set()
    printing.join(30)
    assert os.waitpid(child, 0)[1] == 0


def test_devices_by_name() -> None:
    cpu = RUNTIME.device(0)
    assert devices.device() is devices.device("cpu") is devices.device("cpu:0") is cpu
    assert [device for device in devices.devices() if device.target.name == "cpu"] == [cpu]
    assert devices.device_of(cpu) is cpu
    assert cpu.limits.max_threads == 1024
    for name in ("cpu:1", "cpu:x", "gpu", ""):
        with pytest.raises(ValueError, match="unknown device"):
            devices.device(name)
    with pytest.raises(TypeError, match="a device is expected"):
        devices.synchronize(3)  # type: ignore[arg-type]
    with devices.on("cpu", stream="s") as inner:
        assert inner is cpu
        assert devices.current_stream() == "s"
    assert devices.current_stream() is None
