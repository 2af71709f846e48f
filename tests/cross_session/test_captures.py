"""Every capture row, compiled in one process and relocated in another that has no compiler.

The right value of each kernel is worked out in the test by hand; the second session must give it with zero
compilations, from different words.
"""

from __future__ import annotations

import pytest

from helpers.session import Sessions

RUN = """
import random
padding = [bytearray(random.randrange(1, 1 << 16)) for _ in range(50)]
import numpy as np
import sterna
padding += [sterna.zeros(random.randrange(1, 1 << 16)) for _ in range(20)]
import user
out = np.zeros(8, np.{dtype})
user.k[1, 1](out{args})
sterna.synchronize()
compiled = user.k.specialize(out{args})
report(out=out.tolist(), compiles=sterna.stats()["compiles"], hits=sterna.stats()["hits"],
       words=[list(w) for w in compiled.words.values()],
       kinds=[r.kind.value for r in compiled.relocations], paths=[r.path for r in compiled.relocations],
       addends=[r.addend for r in compiled.relocations])
"""

HEAD = "import numpy as np\nimport sterna\nimport enum\n"

CASES: dict[str, tuple[str, str, str, list[float], list[str]]] = {
    # name: (module, dtype, further arguments, expected out, record kinds)
    "constant": (
        "SCALE = 3\nTABLE = (1.5, 2.5)\n"
        "@sterna.kernel\ndef k(out):\n    out[0] = SCALE\n    out[1] = TABLE[1]\n",
        "float64", "", [3, 2.5, 0, 0, 0, 0, 0, 0], [],
    ),
    "object": (
        "class Mode(enum.Enum):\n    FAST = 1\n    SLOW = 2\nSENTINEL = object()\n"
        "@sterna.kernel\ndef k(out, mode, thing):\n"
        "    if mode is Mode.FAST:\n        out[0] = 1\n    if mode is Mode.SLOW:\n        out[1] = 1\n"
        "    if thing is SENTINEL:\n        out[2] = 1\n    if thing is not Mode.FAST:\n        out[3] = 1\n",
        "int64", ", user.Mode.SLOW, user.SENTINEL", [0, 1, 1, 1, 0, 0, 0, 0], ["object"] * 3,
    ),
    "type": (
        "class Left: pass\nclass Right: pass\n"
        "@sterna.kernel\ndef k(out, thing):\n"
        "    if type(thing) is Left:\n        out[0] = 1\n    if type(thing) is Right:\n        out[1] = 1\n",
        "int64", ", user.Right()", [0, 1, 0, 0, 0, 0, 0, 0], ["type"] * 2,
    ),
    "numpy array": (
        "CURVE = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).T\n"
        "@sterna.kernel\ndef k(out):\n    out[0] = CURVE[2, 1]\n    out[1] = CURVE[0, 1]\n    out[2] = CURVE.shape[0]\n",
        "float64", "", [6, 4, 3, 0, 0, 0, 0, 0], ["buffer"],
    ),
    "sterna array": (
        "TABLE = sterna.to_device(np.arange(10.0))\n"
        "@sterna.kernel\ndef k(out):\n    out[0] = TABLE[7]\n    out[1] = TABLE.size\n    TABLE[0] = 5.0\n    out[2] = TABLE[0]\n",
        "float64", "", [7, 10, 5, 0, 0, 0, 0, 0], ["buffer"],
    ),
    "global": (
        "GAIN = sterna.Global(2.5, 'float32')\nCOUNT = sterna.Global(-7)\n"
        "@sterna.kernel\ndef k(out):\n    out[0] = GAIN\n    out[1] = COUNT * 2\n",
        "float64", "", [2.5, -14, 0, 0, 0, 0, 0, 0], ["global"] * 2,
    ),
    "symbol": (
        "FLOAT = sterna.runtime_global('PyFloat_Type')\nclass Other: pass\nBOX = Other()\n"
        "@sterna.kernel\ndef k(out):\n    if FLOAT is float:\n        out[0] = 1\n    if type(BOX) is FLOAT:\n        out[1] = 1\n",
        "int64", "", [1, 0, 0, 0, 0, 0, 0, 0], None,  # type: ignore[dict-item]
    ),
    "slice": (
        "TABLE = np.arange(100.0)\n"
        "@sterna.kernel\ndef k(out):\n    part = TABLE[40:45]\n    out[0] = part[0]\n    out[1] = part[4]\n    out[2] = part.size\n"
        "    out[3] = part[-1]\n",
        "float64", "", [40, 44, 5, 44, 0, 0, 0, 0], ["buffer"],
    ),
    "record field": (
        "PARAMS = np.array((3, 2.5, 7), dtype=[('a', 'i4'), ('gain', 'f8'), ('c', 'i2')])\n"
        "@sterna.kernel\ndef k(out):\n    out[0] = PARAMS['gain']\n    out[1] = PARAMS['c']\n",
        "float64", "", [2.5, 7, 0, 0, 0, 0, 0, 0], ["buffer"] * 2,
    ),
    "closure": (
        "def make(scale, table):\n    @sterna.kernel\n    def k(out):\n        out[0] = scale * table[1]\n    return k\n"
        "k = make(3, np.array([1.0, 4.0]))\n",
        "float64", "", [12, 0, 0, 0, 0, 0, 0, 0], ["buffer"],
    ),
    "callee": (
        "LUT = np.array([5.0, 6.0])\ndef helper(i):\n    return LUT[i]\n"
        "@sterna.kernel\ndef k(out):\n    out[0] = helper(1)\n",
        "float64", "", [6, 0, 0, 0, 0, 0, 0, 0], ["buffer"],
    ),
    "module attribute": (
        "import types\nconf = types.ModuleType('conf')\nconf.LUT = np.array([8.0])\nconf.N = 4\n"
        "@sterna.kernel\ndef k(out):\n    out[0] = conf.LUT[0] * conf.N\n",
        "float64", "", [32, 0, 0, 0, 0, 0, 0, 0], ["buffer"],
    ),
}  # fmt: skip


