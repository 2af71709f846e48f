"""Every test here runs on every device of the machine, on a simulated Metal device, and in the interpreter.

A kernel that Metal refuses for what it does not have (float64, above all) skips its test there, by the name of that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from helpers.launching import Place, places, ready, what_metal_lacks
from helpers.modules import write_module
from sterna.errors import CompileError, UnsupportedError


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Skip what Metal refuses, also where a test expected another refusal."""
    try:
        return (yield)
    except (CompileError, AssertionError) as error:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        on_metal = any(isinstance(p, Place) and p.is_metal for p in parameters.values())
        refused: BaseException | None = error
        while on_metal and refused is not None:
            reason = what_metal_lacks(refused) if isinstance(refused, CompileError) else ""
            if reason:
                pytest.skip(reason)
            refused = refused.__context__
        raise


@pytest.fixture(autouse=True, scope="session")
def _own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Images of these tests go to a folder of their own."""
    folder = tmp_path_factory.mktemp("store")
    patch = pytest.MonkeyPatch()
    patch.setenv("STERNA_CACHE_DIR", str(folder))
    yield folder
    patch.undo()


@pytest.fixture(params=places())
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Where the test's kernels run."""
    _expect_refusals(request)
    with ready(request.param) as found:
        yield found


@pytest.fixture(params=places(interpreter=False))
def device(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A device, to be compared with the interpreter."""
    _expect_refusals(request)
    with ready(request.param) as found:
        yield found


def _expect_refusals(request: pytest.FixtureRequest) -> None:
    """A test of recursion must be refused, in words, on OpenCL, which has none."""
    if request.node.get_closest_marker("recursion") is not None and not request.param.recurses:
        reason = f"{request.param.name} has no recursion"
        request.node.add_marker(pytest.mark.xfail(raises=UnsupportedError, strict=True, reason=reason))


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
