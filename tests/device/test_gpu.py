"""What only a CUDA device can show: asynchronous failures, streams, graphs, several devices, other libraries, leaks."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import sterna
from helpers.launching import GPU
from sterna.errors import ImageRefused, LaunchError, LinkError, UnsupportedError

pytestmark = [*GPU]

TABLE = np.arange(16, dtype=np.float32)
GAIN = sterna.Global(2.0, "float32")
MARK = object()


@pytest.fixture
def gpu() -> Any:
    device = sterna.device("cuda")
    yield device
    device.synchronize()


def two_devices() -> tuple[Any, Any]:
    found = [d for d in sterna.devices() if d.name.startswith("cuda")]
    if len(found) < 2:
        pytest.skip("one CUDA device here, two are needed")
    return found[0], found[1]


@sterna.kernel
def scale(x):
    i = sterna.grid(1)
    x[i] = x[i] * GAIN + TABLE[i % 16]


@sterna.kernel
def out_of_range(x, at):
    i = sterna.grid(1)
    if i == at:
        x[x.shape[0] + 5] = 1
    x[i % x.shape[0]] = 3


@sterna.kernel
def spin(x, turns):
    i = sterna.grid(1)
    total = np.float32(0)
    for n in range(turns):
        total = total * np.float32(0.5) + np.float32(n)
    x[i] = total


@sterna.kernel
def is_mark(out, thing):
    out[0] = 1 if thing is MARK else 2


def test_results(gpu):
    x = sterna.to_device(np.ones(1000, np.float32), gpu)
    scale.over(1000)(x)
    expected = 2 + TABLE[np.arange(1000) % 16]
    assert np.array_equal(x.copy_to_host(), expected)


def test_a_thousand_failing_launches_leave_the_context_usable(gpu):
    x = sterna.zeros(64, np.int32, gpu)
    for n in range(1000):
        out_of_range[4, 32](x, n % 128)
        if n % 100 == 99:
            with pytest.raises(IndexError, match="69") as caught:
                gpu.synchronize()
            assert caught.value.thread[0] < 32
            assert caught.value.line == out_of_range.function.__code__.co_firstlineno + 4
    gpu.synchronize()
    out_of_range[4, 32](x, -1)
    assert (x.copy_to_host() == 3).all()


def test_other_streams_go_on_beside_a_failure(gpu):
    x, y = sterna.zeros(64, np.int32, gpu), sterna.to_device(np.ones(64, np.float32), gpu)
    streams = [sterna.stream(gpu), sterna.stream(gpu)]
    out_of_range[1, 64, streams[0]](x, 7)
    scale[1, 64, streams[1]](y)
    with pytest.raises(IndexError):
        streams[0].synchronize()
    streams[1].synchronize()
    assert np.array_equal(y.copy_to_host(), 2 + TABLE[np.arange(64) % 16])


def test_the_failing_thread_is_named(gpu):
    x = sterna.zeros(64, np.int32, gpu)
    out_of_range[8, 32](x, 3 * 32 + 17)
    with pytest.raises(IndexError) as caught:
        x.copy_to_host()
    assert (caught.value.block, caught.value.thread) == ((3, 0, 0), (17, 0, 0))


def test_streams_events_and_timing(gpu):
    x = sterna.zeros(256, np.float32, gpu)
    stream = sterna.stream(gpu, priority=-1)
    start, end = sterna.event(gpu), sterna.event(gpu)
    with sterna.on(gpu, stream):
        start.record()
        spin[1, 256](x, 200_000)
        end.record()
    assert not end.is_done or end.elapsed_ms(start) > 0
    assert end.elapsed_ms(start) > 0.01
    assert stream.is_done


def test_work_in_two_streams_overlaps(gpu):
    arrays = [sterna.zeros(32, np.float32, gpu) for _ in range(4)]
    streams = [sterna.stream(gpu, blocking=False) for _ in range(4)]
    spin[1, 32](arrays[0], 1000)
    gpu.synchronize()

    def time(which):
        start, end = sterna.event(gpu), sterna.event(gpu)
        gpu.synchronize()
        start.record(which[0])
        for stream in which:
            stream.wait(start)
        for array, stream in zip(arrays, which, strict=True):
            spin[1, 32, stream](array, 2_000_000)
        for stream in which[1:]:
            which[0].wait(stream.record())
        end.record(which[0])
        return end.elapsed_ms(start)

    assert time(streams) < 0.6 * time([streams[0]] * 4)


def test_memory_freed_while_another_stream_uses_it_is_not_given_out(gpu):
    stream = sterna.stream(gpu, blocking=False)
    wrong = 0
    for _ in range(20):
        x = sterna.zeros(32, np.float32, gpu)
        spin[1, 32, stream](x, 200_000)
        del x
        gc.collect()
        y = sterna.full(32, 7.0, np.float32, gpu)
        stream.synchronize()
        wrong += int((y.copy_to_host() != 7).any())
    assert wrong == 0


@pytest.mark.parametrize("blocking", [True, False])
def test_graph_replays_see_globals(gpu, blocking):
    x = sterna.to_device(np.ones(64, np.float32), gpu)
    previous = GAIN.value
    try:
        with sterna.on(gpu), sterna.capture() as graph:
            for _ in range(3):
                scale.over(64)(x)
        assert (x.copy_to_host() == 1).all()
        expected = np.ones(64, np.float32)
        stream = sterna.stream(gpu, blocking=blocking)
        for gain in (1.0, 3.0, 0.5):
            GAIN.set(gain, stream)
            graph.launch(stream)
            stream.synchronize()
            for _ in range(3):
                expected = expected * np.float32(gain) + TABLE[np.arange(64) % 16]
            assert np.array_equal(x.copy_to_host(), expected)
    finally:
        GAIN.value = previous


@sterna.kernel
def draw(out):
    out[sterna.grid(1)] = sterna.random.bits()


def test_a_graph_replays_its_random_numbers(gpu):
    x, y = sterna.zeros(64, np.uint32, gpu), sterna.zeros(64, np.uint32, gpu)
    sterna.seed(4)
    with sterna.on(gpu), sterna.capture() as graph:
        draw.over(64)(x)
        draw.over(64)(y)
    graph.launch()
    first = x.copy_to_host(), y.copy_to_host()
    assert (first[0] != first[1]).any()
    graph.launch()
    assert np.array_equal(x.copy_to_host(), first[0]) and np.array_equal(y.copy_to_host(), first[1])
    sterna.seed(4)
    with sterna.on(gpu):
        draw.over(64)(y)
    assert np.array_equal(y.copy_to_host(), first[0])


def test_graph_update_and_lifetime(gpu):
    x, y = sterna.zeros(64, np.float32, gpu), sterna.zeros(64, np.float32, gpu)
    with sterna.on(gpu), sterna.capture() as graph:
        scale.over(64)(x)
    with graph.update():
        scale.over(64)(y)
    graph.launch()
    assert (x.copy_to_host() == 0).all()
    assert np.array_equal(y.copy_to_host(), TABLE[np.arange(64) % 16])
    with graph.update():
        scale.over(64)(sterna.zeros(64, np.float32, gpu))
        scale.over(32)(y)
    del x
    gc.collect()
    graph.launch()
    gpu.synchronize()


def test_a_failure_in_a_graph_is_raised(gpu):
    x = sterna.zeros(64, np.int32, gpu)
    with sterna.on(gpu), sterna.capture() as graph:
        out_of_range[1, 32](x, 3)
    for _ in range(3):
        graph.launch()
        with pytest.raises(IndexError):
            gpu.synchronize()


def test_dynamic_shared_memory_above_48_kb(gpu):
    @sterna.kernel
    def reverse(x):
        tile = sterna.shared.array(0, np.float32)
        i = sterna.threadIdx.x
        for k in range(i, x.shape[0], sterna.blockDim.x):
            tile[k] = x[k]
        sterna.syncthreads()
        for k in range(i, x.shape[0], sterna.blockDim.x):
            x[k] = tile[x.shape[0] - 1 - k]

    n = 40_000
    x = sterna.to_device(np.arange(n, dtype=np.float32), gpu)
    reverse[1, 256, None, 4 * n](x)
    assert np.array_equal(x.copy_to_host(), np.arange(n, dtype=np.float32)[::-1])
    with pytest.raises(LaunchError, match="shared"):
        reverse[1, 256, None, 4 * 10**6](x)


def test_launch_bounds_are_kept(gpu):
    @sterna.kernel(launch_bounds=128)
    def k(x):
        x[sterna.grid(1)] = 1

    compiled = k.specialize("float32[:]", device=gpu)
    assert compiled.max_threads == 128
    with pytest.raises(LaunchError, match="128"):
        k[1, 256](sterna.zeros(256, np.float32, gpu))
    k[2, 128](sterna.zeros(256, np.float32, gpu))
    gpu.synchronize()


def test_clusters(gpu):
    if int(gpu.target.arch[3:]) < 90:
        pytest.skip("clusters exist from sm_90 on")

    @sterna.kernel(cluster=2)
    def k(x):
        x[sterna.grid(1)] = 1

    x = sterna.zeros(96, np.float32, gpu)
    k.over(96)(x)
    assert (x.copy_to_host() == 1).all()


def test_cooperative_grid_barrier(gpu):
    @sterna.kernel(cooperative=True)
    def turns(x, n):
        i = sterna.grid(1)
        for _ in range(n):
            left = x[(i + 1) % x.shape[0]]
            sterna.grid.sync()
            x[i] = left
            sterna.grid.sync()

    n = 64 * 128
    x = sterna.to_device(np.arange(n, dtype=np.int32), gpu)
    for _ in range(3):
        turns[64, 128](x, 5)
    assert np.array_equal(x.copy_to_host(), np.roll(np.arange(n), -15))


def test_occupancy_and_facts(gpu):
    compiled = scale.specialize("float32[:]", device=gpu)
    blocks, threads = compiled.suggest()
    assert blocks >= 1 and threads % 32 == 0
    assert 8 < compiled.registers < 256
    assert compiled.local_bytes == 0 and compiled.max_threads == 1024
    assert ".entry" in compiled.ptx
    assert compiled.suggest(shared_bytes=40_000)[0] <= blocks
    blocks, threads = compiled.suggest(shared_bytes=60_000)  # more than a kernel may have unasked
    assert blocks >= 1 and threads >= 32


def test_machine_code_as_text(gpu):
    try:
        text = scale.specialize("float32[:]", device=gpu).sass
    except UnsupportedError:
        pytest.skip("no disassembler here")
    assert "EXIT" in text and "LDG" in text


def test_pinned_and_mapped_arrays(gpu):
    host = sterna.pinned(64, np.float32, gpu)
    host[...] = 1
    x = sterna.to_device(host, gpu)
    scale.over(64)(x)
    assert x.copy_to_host(host) is host
    mapped = sterna.mapped(64, np.float32, gpu)
    view = np.asarray(mapped)
    view[...] = 1
    scale.over(64)(mapped)
    gpu.synchronize()
    assert np.array_equal(view, host)


def test_eight_threads_link_and_launch_one_kernel(gpu):
    @sterna.kernel
    def k(x, n):
        i = sterna.grid(1)
        x[i] = x[i] + n * TABLE[1]

    arrays = [sterna.zeros(256, np.float32, gpu) for _ in range(8)]
    problems: list[BaseException] = []
    start = threading.Barrier(8)

    def work(number):
        try:
            start.wait()
            for _ in range(50):
                k[1, 256](arrays[number], np.float32(number))
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    for number, array in enumerate(arrays):
        assert (array.copy_to_host() == 50 * number).all()


def test_nothing_leaks_over_many_links(gpu):
    rounds = int(os.environ.get("STERNA_TEST_LINKS", "10000"))
    x = sterna.zeros(16, np.float32, gpu)
    scale[1, 16](x)

    def run(count):
        for _ in range(count):
            scale._dispatcher.unload()
            scale[1, 16](x)
        scale._dispatcher.unload()
        gc.collect()
        gpu.synchronize()

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    run(max(rounds // 20, 50))
    free, memory = gpu.memory_info[0], resident()
    run(rounds)
    for _ in range(60):  # other processes take and give back memory of the device too
        if free - gpu.memory_info[0] < 8 << 20:
            break
        time.sleep(1)
    assert free - gpu.memory_info[0] < 8 << 20
    assert resident() - memory < 64 << 20


def _forked(queue):
    try:
        sterna.device("cuda").synchronize()
        queue.put("no error")
    except BaseException as error:
        queue.put(str(error))


def test_a_forked_process_gets_a_clear_error(gpu):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_forked, args=(queue,))
    process.start()
    message = queue.get(timeout=60)
    process.join()
    assert "fork" in message and "spawn" in message
    assert process.exitcode == 0
    x = sterna.to_device(np.ones(16, np.float32), gpu)
    scale[1, 16](x)
    gpu.synchronize()


def test_reset_loads_and_patches_again():
    script = """
