"""Every test here runs on every device of the machine, and in the interpreter."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from helpers.launching import Place, places
from helpers.modules import write_module


@pytest.fixture(autouse=True, scope="session")
def _own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Images of these tests go to a folder of their own."""
    folder = tmp_path_factory.mktemp("store")
    patch = pytest.MonkeyPatch()
    patch.setenv("STERNA_CACHE_DIR", str(folder))
    yield folder
    patch.undo()


@pytest.fixture(params=places())
def place(request: pytest.FixtureRequest) -> Place:
    """Where the test's kernels run."""
    return request.param


@pytest.fixture(params=places(interpreter=False))
def device(request: pytest.FixtureRequest) -> Place:
    """A device, to be compared with the interpreter."""
    return request.param


@pytest.fixture
def make_module(tmp_path: Path) -> Iterator[Callable[[str], ModuleType]]:
    """Turns source text into an imported module with a file of its own."""
    made: list[str] = []

    def make(source: str) -> ModuleType:
        module = write_module(tmp_path, source)
        made.append(module.__name__)
        return module

    yield make
    for name in made:
        sys.modules.pop(name, None)