def is_in_the_executable(address: int) -> bool:
    """Whether it is of Python's own program, which may be linked for one fixed place."""
    return address < 1 << 32


@pytest.mark.parametrize("name", CASES)
def test_capture_survives_the_session(sessions: Sessions, name: str) -> None:
    module, dtype, args, expected, kinds = CASES[name]
    sessions.write(user=HEAD + module)
    script = RUN.format(dtype=dtype, args=args)
    first = sessions.run(script, hash_seed=1)
    second = sessions.run(script, compiler=False, hash_seed=2)
    assert first["out"] == expected
    assert second["out"] == expected
    assert first["compiles"] == 1
    assert second["compiles"] == 0
    if kinds is not None:
        assert second["kinds"] == kinds
    moving = [kind in ("object", "type", "buffer") for kind in second["kinds"]]
    for moves, before, after in zip(moving, first["words"], second["words"], strict=True):
        if moves:
            assert before[0] != after[0] or is_in_the_executable(before[0])
    (image,) = sessions.images().values()
    for session in (first, second):
        for kind, words in zip(session["kinds"], session["words"], strict=True):
            if kind != "global" and words[0] > 0xFFFF:
                assert words[0].to_bytes(8, "little") not in image
                assert str(words[0]).encode() not in image


@pytest.mark.parametrize("name", ["slice", "record field"])
def test_interior_references_have_addends(sessions: Sessions, name: str) -> None:
    module, dtype, args, _, _ = CASES[name]
    sessions.write(user=HEAD + module)
    result = sessions.run(RUN.format(dtype=dtype, args=args))
    expected = {"slice": [320], "record field": [4, 12]}[name]
    assert result["addends"] == expected


def test_images_are_identical_under_any_hash_seed(tmp_path) -> None:
    images = []
    for seed in (0, 1, 12345):
        one = Sessions(tmp_path / str(seed))
        for name in ("object", "numpy array", "global", "callee"):
            module, dtype, args, _, _ = CASES[name]
            one.write(user=HEAD + module)
            one.run(RUN.format(dtype=dtype, args=args), hash_seed=seed)
        images.append(one.images())
    assert len(images[0]) == 4
    assert images[0] == images[1] == images[2]


