"""What comes after what on a GPU: cooperative launches, contexts of other libraries, arrays by DLPack alone."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

import sterna
from helpers.launching import GPU

pytestmark = [*GPU]

TABLE = np.arange(16, dtype=np.float32)


@pytest.fixture
def gpu() -> Any:
    device = sterna.device("cuda")
    yield device
    device.synchronize()


@sterna.kernel
def scale(x):
    i = sterna.grid(1)
    x[i] = 2 * x[i] + TABLE[i % 16]


def test_a_cooperative_kernel_after_its_stream_is_gone(gpu):
    @sterna.kernel(cooperative=True)
    def add(x):
        sterna.grid.sync()
        sterna.atomic.add(x, 0, 1)

    x = sterna.zeros(1, np.int32, gpu)
    for _ in range(10):
        stream = sterna.stream(gpu, blocking=False)
        add[4, 32, stream](x)
        del stream
        gc.collect()
        add[4, 32](x)
    assert x.copy_to_host()[0] == 10 * 2 * 4 * 32


def test_a_launch_while_another_context_is_current(gpu):
    """A context of another library on the same device, current in this thread."""
    x = sterna.to_device(np.ones(16, np.float32), gpu)
    scale[1, 16](x)
    gpu.synchronize()
    library = ctypes.CDLL("libcuda.so.1")
    theirs = ctypes.c_void_p()
    assert library.cuCtxCreate_v2(ctypes.byref(theirs), 0, 0) == 0
    try:
        for _ in range(3):
            assert library.cuCtxSetCurrent(theirs) == 0
            scale[1, 16](x)
        expected = np.ones(16, np.float32)
        for _ in range(4):
            expected = expected * np.float32(2) + TABLE
        assert library.cuCtxSetCurrent(theirs) == 0
        assert np.array_equal(x.copy_to_host(), expected)
    finally:
        library.cuCtxDestroy_v2(theirs)
    scale[1, 16](x)
    gpu.synchronize()


class ByDLPack:
    """A tensor that shows DLPack and nothing else."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, index = self.held.__dlpack_device__()
        return int(kind), index

    def __dlpack__(self, stream: int | None = None) -> Any:
        return self.held.__dlpack__(stream=stream)


def test_a_tensor_with_dlpack_alone(gpu):
    torch = pytest.importorskip("torch")
    tensor = torch.ones(64, device="cuda")
    scale.over(64)(ByDLPack(tensor))
    gpu.synchronize()
    expected = 2 + TABLE[np.arange(64) % 16]
    assert np.array_equal(tensor.cpu().numpy(), expected)
    held = ByDLPack(torch.arange(8, dtype=torch.float32, device="cuda"))

    @sterna.kernel
    def double(x):
        i = sterna.grid(1)
        x[i] = held[i] * 2

    x = sterna.zeros(8, np.float32, gpu)
    double.over(8)(x)
    assert np.array_equal(x.copy_to_host(), np.arange(8) * 2)
