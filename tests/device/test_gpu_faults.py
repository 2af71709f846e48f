"""What goes wrong on a CUDA device: images that the driver refuses, and accesses that only a sanitizer sees."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sterna
from helpers.launching import GPU
from sterna.abi import arg_layout
from sterna.errors import ImageRefused
from sterna.runtime.link import link
from sterna.types import FLOAT32, ArrayType

pytestmark = [*GPU]

TABLE = np.arange(16, dtype=np.float32)
LAYOUT = arg_layout((ArrayType(FLOAT32, 1, "C"),))


@sterna.kernel
def scale(x):
    i = sterna.grid(1)
    x[i] = 2 * x[i] + TABLE[i % 16]


@pytest.fixture
def gpu() -> Any:
    device = sterna.device("cuda")
    yield device
    device.synchronize()


def image_with(gpu: Any, **payloads: bytes) -> Any:
    image = scale.build("float32[:]", target=f"cuda-{gpu.target.arch}").image
    return replace(image, payloads={**image.payloads, **payloads})


def runs(gpu: Any, image: Any) -> bool:
    """Whether an image links, and its kernel gives the right result."""
    x = sterna.to_device(np.ones(64, np.float32), gpu)
    loaded = link(image, scale.function, gpu, LAYOUT)
    compiled = scale.specialize("float32[:]", device=gpu)
    config = scale[2, 32].config_for(gpu)
    loaded.module.launch(config, compiled._found.packer.pack((x,)), None)
    return bool(np.array_equal(x.copy_to_host(), 2 + TABLE[np.arange(64) % 16]))


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def test_a_cubin_of_another_architecture_gives_way_to_the_ptx(gpu):
    older = scale.build("float32[:]", target="cuda-sm_75").image.payloads["cubin"]
    assert gpu.target.arch != "sm_75"
    assert runs(gpu, image_with(gpu, cubin=older))


def test_a_cubin_that_is_none_gives_way_to_the_ptx(gpu):
    good = image_with(gpu).payloads["cubin"]
    for bad in (changed(good, 18, b"\x3e\x00"), good[: len(good) // 2], b"", b"\x7fELF" * 40):
        assert runs(gpu, image_with(gpu, cubin=bad))


def test_what_the_driver_refused_is_kept_with_its_log(gpu, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    older = scale.build("float32[:]", target="cuda-sm_75").image.payloads["cubin"]
    with pytest.raises(ImageRefused, match=r"cubin: .*ptx: .*kept in") as caught:
        link(image_with(gpu, cubin=older, ptx=b".version 99.9\n.target sm_90\n"), scale.function, gpu, LAYOUT)
    (folder,) = tmp_path.glob("sterna-refused-*")
    assert str(folder) in str(caught.value)
    assert (folder / "cubin").read_bytes() == older
    assert (folder / "driver.log").read_text().strip()
    scale.over(4)(sterna.zeros(4, np.float32, gpu))
    gpu.synchronize()


SCRIPT = """import numpy as np
import sterna


@sterna.kernel(boundscheck=False)
def astray(x, far):
    i = sterna.grid(1)
    y = x[i] + 1
    x[i + far] = y  # LINE


x = sterna.zeros(32, np.float32, "cuda")
astray[1, 32](x, 1 << 40)
try:
    x.device.synchronize()
except Exception as error:
    print(type(error).__name__)
"""


def sanitizer() -> str:
    found = shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ["PATH"], "/usr/local/cuda/bin"]))
    if found is None:
        pytest.skip("compute-sanitizer is not installed")
    return found


def test_the_sanitizer_names_the_python_line(tmp_path: Path):
    script = tmp_path / "astray.py"
    script.write_text(SCRIPT)
    line = SCRIPT[: SCRIPT.index("# LINE")].count("\n") + 1
    environment = {**os.environ, "STERNA_CACHE_DIR": str(tmp_path / "store")}
    done = subprocess.run(
        [sanitizer(), "--tool", "memcheck", sys.executable, str(script)], capture_output=True, text=True, check=False,
        env=environment, timeout=300,
    )  # fmt: skip
    said = done.stdout + done.stderr
    if "Device not supported" in said:
        pytest.skip("compute-sanitizer does not work on this machine")
    assert "Invalid __global__ write" in said, said
    assert f"astray.py:{line}" in said, said
