"""Edits between sessions: each either must or must not recompile, and the result is always that of the new text."""

from __future__ import annotations

import pytest

from helpers.session import Sessions

KERNEL = """import numpy as np
import sterna
import helper
SCALE = 2
TABLE = np.array([1.0, 2.0, 3.0])

def unrelated():
    return 1

@sterna.kernel
def k(out):
    i = sterna.grid(1)
    out[i] = helper.value(i) * SCALE + TABLE[0]
"""
HELPER = """import deep
def value(i):
    return deep.base(i) + 10

def other():
    return 5
"""
DEEP = """def base(i):
    return i * 100
"""
RUN = """
import numpy as np, sterna, user
out = np.zeros(2)
user.k[1, 2](out)
sterna.synchronize()
report(out=out.tolist(), compiles=sterna.stats()["compiles"], why=str(user.k.explain_cache()))
"""

EDITS: dict[str, tuple[dict[str, tuple[str, str]], int, list[float]]] = {
    # name: ({module: (old, new)}, compilations in the second session, result there)
    "nothing": ({}, 0, [21, 221]),
    "comment in the kernel": ({"user": ("    out[i] =", "    # a comment\n    out[i] =")}, 0, [21, 221]),
    "docstring": ({"user": ("def k(out):\n", 'def k(out):\n    """Says."""\n')}, 0, [21, 221]),
    "blank lines above": ({"user": ("SCALE = 2", "\n\n\nSCALE = 2")}, 0, [21, 221]),
    "formatting": ({"user": ("helper.value(i) * SCALE", "(helper.value( i )\n            *SCALE)")}, 0, [21, 221]),
    "unrelated function": ({"user": ("return 1", "return 2")}, 0, [21, 221]),
    "unrelated function of the helper": ({"helper": ("return 5", "return 6")}, 0, [21, 221]),
    "annotation": ({"user": ("def k(out):", "def k(out: 'array') -> None:")}, 0, [21, 221]),
    "contents of a captured array": ({"user": ("[1.0, 2.0, 3.0]", "[7.0, 2.0, 3.0]")}, 0, [27, 227]),
    "length of a captured array": ({"user": ("[1.0, 2.0, 3.0]", "[1.0]")}, 0, [21, 221]),
    "kernel": ({"user": ("* SCALE", "- SCALE")}, 1, [9, 109]),
    "callee": ({"helper": ("+ 10", "+ 20")}, 1, [41, 241]),
    "callee of the callee": ({"deep": ("* 100", "* 200")}, 1, [21, 421]),
    "constant": ({"user": ("SCALE = 2", "SCALE = 3")}, 1, [31, 331]),
    "type of a constant": ({"user": ("SCALE = 2", "SCALE = 2.0")}, 1, [21, 221]),
    "dtype of a captured array": ({"user": ("[1.0, 2.0, 3.0]", "[1, 2, 3]")}, 1, [21, 221]),
    "option": ({"user": ("@sterna.kernel", "@sterna.kernel(boundscheck=False)")}, 1, [21, 221]),
    "option at its default": ({"user": ("@sterna.kernel", "@sterna.kernel(boundscheck=True)")}, 0, [21, 221]),
    "another name for the kernel": ({"user": ("def k(out):", "def renamed(out):"), "": ("", "")}, 0, [21, 221]),
}


@pytest.mark.parametrize("name", EDITS)
def test_edit(sessions: Sessions, name: str) -> None:
    sources = {"user": KERNEL, "helper": HELPER, "deep": DEEP}
    sessions.write(**sources)
    first = sessions.run(RUN)
    assert first["out"] == [21, 221]
    assert first["compiles"] == 1
    edits, compiles, expected = EDITS[name]
    for module, (old, new) in edits.items():
        if module:
            assert old in sources[module]
            sources[module] = sources[module].replace(old, new)
    if name == "another name for the kernel":
        sources["user"] += "\nk = renamed\n"
        compiles = sessions_name_matters()
    sessions.write(**sources)
    second = sessions.run(RUN)
    assert second["out"] == expected
    assert second["compiles"] == compiles, second["why"]
    third = sessions.run(RUN, compiler=False)
    assert third["out"] == expected
    assert third["compiles"] == 0


def sessions_name_matters() -> int:
    """A renamed kernel is looked for under its new name, so it is compiled once more."""
    return 1


def test_same_bytes_with_another_time(sessions: Sessions) -> None:
    import os

    sessions.write(user=KERNEL, helper=HELPER, deep=DEEP)
    sessions.run(RUN)
    os.utime(sessions.modules / "helper.py", (1, 1))
    assert sessions.run(RUN)["compiles"] == 0


