"""Machine code of Metal devices in the archive: hit, miss, damage, other systems, whatever can fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sterna
from helpers.metal.api import SimulatedMetal, simulated
from helpers.metal.byhand import kernel_text, load, make_metal_image, run
from helpers.metal.device import BinaryArchive, SimulatedDevice
from helpers.metal.marks import SIMULATED
from helpers.metal.objects import Error, ProcessInfo
from sterna.image.archive import default_archive
from sterna.targets.metal.device import forget_devices

pytestmark = SIMULATED
SIGNATURE = ("int32[:]",)
TEXT = kernel_text("ulong out; long n;", "((device int *)a.out)[i] = int(i) + 40;")


def hand(out):
    out[0] = 40


@pytest.fixture
def metal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedMetal]:
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("STERNA_ARCHIVE", raising=False)
    with simulated() as made:
        yield made


def use(name: str = "metal", text: str = TEXT, payload: str = "msl") -> Any:
    """Load and run the kernel; the counts of its device."""
    device = sterna.device(name)
    code = text.encode() if payload == "msl" else b"MTLB" + text.encode()
    image = make_metal_image(text, SIGNATURE, facts={"state": [], "raises": False}, payloads={payload: code})
    loaded, out = load(image, hand, device, SIGNATURE), sterna.zeros(3, np.int32, device)
    run(loaded, SIGNATURE, 1, 3, out)
    assert out.copy_to_host().tolist() == [40, 41, 42]
    return device.handle.counts


def counters() -> dict[str, int]:
    archive = default_archive()
    assert archive is not None
    return {name: archive.counters[name] for name in ("hits", "misses", "stored", "refused")}


def blobs(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.glob("cache/archive/metal/*/*/*.code"))


def test_a_miss_then_hits(metal: SimulatedMetal, tmp_path: Path) -> None:
    counts = use()
    assert (counts["compiles"], counts["harvests"], counts["archive_hits"]) == (1, 1, 0)
    assert len(blobs(tmp_path)) == 1
    use()
    assert (counts["compiles"], counts["archive_hits"]) == (1, 1)
    assert counters() == {"hits": 1, "misses": 1, "stored": 1, "refused": 0}
    assert sterna.stats()["archive"]["hits"] == 1


def test_other_code_of_the_same_key_is_a_miss(metal: SimulatedMetal, tmp_path: Path) -> None:
    use()
    counts = use(text=TEXT + "// another\n")
    assert (counts["compiles"], counts["archive_hits"]) == (2, 0)
    assert len(blobs(tmp_path)) == 1


def test_each_kind_of_device_and_system_has_its_own(
    metal: SimulatedMetal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use("metal:0")
    counts = use("metal:1")
    assert (counts["compiles"], counts["archive_hits"]) == (1, 0)
    assert len(blobs(tmp_path)) == 2
    assert len({blob.parent.parent for blob in blobs(tmp_path)}) == 2, "one folder a device"
    before = blobs(tmp_path)
    monkeypatch.setattr(ProcessInfo, "build", "25A1")
    counts = use("metal:0")
    assert (counts["compiles"], counts["archive_hits"]) == (2, 0)
    gone = [blob for blob in before if not blob.exists()]
    assert len(gone) == 1, "what the former system of this machine made is of no use"


def test_damage_is_repaired_in_silence(metal: SimulatedMetal, tmp_path: Path) -> None:
    use()
    (blob,) = blobs(tmp_path)
    whole = blob.read_bytes()
    blob.write_bytes(whole[:-7] + b"!" + whole[-6:])
    counts = use()
    assert (counts["compiles"], counts["archive_hits"]) == (2, 0)
    assert counters()["refused"] == 1
    assert blob.read_bytes() == whole
    use()
    assert counts["archive_hits"] == 1


def test_what_metal_refuses_is_made_anew(
    metal: SimulatedMetal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is whole, and Metal does not take it: a system that changed without saying so."""
    use()
    with monkeypatch.context() as patch:
        patch.setattr(SimulatedDevice, "maker", property(lambda self: "other"))
        counts = use()
        assert (counts["compiles"], counts["archive_hits"]) == (2, 0)
        assert counters() == {"hits": 1, "misses": 1, "stored": 2, "refused": 1}
        use()
        assert counts["archive_hits"] == 1


FAILING = {
    "open": (SimulatedDevice, "newBinaryArchiveWithDescriptor_error_"),
    "look up": (SimulatedDevice, "newComputePipelineStateWithDescriptor_options_reflection_error_"),
    "add": (BinaryArchive, "addComputePipelineFunctionsWithDescriptor_error_"),
    "write": (BinaryArchive, "serializeToURL_error_"),
}


@pytest.mark.parametrize("how", ["error", "exception", "reflection"])
@pytest.mark.parametrize("step", FAILING)
def test_failures_end_in_plain_creation(
    metal: SimulatedMetal, monkeypatch: pytest.MonkeyPatch, step: str, how: str
) -> None:
    def fail(self: Any, *given: Any) -> Any:
        if how == "exception":
            raise ValueError("depythonifying 'pointer'")  # what the bridge raises for an argument it does not take
        return (None, None, Error("MTLBinaryArchiveDomain", 4, "no"))[how == "error" :]

    monkeypatch.setattr(*FAILING[step], fail)
    for _ in range(2):
        counts = use()
    assert counts["compiles"] == 2
    assert counts["archive_hits"] == 0


def test_reflection_may_come_back_too(metal: SimulatedMetal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the bridge gives two values or three depends on its version."""
    name = "newComputePipelineStateWithDescriptor_options_reflection_error_"
    real = getattr(SimulatedDevice, name)
    monkeypatch.setattr(SimulatedDevice, name, lambda self, *a: (real(self, *a)[0], None, real(self, *a)[1]))
    use()
    assert use()["compiles"] == 1


def test_it_can_be_switched_off(metal: SimulatedMetal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STERNA_ARCHIVE", "0")
    assert [use()["compiles"] for _ in range(2)] == [1, 2]
    assert blobs(tmp_path) == []


def test_a_metallib_has_to_ask_for_it(metal: SimulatedMetal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing shows yet that Apple's tools make the same bytes in two processes."""
    assert [use(payload="metallib")["compiles"] for _ in range(2)] == [1, 2]
    monkeypatch.setenv("STERNA_ARCHIVE", "1")
    assert [use(payload="metallib")["compiles"] for _ in range(2)] == [3, 3]


def test_the_size_is_limited(metal: SimulatedMetal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STERNA_ARCHIVE_LIMIT", str(7000 / (1 << 20)))  # one blob is some 4 KiB
    use("metal:0")
    use("metal:1")
    assert len(blobs(tmp_path)) == 1
    monkeypatch.setenv("STERNA_ARCHIVE_LIMIT", "0")
    counts = use("metal:0")
    forget_devices()
    assert counts["compiles"] == 2
