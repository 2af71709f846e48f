"""Metal between processes, on the simulator: images and machine code are reused, words are each session's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sterna
from helpers.metal.marks import SIMULATED
from helpers.session import PRELUDE, Sessions
from sterna.targets.registry import target

pytestmark = SIMULATED
INSTALL = "from helpers.metal.api import install\nSIM = install()\n"
MODULE = """import enum
import numpy as np
import sterna

class Mode(enum.Enum):
    FAST = 1
    SLOW = 2

class Thing:
    pass

SENTINEL = object()
GAIN = sterna.Global(1.5, "float32")
TABLE = np.arange(8, dtype=np.float32) * 10
TAIL = TABLE[5:]
CAMERA = np.array((7, 2.5), dtype=[("n", np.int32), ("f", np.float32)])[()]
DEFAULT = Mode.FAST
FLOAT = sterna.runtime_global("PyFloat_Type")
SCALE = 3

@sterna.kernel
def k(out, words, mode, thing):
    out[0] = TABLE[1] * SCALE
    out[1] = TAIL[1]
    out[2] = GAIN
    out[3] = CAMERA.f
    if mode is DEFAULT:
        out[4] = 1
    if thing is SENTINEL:
        out[5] = 1
    if type(thing) is Thing:
        out[6] = 1
    if mode is Mode.SLOW:
        out[7] = 1
    words[0] = SENTINEL
    words[1] = thing
    words[2] = Thing
    words[3] = FLOAT
"""
RUN = """
import ctypes, numpy as np, sterna, user
outs, same = [], []
for mode, thing in ((user.Mode.FAST, user.SENTINEL), (user.Mode.SLOW, user.Thing())):
    out, words = np.zeros(8, np.float32), np.zeros(4, np.uint64)
    user.k[1, 1](out, words, mode, thing)
    sterna.synchronize()
    outs.append(out.tolist())
    same.append([sterna.resolve(words[0]) is user.SENTINEL, sterna.resolve(words[1]) is thing,
                 sterna.resolve(words[2]) is user.Thing, int(words[3]) == id(float)])
user.GAIN.value = 2.5
out = np.zeros(8, np.float32)
user.k[1, 1](out, words, user.Mode.FAST, user.SENTINEL)
sterna.synchronize()
built = user.k.specialize(out, words, user.Mode.FAST, user.SENTINEL)
counts = SIM.devices[0].counts
report(outs=outs, same=same, gain=float(out[2]), compiles=sterna.stats()["compiles"],
       words=[word for record in built.relocations for word in built.words[record.slot]],
       strategy=built.image.manifest.strategy, payloads=sorted(built.image.payloads),
       machine=[counts["compiles"], counts["archive_hits"]], apart=counts["apart"])
"""
"""Links its kernel twice: for the launches, and for looking at it."""
OUTS = [[30, 60, 1.5, 2.5, 1, 1, 0, 0], [30, 60, 1.5, 2.5, 0, 0, 1, 1]]


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    """Fresh processes over one store, with a simulated Metal device as the current one."""
    made = Sessions(tmp_path)
    package, tests = Path(sterna.__file__).parent.parent, Path(__file__).parent.parent
    path = os.pathsep.join(map(str, (made.modules, package, tests)))
    made.env |= {"STERNA_DEVICE": "metal", "PYTHONPATH": path}
    made.write(user=MODULE)
    return made


def run(sessions: Sessions, script: str = RUN, **options: Any) -> dict[str, Any]:
    return sessions.run(INSTALL + script, **options)


def test_a_fresh_process_compiles_nothing(sessions: Sessions) -> None:
    """Neither Sterna's compiler nor Metal's runs again, and every word is another one."""
    first = run(sessions)
    second = run(sessions, compiler=False)
    for found in (first, second):
        assert (found["outs"], found["gain"], found["apart"]) == (OUTS, 2.5, 0)
        assert found["same"] == [[True] * 4] * 2
        assert (found["strategy"], found["payloads"]) == ("table", ["msl"])
    assert (first["compiles"], second["compiles"]) == (1, 0)
    assert (first["machine"], second["machine"]) == ([1, 1], [0, 2])
    (stored,) = sessions.images().values()
    addresses = [word for word in first["words"] if word > 2**32]
    assert len(addresses) >= 5, "a Python that is not position-independent has some objects below"
    for word in addresses:
        assert word.to_bytes(8, "little") not in stored
        assert str(word).encode() not in stored
        assert f"{word:x}".encode() not in stored
    assert not set(addresses) & set(second["words"]), "the sessions have no address in common"


@pytest.mark.parametrize("strategy", target("metal").strategies)
def test_every_strategy_gives_the_same(sessions: Sessions, strategy: str) -> None:
    sessions.write(user=MODULE.replace("@sterna.kernel\n", f"@sterna.kernel(strategy={strategy!r})\n"))
    found = run(sessions)
    assert (found["outs"], found["gain"], found["strategy"]) == (OUTS, 2.5, strategy)
    assert bool(sessions.images()) == (strategy != "bake"), "baked words are one session's"


def test_two_processes_make_the_same_bytes(sessions: Sessions, tmp_path: Path) -> None:
    """What makes the archive of machine code safe to use by default."""
    found = []
    for number, seed in enumerate((1, 2)):
        run(sessions, hash_seed=seed, env={"STERNA_CACHE_DIR": str(tmp_path / f"own-{number}")})
        found.append({p.name: p.read_bytes() for p in (tmp_path / f"own-{number}").rglob("*.image")})
    assert len(found[0]) == 1
    assert found[0] == found[1]


def test_an_image_ships_in_a_bundle(sessions: Sessions, tmp_path: Path) -> None:
    """Made where there is no Metal, found in a folder that is only read."""
    build = """
