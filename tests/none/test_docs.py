"""The code in README and docs runs: the Python blocks of a document, in order, as one program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sterna
from helpers.launching import OPENCL
from helpers.metal.marks import SIMULATED

PACKAGE = str(Path(sterna.__file__).parents[1])  # where this sterna is, installed or not
ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ELSEWHERE = {"language.md"}  # has its own test, example by example
ON_SIMULATOR = {"metal.md": "from helpers.metal.api import install\n\ninstall()\n"}  # there is no such device here
MARKS = {"metal.md": [SIMULATED], "opencl.md": OPENCL}
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(path: Path) -> list[str]:
    return BLOCK.findall(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, id=p.name, marks=MARKS.get(p.name, ()))
        for p in DOCUMENTS
        if p.name not in ELSEWHERE and blocks_of(p)
    ],
)
def test_examples_run(path, tmp_path):
    program = tmp_path / "example.py"
    program.write_text("\n".join([ON_SIMULATOR.get(path.name, ""), *blocks_of(path)]), encoding="utf-8")
    search = os.pathsep.join([PACKAGE, *([str(ROOT / "tests")] if path.name in ON_SIMULATOR else [])])
    environment = {**os.environ, "PYTHONPATH": search, "STERNA_CACHE_DIR": str(tmp_path / "store")}
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    if path.name == "README.md":
        lines = done.stdout.splitlines()
        # 0.5 · 255 truncates to 127: (127 / 255)² · 2 in single precision
        assert float(lines[0]) == pytest.approx(2 * (127 / 255) ** 2, rel=1e-6)
        assert "index 1000 is out of bounds for axis 0 with size 1000" in done.stdout


def test_readme_has_the_two_lines():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("python3 -m venv ")]
    assert len(lines) == 2
    assert lines[0] == 'python3 -m venv .venv && .venv/bin/pip install ".[demo]" && .venv/bin/sterna demo'
    assert lines[1] == 'python3 -m venv .venv && .venv/bin/pip install ".[test]" && .venv/bin/pytest'


def test_links_of_documents_lead_somewhere():
    for path in DOCUMENTS:
        prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", prose):
            assert (path.parent / link).exists(), f"{path.name} links to {link}"
