"""Failures that must be the same in every session: kernels that cannot compile, and errors on the device."""

from __future__ import annotations

import pytest

from helpers.session import Sessions

BROKEN = """import sterna
@sterna.kernel
def k(out):
    out[0] = 1
    out[1] = frobnicate(out[0])
"""
LAUNCH = """
import numpy as np, sterna, user
errors = []
out = np.zeros(4)
for _ in range(3):
    try:
        user.k[1, 1](out)
        sterna.synchronize()
        errors.append("no error")
    except sterna.errors.CompileError as error:
        errors.append(str(error))
report(errors=errors, out=out.tolist())
"""


def test_a_kernel_that_fails_to_compile_always_fails_the_same_way(sessions: Sessions) -> None:
    sessions.write(user=BROKEN)
    first, second = sessions.run(LAUNCH), sessions.run(LAUNCH)
    assert len({*first["errors"], *second["errors"]}) == 1
    assert "frobnicate" in first["errors"][0]
    assert "line 5" in first["errors"][0]
    assert first["out"] == second["out"] == [0, 0, 0, 0]
    assert sessions.images() == {}


RAISING = """import sterna
class Mine(Exception):
    pass
def inner(x, i):
    if i == 5:
        raise ValueError("five is right out")
    return x[i]
@sterna.kernel
def in_kernel(x):
    i = sterna.grid(1)
    if i == 3:
        raise Mine("three")
    x[i] = 1
@sterna.kernel
def in_callee(x):
    i = sterna.grid(1)
    x[i] = inner(x, i) + 2
@sterna.kernel
def asserting(x):
    i = sterna.grid(1)
    assert i != 2, "two"
    x[i] = 1
@sterna.kernel
def positive(x, n):
    i = sterna.grid(1)
    x[i + n] = 1
"""
CASES = {
    "in_kernel": ("Mine", "three", 12, 3),
    "in_callee": ("ValueError", "five is right out", 6, 5),
    "asserting": ("AssertionError", "two", 21, 2),
}


@pytest.mark.parametrize("compiler", [True, False], ids=["compiled", "loaded"])
@pytest.mark.parametrize("name", CASES)
def test_exception_of_one_thread(sessions: Sessions, name: str, compiler: bool) -> None:
    sessions.write(user=RAISING)
    script = f"""
import numpy as np, sterna, user
x = np.zeros(8)
user.{name}[2, 4](x)
try:
    sterna.synchronize(); found = None
except Exception as error:
    found = error
sterna.synchronize()
y = np.zeros(2)
user.{name}[1, 2](y); sterna.synchronize()
report(kind=type(found).__name__, message=str(found), line=found.line, block=found.block, thread=found.thread,
       x=x.tolist(), y=y.tolist(), compiles=sterna.stats()["compiles"])
"""
    if not compiler:
        sessions.run(script)
    result = sessions.run(script, compiler=compiler)
    kind, text, line, index = CASES[name]
    value = 2 if name == "in_callee" else 1
    assert result["kind"] == kind
    assert text in result["message"]
    assert name in result["message"]
    assert result["line"] == line
    assert result["block"] == [index // 4, 0, 0]
    assert result["thread"] == [index % 4, 0, 0]
    assert result["x"] == [0 if i == index else value for i in range(8)]
    assert result["y"] == [value, value]
    assert result["compiles"] == (1 if compiler else 0)


@pytest.mark.parametrize("n", [4, -9])
def test_out_of_bounds_leaves_memory_alone(sessions: Sessions, n: int) -> None:
    sessions.write(user=RAISING)
    result = sessions.run(
        f"""
import numpy as np, sterna, user
memory = np.zeros(24)
x = memory[8:16]
user.positive[1, 8](x, {n})
try:
    sterna.synchronize(); found = None
except IndexError as error:
    found = error
report(message=str(found), line=found.line, memory=memory.tolist())
"""
    )
    touched = {i + n if i + n >= 0 else i + n + 8 for i in range(8) if -8 <= i + n < 8}
    assert result["memory"] == [1.0 if 0 <= i - 8 < 8 and i - 8 in touched else 0.0 for i in range(24)]
    assert "out of bounds for axis 0 with size 8" in result["message"]
    assert result["line"] == 26


def test_error_line_follows_comment_edits(sessions: Sessions) -> None:
    sessions.write(user=RAISING)
    script = """
import numpy as np, sterna, user
x = np.zeros(8)
user.asserting[2, 4](x)
try:
    sterna.synchronize()
except AssertionError as error:
    report(line=error.line, compiles=sterna.stats()["compiles"])
"""
    assert sessions.run(script)["line"] == 21
    sessions.write(user="# new\n# lines\n" + RAISING.replace("    assert i", "    # and here\n    assert i"))
    second = sessions.run(script)
    assert (second["line"], second["compiles"]) == (24, 0)


def test_threads_that_launch_first_at_once_compile_once(sessions: Sessions) -> None:
    sessions.write(user="import sterna\n@sterna.kernel\ndef k(x):\n    i = sterna.grid(1)\n    x[i] = i\n")
    result = sessions.run(
        """
import threading
import numpy as np, sterna, user
arrays = [np.zeros(16) for _ in range(8)]
gate = threading.Barrier(8)
def go(x):
    gate.wait()
    user.k[2, 8](x)
threads = [threading.Thread(target=go, args=(x,)) for x in arrays]
[t.start() for t in threads]; [t.join() for t in threads]
sterna.synchronize()
report(right=all(x.tolist() == list(range(16)) for x in arrays), compiles=sterna.stats()["compiles"])
"""
    )
    assert result["right"] is True
    assert result["compiles"] == 1


def test_unobserved_failure_is_reported_at_exit(sessions: Sessions) -> None:
    sessions.write(user=RAISING)
    result = sessions.run("import numpy as np, sterna, user\nuser.asserting[1, 4](np.zeros(8))\nreport(ok=1)\n")
    assert "AssertionError" in result["stderr"]
    assert "asserting" in result["stderr"]
