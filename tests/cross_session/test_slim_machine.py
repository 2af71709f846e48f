"""A machine with stored kernels and nothing else: no compiler packages, no tools on the PATH."""

from __future__ import annotations

import subprocess
import sys

import pytest

from helpers.session import Sessions

MODULE = """import numpy as np
import sterna
TABLE = np.arange(4.0)
@sterna.kernel
def k(out):
    i = sterna.grid(1)
    out[i] = TABLE[i] * 2
"""
LAUNCH = """
import sys
import numpy as np, sterna, user
out = np.zeros(4)
user.k[1, 4](out); sterna.synchronize()
loaded = [m for m in sys.modules if m.split(".")[0] in ("llvmlite", "typer", "rich", "cuda") or m.startswith("sterna.compiler")]
try:
    user.k[1, 4](np.zeros(4, np.float32)); error = ""
except sterna.errors.CompilerUnavailable as caught:
    error = str(caught)
report(out=out.tolist(), compiles=sterna.stats()["compiles"], loaded=loaded, error=error)
"""


@pytest.mark.parametrize("compiler", [False, "slim"])
def test_stored_kernels_need_no_compiler_and_no_tools(sessions: Sessions, compiler: bool | str) -> None:
    sessions.write(user=MODULE)
    sessions.run("import numpy as np, user\nuser.k[1, 4](np.zeros(4))\nreport(ok=1)")
    result = sessions.run(LAUNCH, compiler=compiler, env={"PATH": str(sessions.folder / "nothing")})
    assert result["out"] == [0, 2, 4, 6]
    assert result["compiles"] == 0
    assert result["loaded"] == []
    assert "array(float32, 1, C)" in result["error"]
    assert "sterna[compiler]" in result["error"]


def test_require_precompiled(sessions: Sessions) -> None:
    sessions.write(user=MODULE)
    result = sessions.run(
        """
import numpy as np, sterna, user
def attempt(dtype):
    try:
        user.k[1, 4](np.zeros(4, dtype)); return ""
    except sterna.errors.CompilerUnavailable as error:
        return str(error)
with sterna.require_precompiled():
    inside = attempt(np.float64)
outside = attempt(np.float64)
sterna.require_precompiled()
known, unknown = attempt(np.float64), attempt(np.float32)
report(inside=inside, outside=outside, known=known, unknown=unknown, compiles=sterna.stats()["compiles"])
"""
    )
    assert "require_precompiled" in result["inside"]
    assert result["outside"] == result["known"] == ""
    assert "array(float32, 1, C)" in result["unknown"]
    assert result["compiles"] == 1


def test_bundle_of_a_package(sessions: Sessions, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A package that ships its images in __sterna__ runs with an empty cache and no compiler."""
    package = sessions.modules / "pack"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "kernels.py").write_text(MODULE)
    script = """
import numpy as np, sterna
from pack import kernels
out = np.zeros(4)
kernels.k[1, 4](out); sterna.synchronize()
report(out=out.tolist(), compiles=sterna.stats()["compiles"], hits=sterna.stats()["hits_by_store"])
"""
    sessions.run(script, env={"STERNA_CACHE_DIR": str(package / "__sterna__")})
    result = sessions.run(script, compiler=False, env={"STERNA_CACHE_DIR": str(tmp_path / "empty")})
    assert result["out"] == [0, 2, 4, 6]
    assert result["compiles"] == 0
    assert result["hits"] == {"bundle": 1}


def test_sixteen_processes_compile_the_same_kernels_at_once(sessions: Sessions) -> None:
    sessions.write(
        user="import sterna\n"
        + "".join(f"@sterna.kernel\ndef k{n}(out):\n    i = sterna.grid(1)\n    out[i] = i * {n}\n" for n in range(3))
    )
    main = sessions.folder / "race.py"
    main.write_text(
        "import numpy as np, sterna, user\n"
        "for n in range(3):\n    out = np.zeros(8)\n    getattr(user, f'k{n}')[2, 4](out)\n    sterna.synchronize()\n"
        "    assert out.tolist() == [i * n for i in range(8)]\nprint('right')\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, str(main)], env=sessions.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(16)
    ]  # fmt: skip
    for process in running:
        out, err = process.communicate(timeout=180)
        assert out.strip() == "right", err
        assert err == ""
    assert len(sessions.images()) == 3
    again = sessions.run(
        "import numpy as np, sterna, user\nuser.k2[1, 1](np.zeros(1))\nreport(c=sterna.stats()['compiles'])"
    )
    assert again["c"] == 0


def test_hits_and_misses_of_past_processes_are_told(sessions: Sessions) -> None:
    sessions.write(user=MODULE)
    launch = "import numpy as np, sterna, user\nuser.k[1, 4](np.zeros(4))\nreport(ok=1)"
    for _ in range(3):
        sessions.run(launch)
    history = sessions.run("import sterna\nreport(history=sterna.stats()['history'])")["history"]
    expected = {"processes": 3, "hits": 2, "misses": 1, "writes": 1, "bad_files": 0, "code_hits": 0, "code_misses": 0}
    assert history == expected
