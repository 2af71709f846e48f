"""Code of the host needs nothing of devices: planted leaks are found, and the whole package and the examples have none.

Everything annotated is compiled, for the host and for every device target, and the number of functions has a lower
bound, so that the check cannot pass by compiling nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import helpers.annotated
import helpers.leaking
import sterna
from helpers.leaking import deep
from sterna.errors import CompileError, OverlayError, SternaWarning
from sterna.leaks import check_package, compile_for
from sterna.leaks.members import concrete_types, functions_of, modules_of
from sterna.overlays import DEVICE, method_table, remove
from sterna.runtime.signature import ArgumentPacker
from sterna.targets.cpu.elf import undefined_symbols
from sterna.targets.registry import TARGETS, target

ROOT = Path(__file__).resolve().parents[2]
LEAST = 50
ARCHITECTURES = {"cuda": "cuda-sm_90"}
"""Targets whose architecture has to be given where there is no device."""
RECURSIVE = ("factorial", "even", "odd")
"""Functions that targets without recursion refuse."""


@pytest.fixture(scope="module")
def leaking():
    with pytest.warns(SternaWarning, match=r"position_on_one overrides helpers\.leaking\.position for cuda-sm_90"):
        return sterna.host_leaks("helpers.leaking")


def line_of(module, text: str) -> int:
    lines = Path(module.__file__).read_text(encoding="utf-8").splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if text in line]
    return number


def test_planted_leaks_are_found_with_their_lines(leaking):
    found = {(leak.symbol, leak.function.rpartition(".")[2], leak.file, leak.line) for leak in leaking}
    package, inner = helpers.leaking, deep
    expected = {
        ("grid", "offset", inner, "i = sterna.grid(1)"),
        ("inbounds", "many", package, "with sterna.inbounds():"),
        ("twice", "many", package, "a[i] = twice(2.0)"),
        ("thread_idx.x", "many", package, "a[i] = twice(2.0)"),
        ("shared.array", "many", package, "tile = sterna.shared.array"),
        ("laneid", "many", package, "tile[0] = sterna.laneid"),
        ("uniform", "many", package, "sterna.random.uniform()"),
        ("atomic.add", "many", package, "sterna.atomic.add"),
        ("grid", "many", package, "if sterna.grid(1) > 3"),
        ("syncthreads", "many", package, "        sterna.syncthreads()\n    a[1]"),
        ("intrinsic", "many", package, "a[1] = sterna.intrinsic"),
    }
    lines = Path(package.__file__).read_text(encoding="utf-8")
    wanted = set()
    for symbol, function, module, text in expected:
        if "\n" in text:
            line = lines[: lines.index(text)].count("\n") + 1
        else:
            line = line_of(module, text)
        wanted.add((f"sterna_device_only.{symbol}", function, module.__file__, line))
    assert found == wanted
    assert str(leaking[0]).startswith(f"{package.__file__}:")


def test_what_was_compiled_and_what_was_not(leaking):
    names = {name.rpartition(".")[2] for name in leaking.compiled}
    # `twice`, `clean_on_devices` and `position_on_one` are code of devices; `offset` has no concrete signature
    assert names == {"clean", "position", "many", "never"}
    ((name, reason),) = leaking.skipped
    assert name == "helpers.leaking.no_device_code"
    assert "an f-string cannot be used" in reason
    assert [entry.definition for entry in leaking.unused] == ["helpers.leaking.position_on_one"]


def test_a_path_that_is_never_taken_is_no_leak():
    assert compile_symbols(helpers.leaking.never) == set()
    assert compile_symbols(helpers.leaking.position) == {"sterna_device_only.grid"}


def compile_symbols(function) -> set[str]:
    made = compile_for(function, concrete_types(function), target("cpu"), host=True)
    found = undefined_symbols(made.image.payloads["object"])
    return {name for name in found if name.startswith("sterna_device_only")}


def test_device_code_has_no_such_symbol():
    made = compile_for(helpers.leaking.position, concrete_types(helpers.leaking.position), target("cpu"))
    assert not [s for s in undefined_symbols(made.image.payloads["object"]) if "device_only" in s]


# ---- compile all -------------------------------------------------------------------------------


def annotated(*packages) -> list:
    return [
        function
        for package in packages
        for module in modules_of(package)[0]
        for function in functions_of(module)
        if concrete_types(function)
    ]


def load(made, function, types) -> None:
    """Load an object at once, with every symbol it needs; `LinkError` if one is nowhere."""
    names = [f"a{n}" for n in range(len(types))]
    layout = ArgumentPacker(function.__name__, names, types).layout
    sterna.device("cpu").load(made.image, layout).unload()


@pytest.fixture(scope="module")
def darkroom():
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import darkroom.curves

        yield darkroom.curves
    finally:
        sys.path.remove(str(ROOT / "examples"))


def test_everything_annotated_as_code_of_the_host(darkroom):
    functions = annotated(helpers.annotated, darkroom)
    for function in functions:
        types = concrete_types(function)
        made = compile_for(function, types, target("cpu"), host=True)
        assert not [s for s in undefined_symbols(made.image.payloads["object"]) if "device_only" in s]
        load(made, function, types)
    assert len(functions) >= LEAST


@pytest.mark.parametrize("name", TARGETS)
def test_everything_annotated_as_code_of_devices(name, darkroom):
    place = target(ARCHITECTURES.get(name, name))
    functions = annotated(helpers.annotated, darkroom)
    definitions = [f for entry in method_table(DEVICE) for f in entry.definitions if f.__module__.startswith("sterna.")]
    functions += [f for f in definitions if concrete_types(f) is not None]
    compiled = 0
    for function in functions:
        types = concrete_types(function)
        if any(f"{bad}" in str(t) for t in types for bad in place.unsupported_types):
            continue
        try:
            made = compile_for(function, types, place)
        except CompileError as error:
            if place.unsupported_types and f"target {place.name}" in str(error):  # it says what it lacks
                continue
            if function.__name__ in RECURSIVE and "recursive function on" in str(error):
                continue
            raise
        assert made.image.payloads
        if place.name == "cpu":
            load(made, function, types)
        compiled += 1
    # a target that lacks a type lacks the functions that use it
    assert compiled >= (LEAST if not place.unsupported_types else 20)


def test_the_package_itself_has_no_leak():
    found = check_package("sterna")
    assert list(found) == []
    assert "sterna.language.random.philox4x32" in found.compiled
    assert len(found.compiled) >= 8


# ---- bad input ---------------------------------------------------------------------------------


def test_where_leaks_hide(tmp_path, monkeypatch):
    """Behind a decorator, a cache, an alias of another module, and in the body of a class in a class."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "__init__.py").write_text("")
    (tmp_path / "hidden" / "devices.py").write_text(
        "import sterna\n\n@sterna.device_function\ndef only(x):\n    return x\n\nother = only\n"
    )
    (tmp_path / "hidden" / "hosts.py").write_text(
        "import functools\nfrom hidden.devices import other as o\n\n"
        "def deco(f):\n    @functools.wraps(f)\n    def call(*args):\n        return f(*args)\n    return call\n\n"
        "@deco\ndef decorated(x: int) -> int:\n    return o(x)  # 1\n\n"
        "@functools.lru_cache\ndef cached(x: int) -> int:\n    return o(x)  # 2\n\n"
        "class Outer:\n    class Inner:\n        @staticmethod\n        def method(x: int) -> int:\n"
        "            return (lambda y: o(y))(x)  # 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = sterna.host_leaks("hidden")
    import hidden.hosts as hosts

    assert [(leak.symbol, leak.line) for leak in found] == [
        ("sterna_device_only.only", line_of(hosts, f"# {n}")) for n in (1, 2, 3)
    ]


def test_a_call_at_import_time(tmp_path, monkeypatch):
    (tmp_path / "hasty.py").write_text("import sterna\n\nTHREADS = sterna.grid(1)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    message = (
        r"module hasty calls a function of devices when it is imported \(.*hasty\.py:3\): grid\(\) runs on the device"
    )
    with pytest.raises(OverlayError, match=message):
        sterna.host_leaks("hasty")


def test_a_module_that_cannot_be_imported(tmp_path, monkeypatch):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("def fine(x: int) -> int:\n    return x\n")
    (tmp_path / "parts" / "broken.py").write_text("import no_such_module\n")
    (tmp_path / "parts" / "script.py").write_text("import sys\nsys.exit()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = sterna.host_leaks("parts")
    assert found.compiled == ("parts.fine",)
    assert found.skipped == (
        ("parts.broken", "cannot be imported: No module named 'no_such_module'"),
        ("parts.script", "cannot be imported: SystemExit"),
    )
    with pytest.raises(ImportError):
        sterna.host_leaks("no_such_package")


def test_an_override_of_what_nothing_calls(tmp_path, monkeypatch):
    (tmp_path / "idle.py").write_text(
        "import math\nimport sterna\n\n"
        "@sterna.device_override(math.tanh)\ndef tanh(x):\n    return x\n\n"
        "@sterna.kernel\ndef k(out):\n    out[0] = math.sin(out[1])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        with pytest.warns(
            SternaWarning, match=r"idle\.py:4: idle\.tanh overrides math\.tanh for all devices, and no device"
        ):
            sterna.host_leaks("idle")
    finally:
        import math

        remove(math.tanh)


def run(*args: str, folder: Path) -> subprocess.CompletedProcess[str]:
    import os

    environment = {**os.environ, "PYTHONPATH": str(Path(sterna.__file__).parents[1]), "NO_COLOR": "1", "COLUMNS": "60"}
    command = [sys.executable, "-m", "sterna", "check", *args]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_command(tmp_path):
    done = run("helpers.leaking", folder=ROOT / "tests")
    assert done.returncode == 1, done.stderr
    assert "sterna_device_only.grid" in done.stdout
    assert f"deep.py:{line_of(deep, 'i = sterna.grid(1)')}" in done.stdout
    assert "overrides that nothing calls" in done.stdout
    for leak in sterna.leaks.check_package("helpers.leaking"):  # each whole, on a line of its own
        assert f"  {leak}" in done.stdout.splitlines()
    assert "4 functions compiled for the host, 1 not, 11 leaks, 1 unused overrides" in done.stdout
    done = run(str(ROOT / "tests" / "helpers" / "annotated"), "--least", "45", "-v", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 leaks" in done.stdout


def test_a_path_to_a_package_of_any_kind(tmp_path):
    (tmp_path / "loose").mkdir()
    (tmp_path / "loose" / "part.py").write_text("import sterna\ndef f(x: int) -> int:\n    return x + sterna.laneid\n")
    for path in ("./loose", str(tmp_path / "loose"), "./loose/part.py"):
        done = run(path, folder=tmp_path)
        assert (done.returncode, done.stderr) == (1, "")
        assert "part.f needs sterna_device_only.laneid" in done.stdout
    done = run("./tight", folder=tmp_path)
    assert (done.returncode, done.stderr) == (
        1, "sterna: there is no package at ./tight: give a name, a folder or a .py file\n"
    )  # fmt: skip


def test_a_check_that_compiles_too_little_fails():
    from typer.testing import CliRunner

    from sterna.cli.app import app

    done = CliRunner().invoke(app, ["check", "sterna.language.sync", "--least", "1"])
    assert done.exit_code == 1
    assert "0 functions were compiled, at least 1 are asked for" in done.output
    done = CliRunner().invoke(app, ["check", "no_such_package"])
    assert done.exit_code == 1
    assert "No module named 'no_such_package'" in done.output
