"""The simulated Metal itself: what hardware would not forgive fails there too, and threads really meet."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import pytest

from helpers.metal.api import SimulatedMetal
from helpers.metal.marks import SIMULATED

pytestmark = SIMULATED
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
COPY = """kernel void k(constant ulong *args [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    ((device int *)args[0])[i] = ((device int *)args[1])[i] + 1;
}
"""


@pytest.fixture
def metal() -> SimulatedMetal:
    return SimulatedMetal(2)


def pipeline(device: Any, text: str, name: str = "k") -> Any:
    options = SimulatedMetal.MTLCompileOptions.new()
    options.setMathMode_(0)
    library, error = device.newLibraryWithSource_options_error_(HEAD + text, options, None)
    if library is None:
        raise ValueError(error.localizedDescription())
    return device.newComputePipelineStateWithFunction_error_(library.newFunctionWithName_(name), None)[0]


def buffer(device: Any, *values: int, kind: str = "i") -> Any:
    made = device.newBufferWithLength_options_(max(struct.calcsize(f"{len(values)}{kind}"), 4), 0)
    struct.pack_into(f"{len(values)}{kind}", made.contents().as_buffer(made.length()), 0, *values)
    return made


def values(made: Any, kind: str = "i") -> list[int]:
    data = made.contents().as_buffer(made.length())
    return list(struct.unpack(f"{made.length() // struct.calcsize(kind)}{kind}", data))


def dispatch(
    device: Any, state: Any, words: bytes, *resident: Any, threads: int = 4, groups: int = 1, memory: int = 0
) -> Any:
    """One committed command buffer."""
    command = device.newCommandQueue().commandBuffer()
    encoder = command.computeCommandEncoder()
    encoder.setComputePipelineState_(state)
    encoder.setBytes_length_atIndex_(words, len(words), 0)
    for one in resident:
        encoder.useResource_usage_(one, 3)
    if memory:
        encoder.setThreadgroupMemoryLength_atIndex_(memory, 0)
    encoder.dispatchThreadgroups_threadsPerThreadgroup_((groups, 1, 1), (threads, 1, 1))
    encoder.endEncoding()
    command.commit()
    return command


def error_of(command: Any) -> str:
    command.waitUntilCompleted()
    return command.error().localizedDescription() if command.status() == 5 else ""


def addresses(*buffers: Any) -> bytes:
    return struct.pack(f"{len(buffers)}Q", *(b.gpuAddress() for b in buffers))


def test_work_runs_when_it_is_waited_for(metal: SimulatedMetal) -> None:
    device = metal.devices[0]
    out, given = buffer(device, 0, 0, 0, 0), buffer(device, 1, 2, 3, 4)
    command = dispatch(device, pipeline(device, COPY), addresses(out, given), out, given)
    assert (command.status(), values(out)) == (2, [0, 0, 0, 0])
    assert error_of(command) == ""
    assert values(out) == [2, 3, 4, 5]
    assert 0 < command.GPUStartTime() <= command.GPUEndTime()
    command = dispatch(device, pipeline(device, COPY), addresses(out, out), out)
    while command.status() < 4:  # asking often enough gets there too
        pass
    assert values(out) == [3, 4, 5, 6]


def test_memory_must_be_declared_and_the_devices_own(metal: SimulatedMetal) -> None:
    device, other = metal.devices
    out, given, theirs = buffer(device, 0, 0, 0, 0), buffer(device, 1, 2, 3, 4), buffer(other, 1, 2, 3, 4)
    state = pipeline(device, COPY)
    assert f"{given.gpuAddress():#x}" in error_of(dispatch(device, state, addresses(out, given), out))
    assert "Address Fault" in error_of(dispatch(device, state, addresses(out, theirs), out, given))
    with pytest.raises(AssertionError, match="another device"):
        dispatch(device, state, addresses(out, theirs), out, theirs)
    host = ctypes.addressof(ctypes.c_char.from_buffer(given.contents().as_buffer(16)))
    assert host != given.gpuAddress()
    missing = struct.pack("2Q", out.gpuAddress(), 0)
    assert "touched 0x0" in error_of(dispatch(device, state, missing, out))
    command = dispatch(device, state, addresses(out, given), out, given)
    del given
    assert "released before its use" in error_of(command)
    assert values(out) == [0, 0, 0, 0]


def test_limits_are_metals(metal: SimulatedMetal) -> None:
    device = metal.devices[0]
    out, state = buffer(device, 0), pipeline(device, COPY)
    with pytest.raises(AssertionError, match="at most 4096"):
        dispatch(device, state, bytes(4097), out)
    with pytest.raises(AssertionError, match="1025 threads"):
        dispatch(device, state, addresses(out, out), out, threads=1025)
    with pytest.raises(AssertionError, match="no multiple of 16"):
        dispatch(device, state, addresses(out, out), out, memory=8)
    with pytest.raises(AssertionError, match="bytes of threadgroup memory"):
        dispatch(device, state, addresses(out, out), out, memory=32768 + 16)
    with pytest.raises(AssertionError, match="an empty grid"):
        dispatch(device, state, addresses(out, out), out, groups=0)
    wanting = "kernel void k(constant uchar *a [[buffer(0)]], threadgroup int *t [[threadgroup(0)]]) { t[0] = 1; }"
    with pytest.raises(AssertionError, match=r"threadgroup\(0\) of k has no length"):
        dispatch(device, pipeline(device, wanting), bytes(8))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kernel void k(constant uchar *a [[buffer(0)]]) { double d = 0; }", "no 'double'"),
        ("kernel void k(constant uchar *a [[buffer(0)]]) { throw 1; }", "no 'throw'"),
        ("kernel void k(uchar *a [[buffer(0)]]) {}", "no address space"),
        ("kernel void k(constant uchar *a [[buffer(31)]]) {}", "beyond 30"),
        ("kernel void k(constant uchar *a) {}", "has no attribute"),
        ("kernel void k(uint4 a [[thread_position_in_grid]]) {}", "not possible"),
        ("kernel void k(uint a [[thread_position]]) {}", "not possible"),
        ("kernel void k(constant uchar *a [[buffer(0)]]) { nothing(); }", "nothing"),
    ],
)
def test_text_that_metal_would_refuse(metal: SimulatedMetal, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pipeline(metal.devices[0], text)


def test_what_is_undefined_ends_the_dispatch(metal: SimulatedMetal) -> None:
    device = metal.devices[0]
    text = """kernel void k(constant ulong *args [[buffer(0)]]) {
    device int *p = (device int *)args[0];
    switch (p[0]) {
    case 0: p[1] = p[1] + p[1]; break;
    case 1: p[1] = 1 << p[1]; break;
    case 2: p[1] = 1 / p[2]; break;
    case 3: *(device int *)((device uchar *)p + 1) = 1; break;
    case 4: *(device ulong *)args = 1; break;
    default: p[1] = 7;
    }
}
"""
    state = pipeline(device, text)
    for case in range(6):
        out = buffer(device, case, 2**31 - 1, 0, 0)
        said = error_of(dispatch(device, state, addresses(out), out, threads=1))
        assert bool(said) == (case < 5), (case, said)
        assert (values(out)[1] == 7) == (case == 5)


def test_threads_meet(metal: SimulatedMetal) -> None:
    """At barriers in a loop; memory of a group begins as rubbish; a barrier that some never come to is noticed."""
    device = metal.devices[0]
    text = """kernel void k(constant ulong *args [[buffer(0)]], threadgroup uint *t [[threadgroup(0)]],
    uint i [[thread_index_in_threadgroup]], uint group [[threadgroup_position_in_grid]],
    uint n [[threads_per_threadgroup]]) {
    device uint *out = (device uint *)args[0];
    if (i == 0 && group == 0) out[0] = t[0];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    t[i] = i;
    for (uint step = 1; step < n; step *= 2) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint other = t[(i + step) % n];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        t[i] += other;
    }
    if (args[1] == 0 || i == 0) threadgroup_barrier(mem_flags::mem_threadgroup);
    if (i == 0) out[1 + group] = t[0];
}
"""
    state = pipeline(device, text)
    for flag, apart in ((0, 0), (1, 2)):
        out = buffer(device, 0, 0, 0, kind="I")
        words = struct.pack("2Q", out.gpuAddress(), flag)
        assert error_of(dispatch(device, state, words, out, threads=128, groups=2, memory=512)) == ""
        assert values(out, "I") == [0xA5A5A5A5, 128 * 127 // 2, 128 * 127 // 2]
        assert device.counts["apart"] == apart


def test_lanes_exchange_with_those_at_the_same_place(metal: SimulatedMetal) -> None:
    """Branches of one SIMD-group, a function called from both, and loops of different lengths."""
    device = metal.devices[0]
    text = """static uint votes(uint lane) { return uint(ulong(simd_ballot(lane % 2 == 0))); }
kernel void k(constant ulong *args [[buffer(0)]], uint i [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
    device uint *out = (device uint *)args[0];
    uint found = lane < 8 ? votes(lane) : votes(lane);
    for (uint turn = 0; turn < lane % 3; ++turn) found += simd_shuffle(lane, ushort(lane)) == lane ? 0 : 1000;
    out[i] = found;
    out[64 + i] = simd_shuffle(i, ushort(lane ^ 1));
}
"""
    out = buffer(device, *[0] * 128, kind="I")
    assert error_of(dispatch(device, pipeline(device, text), addresses(out), out, threads=64)) == ""
    found = values(out, "I")
    assert set(found[:8]) == {0x55}
    assert set(found[8:32]) == {0x55555500}
    assert found[64:] == [i ^ 1 for i in range(64)]
