"""Faults that users of similar systems reported in public, end to end; each fault's kind, not its instance.

Others of the kind are in `test_edits` (numba#9483, triton#7322, numba#6093, numba#10821), `test_unusual_sources`
(numba#7798, warp#1696, warp#1561), `test_failures` (warp#1713, numba-cuda#388), `test_strategies` (GPUCompiler.jl#872) and
`test_slim_machine` (stored kernels on a machine without compilers).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.session import PRELUDE, Sessions

MODULE = """import numpy as np
import sterna
TABLE = np.arange(4.0)
@sterna.kernel
def k(out):
    i = sterna.grid(1)
    out[i] = TABLE[i] * 2
@sterna.kernel
def other(out):
    i = sterna.grid(1)
    out[i] = TABLE[i] * 3
"""
RUN = """
import numpy as np, sterna, user
out = np.zeros(4)
user.k[1, 4](out); sterna.synchronize()
report(out=out.tolist(), compiles=sterna.stats()["compiles"], why=str(user.k.explain_cache()))
"""


def damage(sessions: Sessions, how: str) -> None:
    """Damage the stored image of `k`."""
    (path,) = sessions.store.rglob("k-*.image")
    (other,) = sessions.store.rglob("other-*.image")
    data = path.read_bytes()
    changed = {
        "emptied": b"",
        "cut in half": data[: len(data) // 2],
        "one bit of the header": data[:60] + bytes([data[60] ^ 4]) + data[61:],
        "one bit of the code": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
        "swapped with another": other.read_bytes(),
    }[how]
    path.write_bytes(changed)


@pytest.mark.parametrize(
    "how", ["emptied", "cut in half", "one bit of the header", "one bit of the code", "swapped with another"]
)
def test_damaged_entry_is_compiled_once_more_and_repaired(sessions: Sessions, how: str) -> None:
    """numba#10434: an entry cut short by a crash."""
    sessions.write(user=MODULE)
    sessions.run(RUN)
    sessions.run("import numpy as np, user\nuser.other[1, 4](np.zeros(4))\nreport(ok=1)")
    damage(sessions, how)
    second, third = sessions.run(RUN), sessions.run(RUN, compiler=False)
    assert second["out"] == third["out"] == [0, 2, 4, 6]
    assert (second["compiles"], third["compiles"]) == (1, 0)
    assert second["stderr"].count("SternaWarning") == 1
    assert third["stderr"] == ""


@pytest.mark.parametrize("home", ["unset", "missing", "a file"])
def test_no_place_for_a_cache(sessions: Sessions, home: str) -> None:
    """numba#5566: import and launch work, with one warning, from memory."""
    sessions.write(user=MODULE)
    path = sessions.folder / "home"
    if home == "a file":
        path.write_text("not a folder")
    script = RUN.replace("report(", "user.other[1, 4](np.zeros(4)); user.k[1, 4](out)\nreport(")
    env = sessions.environment()
    del env["STERNA_CACHE_DIR"]
    env["HOME"] = str(path)
    if home == "unset":
        del env["HOME"]
    env.pop("XDG_CACHE_HOME", None)
    env["CUDA_CACHE_DISABLE"] = "1"  # NVIDIA's driver would make the folder
    result = run_with(sessions, script, env)
    assert result["out"] == [0, 2, 4, 6]
    assert result["compiles"] == 2
    assert result["stderr"].count("SternaWarning") == 1
    assert "memory" in result["stderr"]


def run_with(sessions: Sessions, script: str, env: dict[str, str]) -> dict[str, Any]:
    """Run a session under exactly this environment."""
    main = sessions.folder / "exact.py"
    main.write_text(PRELUDE + script)
    done = subprocess.run([sys.executable, str(main)], env=env, capture_output=True, text=True, timeout=120, check=True)
    (line,) = [text for text in done.stdout.splitlines() if text.startswith("@@")]
    return {**json.loads(line[2:]), "stderr": done.stderr}


