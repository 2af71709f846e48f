"""How the Metal target finds Metal: nowhere but on macOS, by PyObjC; and Apple's tools, which are optional."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sterna
from helpers.metal.api import SimulatedMetal, simulated
from helpers.metal.marks import SIMULATED
from sterna.cli.inspect import inspect_kernel
from sterna.errors import CompileError, DeviceError, UnsupportedError
from sterna.targets.metal import api, toolchain
from sterna.targets.metal.device import RUNTIME, forget_devices
from sterna.targets.registry import compiler_versions


@pytest.fixture
def nothing_chosen() -> Iterator[None]:
    previous = api.use(None)
    forget_devices()
    yield
    api.use(previous)
    forget_devices()


def test_without_metal_it_says_so(nothing_chosen: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert RUNTIME.device_count() == 0
    assert not any(device.name.startswith("metal") for device in sterna.devices())
    with pytest.raises(DeviceError, match=r"there is no Metal device: Metal exists on macOS, and this is linux"):
        sterna.device("metal")
    with pytest.raises(ValueError, match="metal has 0 devices"):
        sterna.device("metal:1")
    assert "metal" in [known["name"] for known in sterna.stats()["targets"]]


def test_without_pyobjc_it_says_what_to_install(nothing_chosen: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setitem(sys.modules, "Metal", None)
    with pytest.raises(DeviceError, match=r'pip install "sterna\[metal\]"'):
        sterna.device("metal")


def test_names_come_from_the_frameworks(nothing_chosen: None, monkeypatch: pytest.MonkeyPatch) -> None:
    made = SimulatedMetal(1)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setitem(sys.modules, "Metal", SimpleNamespace(MTLCopyAllDevices=made.MTLCopyAllDevices))
    monkeypatch.setitem(sys.modules, "Foundation", SimpleNamespace(NSURL="url", NSProcessInfo=made.NSProcessInfo))
    monkeypatch.setitem(sys.modules, "objc", SimpleNamespace(autorelease_pool=made.autorelease_pool))
    assert RUNTIME.device_count() == 1
    assert RUNTIME.device(0).device_name == "Simulated M1"
    assert api.metal().NSURL == "url"
    assert api.system_build() == "Version 15.3 (Build 24D60)"
    with api.metal().autorelease_pool():
        pass
    with pytest.raises(AttributeError, match="MTLNothing"):
        _ = api.metal().MTLNothing
    with pytest.raises(DeviceError, match=r"no metal:3; Metal lists 1 devices"):
        RUNTIME.device(3)


def test_errors_are_in_words() -> None:
    error: Any = SimpleNamespace(localizedDescription=lambda: "out of luck")
    assert api.check((5, None), "asking") == 5
    assert api.check((5, "reflection", None), "asking") == 5
    with pytest.raises(DeviceError, match="asking: out of luck"):
        api.check((None, error), "asking")
    with pytest.raises(DeviceError, match="asking: no reason was given"):
        api.check((False, None), "asking")


def test_the_command_line_lists_devices() -> None:
    with simulated():
        assert [name for name in sterna.stats()["devices"] if name.startswith("metal")] == ["metal:0", "metal:1"]


# ---- Apple's tools -------------------------------------------------------------------------------

XCRUN = """#!/bin/sh
shift 2
case "$1 $2" in
"metal --version") echo "Apple metal version 32023.155"; exit 0;;
esac
for last; do goal=$last; done
case "$1" in
metal)
    grep -q nonsense kernel.metal && { echo "kernel.metal:1: error: nonsense" >&2; exit 1; }
    case "$*" in *" -ffast-math "*) printf fast > "$goal"; exit 0;; esac
    cp kernel.metal "$goal";;
metallib) { printf MTLB; cat kernel.air; } > "$goal";;
esac
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for ``xcrun`` on the path."""
    tool = tmp_path / "xcrun"
    tool.write_text(XCRUN)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tool


def test_a_metallib_is_made_only_when_asked_for(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STERNA_METALLIB", raising=False)
    assert not toolchain.is_wanted()
    assert toolchain.tool_versions() == {}
    monkeypatch.setenv("STERNA_METALLIB", "1")
    assert toolchain.tool_versions() == {"metal": "Apple metal version 32023.155"}
    assert toolchain.make_metallib("text", "3.0", "k") == b"MTLBtext"
    assert toolchain.make_metallib("text", "3.0", "k", fast=True) == b"MTLBfast"
    with pytest.raises(
        CompileError, match=r"(?s)kernel k: Apple's metal tool refuses .*error: nonsense.*STERNA_METALLIB=0"
    ):
        toolchain.make_metallib("nonsense", "3.0", "k")


@sterna.kernel
def twice(x):
    i = sterna.grid(1)
    x[i] = 2 * x[i]


@SIMULATED
def test_images_hold_it_and_devices_prefer_it(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path / "cache"))
    plain = twice.build("float32[:]", target="metal-msl").image
    monkeypatch.setenv("STERNA_METALLIB", "1")
    compiler_versions.cache_clear()
    try:
        with simulated() as metal:
            x = sterna.full(5, 3, np.float32, "metal")
            twice[1, 5](x)
            image = twice.specialize(x, device="metal").image
            assert x.copy_to_host().tolist() == [6] * 5
            counts = metal.devices[0].counts
            assert counts["libraries"] == 0, "no text was compiled on the device"
    finally:
        compiler_versions.cache_clear()
    assert sorted(image.payloads) == ["metallib", "msl"]
    assert image.payloads["msl"] == plain.payloads["msl"]
    assert image.key != plain.key
    assert image.provenance["versions"]["metal"] == "Apple metal version 32023.155"


def test_the_text_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path / "cache"))
    user = tmp_path / "user.py"
    user.write_text("import sterna\n\n@sterna.kernel\ndef twice(x):\n    i = sterna.grid(1)\n    x[i] = 2 * x[i]\n")
    text = inspect_kernel(f"{user}:twice", "float32[:]", "msl", arch="metal-msl")
    assert "kernel void" in text and "[[buffer(0)]]" in text
    with pytest.raises(UnsupportedError, match="metal-msl has no 'ptx'; it has"):
        inspect_kernel(f"{user}:twice", "float32[:]", "ptx", arch="metal-msl")
    with simulated():
        built = twice.build("float32[:]", target="metal-msl")
        assert twice.specialize("float32[:]", device="metal").msl == built.text("msl")


def test_without_the_tools_there_is_only_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("STERNA_METALLIB", "1")
    assert not toolchain.is_wanted()
    with pytest.raises(CompileError, match="cannot be run"):
        toolchain.make_metallib("text", "3.0", "k")
