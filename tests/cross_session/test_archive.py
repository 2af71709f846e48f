"""The archive of drivers' machine code, from one process to the next."""

from __future__ import annotations

from pathlib import Path

from helpers.session import Sessions

USER = (
    "import numpy as np\nimport sterna\nTABLE = np.array([2.0, 3.0])\n"
    "@sterna.kernel\ndef k(out):\n    out[0] = TABLE[1] * 2\n"
)
RUN = """
import numpy as np, sterna, user
out = sterna.zeros(1)
user.k[1, 1](out)
report(out=out.copy_to_host().tolist(), compiles=sterna.stats()["compiles"], archive=sterna.stats()["archive"])
"""


def counted(result: dict, *names: str) -> list[int]:
    return [result["archive"][name] for name in names]


def test_a_process_loads_what_another_has_built(sessions: Sessions) -> None:
    sessions.write(user=USER)
    builds = sessions.env["STERNA_DEVICE"] == "opencl"  # the others' images hold machine code themselves
    first = sessions.run(RUN)
    second = sessions.run(RUN, compiler=False)
    assert first["out"] == second["out"] == [6.0]
    assert second["compiles"] == 0
    assert counted(first, "hits", "misses", "stored") == ([0, 1, 1] if builds else [0, 0, 0])
    assert counted(second, "hits", "misses", "entries") == ([1, 0, 1] if builds else [0, 0, 0])
    history = sessions.run("import sterna\nreport(history=sterna.stats()['history'])")["history"]
    assert [history["code_hits"], history["code_misses"]] == ([1, 1] if builds else [0, 0])


def test_a_damaged_archive_is_built_anew_without_a_word(sessions: Sessions) -> None:
    sessions.write(user=USER)
    sessions.run(RUN)
    blobs = list(Path(sessions.store).rglob("*.code"))
    for blob in blobs:
        data = bytearray(blob.read_bytes())
        data[len(data) // 2] ^= 255
        blob.write_bytes(data)
    again = sessions.run(RUN, compiler=False)
    assert again["out"] == [6.0]
    assert counted(again, "refused", "stored") == [len(blobs), len(blobs)]
    assert again["stderr"] == ""


def test_two_processes_build_at_once(sessions: Sessions) -> None:
    sessions.write(user=USER)
    sessions.run(RUN)  # the image is there
    for blob in Path(sessions.store).rglob("*.code"):
        blob.unlink()
    script = f"""
import subprocess, sys, os
code = {"import sterna, user; out = sterna.zeros(1); user.k[1, 1](out); print(out.copy_to_host()[0])"!r}
both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
report(outs=[process.communicate()[0].strip() for process in both])
"""
    assert sessions.run(script)["outs"] == ["6.0", "6.0"]
    final = sessions.run(RUN, compiler=False)
    assert counted(final, "refused", "misses") == [0, 0]
