"""Method tables: which definition a job finds, and what cannot stand in them."""

from __future__ import annotations

import copy
import math
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import sterna
from helpers.modules import write_module
from sterna.errors import OverlayError
from sterna.overlays import (
    DEVICE,
    DEVICE_TABLES,
    HOST_TABLES,
    Tables,
    method_table,
    overlays,
    overlays_of,
    remove,
    stub_name,
    tables_for,
)
from sterna.source.captures import CaptureKind, scan
from sterna.targets.registry import target


def helper(x, n=1):
    return x * n


@sterna.device_function
def only_on_devices(x: float) -> float:
    """Doc."""
    return x


def test_tables_of_a_target():
    assert tables_for(target("cuda-sm_90")).names == ("cuda-sm_90", "cuda", "device")
    assert HOST_TABLES.find(sterna.grid) is None
    assert DEVICE_TABLES.find(sterna.grid).operation == "grid"
    assert method_table("nowhere").find(sterna.grid) is None


def test_the_language_is_in_the_table_of_all_devices():
    assert sterna.atomic.add and sterna.shared.array  # parts of the language are loaded when they are named
    operations = {entry.operation for entry in method_table(DEVICE) if entry.operation}
    assert {"grid", "atomic.add", "thread_idx", "laneid", "shared.array"} <= operations
    assert stub_name(sterna.threadIdx) == "thread_idx"


def test_what_a_stub_keeps():
    assert only_on_devices.__doc__ == "Doc."
    assert repr(only_on_devices) == f"<sterna.device_function {__name__}.only_on_devices>"
    assert copy.deepcopy(only_on_devices) is only_on_devices
    if sys.modules.get(__name__) is not None:
        assert pickle.loads(pickle.dumps(only_on_devices)) is only_on_devices
    (entry,) = overlays_of(only_on_devices)
    assert entry.definitions == (only_on_devices.__wrapped__,)
    assert entry.where.startswith(__file__)


def test_the_host_sees_no_definition():
    def kernel(x):
        return only_on_devices(x) + helper(x) + math.floor(x)

    found = scan(kernel, tables=HOST_TABLES)
    assert [c.kind for c in found.captures[:3]] == [CaptureKind.STUB, CaptureKind.FUNCTION, CaptureKind.INTRINSIC]
    found = scan(kernel, tables=DEVICE_TABLES)
    paths = [reached.path for reached in found.functions]
    assert paths == ["", "globals:only_on_devices → override:device", "globals:helper"]


REFUSED = {
    "too few": (lambda x: x, r"it takes 1 positional arguments, calls give at least 2"),
    "too many": (lambda x, y, z: x, r"it needs 3 positional arguments, calls give at most 2"),
    "another order": (lambda y, x: x, r"its parameters y, x come in another order"),
    "a keyword more": (lambda x, y, *, z: x, r"it needs z by name"),
}


def two(x, y):
    return x


@pytest.mark.parametrize("case", REFUSED)
def test_signatures_that_do_not_fit(case: str):
    definition, message = REFUSED[case]
    with pytest.raises(OverlayError, match=message) as caught:
        sterna.device_override(two)(definition)
    # both are named, with their places
    assert f"two(x, y) ({__file__}:{two.__code__.co_firstlineno})" in str(caught.value)
    assert f"({__file__}:{definition.__code__.co_firstlineno})" in str(caught.value)
    assert not overlays_of(two)


def keywords(x, *, mode):
    return x


def typed(x: np.float32):
    return x


def test_more_signatures_that_do_not_fit():
    with pytest.raises(OverlayError, match="it has no parameter mode, which calls must give by name"):
        sterna.device_override(keywords)(lambda x: x)
    with pytest.raises(OverlayError, match="y is float64, x is float32"):

        @sterna.device_override(typed)
        def other(y: np.float64):
            return y


@pytest.mark.parametrize("definition", [lambda *args: 1, lambda x, y=2, z=3: 1, lambda a, b: 1])
def test_signatures_that_fit(definition):
    sterna.device_override(two)(definition)
    remove(two)


