"""`sterna.Array`: equal to NumPy in views and values, on memory the host reads and on memory it cannot."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sterna.array
from sterna.array import Array, empty, empty_like, from_dlpack, full, to_device, zeros
from sterna.array.memory import ALIGNMENT, HostMemory
from sterna.targets.cpu.device import RUNTIME
from sterna.typeof import type_of
from sterna.types import FLOAT32, ArrayType

PADDED = np.dtype([("flag", "?"), ("gain", "f8"), ("tab", "i2", (3,))], align=True)
PACKED = np.dtype([("flag", "?"), ("gain", "f8")])


class FarMemory:
    """Memory as a GPU's is: an address, no bytes for the host."""

    def __init__(self, nbytes: int) -> None:
        self._real = HostMemory(nbytes)
        self.address, self.nbytes, self.buffer = self._real.address, nbytes, None


class FarDevice:
    """A device whose memory can only be copied; counts copies."""

    name = "far"
    dlpack_device = (2, 1)

    def __init__(self) -> None:
        self.copies, self.synchronized = 0, 0

    def allocate(self, nbytes: int) -> FarMemory:
        return FarMemory(nbytes)

    def copy_in(self, address: int, host: np.ndarray) -> None:
        assert host.flags.c_contiguous
        self.copies += 1
        ctypes.memmove(address, host.ctypes.data, host.nbytes)

    def copy_out(self, host: np.ndarray, address: int) -> None:
        assert host.flags.c_contiguous
        self.copies += 1
        ctypes.memmove(host.ctypes.data, address, host.nbytes)

    def synchronize(self) -> None:
        self.synchronized += 1


@pytest.fixture(params=["cpu", "far"])
def device(request: pytest.FixtureRequest) -> Any:
    return RUNTIME.device(0) if request.param == "cpu" else FarDevice()


def test_making_arrays(device: Any) -> None:
    assert empty(3, device=device).dtype == np.float64
    assert zeros((2, 3), np.int16, device).copy_to_host().tolist() == [[0] * 3] * 2
    assert full((2,), 7, device=device).copy_to_host().tolist() == [7, 7]
    assert full(2, 7, np.float32, device).dtype == np.float32
    assert empty_like(np.zeros((4, 5), np.uint8), device).shape == (4, 5)
    np.testing.assert_array_equal(zeros(2, PADDED, device).copy_to_host(), np.zeros(2, PADDED))
    assert to_device([[1, 2], [3, 4]], device).copy_to_host().tolist() == [[1, 2], [3, 4]]
    assert to_device(5.0, device).shape == ()
    assert to_device(5.0, device).item() == 5.0
    assert to_device(np.arange(6).reshape(2, 3).T, device).strides == (16, 8)
    again = to_device(to_device(np.arange(3), device), device)
    assert again.copy_to_host().tolist() == [0, 1, 2]
    assert all(empty(n, np.int8, device).address % ALIGNMENT == 0 for n in range(5))


def test_facts(device: Any) -> None:
    a = empty((2, 3), np.float32, device)
    assert (a.ndim, a.size, a.itemsize, a.nbytes, len(a), a.strides) == (2, 6, 4, 24, 2, (12, 4))
    assert a.device is device
    assert repr(a) == f"<sterna.Array float32 (2, 3) on {device.name}>"
    assert type_of(a) == ArrayType(FLOAT32, 2, "C") and type_of(a.T) == ArrayType(FLOAT32, 2, "F")
    assert type_of(a[:, ::2]) == ArrayType(FLOAT32, 2, "A")
    with pytest.raises(TypeError):
        len(empty((), device=device))
    with pytest.raises(AttributeError):
        a.colour = 1  # type: ignore[attr-defined]


def test_keys_are_those_of_equal_numpy_arrays(device: Any) -> None:
    from sterna.runtime.signature import argument_key

    for host in (
        np.zeros((2, 3), "f4"),
        np.zeros((2, 0)),
        np.zeros(4)[::2],
        np.zeros((2, 3)).T,
        np.zeros((1, 3)),
        np.zeros(()),
    ):
        there = empty(host.base.shape if host.base is not None else host.shape, host.dtype, device)
        if host.base is not None:
            there = there[::2] if host.ndim == 1 else there.T
        assert argument_key(there) == argument_key(host)


INDICES = [
    0, -1, (1, 2), (0, -1, 3), slice(None), slice(1, None), slice(None, None, -1), slice(5, 2, -1), slice(-3, 3),
    slice(10, 20), (slice(None), 1), (..., 0), (0, ...), (None, 1), (slice(1, 2), None, slice(None, None, 2)),
    (..., None), (), ..., (1, slice(None, None, -2), slice(1, 3)), np.int64(1), (..., 1, 1, 1),
]  # fmt: skip