def test_other_bytes_with_the_same_time(sessions: Sessions) -> None:
    import os

    sessions.write(user=KERNEL, helper=HELPER, deep=DEEP)
    path = sessions.modules / "helper.py"
    os.utime(path, (1_000_000_000, 1_000_000_000))
    sessions.run(RUN)
    sessions.write(helper=HELPER.replace("+ 10", "+ 30"))
    os.utime(path, (1_000_000_000, 1_000_000_000))
    second = sessions.run(RUN)
    assert second["out"] == [61, 261]
    assert second["compiles"] == 1


def test_environment_variable_option_is_another_entry(sessions: Sessions) -> None:
    sessions.write(
        user="import sterna\n@sterna.kernel\ndef k(out, i):\n    out[i] = 1\n",
    )
    script = """
import numpy as np, sterna, user
memory = sterna.zeros(8)
out = memory[:4]
user.k[1, 1](out, 6)
try:
    sterna.synchronize(); error = ""
except IndexError as caught:
    error = str(caught)
report(error=error, memory=memory.copy_to_host().tolist(), compiles=sterna.stats()["compiles"])
"""
    checked = sessions.run(script)
    unchecked = sessions.run(script, env={"STERNA_BOUNDSCHECK": "0"})
    again = sessions.run(script, compiler=False)
    assert "index 6 is out of bounds" in checked["error"]
    assert checked["memory"] == [0] * 8
    assert unchecked["error"] == ""
    assert unchecked["memory"] == [0, 0, 0, 0, 0, 0, 1, 0]
    assert unchecked["compiles"] == 1
    assert again["error"] == checked["error"]
    assert again["compiles"] == 0


def test_closures_of_one_factory(sessions: Sessions) -> None:
    sessions.write(
        user="import sterna\n"
        "def plus(x):\n    return x + 1\ndef times(x):\n    return x * 10\n"
        "def make(f):\n    @sterna.kernel\n    def k(out):\n        out[0] = f(out[0])\n    return k\n"
        "def scaled(s):\n    @sterna.kernel\n    def k(out):\n        out[0] = out[0] * s\n    return k\n"
        "kernels = [make(plus), make(times), scaled(2.0), scaled(3.0)]\n"
        "lambdas = [make(lambda x: x + 2), make(lambda x: x + 3)]; two = (lambda x: x - 1, lambda x: x - 2)\n"
        "kernels += lambdas + [make(two[0]), make(two[1])]\n"
    )
    script = """
import numpy as np, sterna, user
order = {order}
results = dict()
for i in order:
    out = np.array([4.0])
    user.kernels[i][1, 1](out); sterna.synchronize()
    results[i] = float(out[0])
report(results=[results[i] for i in range(8)], compiles=sterna.stats()["compiles"])
"""
    expected = [5, 40, 8, 12, 6, 7, 3, 2]
    first = sessions.run(script.format(order="range(8)"))
    second = sessions.run(script.format(order="reversed(range(8))"), compiler=False, hash_seed=3)
    assert first["results"] == expected
    assert second["results"] == expected
    assert first["compiles"] == 8
    assert second["compiles"] == 0


def test_same_named_kernels_in_one_file(sessions: Sessions) -> None:
    sessions.write(
        user="import sterna\n@sterna.kernel\ndef k(out):\n    out[0] = 1\nfirst = k\n"
        "@sterna.kernel\ndef k(out):\n    out[0] = 2\n"
    )
    script = """
import numpy as np, sterna, user
out = np.zeros(2)
user.k[1, 1](out[1:]); user.first[1, 1](out[:1]); sterna.synchronize()
report(out=out.tolist(), compiles=sterna.stats()["compiles"])
"""
    assert sessions.run(script)["out"] == [1, 2]
    second = sessions.run(script, compiler=False)
    assert (second["out"], second["compiles"]) == ([1, 2], 0)


def test_a_decorator_in_between(sessions: Sessions) -> None:
    sessions.write(
        user="import sterna, functools\n"
        "def registered(f):\n    f.tag = 1\n    return f\n"
        "def doubled(f):\n    @functools.wraps(f)\n    def wrapper(out):\n        f(out)\n        out[0] = out[0] * 2\n    return wrapper\n"
        "@sterna.kernel\n@registered\ndef a(out):\n    out[0] = 3\n"
        "@sterna.kernel\n@doubled\ndef b(out):\n    out[0] = 4\n"
    )
    script = """
import numpy as np, sterna, user
out = np.zeros(2)
user.a[1, 1](out[:1]); user.b[1, 1](out[1:]); sterna.synchronize()
report(out=out.tolist(), compiles=sterna.stats()["compiles"])
"""
    assert sessions.run(script)["out"] == [3, 8]
    second = sessions.run(script, compiler=False)
    assert (second["out"], second["compiles"]) == ([3, 8], 0)
