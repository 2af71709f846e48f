"""Installed versions and entry points, against `importlib.metadata` and against folders made by hand."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from sterna import distributions
from sterna.distributions import entry_points, installed_version


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "absent"), str(tmp_path / "second")])
    monkeypatch.setattr(distributions, "_listings", {})
    for folder, name, version, points in (
        (
            "second",
            "Sun_Light",
            "1.0",
            "[console_scripts]\nsun = sun:main\n[sterna.stores]\nb = sun.kernels\n# c = d\n",
        ),
        ("second", "moon", "2.0+local.1", "[sterna.stores]\na=moon : x\n"),
        ("first", "moon", "3.0", ""),
    ):
        info = tmp_path / folder / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "entry_points.txt").write_text(points)
    (tmp_path / "first" / "old-0.1-py3.11.egg-info").mkdir()
    (tmp_path / "first" / "edited.egg-info").mkdir()
    (tmp_path / "first" / "edited.egg-info" / "PKG-INFO").write_text("Name: edited\nVersion: 0.7.dev1\n")
    return tmp_path


def test_versions(site: Path):
    assert installed_version("sun-light") == installed_version("sun.light") == "1.0"
    assert installed_version("moon") == "3.0"
    assert installed_version("old") == "0.1"
    assert installed_version("edited") == "0.7.dev1"
    assert installed_version("sun") is None


def test_entry_points_of_the_first_distribution_of_a_name(site: Path):
    assert entry_points("sterna.stores") == [("b", "sun.kernels")]
    assert entry_points("console_scripts") == [("sun", "sun:main")]
    assert entry_points("absent") == []


@pytest.mark.parametrize("name", ["numpy", "pytest", "llvmlite"])
def test_the_same_as_the_standard_library(name: str):
    try:
        expected = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        expected = None
    assert installed_version(name) == expected


def test_entry_points_are_the_same_as_the_standard_librarys():
    expected = {(point.name, point.value) for point in importlib.metadata.entry_points(group="console_scripts")}
    assert set(entry_points("console_scripts")) == expected


def test_the_standard_library_is_not_imported():
    source = Path(distributions.__file__)
    code = f"import sys, runpy; runpy.run_path({str(source)!r}); print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
