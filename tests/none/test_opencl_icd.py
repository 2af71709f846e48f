"""Finding OpenCL's drivers: what the loader is shown, and for how long."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sterna.distributions import distribution_files
from sterna.targets.opencl import icd


@pytest.fixture
def system(tmp_path, monkeypatch) -> Path:
    """The system's folder of drivers, with one file, and no variable of the user's."""
    folder = tmp_path / "vendors"
    folder.mkdir()
    (folder / "some.icd").write_text("libsome.so\n")
    monkeypatch.setattr(icd, "_SYSTEM", folder)
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    return folder


@pytest.fixture
def runtime(tmp_path, monkeypatch) -> Path:
    library = tmp_path / "lib" / "libintelocl.so"
    library.parent.mkdir()
    library.touch()
    monkeypatch.setattr(icd, "intel_runtime", lambda: library)
    monkeypatch.setattr(icd, "_can_load", lambda path: True)
    return library


def test_the_loader_sees_the_runtime_beside_the_systems_drivers(system, runtime):
    with icd._vendors():
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        shown = {file.name: file.read_text().strip() for file in folder.glob("*.icd")}
    assert shown == {"some.icd": "libsome.so", "sterna-intel.icd": str(runtime)}
    assert "OCL_ICD_VENDORS" not in os.environ  # processes started from here look for themselves
    assert not folder.exists()


def test_a_path_with_a_space_is_not_shown(system, tmp_path, monkeypatch):
    library = tmp_path / "my lib" / "libintelocl.so"
    library.parent.mkdir()
    library.write_text("the runtime")
    (library.parent / "cl.cfg").write_text("its settings")
    monkeypatch.setattr(icd, "intel_runtime", lambda: library)
    monkeypatch.setattr(icd, "_can_load", lambda path: True)
    at_exit = []
    monkeypatch.setattr(icd.atexit, "register", lambda *call: at_exit.append(call))
    with icd._vendors():
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        shown = Path((folder / "sterna-intel.icd").read_text().strip())
    assert " " not in str(shown)
    assert shown.read_text() == "the runtime" and not shown.is_symlink()
    assert (shown.parent / "cl.cfg").read_text() == "its settings"
    ((remove, *given),) = at_exit
    remove(folder, os.getpid() + 1)  # the end of a forked process is not ours
    assert shown.exists(), "the runtime reads its files while the process lives"
    remove(*given)
    assert not folder.exists() and library.exists()


def test_the_variable_of_the_user_is_named_when_nothing_is_found(monkeypatch):
    monkeypatch.setattr(icd, "load_opencl", lambda: None)
    monkeypatch.setenv("OCL_ICD_VENDORS", "/their/own")
    assert "OCL_ICD_VENDORS=/their/own" in icd.why_missing()


def test_what_the_user_says_counts(system, runtime, monkeypatch):
    monkeypatch.setenv("OCL_ICD_VENDORS", "/their/own")
    with icd._vendors():
        assert os.environ["OCL_ICD_VENDORS"] == "/their/own"


def test_an_installation_of_the_systems_own_is_enough(system, runtime):
    (system / "intel.icd").write_text(f"{runtime}\n")
    with icd._vendors():
        assert "OCL_ICD_VENDORS" not in os.environ


def test_a_file_that_names_nothing_is_not_an_installation(system, runtime):
    (system / "intel.icd").write_text("/no/such/place/libintelocl.so\n")
    with icd._vendors():
        assert "OCL_ICD_VENDORS" in os.environ


def test_without_the_runtime_nothing_is_touched(system, monkeypatch):
    monkeypatch.setattr(icd, "intel_runtime", lambda: None)
    with icd._vendors():
        assert "OCL_ICD_VENDORS" not in os.environ


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_libraries_are_looked_for_beside_the_one_that_needs_them(tmp_path):
    for name, source, needs in (
        ("base", "int base(void) { return 7; }", []),
        ("middle", "int base(void); int middle(void) { return base(); }", ["-lbase"]),
        ("top", "int middle(void); int top(void) { return middle(); }", ["-lmiddle", "-lbase"]),
    ):
        file = tmp_path / f"{name}.c"
        file.write_text(source)
        library = f"lib{name}.so"
        flags = ["-shared", "-fPIC", f"-Wl,--no-as-needed,-soname,{library}", f"-L{tmp_path}"]
        subprocess.run(["cc", *flags, "-o", str(tmp_path / library), str(file), *needs], check=True)
    assert icd._can_load(tmp_path / "libtop.so")
    assert not icd._can_load(tmp_path / "libnone.so")


def test_files_of_a_distribution(tmp_path, monkeypatch):
    folder = tmp_path / "site" / "some_thing-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "RECORD").write_text('some/file.py,sha256=x,3\n"../lib/libsome.so",,\n')
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    found = distribution_files("some-thing")
    assert found == [str(tmp_path / "site" / "some" / "file.py"), str(tmp_path / "lib" / "libsome.so")]
    assert distribution_files("no-such-thing") == []
