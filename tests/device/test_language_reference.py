"""Every example of docs/language.md runs, on every device and in the interpreter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sterna
from helpers.launching import Place
from helpers.modules import write_module

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "language.md"
HEAD = "import math\nimport numpy as np\nimport sterna\n"
EXAMPLES = re.findall(r"^## ([^\n]+)$|^```python\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def titled() -> list[pytest.param]:
    title, found = "", []
    for heading, code in EXAMPLES:
        title = heading or title
        if code:
            marks = [pytest.mark.recursion] if title == "Functions" else []
            found.append(pytest.param(code, id=title.lower().replace(" ", "-").replace(",", ""), marks=marks))
    return found


def _interpreted(function=None, **options):
    """Stands in for `sterna.kernel`; options change nothing in the interpreter."""
    return sterna.interpret if function is None else sterna.interpret(function)


@pytest.mark.parametrize("code", titled())
def test_example(place: Place, tmp_path, monkeypatch, code):
    if place.is_interpreter and ".specialize(" in code:
        return  # what was compiled; nothing is launched
    if place.is_interpreter:
        monkeypatch.setattr(sterna, "kernel", _interpreted)
        write_module(tmp_path, HEAD + code)
        return
    if place.is_metal and "llvm" in code:
        pytest.skip("Metal's code is not made by LLVM")
    with sterna.on(place.name):
        write_module(tmp_path, HEAD + code)
