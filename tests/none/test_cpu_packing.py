"""Launch arguments packed in native code: the bytes of the Python packer, and refusal of everything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")
import sterna
from helpers.native import host_object
from sterna.runtime.signature import ArgumentPacker
from sterna.targets.cpu import packing
from sterna.targets.cpu.loader import host_machine
from sterna.targets.cpu.packing import NativePacker, native_packer
from sterna.typeof import type_of

pytestmark = pytest.mark.skipif(host_machine() != 62, reason="host functions are built for x86-64 here")

DTYPES = ("?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "M8[s]")
RECORD = np.dtype([("a", "i4"), ("b", "f8")])


def packer_for(args: tuple[Any, ...]) -> tuple[NativePacker | None, ArgumentPacker]:
    types = tuple(type_of(arg) for arg in args)
    python = ArgumentPacker("k", [f"p{n}" for n in range(len(args))], types)
    return native_packer(host_object(), python.layout, types, args), python


def pack(packer: NativePacker, args: Any) -> bytes | None:
    out = bytes(packer.size)
    return None if packer.function(args, packer.plan, out) else out


def test_memory_is_as_expected_here() -> None:
    assert packing._is_as_expected()


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=0, max_size=4)))
    array = np.zeros(shape, draw(st.sampled_from([*DTYPES[:-1], RECORD])))
    for axis in range(array.ndim):
        step = draw(st.sampled_from([1, 1, 2, -1]))
        array = array[(slice(None),) * axis + (slice(None, None, step),)]
    if draw(st.booleans()):
        array = array.T
    if draw(st.booleans()):
        array.flags.writeable = False
    return array


numbers = st.one_of(st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(arrays(), numbers), max_size=6))
def test_the_bytes_are_those_of_the_python_packer(given_args: list[Any]) -> None:
    args = tuple(given_args)
    native, python = packer_for(args)
    assert native is not None
    assert pack(native, args) == python.pack(args)
    again = tuple(arg.copy("K") if isinstance(arg, np.ndarray) else arg for arg in args)
    if all(type_of(a) == type_of(b) for a, b in zip(args, again, strict=True)):
        assert pack(native, again) == python.pack(again), "other arguments of the same types"


BASE = np.zeros((4, 6), np.float32)
READ_ONLY = BASE.copy()
READ_ONLY.flags.writeable = False
MISALIGNED = np.zeros(97, np.int8)[1:].view(np.float32).reshape(4, 6)
OTHERS: list[Any] = [
    BASE.astype(np.float64), BASE.astype(">f4"), BASE.ravel(), BASE.reshape(2, 2, 6), BASE[:, ::2], BASE.T, READ_ONLY,
    MISALIGNED, BASE.view(np.matrix), np.ma.masked_array(BASE), BASE.tolist(), None, 1.0, 3, True, np.float32(1), "x",
]  # fmt: skip


@pytest.mark.parametrize("other", OTHERS, ids=lambda x: type(x).__name__)
def test_other_arguments_are_refused(other: Any) -> None:
    native, _ = packer_for((BASE, 1))
    assert native is not None
    assert pack(native, (BASE, 5)) is not None
    assert pack(native, (other, 5)) is None


@pytest.mark.parametrize("other", [1.5, True, np.int64(1), None, 2**63, -(2**63) - 1, BASE, type("I", (int,), {})(3)])
def test_what_is_no_plain_int_of_64_bits_is_refused(other: Any) -> None:
    native, _ = packer_for((3,))
    assert native is not None and pack(native, (2**63 - 1,)) == (2**63 - 1).to_bytes(8, "little")
    assert pack(native, (other,)) is None
    assert pack(native, (-4,)) is not None, "a refusal leaves nothing behind"


def test_what_is_no_plain_float_is_refused() -> None:
    native, _ = packer_for((3.0,))
    assert native is not None
    for other in (1, np.float64(1), np.float32(1), type("F", (float,), {})(3.0), None):
        assert pack(native, (other,)) is None


def test_another_number_of_arguments_is_refused() -> None:
    native, _ = packer_for((1, 2.0))
    assert native is not None
    for args in ((), (1,), (1, 2.0, 3)):
        assert pack(native, args) is None
    nothing, _ = packer_for(())
    assert nothing is not None and pack(nothing, ()) == b"" and pack(nothing, (1,)) is None


def test_arguments_that_python_must_pack() -> None:
    for arg in (True, 1j, np.float32(1), np.int64(1), (1, 2), None, sterna.zeros(3), BASE.view(np.matrix)):
        native, _ = packer_for((arg,))
        assert native is None


def test_a_dtype_of_a_structure_is_kept_alive() -> None:
    def made() -> np.dtype:
        return np.dtype([("a", "i4"), ("b", "f8")], align=True)

    first = np.zeros(3, made())
    native, _ = packer_for((first,))
    assert native is not None
    address = id(first.dtype)
    del first
    others = [np.zeros(3, np.dtype([("a", "f4"), ("b", "f8")], align=True)) for _ in range(100)]
    assert all(id(other.dtype) != address and pack(native, (other,)) is None for other in others)


def test_where_memory_is_otherwise_python_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_is_as_expected", lambda: False)
    assert packer_for((BASE,))[0] is None

    @sterna.kernel
    def double(x):
        i = sterna.grid(1)
        x[i] *= 2

    x = np.ones(5)
    for _ in range(8):
        double.over(5)(x)
    assert (x == 256).all()
