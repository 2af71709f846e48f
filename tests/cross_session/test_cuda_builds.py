"""Cubins built in fresh processes with no GPU: the same bytes, no address of the session, no driver touched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.session import Sessions

pytest.importorskip("cuda.bindings.nvjitlink")

_BUILD = """
import random, hashlib
padding = [bytearray(random.randrange(1, 1 << 16)) for _ in range(50)]
import sterna, user
image = user.k.build("float32[:]", "object", target="cuda-sm_90").image
words = [id(user.MARK), id(type(user.MARK)), user.TABLE.__array_interface__["data"][0]]
data = b"".join(image.payloads.values()) + image.to_bytes()
found = [w for w in words if w.to_bytes(8, "little") in data or str(w).encode() in data or hex(w)[2:].encode() in data]
report(key=image.key, digest=hashlib.sha256(data).hexdigest(), found=found, words=words)
"""
_USER = """
import numpy as np, sterna
TABLE = np.arange(5.0)
class Mark: pass
MARK = Mark()
@sterna.kernel
def k(x, thing):
    i = sterna.grid(1)
    if thing is MARK:
        x[i] = np.float32(TABLE[2] + np.cos(x[i]))
"""


def test_two_processes_build_the_same_bytes_without_an_address(tmp_path: Path):
    sessions = Sessions(tmp_path)
    sessions.write(user=_USER)
    first = sessions.run(_BUILD, hash_seed=1)
    second = sessions.run(_BUILD, hash_seed=2)
    assert first["key"] == second["key"]
    assert first["digest"] == second["digest"]
    assert first["found"] == second["found"] == []


def test_building_imports_no_driver(tmp_path: Path):
    sessions = Sessions(tmp_path)
    sessions.write(user=_USER)
    result = sessions.run(
        'import sys, sterna, user\nuser.k.build("float32[:]", "object", target="cuda-sm_90")\n'
        'report(loaded=[m for m in ("cuda.bindings.driver", "cuda.core", "sterna.targets.cuda.driver") if m in sys.modules])'
    )
    assert result["loaded"] == []


def test_inspect_for_an_architecture(tmp_path: Path):
    sessions = Sessions(tmp_path)
    sessions.write(user=_USER)
    command = [
        sys.executable,
        "-m",
        "sterna.cli",
        "inspect",
        "user:k",
        "--types",
        "float32[:], object",
        "--arch",
        "sm_120",
    ]
    done = subprocess.run(
        [*command, "--as", "ptx"], env=sessions.environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ".target sm_120" in done.stdout
