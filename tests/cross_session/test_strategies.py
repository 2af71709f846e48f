"""Every strategy at every optimisation level: comparisons of identities are never decided by the optimiser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.launching import GPU, OPENCL
from helpers.session import Sessions
from sterna.targets.registry import target

MODULE = """import enum
import numpy as np
import sterna

class Mode(enum.Enum):
    FAST = 1
    SLOW = 2

class Thing:
    pass

SENTINEL = object()
GAIN = sterna.Global(1.5)
TABLE = np.array([3.0, 4.0])

@sterna.kernel(strategy={strategy!r}, opt={opt})
def k(out, mode, thing):
    if mode is Mode.FAST:
        out[0] = 1
    if mode is not Mode.SLOW:
        out[1] = 1
    if thing is SENTINEL:
        out[2] = 1
    if type(thing) is Thing:
        out[3] = 1
    if Mode.FAST is Mode.SLOW:
        out[4] = 1
    out[5] = GAIN
    out[6] = TABLE[1]
"""
RUN = """
import numpy as np, sterna, user
outs = []
for mode, thing in ((user.Mode.FAST, user.SENTINEL), (user.Mode.SLOW, user.Thing()), (user.Mode.SLOW, None.__class__)):
    out = np.zeros(7)
    user.k[1, 1](out, mode, thing); sterna.synchronize()
    outs.append(out.tolist())
user.GAIN.value = 2.5
out = np.zeros(7)
user.k[1, 1](out, user.Mode.FAST, user.SENTINEL); sterna.synchronize()
outs.append(out.tolist())
built = user.k.specialize(out, user.Mode.FAST, user.SENTINEL)
report(outs=outs, compiles=sterna.stats()["compiles"], strategy=built.image.manifest.strategy,
       slots=[r.slot for r in built.relocations], code=list(b"".join(built.image.payloads.values())),
       why=str(user.k.explain_cache()))
"""
EXPECTED = [
    [1, 1, 1, 0, 0, 1.5, 4],
    [0, 0, 0, 1, 0, 1.5, 4],
    [0, 0, 0, 0, 0, 1.5, 4],
    [1, 1, 1, 0, 0, 2.5, 4],
]


DEVICES = {"cpu": ((), (0, 1, 2, 3)), "cuda": (GPU, (0, 1, 2, 3)), "opencl": (OPENCL, (0, 3))}
"""Device → marks and optimisation levels (each takes some seconds on OpenCL)."""


def every_strategy() -> list[Any]:
    """Device, strategy, level: every strategy that each target has."""
    return [
        pytest.param(device, strategy, opt, id=f"{device}-{strategy}-{opt}", marks=marks)
        for device, (marks, levels) in DEVICES.items()
        for strategy in target(device).strategies
        for opt in levels
    ]


@pytest.mark.parametrize(("device", "strategy", "opt"), every_strategy())
def test_identities_at_every_level(tmp_path: Path, device: str, strategy: str, opt: int) -> None:
    sessions = Sessions(tmp_path, {"STERNA_DEVICE": device})
    sessions.write(user=MODULE.format(strategy=strategy, opt=opt))
    first = sessions.run(RUN)
    assert first["strategy"] == strategy
    assert first["outs"] == EXPECTED
    if strategy == "patch":  # the unpatched slots survive in the binary, as parts of one symbol
        assert b"sterna_refs" in bytes(first["code"])
        assert len(first["slots"]) >= 5
    if strategy == "bake":
        assert sessions.images() == {}
        assert "baked" in first["why"]
        return
    second = sessions.run(RUN, compiler=False)
    assert second["outs"] == EXPECTED
    assert second["compiles"] == 0


def test_arguments_of_a_type_met_at_the_end(sessions: Sessions) -> None:
    """A class passed as an argument (a type tag) compares with a captured class."""
    sessions.write(
        user="import sterna\nclass A: pass\nclass B: pass\n"
        "@sterna.kernel\ndef k(out, cls):\n    if cls is A:\n        out[0] = 1\n    if cls is B:\n        out[1] = 1\n"
    )
    script = """
import numpy as np, sterna, user
out = np.zeros(2)
user.k[1, 1](out, user.B); sterna.synchronize()
report(out=out.tolist(), compiles=sterna.stats()["compiles"])
"""
    assert sessions.run(script)["out"] == [0, 1]
    second = sessions.run(script, compiler=False)
    assert (second["out"], second["compiles"]) == ([0, 1], 0)


def test_words_come_back_as_objects(sessions: Sessions) -> None:
    sessions.write(
        user="import sterna\nMARK = object()\nclass Kind: pass\n"
        "@sterna.kernel\ndef k(out, thing):\n    out[0] = MARK\n    out[1] = thing\n    out[2] = Kind\n"
    )
    result = sessions.run(
        """
import numpy as np, sterna, user
out = np.zeros(3, np.uint64)
thing = user.Kind()
user.k[1, 1](out, thing); sterna.synchronize()
found = [sterna.resolve(word) for word in out]
try:
    sterna.resolve(12345); missing = False
except LookupError:
    missing = True
report(same=[found[0] is user.MARK, found[1] is thing, found[2] is user.Kind], missing=missing)
"""
    )
    assert result["same"] == [True, True, True]
    assert result["missing"] is True