def test_two_definitions_for_one_table():
    @sterna.device_override(helper)
    def first(x, n=1):
        return x

    try:
        with pytest.raises(OverlayError, match="helper has two definitions for all devices") as caught:

            @sterna.device_override(helper)
            def second(x, n=1):
                return x

        for definition in ("first", "second"):
            assert f"<locals>.{definition} ({__file__}:" in str(caught.value)

        @sterna.device_override(helper, target=("cpu", "cuda"))
        def third(x, n=1):
            return x

        assert [entry.table for entry in overlays_of(helper)] == ["device", "cpu", "cuda"]
    finally:
        for table in [entry.table for entry in overlays_of(helper)]:
            remove(helper, table)


def test_a_definition_that_is_run_again(tmp_path):
    module = write_module(
        tmp_path,
        "import sterna, math\n@sterna.device_override(math.gamma)\ndef gamma(x):\n    return 1.0\n",
    )
    try:
        before = DEVICE_TABLES.find(math.gamma)
        source = Path(module.__file__).read_text()
        exec(compile(source, module.__file__, "exec"), vars(module))
        after = DEVICE_TABLES.find(math.gamma)
        assert after is not before
        assert after.definitions[0].__globals__ is vars(module)
    finally:
        remove(math.gamma)


def test_a_file_that_is_run_and_imported(tmp_path):
    """It is two modules with one file: the definition is the same."""
    module = write_module(
        tmp_path, "import sterna, math\n@sterna.device_override(math.gamma)\ndef _(x):\n    return x\n"
    )
    try:
        exec(compile(Path(module.__file__).read_text(), module.__file__, "exec"), {"__name__": "__main__"})
        assert DEVICE_TABLES.find(math.gamma).origin == ("__main__", "_")
    finally:
        remove(math.gamma)


def test_two_definitions_of_one_name(tmp_path):
    """``def _`` twice in a file is two definitions; one that moved in its file, or ran again, is one."""
    one = "@sterna.device_override(math.gamma)\ndef _(x):\n    return {}\n"
    module = write_module(tmp_path, "import sterna, math\n" + one.format(1.0))
    path = Path(module.__file__)
    try:
        path.write_text("import sterna, math\n\n\n\n" + one.format(2.0))
        exec(compile(path.read_text(), path, "exec"), vars(module))
        assert DEVICE_TABLES.find(math.gamma).place == (str(path), 5)
        path.write_text("import sterna, math\n" + one.format(1.0) + one.format(2.0))
        with pytest.raises(OverlayError, match=r"math\.gamma has two definitions .*:5\) and _ \(.*:2\)"):
            exec(compile(path.read_text(), path, "exec"), vars(module))
    finally:
        remove(math.gamma)


@pytest.mark.parametrize(
    ("function", "target", "message"),
    [
        (3, None, "needs a function, given int"),
        (int, None, "given class int"),
        (helper, "gpu", "unknown target 'gpu'; known targets: cpu, cuda"),
        (helper, ("cpu", "cuda-sm_1"), "unknown CUDA architecture"),
        (helper, (), "target is empty"),
        (helper, 3, "target is a name or a tuple of names, given 3"),
        (helper, ("cpu", None), "a tuple of names, given"),
    ],
)
def test_what_cannot_be_overridden(function, target, message):
    with pytest.raises(OverlayError, match=message):
        sterna.device_override(function, target=target)


def test_what_cannot_be_a_definition():
    with pytest.raises(OverlayError, match="a device function is made from a plain Python function; given type"):
        sterna.device_function(dict)
    with pytest.raises(OverlayError, match=r"an override of math\.sin is made from a plain Python function"):
        sterna.device_override(math.sin)(math.cos)


def test_the_name_of_the_host_goes_on_meaning_the_host():
    before = helper
    decorated = sterna.device_override(helper)(_same_name())
    assert decorated is before
    remove(helper)


def _same_name():
    def other(x, n=1):
        return x

    other.__qualname__ = "helper"
    return other


def test_nothing_to_remove():
    with pytest.raises(LookupError, match="helper has no definition for cuda"):
        remove(helper, "cuda")


def test_behind_a_table():
    tables = Tables(("cpu", "device"))
    sterna.device_override(sterna.fma, target="cpu")(lambda a, b, c: a)
    try:
        assert tables.find(sterna.fma).table == "cpu"
        assert tables.find(sterna.fma, behind="cpu").operation == "fma"
        assert tables.find(sterna.fma, behind="device") is None
    finally:
        remove(sterna.fma, "cpu")
    assert all(entry.table != "cpu" or entry.subject is not sterna.fma for entry in overlays())