def test_read_only_store_that_holds_the_kernel_is_read(sessions: Sessions) -> None:
    """numba#5566, the good half: valid entries of a folder that cannot be written are still used."""
    sessions.write(user=MODULE)
    sessions.run(RUN)
    for path in [sessions.store, *sessions.store.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        result = sessions.run(RUN, compiler=False)
    finally:
        for path in [sessions.store, *sessions.store.rglob("*")]:
            path.chmod(0o755)
    assert (result["out"], result["compiles"], result["stderr"]) == ([0, 2, 4, 6], 0, "")


def test_the_store_deleted_while_running(sessions: Sessions) -> None:
    sessions.write(user=MODULE)
    result = sessions.run(
        """
import os, shutil, numpy as np, sterna, user
out, third = np.zeros(4), np.zeros(4)
user.k[1, 4](out)
shutil.rmtree(os.environ["STERNA_CACHE_DIR"])
user.k[1, 4](out); user.other[1, 4](third); sterna.synchronize()
report(out=out.tolist(), third=third.tolist(), compiles=sterna.stats()["compiles"])
"""
    )
    assert (result["out"], result["third"], result["compiles"]) == ([0, 2, 4, 6], [0, 3, 6, 9], 2)
    assert result["stderr"] == ""
    assert len(sessions.images()) == 1


def test_captured_array_whose_references_are_dropped(sessions: Sessions) -> None:
    """numba-cuda#659: the kept-alive reference must sit on the loaded kernel."""
    sessions.write(
        user="import numpy as np\nimport sterna\n"
        "def make():\n"
        "    table = sterna.to_device(np.full(1000, 3.0))\n"
        "    def helper(i):\n        return table[i]\n"
        "    @sterna.kernel\n    def k(out):\n        i = sterna.grid(1)\n        out[i] = table[i] + helper(i)\n"
        "    return k\n"
        "k = make()\n"
    )
    script = """
import gc, numpy as np, sterna, user
padding = [sterna.to_device(np.full(1000, 9.0)) for _ in range(7)]
out = np.zeros(4)
user.k[1, 4](out); sterna.synchronize()
first = out.tolist()
code = user.k.function
cell = code.__closure__[code.__code__.co_freevars.index("table")]
gc.collect()
more = [sterna.to_device(np.full(1000, -1.0)) for _ in range(50)]
user.k[1, 4](out); sterna.synchronize()
report(first=first, second=out.tolist(), compiles=sterna.stats()["compiles"])
"""
    first, second = sessions.run(script), sessions.run(script, compiler=False)
    for session in (first, second):
        assert session["first"] == session["second"] == [6, 6, 6, 6]
    assert (first["compiles"], second["compiles"]) == (1, 0)


def test_large_captured_arrays_are_neither_in_the_code_nor_copied_per_launch(sessions: Sessions) -> None:
    """numba#9084: 1 MiB captured, 10 000 launches of 256 threads."""
    sessions.write(
        user="import os\nimport numpy as np\nimport sterna\n"
        "BIG = np.arange(int(os.environ['N']), dtype=np.float64)\nGRID = BIG.reshape(-1, 8)\n"
        "T, S = GRID.T, GRID[1::2, ::3]\n"
        "@sterna.kernel\ndef k(out):\n    i = sterna.grid(1)\n    out[i] = BIG[i] + T[3, i % 4] * 1000 + S[1, 2] * 1000000\n"
    )
    script = """
import resource, numpy as np, sterna, user
out = np.zeros(256)
launch = user.k[1, 256]
for _ in range(100): launch(out)
sterna.synchronize()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(10_000): launch(out)
sterna.synchronize()
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
grid = user.BIG.reshape(-1, 8)
right = [user.BIG[i] + grid[i % 4, 3] * 1000 + grid[3, 6] * 1000000 for i in range(256)]
report(same=out.tolist() == right, grown=grown, compiles=sterna.stats()["compiles"])
"""
    small = sessions.run(script, env={"N": "256"})
    sizes = [len(data) for data in sessions.images().values()]
    large = sessions.run(script, env={"N": str(1 << 17)}, compiler=False)
    assert small["same"] is True
    assert large["same"] is True
    assert (small["compiles"], large["compiles"]) == (1, 0)  # another length needs no compilation
    assert len(sizes) == 1
    assert sizes[0] < 64 * 1024
    assert large["grown"] < 8 * 1024, "KiB"


def test_values_of_every_kind_hit_in_a_fresh_process(sessions: Sessions) -> None:
    """cupy#9046, numba#4959, numba-cuda-mlir#110: None, enums, str, named tuples, NumPy bools, defaults left out."""
    sessions.write(
        user="import enum\nfrom typing import NamedTuple\nimport numpy as np\nimport sterna\n"
        "class Level(enum.IntEnum):\n    LOW = 3\n    HIGH = 9\n"
        "class Side(enum.Enum):\n    A = 1\n    B = 2\n    ALSO_A = 1\n"
        "class Point(NamedTuple):\n    x: float\n    y: int\n"
        "NOTHING = None\nLEVEL = Level.HIGH\nTEXT = 'fast'\nFLAG = np.bool_(True)\nNEST = (Point(1.5, 2), 7)\n"
        "def scaled(v, by=10):\n    return v * by\n"
        "@sterna.kernel\n"
        "def k(out, nothing, level, side, mode, nested, flag, times=4):\n"
        "    if nothing is None and NOTHING is None:\n        out[0] = 1\n"
        "    out[1] = level + LEVEL\n"
        "    if side is Side.A and side is Side.ALSO_A and side is not Side.B:\n        out[2] = 1\n"
        "    if mode == TEXT and mode != 'slow':\n        out[3] = 1\n"
        "    out[4] = nested[0].x + nested[1] + NEST[0].y\n"
        "    if flag and FLAG:\n        out[5] = 1\n"
        "    out[6] = scaled(times) + scaled(1, by=2)\n"
    )
    script = """
import numpy as np, sterna, user
out = np.zeros(7)
user.k[1, 1](out, None, user.Level.LOW, user.Side.ALSO_A, "fast", (user.Point(0.25, 1), 3), np.bool_(True))
sterna.synchronize()
report(out=out.tolist(), compiles=sterna.stats()["compiles"])
"""
    expected = [1, 12, 1, 1, 0.25 + 3 + 2, 1, 42]
    first, second = sessions.run(script), sessions.run(script, compiler=False)
    assert first["out"] == second["out"] == expected
    assert (first["compiles"], second["compiles"]) == (1, 0)


def test_options_are_different_entries_with_different_behaviour(sessions: Sessions) -> None:
    """numba#10821: code generation settings belong to the key."""
    body = "def k(out, x):\n    out[0] = (x[0] + x[1]) - x[0]\n    out[3] = 1\n"
    script = """
import numpy as np, sterna, user
memory = sterna.zeros(8)
user.k[1, 1](memory[:3], np.array([1e16, 1.0]))
try:
    sterna.synchronize(); error = ""
except IndexError as caught:
    error = str(caught)
report(error=error, past=memory.copy_to_host()[3], compiles=sterna.stats()["compiles"])
"""
    seen = []
    for options in ("", "(boundscheck=False)", "(fastmath=True)", "(debug=True)", "(opt=1)", "(boundscheck=True)"):
        sessions.write(user=f"import sterna\n@sterna.kernel{options}\n{body}")
        seen.append(sessions.run(script))
    assert [s["compiles"] for s in seen] == [1, 1, 1, 1, 1, 0]
    assert [s["past"] for s in seen] == [0, 1, 0, 0, 0, 0]
    assert ["out of bounds" in s["error"] for s in seen] == [True, False, True, True, True, True]


def test_images_do_not_name_the_project_folder(sessions: Sessions, tmp_path: Path) -> None:
    """A project that is moved still hits, and nothing of its folder is in the image."""
    sessions.write(user=MODULE)
    sessions.run(RUN)
    (image,) = sessions.images().values()
    assert str(tmp_path).encode() not in image
    moved = Sessions(tmp_path / "elsewhere", sessions.env)
    moved.write(user=MODULE)
    result = moved.run(RUN, compiler=False, env={"STERNA_CACHE_DIR": str(sessions.store)})
    assert (result["out"], result["compiles"]) == ([0, 2, 4, 6], 0)