REFUSED = [3, (0, 4), -3, "gain", [0, 1], True, np.array([0]), 1.0, (0, [1]), (0, 0, 0, 0)]


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_indexing_is_numpys(device: Any, index: Any) -> None:
    host = np.arange(2 * 3 * 4, dtype=np.int32).reshape(2, 3, 4)
    there = to_device(host, device)
    expected, found = host[index], there[index]
    if isinstance(expected, np.ndarray):
        assert isinstance(found, Array)
        assert (found.shape, found.strides) == (expected.shape, expected.strides)
        assert found.address - there.address == expected.__array_interface__["data"][0] - host.ctypes.data
        found = found.copy_to_host()
    np.testing.assert_array_equal(found, expected)
    assert type(found) is type(expected)
    there[index] = 99
    host[index] = 99
    np.testing.assert_array_equal(there.copy_to_host(), host)


@pytest.mark.parametrize(
    "index", [3, (0, 4), -3, "gain", [0, 1], True, np.array([0]), 1.0, (0, [1]), (0, 0, 0, 0)], ids=repr
)
def test_indices_that_are_refused(device: Any, index: Any) -> None:
    there = zeros((2, 3), device=device)
    host = there.copy_to_host()
    for use in (lambda: there[index], lambda: there.__setitem__(index, 1)):
        with pytest.raises((IndexError, TypeError)):
            use()
    np.testing.assert_array_equal(there.copy_to_host(), host)


@pytest.mark.parametrize("dtype", [PADDED, PACKED], ids=["padded", "packed"])
def test_fields(device: Any, dtype: np.dtype) -> None:
    host = np.zeros(5, dtype)
    there = zeros(5, dtype, device)
    for target in (host, there):
        target["gain"] = np.arange(5)
        target["gain"][1::2] = -1
        target["flag"][2] = True
    back = there.copy_to_host()
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, host)
    assert there["gain"].strides == host["gain"].strides
    np.testing.assert_array_equal(there[2], host[2])
    assert there[1:3]["flag"].copy_to_host().tolist() == [False, True]
    if "tab" in dtype.names:
        assert there["tab"].shape == (5, 3)
    whole = np.asarray(there)
    assert whole.dtype == dtype
    np.testing.assert_array_equal(whole, host)


def test_shapes(device: Any) -> None:
    host = np.arange(24)
    there = to_device(host, device)
    assert there.reshape(2, 3, 4)[1, 2, 3] == 23
    assert there.reshape((4, -1)).shape == (4, 6)
    assert there.reshape([2, -1, 2]).ravel().shape == (24,)
    assert there.reshape(4, 6).T.strides == (8, 48)
    assert there.reshape(2, 3, 4).transpose(1, 0, 2).shape == (3, 2, 4)
    assert there.reshape(2, 3, 4).transpose((2, 0, 1)).strides == (8, 96, 32)
    np.testing.assert_array_equal(there.reshape(4, 6).T.ravel().copy_to_host(), host.reshape(4, 6).T.ravel())
    np.testing.assert_array_equal(there.reshape(4, 6).T.copy().copy_to_host(), host.reshape(4, 6).T)
    assert there[::2].reshape(3, 4).address == there.address, "a view where one is possible"
    assert there.view(np.int32).shape == (48,)
    assert zeros((2, 0), device=device).reshape(0, 5).shape == (0, 5)
    for shape in ((5, 5), (-1, 7), (-1, -1), (25,)):
        with pytest.raises(ValueError, match="cannot view"):
            there.reshape(shape)
    with pytest.raises(ValueError, match="copy"):
        there.reshape(4, 6).T.reshape(24)


def test_iteration_and_filling(device: Any) -> None:
    there = to_device(np.arange(6).reshape(2, 3), device)
    assert [row.copy_to_host().tolist() for row in there] == [[0, 1, 2], [3, 4, 5]]
    assert list(there[0]) == [0, 1, 2]
    there.fill(4)
    there[0] = [1, 2, 3]
    there[:, 2] = to_device(np.array([8, 9]), device)
    assert there.copy_to_host().tolist() == [[1, 2, 8], [4, 4, 9]]
    there.copy_from_host(np.ones((2, 3), np.float32)).copy_to_device(np.zeros((2, 3)))
    assert not there.copy_to_host().any()
    with pytest.raises(ValueError, match="shape"):
        there.copy_from_host(np.zeros(3))
    with pytest.raises(ValueError):
        there[0] = [1, 2]


def test_copying_into_a_given_array(device: Any) -> None:
    there = to_device(np.arange(6.0).reshape(2, 3), device)
    out = np.zeros((2, 3))
    assert there.copy_to_host(out) is out and out[1, 2] == 5
    strided = np.zeros((2, 6))[:, ::2]
    there.copy_to_host(strided)
    assert strided[1, 2] == 5
    for wrong in (np.zeros(6), np.zeros((2, 3), np.float32)):
        with pytest.raises(ValueError, match="out is"):
            there.copy_to_host(wrong)


def test_copies_and_pickles(device: Any) -> None:
    there = to_device(np.arange(3), device)
    for twin in (copy.copy(there), copy.deepcopy(there), there.copy()):
        twin.fill(9)
        assert twin.device is device
    assert there.copy_to_host().tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="copy_to_host"):
        pickle.dumps(there)


