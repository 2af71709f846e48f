"""Linking and launching on CUDA against a recording double of the driver: which calls, in which order, with what."""

from __future__ import annotations

import ctypes
import gc
import struct
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import sterna
from helpers.cuda_double import DriverDouble, cuda_double
from helpers.philox import launch_seed
from sterna.abi import arg_layout
from sterna.errors import ImageRefused, LaunchError, LinkError, SignatureError
from sterna.relocation.record import Manifest
from sterna.runtime.link import link
from sterna.types import FLOAT32, ArrayType

pytest.importorskip("cuda.bindings.nvjitlink")

TABLE = np.arange(10, dtype=np.float32)
GAIN = sterna.Global(2.5, "float32")


class Mark:
    """A class used as a type tag."""


MARK = Mark()


@sterna.kernel
def one(x):
    x[sterna.grid(1)] = GAIN


@sterna.kernel
def first(x):
    x[0] = GAIN


@sterna.kernel
def several(x, thing):
    i = sterna.grid(1)
    if thing is MARK and type(thing) is Mark:
        x[i] = TABLE[2] * GAIN


def many_kernel(count):
    names = {f"G{n}": sterna.Global(float(n), "float32") for n in range(count)}
    body = "".join(f"    x[{n}] = G{n}\n" for n in range(count))
    space = {"sterna": sterna, **names}
    source = f"@sterna.kernel\ndef many(x):\n{body}"
    import linecache

    linecache.cache[f"<many {count}>"] = (len(source), None, source.splitlines(True), f"<many {count}>")
    exec(compile(source, f"<many {count}>", "exec"), space)
    return space["many"], names


@pytest.fixture(autouse=True)
def _no_store(monkeypatch):
    monkeypatch.setenv("STERNA_CACHE", "0")


@pytest.fixture
def cu() -> Iterator[DriverDouble]:
    with cuda_double() as double:
        yield double
        gc.collect()


def words_of(cu, name):
    (module,) = [m for m in cu.modules.values() if name in m.symbols]
    address, size = module.symbols[name]
    return struct.unpack(f"={size // 8}Q", ctypes.string_at(address, size))


def test_order_of_linking(cu):
    device = sterna.device("cuda")
    x = sterna.zeros(8, np.float32, device)
    cu.calls.clear()
    several[1, 8](x, MARK)
    steps = [
        "cuModuleLoadDataEx",
        "cuModuleGetGlobal_v2",
        "cuMemcpyHtoDAsync_v2",
        "cuModuleGetFunction",
        "cuLaunchKernel",
    ]
    last = {name: len(cu.calls) - 1 - cu.calls[::-1].index(name) for name in steps}
    assert [last[name] for name in steps] == sorted(last[name] for name in steps)
    assert cu.count("cuModuleLoadDataEx") == cu.count("cuModuleGetFunction") == cu.count("cuLaunchKernel") == 1
    written = cu.calls.index("cuModuleGetGlobal_v2")
    between = cu.calls[written : cu.calls.index("cuModuleGetFunction")]
    assert between.count("cuMemcpyHtoDAsync_v2") == 1
    assert "cuStreamSynchronize" in between


def test_words_are_in_their_slots(cu):
    x = sterna.zeros(8, np.float32, "cuda")
    several[1, 8](x, MARK)
    compiled = several.specialize(x, MARK, device="cuda")
    for record in compiled.relocations:
        values = compiled.words[record.slot]
        for module in cu.modules.values():
            base, total = module.symbols["sterna_refs"]
            assert total == 8 * compiled.image.manifest.table_words
            address, size = base + 8 * record.index, 8 * record.words
            if record.kind.value != "buffer":
                assert struct.unpack(f"={record.words}Q", ctypes.string_at(address, size)) == values
    by_path = {r.path: compiled.words[r.slot] for r in compiled.relocations}
    assert by_path["globals:MARK"] == (id(MARK),)
    assert by_path["globals:GAIN"] == (int(np.float32(2.5).view(np.uint32)),)


