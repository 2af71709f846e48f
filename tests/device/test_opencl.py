"""What only OpenCL devices have: kinds of shared memory, parts of devices, queues, the driver's machine code."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import sterna
from sterna.abi import arg_layout
from sterna.errors import DeviceError, LaunchError, LinkError, UnsupportedError
from sterna.image.archive import ArchivePlace, default_archive
from sterna.targets.opencl import loader
from sterna.targets.opencl.device import RUNTIME, OpenclDevice, OpenclRuntime
from sterna.targets.opencl.icd import load_opencl
from sterna.targets.opencl.loader import archive_place

pytestmark = pytest.mark.skipif(not RUNTIME.device_count(), reason="no OpenCL device here")
CURVE = np.array([1.0, 4.0, 9.0])
GAIN = sterna.Global(2.0)


@pytest.fixture(scope="module")
def opencl() -> OpenclDevice:
    return sterna.device("opencl")


@pytest.fixture(scope="module")
def parts(opencl: OpenclDevice) -> list[OpenclDevice]:
    try:
        return opencl.partition(2)
    except ValueError as error:
        pytest.skip(f"two devices: {error}")


@pytest.fixture(scope="module")
def coarse(opencl: OpenclDevice) -> OpenclDevice:
    """The same device, used as one that shares memory only through its queue."""
    return OpenclDevice("opencl:coarse", opencl.handle, svm=1)


@sterna.kernel
def scale(x, out):
    i = sterna.grid(1)
    out[i] = x[i] * CURVE[i % 3] * GAIN


@sterna.kernel
def fill(x, value):
    x[sterna.grid(1)] = value


@sterna.kernel
def spin(x, turns):
    total = 0.0
    for n in range(turns):
        total += n * 0.5
    x[sterna.grid(1)] = total


def test_arrays_of_the_host_are_used_in_place_and_live_until_the_kernel_has_run(opencl):
    assert opencl.reads_host_memory
    out = np.zeros(6)
    with sterna.on(opencl):
        scale.over(6)(np.arange(6.0), out)  # the first array has no other owner
        gc.collect()
        sterna.synchronize()
    assert out.tolist() == [0, 8, 36, 6, 32, 90]


def test_objects_live_until_the_kernel_has_run(opencl):
    class Thing:
        pass

    @sterna.kernel
    def name_it(out, thing):
        out[0] = thing

    out = sterna.zeros(1, np.uint64, opencl)
    thing = Thing()
    word, watched = id(thing), weakref.ref(thing)
    name_it[1, 1](out, thing)
    del thing
    gc.collect()
    assert watched() is not None
    opencl.synchronize()
    assert int(out.copy_to_host()[0]) == word
    gc.collect()
    assert watched() is None


def test_memory_shared_by_copies_only(coarse, capsys):
    @sterna.kernel
    def report(x):
        i = sterna.grid(1)
        print("at", i, x[i])

    assert not coarse.reads_host_memory
    with sterna.on(coarse):
        out = np.zeros(4)
        scale.over(4)(np.arange(4.0), out)  # copied there and back
        assert out.tolist() == [0, 8, 36, 6]
        x = sterna.to_device(np.arange(3.0))
        GAIN.value = 3.0
        there = sterna.zeros(3)
        scale.over(3)(x, there)
        GAIN.value = 2.0
        assert there.copy_to_host().tolist() == [0, 12, 54]
        report[1, 2](x)
        sterna.synchronize()
        assert sorted(capsys.readouterr().out.splitlines()) == ["at 0 0.0", "at 1 1.0"]
        scale[1, 5](x, there)
        with pytest.raises(IndexError, match="index 3 is out of bounds"):
            sterna.synchronize()
        scale.over(3)(x, there)  # and it goes on
        assert there.copy_to_host().tolist() == [0, 8, 36]


def test_two_devices_hold_different_words_of_one_record_at_the_same_time(parts):
    outs = [sterna.zeros(3, device=part) for part in parts]
    inputs = [sterna.to_device(np.full(3, n + 1.0), part) for n, part in enumerate(parts)]
    for _ in range(3):
        for x, out in zip(inputs, outs, strict=True):
            scale.over(3)(x, out)
    assert [out.copy_to_host().tolist() for out in outs] == [[2, 8, 18], [4, 16, 36]]
    words = [scale.specialize(x, x, device=part, over=1).words for x, part in zip(inputs, parts, strict=True)]
    record = next(r for r in scale.specialize(*inputs[:1], outs[0], device=parts[0], over=1).relocations if r.words > 1)
    assert words[0][record.slot][0] != words[1][record.slot][0]  # each its own copy of CURVE
    GAIN.value = 10.0
    for x, out in zip(inputs, outs, strict=True):
        scale.over(3)(x, out)
    GAIN.value = 2.0
    assert [out.copy_to_host().tolist() for out in outs] == [[10, 40, 90], [20, 80, 180]]


def test_an_array_of_another_device_is_refused(parts):
    table = sterna.to_device(np.arange(3.0), parts[0])

    @sterna.kernel
    def read(out):
        out[0] = table[1]

    out = sterna.zeros(1, device=parts[1])
    with pytest.raises(LinkError, match=r"is on opencl:0.0, the kernel runs on opencl:0.1"):
        read[1, 1](out)


def test_failures_stay_on_their_device(parts):
    x = [sterna.zeros(2, device=part) for part in parts]
    fill[1, 3](x[0], 1.0)
    fill[1, 2](x[1], 5.0)
    parts[1].synchronize()
    with pytest.raises(IndexError, match="index 2"):
        parts[0].synchronize()
    assert x[1].copy_to_host().tolist() == [5, 5]


def test_streams_and_events(opencl):
    one, two = sterna.stream(opencl), sterna.stream(opencl, blocking=False)
    x = sterna.zeros(64, device=opencl)
    start = one.record()
    with sterna.on(opencl, one):
        spin[1, 64](x, 20000)
    end = one.record()
    fill[1, 64](x, 7.0)  # in the default queue: after the stream's work
    two.wait(end)
    two.synchronize()
    end.synchronize()
    assert start.is_done and end.is_done
    assert end.elapsed_ms(start) >= 0
    assert (x.copy_to_host() == 7.0).all()
    with pytest.raises(ValueError, match="not recorded"):
        sterna.event(opencl).elapsed_ms(start)
    with pytest.raises(TypeError, match="a stream of opencl:0 is expected"):
        fill[1, 64, object()](x, 1.0)


def test_globals_are_written_in_order(opencl):
    x = sterna.to_device(np.ones(3), opencl)
    outs = [sterna.zeros(3, device=opencl) for _ in range(4)]
    for n, out in enumerate(outs):
        GAIN.value = float(n)
        scale.over(3)(x, out)
    GAIN.value = 2.0
    assert [out.copy_to_host()[0] for out in outs] == [0, 1, 2, 3]


def test_memory_is_freed_behind_the_work_that_uses_it(opencl):
    out = sterna.zeros(4, device=opencl)
    stream = sterna.stream(opencl)
    for n in range(200):
        made = sterna.full(4, float(n), device=opencl)
        with sterna.on(opencl, stream):
            scale.over(4)(made, out)
        del made
    assert out.copy_to_host().tolist() == [398, 1592, 3582, 398]


def test_many_arguments(opencl):
    @sterna.kernel
    def some(out, many):
        out[0] = many[0] + many[100] + many[-1]

    out = sterna.zeros(1, device=opencl)
    some[1, 1](out, tuple(float(n) for n in range(120)))
    assert out.copy_to_host()[0] == 219


def test_a_launch_that_the_device_cannot_run_is_explained(opencl):
    @sterna.kernel
    def tiled(x):
        tile = sterna.shared.array(opencl_shared, np.float32)
        tile[sterna.threadIdx.x] = x[0]
        sterna.syncthreads()
        x[0] = tile[0]

    opencl_shared = opencl.limits.shared_bytes // 4 + 16
    with pytest.raises((LaunchError, LinkError), match=r"the device refuses blocks = \(1, 1, 1\)|cannot run the image"):
        tiled[1, 32](sterna.zeros(1, np.float32, opencl))


def test_float64_where_there_is_none(opencl, monkeypatch):
    monkeypatch.setattr(opencl, "has_float64", False)

    @sterna.kernel
    def halves(x):
        x[0] = x[0] * 0.5

    with pytest.raises(LinkError, match=r"computes in float64, which opencl:0 .* does not have; use float32"):
        halves[1, 1](sterna.zeros(1, device=opencl))
    y = sterna.full(1, 3.0, np.float32, opencl)
    halves[1, 1](y)
    assert y.copy_to_host()[0] == 1.5


def test_what_the_target_refuses(opencl):
    @sterna.kernel(cooperative=True)
    def together(x):
        sterna.grid_sync()

    with pytest.raises(UnsupportedError, match="cooperative"):
        together[1, 1](sterna.zeros(1, device=opencl))

    @sterna.kernel(strategy="patch")
    def patched(x):
        x[0] = CURVE[0]

    with pytest.raises(ValueError, match="has no strategy 'patch'; it has table, bake"):
        patched[1, 1](sterna.zeros(1, device=opencl))
    with pytest.raises(ValueError, match="unknown OpenCL architecture 'spirv32'"):
        fill.build("float32[:]", "float", target="opencl-spirv32")


def test_without_a_device_the_message_says_what_to_do():
    none = OpenclRuntime()
    none.__dict__["_found"] = ([], [])
    with pytest.raises(DeviceError, match="there is no device opencl:0: "):
        none.device(0)
    old = OpenclRuntime()
    old.__dict__["_found"] = ([], ["Some GPU (Some Platform) lacks shared virtual memory"])
    with pytest.raises(DeviceError, match=r"Some GPU .* lacks shared virtual memory"):
        old.device(0)


def test_a_device_whose_driver_fails_is_left_out_and_explained(opencl, monkeypatch):
    def fail(index: int) -> None:
        raise load_opencl().RuntimeError("Context failed: DEVICE_NOT_AVAILABLE")

    monkeypatch.setattr("sterna.targets.opencl.device._device", fail)
    monkeypatch.setattr("sterna.runtime.devices._devices", {})
    with pytest.raises(DeviceError, match=r"opencl:0 \(.+\) cannot be used: .*DEVICE_NOT_AVAILABLE"):
        sterna.device("opencl")
    assert [device.name for device in sterna.devices() if device.name.startswith("opencl")] == []
    assert "opencl:0" not in sterna.stats()["devices"]


def test_the_code_can_be_read(opencl):
    built = fill.specialize("float32[:]", "float", device=opencl)
    assert "OpEntryPoint Kernel" in built.spirv
    assert built.spirv == fill.build("float32[:]", "float", target="opencl").text("spirv")


# ---- the archive -------------------------------------------------------------------------------


@pytest.fixture
def archive(tmp_path, monkeypatch):
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path))
    found = default_archive()
    assert found is not None
    return found


def load_again(opencl, out):
    """Load the kernel's image as a fresh process would, and launch it."""
    image = fill.specialize(out, 1.0, device=opencl).image
    module = opencl.load(image, arg_layout(fill.specialize(out, 1.0, device=opencl)._found.types))
    module.unload()
    return image


