"""Every function of `sterna.random`, with the types it gives, compiles for every target; nothing stays undefined."""

from __future__ import annotations

from types import ModuleType

import pytest

import sterna
from helpers.modules import write_module
from sterna.errors import CompileError
from sterna.targets.cpu.elf import read_object
from sterna.targets.cpu.loader import load_object
from sterna.targets.registry import TARGETS
from sterna.targets.registry import target as find_target

CALLS = {  # function → the calls of it, each with what it gives
    "uniform": {f"uniform(sterna.{t})": t for t in ("float16", "float32", "float64")},
    "normal": {f"normal(sterna.{t})": t for t in ("float16", "float32", "float64")},
    "bits": {f"bits(sterna.{t})": t for t in ("uint32", "uint64")},
    "integers": {f"integers(0, n, sterna.{t})": t for t in ("int64", "int32", "int8", "uint64", "uint16")},
    "philox4x32": {"philox4x32(1, 2, 3, 4, 5, n)[3]": "uint32"},
}
CASES = [(call, t) for calls in CALLS.values() for call, t in calls.items()]
SOURCE = "import sterna\n" + "".join(
    f"@sterna.kernel\ndef k{number}(out: '{t}[:]', n: 'int'):\n    out[sterna.grid(1)] = sterna.random.{call}\n"
    for number, (call, t) in enumerate(CASES)
)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return write_module(tmp_path_factory.mktemp("random"), SOURCE)


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda":
        pytest.importorskip("cuda.bindings.nvjitlink")
        return "cuda-sm_90"
    return str(find_target(request.param))


def test_all_public_functions_are_here() -> None:
    assert set(CALLS) == set(sterna.random.__all__)


@pytest.mark.parametrize(("number", "call"), [*enumerate(call for call, _ in CASES)])
def test_it_compiles(kernels: ModuleType, target: str, number: int, call: str) -> None:
    t = CASES[number][1]
    kernel = getattr(kernels, f"k{number}")
    if t in find_target(target).unsupported_types:
        with pytest.raises(CompileError, match=t):
            kernel.build(f"{t}[:]", "int", target=target, over=1)
        return
    image = kernel.build(f"{t}[:]", "int", target=target, over=1).image
    assert image.payloads and ("seed" in image.facts["state"]) == (call[:6] != "philox")
    if "object" in image.payloads:
        data = image.payloads["object"]
        parsed = read_object(data)
        undefined = {parsed.name_of(s) for s in parsed.symbols[1:] if not s[3]}  # section 0: not here
        assert undefined <= {"sqrt", "sqrtf", "memset", "memcpy"}
        load_object(data).unload()
    if "ptx" in image.payloads:
        assert b".extern .func" not in image.payloads["ptx"]
