"""The Metal target's runtime half, on the simulator, with images made by hand."""

from __future__ import annotations

import gc
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sterna
from helpers.metal import objects
from helpers.metal.api import SimulatedMetal, simulated
from helpers.metal.byhand import kernel_text, load, make_metal_image, run
from helpers.metal.device import SimulatedDevice
from helpers.metal.marks import SIMULATED
from sterna.errors import DeviceError, ImageRefused, LaunchError, LinkError
from sterna.relocation.record import Manifest, RefKind, RelocationRecord
from sterna.targets.metal import memory as metal_memory

LUT = np.arange(5, dtype=np.float32) * 10
GAIN = sterna.Global(2.0, "float32")
pytestmark = SIMULATED
SIGNATURE = ("float32[:]", "float32")
MANIFEST = Manifest(
    "table",
    (
        RelocationRecord("slot_0", 0, RefKind.BUFFER, "globals:LUT", words=3, type="array(float32, 1, C, readonly)"),
        RelocationRecord("slot_1", 3, RefKind.GLOBAL, "globals:GAIN", type="float32"),
    ),
)
SCALE = kernel_text(
    "ulong out; long n; float factor; ulong record; ulong table;",
    """if (i >= a.n) { fail(a.record, 0, group, position, i, 0, a.n); return; }
    device ulong *table = (device ulong *)a.table;
    device float *lut = (device float *)table[0];
    ((device float *)a.out)[i] = lut[i] * as_type<float>(uint(table[3])) * a.factor;""",
)
ERRORS = ({"exception": "IndexError", "message": "index {0} of {2}", "function": 0, "statement": 0, "line": 0},)


def hand(out, factor):  # what the images made here stand for
    out[0] = LUT[0] * GAIN * factor


@pytest.fixture
def metal(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedMetal]:
    """Two simulated devices, and a cache of their own."""
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(globals(), "GAIN", sterna.Global(2.0, "float32"))
    with simulated() as made:
        yield made


def scaled(device: Any) -> Any:
    return load(make_metal_image(SCALE, SIGNATURE, manifest=MANIFEST, errors=ERRORS), hand, device, SIGNATURE)


def test_words_reach_the_table(metal: SimulatedMetal) -> None:
    device = sterna.device("metal")
    loaded, out = scaled(device), sterna.zeros(5, np.float32, device)
    run(loaded, SIGNATURE, 1, 5, out, np.float32(3))
    assert out.copy_to_host().tolist() == [0, 60, 120, 180, 240]
    assert loaded.words["slot_0"][1:] == (5, 4)


def test_a_global_changes_later_launches_only(metal: SimulatedMetal) -> None:
    """Nothing has run yet when the word changes: the first launch keeps the table it was started with."""
    device = sterna.device("metal")
    loaded = scaled(device)
    outs = [sterna.zeros(5, np.float32, device) for _ in range(3)]
    for out, value in zip(outs, (2.0, 7.0, 9.0), strict=True):
        GAIN.value = value
        run(loaded, SIGNATURE, 1, 5, out, np.float32(1))
    assert [out.copy_to_host()[1] for out in outs] == [20, 70, 90]
    before = loaded.module._table.address
    GAIN.value = 3.0
    assert loaded.module._table.address == before, "nothing runs: the word is written in place"
    run(loaded, SIGNATURE, 1, 5, outs[0], np.float32(1))
    assert outs[0].copy_to_host()[1] == 30


def test_two_devices_hold_different_words_at_the_same_time(metal: SimulatedMetal) -> None:
    devices = [sterna.device(f"metal:{n}") for n in range(2)]
    loaded = [scaled(device) for device in devices]
    assert loaded[0].words["slot_0"][0] != loaded[1].words["slot_0"][0]
    assert loaded[0].module._table.address != loaded[1].module._table.address
    outs = [sterna.zeros(5, np.float32, device) for device in devices]
    for k, out in zip(loaded, outs, strict=True):
        run(k, SIGNATURE, 1, 5, out, np.float32(1))
    for out in outs:
        assert out.copy_to_host()[4] == 80


THERE: Any = None


@sterna.kernel
def use_there(out):
    i = sterna.grid(1)
    out[i] = THERE[i] + np.float32(len(THERE))
    THERE[i] = 0