def test_machine_code_is_built_once(opencl, archive):
    out = sterna.zeros(4, device=opencl)
    load_again(opencl, out)
    before = dict(archive.counters)
    load_again(opencl, out)
    assert archive.counters["hits"] == before["hits"] + 1
    assert archive.counters["misses"] == before["misses"]


def test_machine_code_that_the_driver_refuses_is_built_anew(opencl, archive):
    out = sterna.zeros(4, device=opencl)
    image = load_again(opencl, out)
    place, code = archive_place(opencl), image.payloads["spirv"]
    archive.put(place, image.key, code, b"not machine code at all")
    before = dict(archive.counters)
    load_again(opencl, out)
    assert archive.counters["refused"] == before["refused"] + 1
    good = archive.get(place, image.key, code)
    assert good is not None
    assert len(good) > 100


def test_machine_code_of_another_driver_is_not_loaded(opencl, archive, monkeypatch):
    out = sterna.zeros(4, device=opencl)
    image = load_again(opencl, out)
    here = archive_place(opencl)
    later = ArchivePlace(here.target, here.device, here.driver + " next", here.system)
    monkeypatch.setattr(loader, "archive_place", lambda device: later)
    before = dict(archive.counters)
    load_again(opencl, out)
    assert archive.counters["misses"] == before["misses"] + 1
    assert archive.counters["cleaned"] > before["cleaned"]
    assert archive.get(here, image.key, image.payloads["spirv"]) is None


def test_without_an_archive_everything_works(opencl, archive, monkeypatch):
    monkeypatch.setenv("STERNA_ARCHIVE", "0")
    out = sterna.zeros(4, device=opencl)
    before = dict(archive.counters)
    load_again(opencl, out)
    assert archive.counters == before


class _Device:
    """What a driver says of a device."""

    def __init__(self, **facts: object) -> None:
        self.__dict__.update(
            {
                "il_version": "SPIR-V_1.2 SPIR-V_1.4",
                "address_bits": 64,
                "svm_capabilities": 1,
                "available": True,
                **facts,
            }
        )


@pytest.mark.parametrize(
    ("facts", "lack"),
    [
        ({}, ""),
        ({"il_version": ""}, "SPIR-V 1.4 (it takes none)"),
        ({"il_version": "SPIR-V_1.2"}, "SPIR-V 1.4 (it takes SPIR-V_1.2)"),
        ({"address_bits": 32}, "64-bit addresses"),
        ({"svm_capabilities": 0}, "shared virtual memory"),
        ({"available": False}, "being available"),
    ],
)
def test_what_a_device_needs(facts, lack):
    from sterna.targets.opencl.device import _lacks

    assert _lacks(_Device(**facts)) == lack
