"""Overrides and device functions in a fresh process: found again by name, part of the key, no compiler needed."""

from __future__ import annotations

import pytest

from helpers.session import Sessions

LIBRARY = """
import numpy as np
import sterna
LUT = np.array([2.0, 3.0, 5.0])
def pick(i):
    return float(i)
@sterna.device_function
def sure(x):
    return x * LUT[0]
"""
OVERRIDE = """
import math, numpy as np, sterna, library
OTHER = np.array([20.0, 30.0, 50.0])
@sterna.device_override(library.pick, target={target!r})
def pick(i):
    return OTHER[i] + library.pick(i)
@sterna.device_override(math.sin)
def sine(x):
    return OTHER[2] + x
"""
USER = """
import math, sterna, library
@sterna.kernel
def k(out):
    out[0] = library.pick(1)
    out[1] = library.sure(1.0)
    out[2] = math.sin(1.0)
"""
RUN = """
import numpy as np, sterna
{imports}
import user
out = np.zeros(3)
user.k[1, 1](out)
sterna.synchronize()
report(out=out.tolist(), compiles=sterna.stats()["compiles"], paths=[r.path for r in user.k.specialize(out).relocations])
"""


@pytest.mark.parametrize("target", [None, "cpu"])
def test_overrides_are_found_again(tmp_path, target):
    sessions = Sessions(tmp_path)
    sessions.write(library=LIBRARY, override=OVERRIDE.format(target=target), user=USER)
    with_override = RUN.format(imports="import override")
    first = sessions.run(with_override, hash_seed=1)
    assert first["out"] == [31.0, 2.0, 51.0]
    assert first["compiles"] == 1
    again = sessions.run(with_override, hash_seed=2, compiler=False)
    assert again["out"] == first["out"]
    assert again["compiles"] == 0
    table = "device" if target is None else target
    assert sorted(again["paths"]) == [
        f"globals:library → attr:pick → override:{table} → globals:OTHER",
        "globals:library → attr:sure → override:device → globals:LUT",
        "globals:math → attr:sin → override:device → globals:OTHER",
    ]
    # without them it is another kernel
    plain = sessions.run(RUN.format(imports=""))
    assert plain["out"] == [1.0, 2.0, pytest.approx(0.8414709848)]
    assert plain["compiles"] == 1
    assert len(sessions.images()) == 2
    # and an edit of an override is noticed
    sessions.write(override=OVERRIDE.format(target=target).replace("OTHER[i] +", "OTHER[i] -"))
    edited = sessions.run(with_override)
    assert edited["out"] == [29.0, 2.0, 51.0]
    assert edited["compiles"] == 1
