"""Kernels that come from no ordinary file: each runs, and hits (or says once why not) in a second process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.session import Sessions

KERNEL = "@sterna.kernel\ndef k(out):\n    out[0] = {value}\n"
GO = """
out = np.zeros(1)
k[1, 1](out)
sterna.synchronize()
print("@@" + json.dumps(dict(out=out.tolist(), compiles=sterna.stats()["compiles"])))
"""
IMPORTS = "import json, numpy as np, sterna\n"


def reports(result: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    assert result.returncode == 0, result.stderr
    return [json.loads(line[2:]) for line in result.stdout.splitlines() if line.startswith("@@")]


def run(sessions: Sessions, *args: str, stdin: object = None, text: str | None = None) -> list[dict[str, object]]:
    sessions.folder.mkdir(exist_ok=True)
    return reports(
        subprocess.run(
            [sys.executable, *args], env=sessions.environment(), capture_output=True, text=True, timeout=120,
            check=False, **({"input": text} if text is not None else {"stdin": stdin or subprocess.DEVNULL}),  # type: ignore[call-overload]
        )
    )  # fmt: skip


def ways(sessions: Sessions, way: str, value: int) -> list[dict[str, object]]:
    """Run the kernel with a constant, defined in an unusual way."""
    script = IMPORTS + KERNEL.format(value=value) + GO
    if way == "-c":
        return run(sessions, "-c", script)
    if way == "stdin from a pipe":
        return run(sessions, "-", text=script)
    if way == "stdin from a file":
        path = sessions.folder / "input.txt"
        path.write_text(script)
        with path.open() as stdin:
            return run(sessions, "-", stdin=stdin)
    if way == "exec":
        return run(sessions, "-c", f"{IMPORTS}exec({KERNEL.format(value=value)!r})\n{GO}")
    if way == "exec without a module name":
        body = f"space = dict(sterna=sterna)\nexec({KERNEL.format(value=value)!r}, space)\nk = space['k']\n"
        return run(sessions, "-c", IMPORTS + body + GO)
    cells = f"""
import linecache
def cell(number, text):
    name = f"<ipython-input-{{number}}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), globals())
cell(1, {KERNEL.format(value=value - 1)!r})
cell(2, {GO!r})
cell(3, {KERNEL.format(value=value)!r})
cell(4, {GO!r})
"""
    return run(sessions, "-c", IMPORTS + cells)[1:]


@pytest.mark.parametrize(
    "way",
    ["-c", "stdin from a pipe", "stdin from a file", "exec", "exec without a module name", "notebook cell redefined"],
)
def test_kernel_from(sessions: Sessions, way: str) -> None:
    (first,) = ways(sessions, way, 7)
    (second,) = ways(sessions, way, 7)
    (other,) = ways(sessions, way, 8)
    assert first["out"] == second["out"] == [7]
    assert second["compiles"] == 0
    assert other["out"] == [8]


def test_source_that_cannot_be_had_is_explained(sessions: Sessions) -> None:
    result = subprocess.run(
        [sys.executable, "-c", IMPORTS + "exec(bytes(KERNEL, 'ascii') if 0 else "
         "''.join(['@sterna.kernel\\ndef k(out):\\n', '    out[0] = 1\\n']))\nk[1, 1](np.zeros(1))"],
        env=sessions.environment(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert "SourceError" in result.stderr
    assert "linecache" in result.stderr


def test_two_lambdas_on_one_line(sessions: Sessions) -> None:
    sessions.write(
        user="import sterna\nf, g = (lambda x: x + 1), (lambda x: x + 2)\n"
        "def make(h):\n    @sterna.kernel\n    def k(out):\n        out[0] = h(out[0])\n    return k\n"
        "a, b = make(f), make(g)\n"
    )
    script = """
import numpy as np, sterna, user
outs = []
for k in (user.b, user.a):
    out = np.zeros(1); k[1, 1](out); sterna.synchronize(); outs.append(float(out[0]))
report(outs=outs, compiles=sterna.stats()["compiles"])
"""
    for python_args in ((), ("-X", "no_debug_ranges")):
        first = sessions.run(script, python_args=python_args)
        assert first["outs"] == [2, 1]
    second = sessions.run(script, compiler=False)
    assert (second["outs"], second["compiles"]) == ([2, 1], 0)


def test_lambda_kernel_hits_under_any_hash_seed(sessions: Sessions) -> None:
    sessions.write(
        user="import sterna\nf = lambda out, i: out[i] * 3\n@sterna.kernel\ndef k(out):\n    out[0] = f(out, 0)\n"
    )
    script = """
import numpy as np, sterna, user
out = np.ones(1); user.k[1, 1](out); sterna.synchronize()
report(out=out.tolist(), compiles=sterna.stats()["compiles"])
"""
    results = [sessions.run(script, hash_seed=seed) for seed in (0, 1, 2)]
    assert [r["out"] for r in results] == [[3]] * 3
    assert [r["compiles"] for r in results] == [1, 0, 0]


def test_module_that_only_has_bytecode(sessions: Sessions) -> None:
    """With the .py gone, the stored facts and image serve; an unknown signature says what is missing."""
    sessions.write(user="import sterna\nSCALE = 4\n@sterna.kernel\ndef k(out):\n    out[0] = SCALE\n")
    script = """
import numpy as np, sterna, user
out = np.zeros(1)
user.k[1, 1](out); sterna.synchronize()
try:
    user.k[1, 1](np.zeros(1, np.float32)); error = ""
except sterna.errors.SternaError as caught:
    error = type(caught).__name__ + ": " + str(caught)
report(out=out.tolist(), compiles=sterna.stats()["compiles"], error=error, file=user.__file__)
"""
    sessions.run("import numpy as np, user\nuser.k[1, 1](np.zeros(1))\nreport(ok=1)")
    import py_compile

    source = sessions.modules / "user.py"
    py_compile.compile(str(source), cfile=str(sessions.modules / "user.pyc"), doraise=True)
    Path(source).unlink()
    result = sessions.run(script)
    assert result["file"].endswith(".pyc")
    assert result["out"] == [4]
    assert "SourceError" in result["error"]