def test_a_captured_array_of_the_device_is_used_in_place(
    metal: SimulatedMetal, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sterna.stats()["compiles"]
    for size in (4, 6):  # another length: another link of the same image
        there = sterna.to_device(np.arange(size, dtype=np.float32), "metal")
        monkeypatch.setitem(globals(), "THERE", there[1:])
        out = sterna.zeros(3, np.float32, "metal")
        use_there[1, 3](out)
        assert out.copy_to_host().tolist() == [size, size + 1, size + 2]
        assert there.copy_to_host().tolist() == [0, 0, 0, 0, 4, 5][:size]
        built = use_there.specialize(out, device="metal")
        assert next(iter(built.words.values()))[0] == there.address + 4
    assert sterna.stats()["compiles"] - before == 1
    monkeypatch.setitem(globals(), "THERE", sterna.zeros(4, np.float32, "metal:1"))
    with pytest.raises(LinkError, match=r"on metal:1, the kernel runs on metal:0"):
        use_there[1, 3](out)


@sterna.kernel(strategy="bake")
def baked(out):
    i = sterna.grid(1)
    out[i] = LUT[i] + 1


@sterna.kernel(strategy="bake")
def baked_with_global(out):
    i = sterna.grid(1)
    out[i] = LUT[i] * GAIN


def test_addresses_in_the_code_are_declared_too(metal: SimulatedMetal) -> None:
    out = sterna.zeros(5, np.float32, "metal")
    baked[1, 5](out)
    assert out.copy_to_host().tolist() == [1, 11, 21, 31, 41]
    for value in (2.0, 3.0):  # the one word that may change is read from a table
        GAIN.value = value
        baked_with_global[1, 5](out)
        assert out.copy_to_host()[1] == 10 * value
    assert sterna.stats()["archive"]["entries"] == 0, "machine code of one session is not kept"


def test_a_failure_is_an_exception_of_python(metal: SimulatedMetal) -> None:
    device = sterna.device("metal")
    loaded, out = scaled(device), sterna.zeros(5, np.float32, device)
    run(loaded, SIGNATURE, 2, 3, out, np.float32(1))
    with pytest.raises(IndexError, match=r"index 5 of 5 \(kernel hand, .*block \(1, 0, 0\), thread \(2, 0, 0\)\)"):
        device.synchronize()
    device.synchronize()
    assert out.copy_to_host()[4] == 80, "the device goes on working"


def test_what_is_not_declared_resident_faults(metal: SimulatedMetal, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator sees what hardware would not forgive; the target declares all of it."""
    device = sterna.device("metal")
    loaded, out = scaled(device), sterna.zeros(5, np.float32, device)
    for broken in ("arguments", "table"):
        with monkeypatch.context() as patch:
            if broken == "arguments":
                patch.setattr(metal_memory.MemoryMap, "all_of", lambda self, words: [])
            else:
                patch.setattr(loaded.module._table, "_pointees", [])
            run(loaded, SIGNATURE, 1, 5, out, np.float32(1))
            with pytest.raises(DeviceError, match="Address Fault"):
                device.synchronize()
    run(loaded, SIGNATURE, 1, 5, out, np.float32(1))
    assert out.copy_to_host()[1] == 20


def test_memory_lives_until_its_launches_are_done(metal: SimulatedMetal) -> None:
    device = sterna.device("metal")
    loaded, out = scaled(device), sterna.zeros(5, np.float32, device)
    address = out.address
    run(loaded, SIGNATURE, 1, 5, out, np.float32(1))
    del out
    gc.collect()
    assert device.memory.find(address) is None, "the array is gone, its memory is not"
    device.synchronize()
    run(loaded, SIGNATURE, 1, 5, sterna.zeros(5, np.float32, device), np.float32(1))
    loaded.unload()
    device.synchronize()
    with pytest.raises(LinkError, match="unloaded"):
        run(loaded, SIGNATURE, 1, 5, sterna.zeros(5, np.float32, device), np.float32(1))


def test_streams_and_events(metal: SimulatedMetal) -> None:
    device = sterna.device("metal")
    loaded = scaled(device)
    first, second = sterna.stream(device), sterna.stream(device, blocking=False)
    out, start, end = sterna.zeros(5, np.float32, device), sterna.event(device), sterna.event(device)
    start.record(first)
    run(loaded, SIGNATURE, 1, 5, out, np.float32(1), stream=first)
    end.record(first)
    assert not end.is_done
    second.wait(end)
    run(loaded, SIGNATURE, 1, 5, out, np.float32(2), stream=second)  # after the first, by the event alone
    second.synchronize()
    assert end.is_done and first.is_done and second.is_done
    assert end.elapsed_ms(start) >= 0
    assert out.copy_to_host()[1] == 40
    run(loaded, SIGNATURE, 1, 6, out, np.float32(5), stream=first)
    run(loaded, SIGNATURE, 1, 5, out, np.float32(7))  # the default stream waits for a blocking one
    with pytest.raises(IndexError):
        device.synchronize()
    assert out.copy_to_host()[1] == 140
    other = sterna.stream("metal:1")
    with pytest.raises(LinkError, match="metal:1"):
        run(loaded, SIGNATURE, 1, 5, out, np.float32(1), stream=other)
    with pytest.raises(LinkError, match="metal:1"):
        other.wait(end)
    with pytest.raises(LinkError, match="a stream of metal:0"):
        run(loaded, SIGNATURE, 1, 5, out, np.float32(1), stream=7)


def test_a_stream_may_go_before_its_work_is_done(metal: SimulatedMetal) -> None:
    device = sterna.device("metal")
    loaded, out = scaled(device), sterna.zeros(5, np.float32, device)
    run(loaded, SIGNATURE, 1, 5, out, np.float32(1), stream=sterna.stream(device))
    gc.collect()
    assert out.copy_to_host()[1] == 20


@sterna.kernel
def count(totals, slot):
    sterna.atomic.add(totals, slot, 1)


def test_threads_of_the_host_launch_at_the_same_time(metal: SimulatedMetal) -> None:
    """On one device, in streams of their own and in the default one, with memory that comes and goes."""
    device = sterna.device("metal")
    totals = sterna.zeros(5, np.int32, device)
    count[1, 1](totals, 4)
    trouble: list[BaseException] = []

    def work(slot: int) -> None:
        try:
            stream = sterna.stream(device) if slot % 2 else None
            for turn in range(15):
                count[2, 8, stream](totals, slot)
                sterna.zeros(100, np.float32, device)
                if turn % 5 == 4:
                    (device if stream is None else stream).synchronize()
        except BaseException as error:
            trouble.append(error)

    workers = [threading.Thread(target=work, args=(slot,)) for slot in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not trouble
    assert not any(worker.is_alive() for worker in workers)
    assert totals.copy_to_host().tolist() == [240, 240, 240, 240, 1]


@sterna.kernel
def draw(out):
    i = sterna.grid(1)
    out[i] = sterna.random.bits(np.uint32)


def test_each_launch_has_a_seed_of_its_own(metal: SimulatedMetal) -> None:
    found = []
    for name in ("metal:0", "metal:1", "cpu"):
        sterna.seed(11)
        with sterna.on(name):
            outs = [sterna.zeros(8, np.uint32) for _ in range(2)]
            for out in outs:
                draw.over(8)(out)
            found.append([out.copy_to_host().tolist() for out in outs])
    assert found[0] == found[1] == found[2]
    assert found[0][0] != found[0][1]


@sterna.kernel
def chatter(n):
    for k in range(n):
        print("line", k)


def test_what_the_print_buffer_cannot_hold_is_said(metal: SimulatedMetal, capsys: pytest.CaptureFixture[str]) -> None:
    for turn in range(2):
        with sterna.on("metal"):
            chatter[1, 1](60_000 if not turn else 3)
            sterna.synchronize()
        lines = capsys.readouterr().out.splitlines()
        if turn:
            assert lines == ["line 0", "line 1", "line 2"]
        else:
            assert lines[:2] == ["line 0", "line 1"]
            assert lines[-1].startswith("[sterna: more was printed")


REVERSE = kernel_text(
    "ulong out; long n; ulong record;",
    """threadgroup int *tile = (threadgroup int *)shared;
    tile[position.x] = int(i);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    ((device int *)a.out)[i] = tile[threads.x - 1 - position.x];""",
    "threadgroup uchar *shared [[threadgroup(0)]]",
    "[[max_total_threads_per_threadgroup(512)]] ",
)


def test_thread_groups_meet_and_limits_are_the_devices(metal: SimulatedMetal) -> None:
    device, signature = sterna.device("metal"), ("int32[:]",)
    image = make_metal_image(REVERSE, signature, facts={"shared_bytes": 400, "state": ["record"]})
    loaded, out = load(image, hand, device, signature), sterna.zeros(300, np.int32, device)
    run(loaded, signature, 3, 100, out)
    host = out.copy_to_host().reshape(3, 100)
    assert (host == np.arange(300).reshape(3, 100)[:, ::-1]).all()
    assert metal.devices[0].counts["apart"] == 0
    with pytest.raises(LaunchError, match=r"513 threads in a block; this kernel may have 512 on metal:0"):
        run(loaded, signature, 1, 513, out)
    with pytest.raises(LaunchError, match=r"shared_bytes = 32500 beside 400 static ones .*\(32768\)"):
        run(loaded, signature, 1, 1, out, shared_bytes=32500)
    run(loaded, signature, 1, 1, out, shared_bytes=32000)
    device.synchronize()


def test_many_arguments_travel_in_a_buffer(metal: SimulatedMetal) -> None:
    device, signature = sterna.device("metal"), ("int64[:]", *["int"] * 600)
    text = kernel_text(
        "ulong out; long n; long values[600]; ulong record;", "((device long *)a.out)[i] = a.values[599 - i];"
    )
    loaded = load(make_metal_image(text, signature, facts={"state": ["record"]}), hand, device, signature)
    out = sterna.zeros(4, np.int64, device)
    run(loaded, signature, 1, 4, out, *range(600))
    assert out.copy_to_host().tolist() == [599, 598, 597, 596]


def test_prints_are_written_by_the_host(metal: SimulatedMetal, capsys: pytest.CaptureFixture[str]) -> None:
    device, signature = sterna.device("metal"), ("int",)
    text = kernel_text(
        "long value; ulong record; ulong print;",
        """device atomic_uint *reserved = (device atomic_uint *)a.print;
    uint at = atomic_fetch_add_explicit(reserved, 32u, memory_order_relaxed);
    device uchar *line = (device uchar *)(a.print + 16 + at);
    *(device uint *)(line + 4) = 0;
    *(device ulong *)(line + 8) = a.record;
    *(device long *)(line + 16) = a.value + i;
    *(device float *)(line + 24) = 0.1f;
    *(device uint *)line = 32;""",
    )
    formats = [[["text", "value "], ["value", "int"], ["text", " "], ["value", "float32"], ["text", "\n"]]]
    facts = {"state": ["record", "print"], "prints": formats, "raises": False}
    loaded = load(make_metal_image(text, signature, facts=facts), hand, device, signature)
    run(loaded, signature, 1, 2, -5)
    assert capsys.readouterr().out == ""
    device.synchronize()
    assert capsys.readouterr().out == "value -5 0.1\nvalue -4 0.1\n"


def test_refused_images_are_kept(metal: SimulatedMetal, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    device = sterna.device("metal")
    text = SCALE.replace("as_type<float>", "as_type<fload>")
    with pytest.raises(ImageRefused, match=r"(?s)msl: the Metal compiler refuses the text: .*fload.* are kept in /"):
        load(make_metal_image(text, SIGNATURE, manifest=MANIFEST), hand, device, SIGNATURE)
    with pytest.raises(ImageRefused, match="has no function other; it has hand"):
        load(make_metal_image(SCALE, SIGNATURE, manifest=MANIFEST, entry="other"), hand, device, SIGNATURE)
    with pytest.raises(ImageRefused, match=r"holds cubin .* no payload for Metal"):
        load(make_metal_image("", SIGNATURE, payloads={"cubin": b"x"}), hand, device, SIGNATURE)
    with pytest.raises(ImageRefused, match="double"):
        load(make_metal_image(SCALE + "double d;", SIGNATURE, manifest=MANIFEST), hand, device, SIGNATURE)


def test_older_systems_are_told_by_a_flag(metal: SimulatedMetal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before macOS 15 there is no mathematics mode to set."""
    monkeypatch.setattr(objects.CompileOptions, "properties", ("fastMathEnabled", "languageVersion"))
    seen = []
    real = SimulatedDevice.newLibraryWithSource_options_error_
    monkeypatch.setattr(
        SimulatedDevice,
        "newLibraryWithSource_options_error_",
        lambda self, text, options, _: seen.append(options.values) or real(self, text, options, _),
    )
    image = make_metal_image(SCALE, SIGNATURE, manifest=MANIFEST, facts={"language": "3.1"})
    load(image, hand, sterna.device("metal"), SIGNATURE)
    assert seen == [{"fastMathEnabled": False, "languageVersion": 196609}]


@pytest.mark.parametrize("fastmath", [False, True])
def test_the_device_compiles_as_the_kernel_asks(
    metal: SimulatedMetal, monkeypatch: pytest.MonkeyPatch, fastmath: bool
) -> None:
    seen = []
    real = SimulatedDevice.newLibraryWithSource_options_error_
    monkeypatch.setattr(
        SimulatedDevice,
        "newLibraryWithSource_options_error_",
        lambda self, text, options, _: seen.append(options.values) or real(self, text, options, _),
    )

    @sterna.kernel(fastmath=fastmath)
    def halve(x):
        x[sterna.grid(1)] *= 0.5

    x = sterna.full(4, 3, np.float32, "metal")
    halve[1, 4](x)
    assert x.copy_to_host().tolist() == [1.5] * 4
    (options,) = seen
    kind = "Fast" if fastmath else "Safe"
    assert options["mathMode"] == objects.CONSTANTS[f"MTLMathMode{kind}"]
    functions = "Fast" if fastmath else "Precise"
    assert options["mathFloatingPointFunctions"] == objects.CONSTANTS[f"MTLMathFloatingPointFunctions{functions}"]


@pytest.mark.parametrize("whole", [True, False])
def test_a_metallib_goes_before_the_text(metal: SimulatedMetal, whole: bool) -> None:
    device = sterna.device("metal")
    payloads = {"metallib": (b"MTLB" if whole else b"MTL?") + SCALE.encode(), "msl": SCALE.encode()}
    loaded = load(make_metal_image("", SIGNATURE, manifest=MANIFEST, payloads=payloads), hand, device, SIGNATURE)
    out = sterna.zeros(5, np.float32, device)
    run(loaded, SIGNATURE, 1, 5, out, np.float32(1))
    assert out.copy_to_host()[1] == 20
    assert metal.devices[0].counts["libraries"] == (0 if whole else 1)


def test_arrays_of_a_device(metal: SimulatedMetal) -> None:
    values = np.arange(12, dtype=np.int16).reshape(3, 4)
    mine = sterna.to_device(values, "metal")
    assert (mine[1:, ::2].copy_to_host() == values[1:, ::2]).all()
    mine[0, 1:3] = 7
    assert mine.copy_to_host()[0].tolist() == [0, 7, 7, 3]
    there = sterna.to_device(mine, "metal:1")
    assert (there.copy_to_host() == mine.copy_to_host()).all()
    assert (np.asarray(there.T) == mine.copy_to_host().T).all()
    view = np.asarray(there[1:])
    view[0, 0] = -3  # the same memory, under another address
    assert there.copy_to_host()[1, 0] == -3
    assert view.__array_interface__["data"][0] != there[1:].address
    del there
    gc.collect()
    assert view[0, 0] == -3
    assert np.from_dlpack(mine)[0, 1] == 7
    mapped = sterna.mapped((2, 2), "int16", "metal")
    np.asarray(mapped)[...] = 5
    assert mapped.copy_to_host().tolist() == [[5, 5], [5, 5]]
    assert sterna.zeros((0, 3), device="metal").copy_to_host().shape == (0, 3)
    with pytest.raises(DeviceError, match="has no memory of 4 bytes"):
        sterna.device("metal:1").copy_out(np.empty(1, np.int32), mine.address)
    free, total = sterna.device("metal").memory_info
    assert 0 < free < total


def test_new_memory_waits_for_nothing(metal: SimulatedMetal) -> None:
    device = sterna.device("metal")
    loaded, out = scaled(device), sterna.zeros(5, np.float32, device)
    run(loaded, SIGNATURE, 1, 5, out, np.float32(1))
    sterna.to_device(np.ones(100), device)
    sterna.zeros(100, np.float32, device)
    assert device.queue._running[0].command._status == 2, "committed, and not run"
    host = np.empty(5, np.float32)
    device.copy_out(host, out.address)
    assert host[1] == 20


def test_memory_runs_out(metal: SimulatedMetal) -> None:
    device = sterna.device("metal")
    loaded = scaled(device)
    metal.devices[0].memory_limit = metal.devices[0].currentAllocatedSize() + 2 * 4096
    out = sterna.zeros(1024, np.float32, device)
    run(loaded, SIGNATURE, 1, 5, out, np.float32(1))
    del out  # in use by the launch still: waiting for that makes room
    assert sterna.zeros(2048, np.float32, device).copy_to_host().sum() == 0
    with pytest.raises(MemoryError, match=r"metal:0 has no 40000 bytes left"):
        sterna.zeros(10_000, np.float32, device)
    metal.devices[0].memory_limit = 1 << 30


class _Exporter:
    """An array of another library, in host memory."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_captured_arrays_must_be_here(metal: SimulatedMetal) -> None:
    device, there = sterna.device("metal"), sterna.zeros(3, np.float32, "metal:1")
    with pytest.raises(LinkError, match=r"on metal:1, the kernel runs on metal:0"):
        device.capture(there)
    with pytest.raises(LinkError, match="a captured int is not an array"):
        device.capture(3)
    with pytest.raises(LinkError, match="a captured Theirs is on a CUDA device"):
        device.capture(type("Theirs", (), {"__cuda_array_interface__": {}})())
    assert device.capture(_Exporter(np.arange(3))).copy_to_host().tolist() == [0, 1, 2]
    assert device.capture(np.float32(2)).copy_to_host() == 2