def test_another_array_of_another_length_needs_no_compilation(sessions: Sessions) -> None:
    sessions.write(
        user=HEAD + "import os\nTABLE = sterna.to_device(np.arange(float(os.environ['N'])))\n"
        "@sterna.kernel\ndef k(out):\n    out[0] = TABLE.size\n    out[1] = TABLE[-1]\n"
    )
    script = RUN.format(dtype="float64", args="")
    assert sessions.run(script, env={"N": "10"})["out"][:2] == [10, 9]
    second = sessions.run(script, env={"N": "1000"}, compiler=False)
    assert second["out"][:2] == [1000, 999]
    assert second["compiles"] == 0


def test_rebinding_between_launches(sessions: Sessions) -> None:
    sessions.write(
        user=HEAD + "TABLE = sterna.to_device(np.array([1.0, 2.0]))\nSCALE = 2\nMARK = object()\n"
        "@sterna.kernel\ndef k(out, thing):\n    out[0] = TABLE[0] * SCALE\n    out[1] = TABLE.size\n"
        "    if thing is MARK:\n        out[2] = 1\n"
    )
    result = sessions.run(
        """
import numpy as np, sterna, user
out = np.zeros(3)
def go(thing):
    out[:] = 0
    user.k[1, 1](out, thing)
    sterna.synchronize()
    return out.tolist(), sterna.stats()["compiles"]
steps = [go(user.MARK)]
user.TABLE = sterna.to_device(np.array([10.0, 0.0, 0.0])); steps.append(go(user.MARK))
old = user.MARK
user.MARK = object(); steps.append(go(old)); steps.append(go(user.MARK))
user.SCALE = 5; steps.append(go(old))
user.SCALE = 2; steps.append(go(old))
report(steps=steps)
"""
    )
    assert result["steps"] == [
        [[2, 2, 1], 1],
        [[20, 3, 1], 1],  # another array: another link of the same image
        [[20, 3, 0], 1],  # another object: likewise
        [[20, 3, 1], 1],
        [[50, 3, 0], 2],  # another constant: another specialisation
        [[20, 3, 0], 2],  # the former one is still known
    ]


def test_global_changes_in_place_with_no_compilation_and_no_link(sessions: Sessions) -> None:
    sessions.write(user=HEAD + "GAIN = sterna.Global(1.0, 'float32')\n@sterna.kernel\ndef k(out):\n    out[0] = GAIN\n")
    result = sessions.run(
        """
import numpy as np, sterna, user
out = np.zeros(1, np.float32)
seen = []
for value in (1.0, 2.5, -3.0):
    user.GAIN.value = value
    user.k[1, 1](out); sterna.synchronize()
    seen.append(float(out[0]))
report(seen=seen, compiles=sterna.stats()["compiles"], links=sterna.stats()["links"])
"""
    )
    assert result["seen"] == [1.0, 2.5, -3.0]
    assert (result["compiles"], result["links"]) == (1, 1)


def test_captured_objects_live_and_die_with_the_loaded_kernel(sessions: Sessions) -> None:
    sessions.write(
        user=HEAD + "class Thing: pass\n"
        "def make():\n    thing = Thing()\n    table = sterna.to_device(np.array([1.0, 2.0]))\n"
        "    @sterna.kernel\n    def k(out, other):\n        out[0] = table[1]\n"
        "        if other is thing:\n            out[1] = 1\n    return k, thing\n"
    )
    result = sessions.run(
        """
import gc, weakref
import numpy as np, sterna, user
k, thing = user.make()
ref = weakref.ref(thing)
out = np.zeros(2)
k[1, 1](out, thing); sterna.synchronize()
word = id(thing)
del thing; gc.collect()
alive = ref() is not None and sterna.resolve(word) is ref()
k[1, 1](out, None.__class__); sterna.synchronize()
del k; gc.collect()
report(alive=alive, dead=ref() is None, out=out.tolist())
"""
    )
    assert result["alive"] is True
    assert result["dead"] is True
    assert result["out"] == [2.0, 1.0]