import numpy as np, sterna
T = np.arange(4.0)
@sterna.kernel
def k(x):
    x[0] = T[3] + x[0]
device = sterna.device("cuda")
for turn in range(3):
    x = sterna.to_device(np.ones(1), device)
    k[1, 1](x)
    assert x.copy_to_host()[0] == 4, x.copy_to_host()
    device.reset()
print("compiles", sterna.stats()["compiles"], "links", sterna.stats()["links"])
"""
    done = _python(script)
    assert done.stdout.split()[-4:] == ["compiles", "1", "links", "3"], done.stdout + done.stderr


def _python(script: str) -> subprocess.CompletedProcess[str]:
    file = os.path.join(os.environ["STERNA_CACHE_DIR"], "script.py")
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(file, "w") as out:
        out.write(script)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_an_image_for_an_older_architecture_runs_by_its_ptx(gpu):
    from sterna.abi import arg_layout
    from sterna.runtime.link import link
    from sterna.types import FLOAT32, ArrayType

    image = scale.build("float32[:]", target="cuda-sm_75").image
    loaded = link(image, scale.function, gpu, arg_layout((ArrayType(FLOAT32, 1, "C"),)))
    assert loaded.words
    with pytest.raises(LinkError):
        newer = scale.build("float32[:]", target="cuda-sm_121").image
        link(newer, scale.function, gpu, arg_layout((ArrayType(FLOAT32, 1, "C"),)))


def test_a_damaged_cubin_and_ptx_are_kept(gpu, tmp_path, monkeypatch):
    from dataclasses import replace

    from sterna.abi import arg_layout
    from sterna.types import FLOAT32, ArrayType

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    image = scale.build("float32[:]", target=f"cuda-{gpu.target.arch}").image
    payloads = {"cubin": image.payloads["cubin"][:64], "ptx": b".version 99.9\n"}
    with pytest.raises(ImageRefused, match="kept in"):
        gpu.load(replace(image, payloads=payloads), arg_layout((ArrayType(FLOAT32, 1, "C"),)))
    assert any(tmp_path.rglob("driver.log"))
    scale.over(4)(sterna.zeros(4, np.float32, gpu))
    gpu.synchronize()


def test_objects_travel_as_words(gpu):
    out = sterna.zeros(1, np.int32, gpu)
    is_mark[1, 1](out, MARK)
    assert out.copy_to_host()[0] == 1
    is_mark[1, 1](out, object())
    assert out.copy_to_host()[0] == 2


# ---- two devices ---------------------------------------------------------------------------------


def test_two_devices_at_the_same_time():
    first, second = two_devices()
    arrays = [sterna.to_device(np.ones(64, np.float32), d) for d in (first, second)]
    for _ in range(5):
        for x in arrays:
            scale.over(64)(x)
    values = [x.copy_to_host() for x in arrays]
    assert np.array_equal(*values)
    words = [scale.specialize("float32[:]", device=d).words for d in (first, second)]
    assert words[0] != words[1]


def test_peer_copies():
    first, second = two_devices()
    x = sterna.to_device(np.arange(1000.0), first)
    y = sterna.to_device(x, second)
    assert y.device is second
    assert np.array_equal(y.copy_to_host(), np.arange(1000.0))


# ---- other libraries -----------------------------------------------------------------------------


def test_cupy(gpu):
    cupy = pytest.importorskip("cupy")
    theirs = cupy.ones(64, dtype=cupy.float32)
    scale.over(64)(theirs)
    gpu.synchronize()
    expected = 2 + TABLE[np.arange(64) % 16]
    assert np.array_equal(cupy.asnumpy(theirs), expected)
    ours = sterna.to_device(np.arange(12.0).reshape(3, 4), gpu)
    assert float(cupy.asarray(ours.T).sum()) == 66
    assert cupy.from_dlpack(ours).shape == (3, 4)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        theirs = cupy.ones(64, dtype=cupy.float32)
    scale[1, 64, stream](theirs)
    stream.synchronize()
    assert np.array_equal(cupy.asnumpy(theirs), expected)
    theirs = cupy.ones(64, dtype=cupy.float32)
    with sterna.on(gpu), sterna.capture() as graph:
        scale.over(64)(theirs)
    graph.launch()
    gpu.synchronize()
    assert np.array_equal(cupy.asnumpy(theirs), expected)
    view = cupy.arange(24, dtype=cupy.float32).reshape(4, 6)[::2, 1::2]
    adopted = sterna.from_dlpack(view)
    assert adopted.strides == view.strides and np.array_equal(adopted.copy_to_host(), cupy.asnumpy(view))


def test_torch(gpu):
    torch = pytest.importorskip("torch")
    theirs = torch.ones(64, device="cuda")
    scale.over(64)(theirs)
    gpu.synchronize()
    expected = 2 + TABLE[np.arange(64) % 16]
    assert np.array_equal(theirs.cpu().numpy(), expected)
    ours = sterna.to_device(np.arange(12.0).reshape(3, 4), gpu)
    assert float(torch.from_dlpack(ours).sum()) == 66
    assert torch.as_tensor(ours, device="cuda").shape == (3, 4)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    theirs = torch.ones(64, device="cuda")
    torch.cuda.synchronize()
    with sterna.on(gpu, stream):
        scale.over(64)(theirs)
    stream.synchronize()
    assert np.array_equal(theirs.cpu().numpy(), expected)


def test_a_captured_tensor_of_another_library(gpu):
    torch = pytest.importorskip("torch")
    held = torch.arange(8, dtype=torch.float32, device="cuda")

    @sterna.kernel
    def k(x):
        i = sterna.grid(1)
        x[i] = held[i] * 2

    x = sterna.zeros(8, np.float32, gpu)
    k.over(8)(x)
    assert np.array_equal(x.copy_to_host(), np.arange(8) * 2)
    held.add_(1)
    torch.cuda.synchronize()
    k.over(8)(x)
    assert np.array_equal(x.copy_to_host(), (np.arange(8) + 1) * 2)


def test_numba(gpu, monkeypatch):
    monkeypatch.setattr(np, "row_stack", np.vstack, raising=False)  # numba-cuda asks for it; NumPy 2.5 has it no more
    cuda = pytest.importorskip("numba.cuda")
    theirs = cuda.to_device(np.ones(64, np.float32))
    scale.over(64)(theirs)
    gpu.synchronize()
    assert np.array_equal(theirs.copy_to_host(), 2 + TABLE[np.arange(64) % 16])
    ours = sterna.to_device(np.arange(4.0), gpu)
    assert np.array_equal(cuda.as_cuda_array(ours).copy_to_host(), np.arange(4.0))


def test_another_context_in_this_thread_is_left_again(gpu):
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device here, two are needed")
    x = sterna.to_device(np.ones(16, np.float32), gpu)
    with torch.cuda.device(1):
        torch.ones(1, device="cuda")
        scale[1, 16](x)
    assert np.array_equal(x.copy_to_host(), 2 + TABLE)