def test_zero_sizes(device: Any) -> None:
    for shape in ((0,), (2, 0), (0, 3)):
        there = zeros(shape, np.float32, device)
        assert there.copy_to_host().shape == shape
        there.fill(1)
        there[...] = 2
        assert there.T.copy_to_host().shape == shape[::-1]
        assert there[:, ::-1].copy_to_host().shape == shape if len(shape) == 2 else True


@pytest.mark.parametrize("dtype", ["O", "U3", "S2", ">f4", "M8[s]", np.longdouble, [("a", "O")]])
def test_dtypes_no_device_has(device: Any, dtype: Any) -> None:
    with pytest.raises(TypeError, match="not supported"):
        empty(3, dtype, device)
    with pytest.raises(TypeError):
        to_device(np.zeros(3, dtype), device)


def test_wrong_shapes(device: Any) -> None:
    with pytest.raises(ValueError, match="negative"):
        empty(-1, device=device)
    with pytest.raises(TypeError):
        empty(1.5, device=device)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown device"):
        empty(1, device="nowhere")
    with pytest.raises(TypeError, match="a device is expected"):
        empty(1, device=3)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_random_views_of_far_memory(data: st.DataObject) -> None:
    """Strided reads and writes through staging touch exactly the elements NumPy's would."""
    shape = tuple(data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=3)))
    host = np.arange(int(np.prod(shape)), dtype=np.int16).reshape(shape)
    there: Any = to_device(host, FarDevice())
    bound, steps = st.none() | st.integers(-6, 6), st.sampled_from([None, 1, 2, -1, -2, 3])
    for _ in range(data.draw(st.integers(1, 3))):
        index = tuple(slice(data.draw(bound), data.draw(bound), data.draw(steps)) for _ in host.shape)
        whole, host_view = host, host[index]
        there_view = there[index]
        np.testing.assert_array_equal(there_view.copy_to_host(), host_view)
        there_view[...] = -7
        host_view[...] = -7
        np.testing.assert_array_equal(there.copy_to_host(), whole)
        host, there = host_view.T, there_view.T


# ---- other libraries -----------------------------------------------------------------------------


def test_numpy_shares_memory_on_the_cpu() -> None:
    there = to_device(np.arange(4.0))
    seen = np.asarray(there)
    seen[1] = 50
    assert there[1] == 50 and seen.ctypes.data == there.address
    assert np.asarray(there[::-1]).tolist() == [3.0, 2.0, 50.0, 0.0]
    copy = np.array(there)
    copy[0] = 9
    assert there[0] == 0
    assert np.asarray(there, np.float32).dtype == np.float32
    assert np.add(there, 1).tolist() == [1.0, 51.0, 3.0, 4.0]
    assert np.sum(there) == 55
    assert there.__array_interface__["data"] == (there.address, False)


def test_numpy_copies_from_far_memory() -> None:
    device = FarDevice()
    there = to_device(np.arange(4.0), device)
    assert not hasattr(there, "__array_interface__")
    assert np.asarray(there).tolist() == [0, 1, 2, 3]
    assert np.asarray(there, np.int8).dtype == np.int8
    assert device.synchronized >= 2
    with pytest.raises(ValueError):
        np.asarray(there, copy=False)
    with pytest.raises(BufferError):
        there.__dlpack__()
    assert there.__dlpack_device__() == (2, 1)


def test_dlpack() -> None:
    there = to_device(np.arange(6, dtype=np.float32).reshape(2, 3))
    seen = np.from_dlpack(there)
    assert seen.ctypes.data == there.address and there.__dlpack_device__() == (1, 0)
    host = np.arange(8, dtype=np.int32)
    shared = from_dlpack(host[::2])
    shared[1] = 70
    assert host[2] == 70 and shared.strides == (8,)
    assert np.asarray(shared).tolist() == [0, 70, 4, 6]
    chain = from_dlpack(shared)
    assert chain.address == shared.address
    host.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        from_dlpack(host)
    assert from_dlpack(np.zeros((0, 3))).shape == (0, 3)


def test_memory_lives_as_long_as_any_view() -> None:
    class Owner(HostMemory):
        __slots__ = ("__weakref__",)

    class Source:
        name = "cpu"

        def allocate(self, nbytes: int) -> HostMemory:
            self.memory = weakref.ref(owner := Owner(nbytes))
            return owner

        def synchronize(self) -> None: ...

    for make in (lambda a: a[1:], lambda a: a.T, lambda a: a.reshape(-1), lambda a: a.view("i4")):
        source = Source()
        array = zeros(100, np.float32, source)  # type: ignore[arg-type]
        view = make(array)
        del array
        gc.collect()
        assert source.memory() is not None
        del view
        gc.collect()
        assert source.memory() is None
    seen = np.asarray(full(100, 3.0))
    gc.collect()
    assert seen.tolist() == [3.0] * 100


def test_shared_memory_of_another_library_is_kept_alive() -> None:
    host = np.arange(1000)
    kept = weakref.ref(host)
    shared = from_dlpack(host)
    del host
    gc.collect()
    assert kept() is not None and shared[999] == 999
    del shared
    gc.collect()
    assert kept() is None


def test_names_of_the_package() -> None:
    assert set(sterna.array.__all__) >= {"Array", "to_device", "empty", "zeros", "full", "from_dlpack"}