@pytest.mark.parametrize("count", [1, 64])
def test_any_number_of_records_is_one_look_up_and_one_copy(cu, count):
    kernel, names = many_kernel(count)
    x = sterna.zeros(count, np.float32, "cuda")
    cu.calls.clear()
    kernel[1, 1](x)
    assert cu.count("cuModuleGetGlobal_v2") == 1
    assert cu.count("cuMemcpyHtoDAsync_v2") == 1
    (module,) = cu.modules.values()
    compiled = kernel.specialize(x, device="cuda")
    for record in compiled.relocations:
        address = module.symbols["sterna_refs"][0] + 8 * record.index
        expected = names[record.path.removeprefix("globals:")].word
        assert ctypes.c_uint64.from_address(address).value == expected


def test_argument_buffer_and_state(cu):
    x = sterna.zeros(8, np.float32, "cuda")
    seen = []
    cu.on_launch = lambda launched: seen.append(struct.unpack("=QqQ3q", ctypes.string_at(launched.params, 48)))
    one.over(8)(x)
    address, extent, record, *extents = seen[0]
    assert (address, extent, extents) == (x.address, 8, [8, 1, 1])
    assert record in cu.live or any(a <= record < a + m.nbytes for a, m in cu.live.items())


@sterna.kernel
def draw(x):
    x[sterna.grid(1)] = sterna.random.uniform()


def test_each_launch_hands_over_its_seed(cu):
    x = sterna.zeros(8, np.float32, "cuda")
    assert draw.specialize(x, device="cuda", over=1).image.facts["state"] == ["record", "extents", "seed"]
    seen = []
    cu.on_launch = lambda launched: seen.append(struct.unpack("=Q", ctypes.string_at(launched.params + 48, 8))[0])
    sterna.seed(31)
    with sterna.on("cuda"):
        draw.over(8)(x)
        one.over(8)(x)  # draws nothing, takes no seed
        draw.over(8)(x)
        draw.over(0)(x)  # not launched
        draw.over(8, stream=sterna.stream("cuda"))(x)
    assert (seen[0], seen[2], seen[3]) == tuple(launch_seed(31, k) for k in range(3))


