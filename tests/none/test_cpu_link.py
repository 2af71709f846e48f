"""Linking hand-made images on the CPU: every kind of record delivered, kept alive, rewritten, refused."""

from __future__ import annotations

import gc
import struct
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sterna.array
from helpers.native import build_object, grid_kernel
from sterna.abi import arg_layout
from sterna.errors import LinkError
from sterna.image.format import KernelImage
from sterna.relocation.record import Manifest, RefKind, RelocationRecord
from sterna.relocation.roots import resolve
from sterna.runtime.config import make_config
from sterna.runtime.hostrefs import Global, runtime_global
from sterna.runtime.link import LoadedKernel, link
from sterna.targets.base import Limits
from sterna.targets.cpu.loader import host_machine
from sterna.targets.registry import target

pytestmark = pytest.mark.skipif(host_machine() != 62, reason="hand-made kernels are x86-64")


class Sentinel:
    pass


SENTINEL: Any = Sentinel()
TABLE = np.arange(10, dtype=np.int64) * 7
DEVICE_TABLE: Any = sterna.array.to_device(np.arange(12, dtype=np.float32).reshape(3, 4))
GAIN = Global(1.5, "float64")
FLOAT = runtime_global("PyFloat_Type")


def kernel(out):
    out[0] = (SENTINEL, Sentinel, TABLE, DEVICE_TABLE, GAIN, FLOAT)


RECORDS = (
    RelocationRecord("s_object", 0, RefKind.OBJECT, "globals:SENTINEL", type="object"),
    RelocationRecord("s_type", 1, RefKind.TYPE, "globals:Sentinel", type="type"),
    RelocationRecord("s_table", 2, RefKind.BUFFER, "globals:TABLE", words=3, type="array(int64, 1, C, readonly)"),
    RelocationRecord("s_inner", 5, RefKind.BUFFER, "globals:TABLE", addend=24, words=3),
    RelocationRecord("s_device", 8, RefKind.BUFFER, "globals:DEVICE_TABLE", words=5, type="array(float32, 2, C)"),
    RelocationRecord("s_gain", 13, RefKind.GLOBAL, "globals:GAIN", type="float64"),
    RelocationRecord("s_float", 14, RefKind.SYMBOL, "globals:FLOAT"),
)
WORDS = 15


DECLARED = f"@sterna_refs = externally_initialized global [{WORDS} x i64] zeroinitializer"


def image(strategy: str, records: tuple[RelocationRecord, ...] = RECORDS, declared: str = DECLARED) -> KernelImage:
    """A kernel that copies all words to its output, from slots or from the table."""
    body = []
    for at in range(WORDS):
        body.append(
            f"  %p{at} = getelementptr i64, ptr {'@sterna_refs' if strategy == 'patch' else '%table'}, i64 {at}\n"
            f"  %w{at} = load i64, ptr %p{at}\n"
            f"  %o{at} = getelementptr i64, ptr %out, i64 {at}\n  store i64 %w{at}, ptr %o{at}"
        )
    ir = grid_kernel("\n".join([*body, "  br label %latch"]), declared)
    cpu = target("cpu")
    return KernelImage(
        key="00" * 32, name="kernel", module=__name__, target=cpu.name, arch=cpu.arch, entry="entry", signature="()",
        manifest=Manifest(strategy, records), payloads={"object": build_object(ir)},
    )  # fmt: skip


def linked(strategy: str = "patch", **changes: Any) -> LoadedKernel:
    return link(image(strategy, **changes), kernel, target("cpu").runtime().device(0), arg_layout(()))


def words_of(loaded: LoadedKernel) -> list[int]:
    out = np.zeros(WORDS, np.uint64)
    loaded.module.launch(make_config(Limits(), 1, 1), struct.pack("=Q", out.ctypes.data), None)
    return [int(word) for word in out]


@pytest.mark.parametrize("strategy", ["patch", "table"])
def test_the_kernel_reads_this_sessions_words(strategy: str) -> None:
    loaded = linked(strategy)
    words = words_of(loaded)
    assert words[:2] == [id(SENTINEL), id(Sentinel)]
    assert resolve(words[0]) is SENTINEL and resolve(words[1]) is Sentinel
    copied = words[2]
    assert words[2:8] == [copied, 10, 8, copied + 24, 7, 8]
    assert copied != TABLE.ctypes.data, "a captured NumPy array is a copy"
    assert words[8:13] == [DEVICE_TABLE.address, 3, 4, 16, 4]
    assert words[13] == struct.unpack("=Q", struct.pack("=d", 1.5))[0]
    assert words[14] == id(float)
    assert loaded.module.function is kernel
    try:
        GAIN.value = -0.25
        assert struct.unpack("=d", struct.pack("=Q", words_of(loaded)[13]))[0] == -0.25
    finally:
        GAIN.value = 1.5
    loaded.unload()
    loaded.unload()


def test_objects_live_as_long_as_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    mine: Any = Sentinel()
    gone = weakref.ref(mine)
    monkeypatch.setitem(globals(), "SENTINEL", mine)
    loaded = linked()
    monkeypatch.undo()
    del mine
    gc.collect()
    assert gone() is not None and resolve(words_of(loaded)[0]) is gone()
    loaded.unload()
    del loaded
    gc.collect()
    assert gone() is None


def test_captured_memory_lives_as_long_as_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    mine: Any = sterna.array.to_device(np.full((5, 6), 3, np.float32))
    gone = weakref.ref(mine)
    monkeypatch.setitem(globals(), "DEVICE_TABLE", mine)
    loaded = linked()
    assert words_of(loaded)[8:11] == [mine.address, 5, 6], "another array of another length: the same image"
    monkeypatch.undo()
    del mine
    gc.collect()
    assert gone() is not None
    del loaded
    gc.collect()
    assert gone() is None


FEWER = f"@sterna_refs = externally_initialized global [{WORDS - 1} x i64] zeroinitializer"
RENAMED = f"@sterna_refs = external global [{WORDS} x i64]\n@other = global [{WORDS} x i64] zeroinitializer"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"records": RECORDS[:-1]}, "of 6 references .* should take 112 bytes in the code; found 120 bytes"),
        ({"declared": FEWER}, "should take 120 bytes in the code; found 112 bytes"),
        ({"declared": RENAMED}, "needs the symbol 'sterna_refs'"),
        ({"records": RECORDS[1:]}, "its words are at 1 and 0 come before it"),
        ({"records": (RECORDS[0], RECORDS[0])}, "its words are at 0 and 1 come before it"),
        ({"records": (replace(RECORDS[0], words=2),)}, "needs 2 words and the value gives 1"),
    ],
)
def test_code_and_manifest_that_disagree(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(LinkError, match=words):
        linked(**changes)


def test_code_without_a_place_for_words() -> None:
    other = image("table", declared="")  # reads no symbol, and the manifest says that words are patched
    with pytest.raises(LinkError, match="found no symbol sterna_refs"):
        link(
            replace(other, manifest=Manifest("patch", RECORDS)),
            kernel,
            target("cpu").runtime().device(0),
            arg_layout(()),
        )


def test_two_links_of_one_image_have_their_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    first = linked()
    other: Any = Sentinel()
    monkeypatch.setitem(globals(), "SENTINEL", other)
    second = linked()
    assert words_of(first)[0] != words_of(second)[0] == id(other)
