"""Random numbers of a stored image: a fresh process with no compiler draws the same after the same seed."""

from __future__ import annotations

from helpers.session import Sessions

USER = """
import sterna
@sterna.kernel
def k(x):
    i = sterna.grid(1)
    x[i] = sterna.random.normal() + sterna.random.integers(10)
"""
RUN = """
import numpy as np
import sterna
import user
found = []
sterna.seed(17)
for _ in range(2):
    x = np.zeros(16, np.float32)
    user.k.over(16)(x)
    sterna.synchronize()
    found.append(x.tolist())
report(found=found, compiles=sterna.stats()["compiles"])
"""


def test_a_fresh_process_replays_the_seed(sessions: Sessions) -> None:
    sessions.write(user=USER)
    first = sessions.run(RUN)
    second = sessions.run(RUN, compiler=False)
    assert (first["compiles"], second["compiles"]) == (1, 0)
    assert first["found"] == second["found"]
    assert first["found"][0] != first["found"][1]