@pytest.mark.parametrize(
    "shape",
    [1, 31, 1000, 10**6, (7, 9), (100_000, 3), (3, 100_000), (10**6, 2, 3), (2, 3, 10**6), (70_000, 70_000), (0, 4)],
)
def test_over_covers_the_shape(cu, shape):
    x = sterna.zeros(1, np.float32, "cuda")
    seen = []
    cu.on_launch = lambda launched: seen.append(ctypes.string_at(launched.params + 16 + 8, 40))
    first.over(shape)(x)
    extents = (shape,) if isinstance(shape, int) else shape
    if 0 in extents:
        assert not cu.launches
        return
    (launched,) = cu.launches
    facts = first.specialize(x, device="cuda", over=len(extents)).image.facts
    assert facts["state"] == ["record", "extents", "flat"][: 2 + (len(extents) > 1)]
    state = struct.unpack("=5q", seen[0])
    state = state if len(extents) > 1 else (*state[:3], 0, 0)
    assert state[:3] == (*reversed(extents), 1, 1)[:3]
    grid = launched.grid
    assert grid[1] <= 65535 and grid[2] <= 65535 and grid[0] < 2**31
    if state[3]:
        blocks = (state[3], state[4], -(-grid[0] // (state[3] * state[4])))
    else:
        blocks = grid
    for count, threads, extent in zip(blocks, launched.block, state[:3], strict=True):
        assert (count - 1) * threads < extent <= count * threads
    assert min(32, np.prod(extents)) <= np.prod(launched.block) <= 1024


def test_global_is_rewritten_in_place(cu):
    x = sterna.zeros(1, np.float32, "cuda")
    one[1, 1](x)
    cu.calls.clear()
    previous = GAIN.value
    GAIN.value = 7
    try:
        assert cu.count("cuMemcpyHtoDAsync_v2") >= 1
        assert cu.count("cuModuleLoadDataEx") == 0
        assert words_of(cu, "sterna_refs")[0] == int(np.float32(7).view(np.uint32))
    finally:
        GAIN.value = previous


def test_a_failure_is_raised_once_by_the_next_synchronise(cu):
    x = sterna.zeros(4, np.float32, "cuda")

    def fail(launched):
        record = struct.unpack("=Q", ctypes.string_at(launched.params + 16, 8))[0]
        ctypes.memmove(record, struct.pack("=2i9q", 2, 0, 3, 0, 0, 5, 0, 0, 9, 0, 4), 80)

    cu.on_launch = fail
    for _ in range(3):
        one[1, 8](x)
    cu.on_launch = lambda launched: None
    with pytest.raises(IndexError, match="9") as caught:
        sterna.device("cuda").synchronize()
    assert caught.value.block == (3, 0, 0) and caught.value.thread == (5, 0, 0)
    sterna.device("cuda").synchronize()
    one[1, 8](x)
    assert x.copy_to_host().tolist() == [0, 0, 0, 0]


def test_two_devices_have_their_own_words():
    with cuda_double(2) as cu:
        arrays = [sterna.zeros(8, np.float32, f"cuda:{n}") for n in range(2)]
        for x in arrays:
            several[1, 8](x, MARK)
        assert len(cu.modules) == 2
        assert {m.context for m in cu.modules.values()} == {0xC000, 0xC001}
        found = [several.specialize(x, MARK, device=x.device) for x in arrays]
        buffers = [next(c.words[r.slot][0] for r in c.relocations if r.kind.value == "buffer") for c in found]
        assert buffers[0] != buffers[1]
        gc.collect()


def test_an_array_of_another_device_is_refused_with_both_names():
    with cuda_double(2):
        there = sterna.zeros(4, np.float32, "cuda:1")

        @sterna.kernel
        def k(x):
            x[0] = there[0]

        with pytest.raises(LinkError, match=r"cuda:1.*cuda:0"):
            k[1, 1](sterna.zeros(4, np.float32, "cuda:0"))
        with pytest.raises(SignatureError, match="cuda:1"):
            several[1, 1](sterna.zeros(4, np.float32, "cuda:0"), there)
        gc.collect()


def test_a_changed_global_reaches_every_device():
    with cuda_double(3) as cu:
        arrays = [sterna.zeros(1, np.float32, f"cuda:{n}") for n in range(3)]
        for x in arrays:
            one[1, 1](x)
        previous = GAIN.value
        try:
            GAIN.value = 11
            words = [struct.unpack("=Q", ctypes.string_at(m.symbols["sterna_refs"][0], 8)) for m in cu.modules.values()]
            assert words == [(int(np.float32(11).view(np.uint32)),)] * 3
        finally:
            GAIN.value = previous
        gc.collect()


def test_copies_between_devices():
    with cuda_double(3) as cu:
        x = sterna.to_device(np.arange(10.0), "cuda:2")
        there = sterna.to_device(x, "cuda:1")
        assert there.device.name == "cuda:1" and there.address != x.address
        assert "cuMemcpyPeerAsync" in cu.calls
        assert there.copy_to_host().tolist() == list(range(10))
        cu.calls.clear()
        sterna.to_device(np.arange(10.0), "cuda:1")[2:5] = x[5:8]
        assert "cuMemcpyPeerAsync" in cu.calls
        gc.collect()


def test_a_stream_of_another_device_is_refused_with_both_names():
    with cuda_double(2):
        x, stream = sterna.zeros(4, np.float32, "cuda:0"), sterna.stream("cuda:1")
        with pytest.raises(LinkError, match=r"cuda:1.*cuda:0"):
            one[1, 4, stream](x)
        gc.collect()


def test_every_device_reports_its_own_failures():
    def fail(launched):
        record = struct.unpack("=Q", ctypes.string_at(launched.params + 16, 8))[0]
        ctypes.memmove(record, struct.pack("=2i9q", 2, 0, 3, 0, 0, 5, 0, 0, 9, 0, 4), 80)

    with cuda_double(2) as cu:
        first, second = (sterna.zeros(4, np.float32, f"cuda:{n}") for n in range(2))
        one[1, 4](first)
        cu.on_launch = fail
        one[1, 4](second)
        sterna.device("cuda:0").synchronize()
        with pytest.raises(IndexError):
            sterna.device("cuda:1").synchronize()
        sterna.device("cuda:1").synchronize()
        gc.collect()


def test_after_a_reset_everything_is_loaded_and_patched_again(cu):
    device = sterna.device("cuda")
    one[1, 1](sterna.zeros(1, np.float32, device))
    device.reset()
    cu.modules.clear()
    cu.calls.clear()
    x = sterna.zeros(1, np.float32, device)
    one[1, 1](x)
    assert cu.count("cuModuleLoadDataEx") == cu.count("cuModuleGetFunction") == cu.count("cuLaunchKernel") == 1
    assert words_of(cu, "sterna_refs")[0] == GAIN.word


def test_a_refused_cubin_falls_back_to_ptx_and_then_is_kept(cu, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    image = one.build("float32[:]", target="cuda-sm_90").image
    layout = arg_layout((ArrayType(FLOAT32, 1, "C"),))
    device = sterna.device("cuda")
    loads = []
    real = cu._cuModuleLoadDataEx

    def refuse_cubin(out, code, *options):
        loads.append(code[:4])
        if code[:4] == b"\x7fELF":
            raise cuda_error("CUDA_ERROR_NO_BINARY_FOR_GPU")
        real(out, code, *options)

    def cuda_error(name):
        from sterna.targets.cuda.driver import DriverError

        return DriverError("cuModuleLoadDataEx", 209, name, "")

    cu._cuModuleLoadDataEx = refuse_cubin
    device.load(image, layout)
    assert [code == b"\x7fELF" for code in loads] == [True, False]
    cu.refuse["cuModuleLoadDataEx"] = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
    with pytest.raises(ImageRefused, match=r"UNSUPPORTED_PTX_VERSION.*kept in") as caught:
        device.load(image, layout)
    (folder,) = tmp_path.iterdir()
    assert str(folder) in str(caught.value)
    assert {p.name for p in folder.iterdir()} == {"kernel.image", "driver.log", "cubin", "ptx"}


def test_code_and_manifest_that_disagree_are_refused(cu):
    image = one.build("float32[:]", target="cuda-sm_90").image
    records = list(image.manifest)
    wrong = replace(image, manifest=Manifest(image.manifest.strategy, (replace(records[0], words=2),)))
    with pytest.raises(LinkError):
        link(wrong, one.function, sterna.device("cuda"), arg_layout((ArrayType(FLOAT32, 1, "C"),)))
    table = sterna.kernel(strategy="table")(one.function).build("float32[:]", target="cuda-sm_90").image
    missing = replace(image, payloads=table.payloads)
    with pytest.raises(LinkError, match="no symbol sterna_refs"):
        link(missing, one.function, sterna.device("cuda"), arg_layout((ArrayType(FLOAT32, 1, "C"),)))


def test_table_strategy(cu):
    kernel = sterna.kernel(strategy="table")(several.function)
    x = sterna.zeros(8, np.float32, "cuda")
    seen = []
    cu.on_launch = lambda launched: seen.append(struct.unpack("=Q", ctypes.string_at(launched.params + 40, 8))[0])
    kernel[1, 8](x, MARK)
    compiled = kernel.specialize(x, MARK, device="cuda")
    words = [w for r in compiled.relocations for w in compiled.words[r.slot]]
    kinds = [r.kind.value for r in compiled.relocations for _ in range(r.words)]
    table = struct.unpack(f"={len(words)}Q", ctypes.string_at(seen[0], 8 * len(words)))
    assert [w for w, kind in zip(table, kinds, strict=True) if kind != "buffer"] == [
        w for w, kind in zip(words, kinds, strict=True) if kind != "buffer"
    ]


def test_objects_live_until_the_launch_is_done(cu):
    x = sterna.zeros(8, np.float32, "cuda")
    thing = Mark()
    watched = weakref.ref(thing)
    several[1, 8](x, thing)
    several[1, 8](x, thing)
    del thing
    gc.collect()
    assert watched() is not None
    sterna.synchronize("cuda")
    gc.collect()
    assert watched() is None


def test_arrays_are_freed_in_order_and_need_no_keeping(cu):
    device = sterna.device("cuda")
    x = sterna.zeros(8, np.float32, device)
    one[1, 8](x)
    watched = weakref.ref(x)
    del x
    gc.collect()
    assert watched() is None


def test_numpy_arguments_travel_there_and_back(cu):
    x = np.arange(8, dtype=np.float32)

    def double(launched):
        address, extent = struct.unpack("=Qq", ctypes.string_at(launched.params, 16))
        there = (ctypes.c_float * extent).from_address(address)
        for n in range(extent):
            there[n] *= 2

    cu.on_launch = double
    with sterna.on("cuda"):
        one[1, 8](x)
        assert x.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
        one[1, 8](x[::2])
        assert x.tolist() == [0, 2, 8, 6, 16, 10, 24, 14]


def test_overlapping_numpy_arguments_are_refused(cu):
    @sterna.kernel
    def k(x, y):
        x[0] = y[0]

    base = np.zeros(8, np.float32)
    with sterna.on("cuda"):
        k[1, 1](base, base)
        with pytest.raises(SignatureError, match="overlap"):
            k[1, 1](base[:6], base[2:])


def test_graphs_keep_what_they_use_and_see_globals(cu):
    device = sterna.device("cuda")
    x = sterna.zeros(1, np.float32, device)
    with sterna.on(device), sterna.capture() as graph:
        one[1, 1](x)
    assert cu.launches and "cuGraphInstantiateWithFlags" in cu.calls
    address = x.address
    del x
    gc.collect()
    assert address in cu.live
    ran = []
    cu.on_launch = ran.append
    graph.launch()
    graph.launch(sterna.stream(device))
    assert len(ran) == 2
    with graph.update():
        one[2, 1](sterna.zeros(1, np.float32, device))
    gc.collect()
    assert address not in cu.live
    assert "cuGraphExecUpdate_v2" in cu.calls


def test_a_failed_recording_leaves_no_capture_behind(cu):
    device = sterna.device("cuda")
    with pytest.raises(KeyError), sterna.on(device), sterna.capture():
        raise KeyError("user")
    assert cu.calls.count("cuStreamBeginCapture_v2") == cu.calls.count("cuStreamEndCapture") == 1


def test_memory_is_freed_behind_other_streams(cu):
    device = sterna.device("cuda")
    x = sterna.zeros(4, np.float32, device)
    one[1, 4](x)
    del x
    gc.collect()
    assert "cuEventRecord" not in cu.calls  # only the default stream so far
    stream = sterna.stream(device)
    y = sterna.zeros(4, np.float32, device)
    one[1, 4, stream](y)
    assert cu.launches[-1].stream == stream.handle
    cu.calls.clear()
    del y
    gc.collect()
    assert cu.calls.index("cuEventRecord") < cu.calls.index("cuStreamWaitEvent") < cu.calls.index("cuMemFreeAsync")


def test_streams_of_other_libraries(cu):
    class Torch:
        cuda_stream = 0x51

    class Protocol:
        def __cuda_stream__(self):
            return 0, 0x52

    x = sterna.zeros(4, np.float32, "cuda")
    for stream, handle in ((0x50, 0x50), (Torch(), 0x51), (Protocol(), 0x52)):
        one[1, 4, stream](x)
        assert cu.launches[-1].stream == handle
    with pytest.raises(TypeError, match="__cuda_stream__"):
        one[1, 4, "stream"](x)
    assert sterna.stream("cuda").__cuda_stream__()[0] == 0


def test_foreign_arrays_share_memory(cu):
    class Foreign:
        def __init__(self, data, shape, strides=None, stream=None):
            self.__dict__["held"] = data
            self.interface = {
                "shape": shape,
                "typestr": "<f4",
                "data": (data, False),
                "version": 3,
                "strides": strides,
                "stream": stream,
            }

        @property
        def __cuda_array_interface__(self):
            return self.interface

    x = sterna.zeros((4, 4), np.float32, "cuda")
    shared = sterna.from_dlpack(Foreign(x.address, (4, 4)))
    assert shared.address == x.address and shared.device is x.device
    seen = []
    cu.on_launch = lambda launched: seen.append(struct.unpack("=Qq", ctypes.string_at(launched.params, 16)))
    one[1, 4](Foreign(x.address, (4,), (16,)))
    assert seen[-1] == (x.address, 4)
    one[1, 4](Foreign(0, (0,)))
    interface = x.T.__cuda_array_interface__
    assert interface["shape"] == (4, 4) and interface["strides"] == (4, 16) and interface["data"] == (x.address, False)
    assert not hasattr(sterna.zeros(3), "__cuda_array_interface__")


def test_dlpack_capsule(cu):
    x = sterna.zeros((2, 3), np.float32, "cuda")
    assert x.__dlpack_device__() == (2, 0)
    from sterna.targets.cuda import dlpack

    before = len(dlpack._alive)
    capsule = x.__dlpack__(stream=1)
    assert len(dlpack._alive) == before + 1
    del capsule
    assert len(dlpack._alive) == before


def test_threads_link_one_kernel_once(cu):
    x = sterna.zeros(64, np.float32, "cuda")
    errors = []

    def work():
        try:
            for _ in range(5):
                one[1, 64](x)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(cu.launches) == 40
    assert len(cu.modules) == 1


def test_unloading_gives_everything_back(cu):
    @sterna.kernel
    def k(x):
        x[0] = TABLE[1] * GAIN

    x = sterna.zeros(4, np.float32, "cuda")
    k[1, 1](x)
    gc.collect()
    live, modules = len(cu.live), len(cu.modules)
    for _ in range(20):
        k._dispatcher.unload()
        gc.collect()
        k[1, 1](x)
    gc.collect()
    assert (len(cu.live), len(cu.modules)) == (live, modules)


def test_a_forked_child_is_told(cu, monkeypatch):
    monkeypatch.setitem(__import__("sterna.targets.cuda.driver", fromlist=["_state"])._state, "pid", -1)
    with pytest.raises(RuntimeError, match="spawn"):
        sterna.device("cuda").synchronize()


def test_printing_is_pythons_own(cu, capsys):
    @sterna.kernel
    def k(x, n):
        print("a", n, x[0], x[0] > 1, None)

    def run(launched):
        record, buffer = struct.unpack("=2Q", ctypes.string_at(launched.params + 24, 16))
        for number, value in ((0, 0.1), (1, -3.5)):
            at = buffer + 16 + 40 * number
            data = (
                struct.pack("=IIQ", 40, 0, record)
                + struct.pack("=q", 12)
                + struct.pack("=fi", value, 0)
                + struct.pack("=q", 1)
            )
            ctypes.memmove(at, data, 40)
        ctypes.c_uint64.from_address(buffer).value = 80

    cu.on_launch = run
    k[1, 1](sterna.zeros(1, np.float32, "cuda"), 12)
    sterna.device("cuda").synchronize()
    assert capsys.readouterr().out == "a 12 0.1 True None\na 12 -3.5 True None\n"


def test_pinned_and_mapped_memory(cu):
    host = sterna.pinned((2, 3), np.int32, "cuda")
    host[...] = 5
    assert isinstance(host, np.ndarray) and host.sum() == 30
    mapped = sterna.mapped(4, np.float32, "cuda")
    mapped.fill(2)
    view = np.asarray(mapped)
    assert view.tolist() == [2, 2, 2, 2]
    before = len(cu.live)
    del mapped
    gc.collect()
    assert len(cu.live) == before
    del view
    gc.collect()
    assert len(cu.live) == before - 1


def test_events(cu):
    device = sterna.device("cuda")
    start, end = sterna.event(device), sterna.event(device)
    start.record()
    end.record(sterna.stream(device))
    assert end.elapsed_ms(start) == 1.5 and end.is_done


def test_too_many_threads_are_refused_before_the_driver(cu):
    with pytest.raises(LaunchError, match="1024"):
        one[1, 2048](sterna.zeros(1, np.float32, "cuda"))
    with pytest.raises(LaunchError, match="shared_bytes"):
        one[1, 1, None, 300_000](sterna.zeros(1, np.float32, "cuda"))
    one[1, 1, None, 100_000](sterna.zeros(1, np.float32, "cuda"))
    assert "cuFuncSetAttribute" in cu.calls
