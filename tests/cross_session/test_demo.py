"""The demo end to end: real processes, a small picture, everything it claims checked again from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sterna

PACKAGE = str(Path(sterna.__file__).parents[1])  # where this sterna is, installed or not
pillow = pytest.importorskip("PIL.Image")
pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def photograph(tmp_path_factory):
    """A picture of 150 by 91 pixels: no multiple of any tile."""
    rng = np.random.default_rng(7)
    rows, columns = np.mgrid[0:91, 0:150]
    waves = np.stack([rows * 2, columns, rows + columns], axis=-1) % 256
    pixels = np.clip(waves * 0.5 + rng.integers(0, 60, waves.shape), 0, 255).astype(np.uint8)
    path = tmp_path_factory.mktemp("picture") / "photograph.png"
    pillow.fromarray(pixels).save(path)
    return path


def run_demo(tmp_path, *args):
    environment = {**os.environ, "PYTHONPATH": PACKAGE, "NO_COLOR": "1", "COLUMNS": "160"}
    return subprocess.run(
        [sys.executable, "-m", "sterna.cli", "demo", *map(str, args)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("film", [(), ("--monochrome",)], ids=["colour", "monochrome"])
def test_demo(tmp_path, photograph, film):
    done = run_demo(tmp_path, photograph, "--output", tmp_path / "out", *film)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    first, fresh = report["first"], report["fresh"]
    assert first["stats"]["compiles"] == 5 and fresh["stats"]["compiles"] == 0
    assert sum(fresh["stats"]["hits_by_store"].values()) >= 5
    assert not fresh["compiler_imported"]
    assert first["difference"] == {"level": 0, "count": 0}
    assert first["records"] == fresh["records"]
    assert fresh["addresses"] and all(fresh["addresses"][name] != word for name, word in first["addresses"].items())
    assert first["exposures"][0] != first["exposures"][1]
    picture = np.asarray(pillow.open(tmp_path / "out" / "picture.png"))
    assert picture.shape == (91, 150, 3)
    if film:
        # sharpening and grain are the same for all channels of monochrome film
        assert (picture[..., 0] == picture[..., 1]).all() and (picture[..., 1] == picture[..., 2]).all()
    assert pillow.open(tmp_path / "out" / "histogram.png").size[0] > 300
    assert all(name in done.stdout for name in ("expose", "blur_rows", "blur_columns", "print_picture", "histogram"))
    assert not (tmp_path / "sterna-demo").exists()


def test_demo_of_a_file_that_is_no_picture(tmp_path):
    (tmp_path / "words.txt").write_text("no picture")
    done = run_demo(tmp_path, tmp_path / "words.txt")
    assert done.returncode == 1
    assert "cannot read the picture" in done.stderr and "Traceback" not in done.stderr


def test_demo_of_a_missing_file(tmp_path):
    done = run_demo(tmp_path, tmp_path / "missing.png")
    assert done.returncode == 1
    assert "cannot read the picture" in done.stderr
