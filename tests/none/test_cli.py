"""The command line, run as people run it: a process, its output, its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sterna
from sterna.cli.inspect import InspectError, load_kernel, split_types

PACKAGE = str(Path(sterna.__file__).parents[1])  # where this sterna is, installed or not
KERNELS = """
import numpy as np
import sterna

SCALE = np.arange(4, dtype=np.float32)

@sterna.kernel
def scale(x, factor):
    i = sterna.grid(1)
    x[i] = x[i] * factor * SCALE[0]

def plain(x):
    return x
"""


@pytest.fixture
def cli(tmp_path):
    (tmp_path / "somekernels.py").write_text(KERNELS, encoding="utf-8")
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("STERNA_")},
        "PYTHONPATH": PACKAGE, "STERNA_CACHE_DIR": str(tmp_path / "store"), "NO_COLOR": "1", "COLUMNS": "160",
    }  # fmt: skip

    def run(*args, python=("-m", "sterna.cli"), **more):
        return subprocess.run(
            [sys.executable, *python, *args],
            cwd=tmp_path, env={**environment, **more}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    run.folder = tmp_path
    return run


def test_no_arguments_shows_the_commands(cli):
    done = cli()
    assert all(command in done.stdout + done.stderr for command in ("demo", "info", "inspect", "cache"))


def test_info_as_data(cli):
    done = cli("info", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "cpu" in [target["name"] for target in facts["targets"]]
    assert facts["devices"][0] in ("cpu:0", "cpu")
    assert facts["stores"][-1]["path"] == str(cli.folder / "store")
    assert facts["compiles"] == 0


def test_info_as_tables(cli):
    done = cli("info")
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in ("versions", "targets", "stores", "compiles", "numpy"))


@pytest.mark.parametrize(
    ("form", "expected"), [("ir", "SCALE"), ("llvm", "define"), ("asm", "ret"), ("image", "relocations"),
                           ("relocations", '"path"')]
)  # fmt: skip
def test_inspect(cli, form, expected):
    done = cli("inspect", "somekernels:scale", "--types", "float32[:], float", "--as", form)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


def test_inspect_by_file(cli):
    done = cli("inspect", "somekernels.py:scale", "-t", "float64[:], int", "--over", "1", "--as", "image")
    assert done.returncode == 0, done.stderr
    assert "array(float64, 1, C)" in done.stdout


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["somekernels"], "module:kernel"),
        (["somekernels:nothing"], "it has scale"),
        (["somekernels:plain"], "no kernel 'plain'"),
        (["nosuchmodule:scale"], "cannot import nosuchmodule"),
        (["nosuch.py:scale"], "no file nosuch.py"),
        (["somekernels:scale"], "takes 2 arguments; 0 were given"),
        (["somekernels:scale", "-t", "float33[:], int"], "'float33[:]' is not a type"),
        (["somekernels:scale", "--as", "fortran"], "known are ir, llvm, asm"),
        (["somekernels:scale", "-t", "none, int"], "File"),
        (["somekernels:scale", "-t", "float32[:], int", "--arch", "sm_70"], "known: sm_75, sm_80"),
        (["somekernels:scale", "-t", "float32[:], int", "--arch", "vax"], "unknown target 'vax'"),
    ],
)
def test_inspect_explains_mistakes(cli, args, expected):
    done = cli("inspect", *args)
    assert done.returncode == 1
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_cache_path_and_clear(cli):
    store = cli.folder / "store"
    assert cli("cache", "path").stdout.strip() == str(store)
    assert cli("inspect", "somekernels:scale", "-t", "float32[:], float").returncode == 0
    assert list(store.rglob("*.image"))
    (store / "mine.txt").write_text("not Sterna's")
    done = cli("cache", "clear")
    assert done.returncode == 0 and "removed" in done.stdout
    assert [path.name for path in store.rglob("*") if path.is_file()] == ["mine.txt"]


def test_cache_switched_off(cli):
    assert "switched off" in cli("cache", "path", STERNA_CACHE="0").stdout
    assert "no cache" in cli("cache", "clear", STERNA_CACHE="0").stdout


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_says_what_to_install_without_the_terminal_libraries(cli, missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from sterna.cli import main; main()"
    done = cli(python=("-c", code))
    assert done.returncode == 1
    assert "pip install 'sterna[cli]'" in done.stderr and "Traceback" not in done.stderr


def test_importing_sterna_loads_no_compiler_and_no_terminal(cli):
    code = (
        "import sterna, sys; print(sorted({n.split('.')[0] for n in sys.modules} & {'llvmlite','typer','rich','cuda'}))"
    )
    assert cli(python=("-c", code)).stdout.strip() == "[]"


def test_split_types():
    assert split_types("float32[:, :], tuple(int, float) , int,") == ["float32[:, :]", "tuple(int, float)", "int"]
    assert split_types("  ") == []


def test_load_kernel_names_what_is_wrong():
    with pytest.raises(InspectError, match="does not name a kernel"):
        load_kernel("only_a_name")


@pytest.mark.parametrize("where", ["part/deep/kernels.py", "part/deep/__init__.py", "script-of-mine.py"])
def test_load_kernel_from_a_file_with_neighbours(tmp_path, monkeypatch, where):
    deep = tmp_path / "part" / "deep"
    deep.mkdir(parents=True)
    kernel = "import sterna\n@sterna.kernel\ndef k(x):\n    x[0] = FACTOR\n"
    (tmp_path / "part" / "__init__.py").write_text("FACTOR = 3\n")
    (deep / "__init__.py").write_text("from .. import FACTOR\n" + kernel)
    (deep / "kernels.py").write_text("from .. import FACTOR\n" + kernel)
    (tmp_path / "neighbour.py").write_text("FACTOR = 3\n")
    (tmp_path / "script-of-mine.py").write_text("from neighbour import FACTOR\n" + kernel)
    monkeypatch.setattr("sys.path", list(sys.path))
    for name in ("part", "part.deep", "part.deep.kernels", "neighbour", "script-of-mine"):
        monkeypatch.setitem(sys.modules, name, sys)  # so that the module is forgotten afterwards
        del sys.modules[name]
    found = load_kernel(f"{tmp_path / where}:k")
    assert found.function.__globals__["FACTOR"] == 3
    assert found.function.__module__ == where.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