import sterna, user
made = user.k.build("float32[:]", "uint64[:]", "object", "object", target="metal-msl")
report(payloads=sorted(made.image.payloads), devices=[d.name for d in sterna.devices()])
"""
    made = sessions.run(build, env={"STERNA_DEVICE": "cpu"})
    assert made["payloads"] == ["msl"]
    assert not any(name.startswith("metal") for name in made["devices"])
    run(sessions, env={"STERNA_CACHE_DIR": str(tmp_path / "bundle")})
    shipped = {"STERNA_CACHE_DIR": str(tmp_path / "other"), "STERNA_STORE_PATH": str(tmp_path / "bundle")}
    found = run(sessions, compiler=False, env={**shipped, "STERNA_REQUIRE_PRECOMPILED": "1"})
    assert (found["outs"], found["compiles"]) == (OUTS, 0)
    assert found["machine"] == [1, 1], "machine code is no part of a bundle"


def test_two_devices_of_one_process(sessions: Sessions) -> None:
    script = """
import numpy as np, sterna, user
outs, words = [], []
for name in ("metal:0", "metal:1"):
    with sterna.on(name):
        out, seen = sterna.zeros(8, np.float32), sterna.zeros(4, np.uint64)
        user.k[1, 1](out, seen, user.Mode.FAST, user.SENTINEL)
        built = user.k.specialize(out, seen, user.Mode.FAST, user.SENTINEL)
        words.append([built.words[r.slot][0] for r in built.relocations if r.kind == "buffer"])
        outs.append(out)
report(outs=[out.copy_to_host().tolist() for out in outs], words=words, compiles=sterna.stats()["compiles"],
       machine=[device.counts["compiles"] for device in SIM.devices])
"""
    found = run(sessions, script)
    assert found["outs"] == [OUTS[0], OUTS[0]]
    assert not set(found["words"][0]) & set(found["words"][1])
    assert (found["compiles"], found["machine"]) == (1, [1, 1])


def test_arguments_live_until_their_launch_is_done(sessions: Sessions) -> None:
    """The object and the same object captured are one; an equal one is another; none is let go of too early."""
    script = """
import gc, numpy as np, sterna, user, weakref
out, words = sterna.zeros(8, np.float32), sterna.zeros(4, np.uint64)
gone = []
def launch(stream=None):
    thing = user.Thing()
    gone.append(weakref.ref(thing))
    user.k[1, 1, stream](out, words, user.Mode.FAST, thing)
    return id(thing)
stream = sterna.stream()
for where in (None, stream):
    word = launch(where)
    gc.collect()
    assert gone[-1]() is not None, "nothing has run yet"
    (stream if where is not None else sterna).synchronize()
    gc.collect()
    assert gone[-1]() is None
    assert int(words.copy_to_host()[1]) == word
report(done=True)
"""
    assert run(sessions, script)["done"]


def test_processes_share_the_archive(sessions: Sessions) -> None:
    """Two at once, then one that finds what they made."""
    run(sessions, env={"STERNA_ARCHIVE": "0"})
    script = sessions.folder / "both.py"
    script.write_text(PRELUDE + INSTALL + RUN)
    started = [
        subprocess.Popen([sys.executable, script], env=sessions.environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in started:
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert '"compiles": 0' in said
    assert run(sessions, compiler=False)["machine"] == [0, 2]


def test_what_nobody_waited_for_is_told_at_the_end(sessions: Sessions) -> None:
    """The launch had not even begun when the program ended."""
    sessions.write(failing="import sterna\n@sterna.kernel\ndef k(x):\n    print('here')\n    x[7] = 1\n")
    script = """
import numpy as np, sterna, failing
failing.k[1, 1](sterna.zeros(3, np.float32))
report(begun=SIM.devices[0].counts["compiles"])
"""
    found = run(sessions, script)
    assert "a kernel failed and nothing synchronised after it" in found["stderr"]
    assert "IndexError: index 7 is out of bounds for axis 0 with size 3" in found["stderr"]


def test_a_failure_keeps_its_line(sessions: Sessions) -> None:
    """An exception of a stored kernel, after its module gained lines above."""
    failing = "import sterna\n@sterna.kernel\ndef k(x):\n    i = sterna.grid(1)\n    x[i] = 1\n"
    script = """
import numpy as np, sterna, failing
try:
    failing.k[2, 2](np.zeros(3, np.float32))
    sterna.synchronize()
except IndexError as error:
    report(text=str(error), line=error.line, compiles=sterna.stats()["compiles"])
"""
    sessions.write(failing=failing)
    assert run(sessions, script)["line"] == 5
    sessions.write(failing="# one more line\n" + failing)
    found = run(sessions, script, compiler=False)
    assert (found["line"], found["compiles"]) == (6, 0)
    assert "index 3 is out of bounds for axis 0 with size 3" in found["text"]
    assert "block (1, 0, 0), thread (1, 0, 0)" in found["text"]
