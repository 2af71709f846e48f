"""float32 functions that the CPU computes itself: nearly always correctly rounded, in vectors, with no library call."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("llvmlite")
import sterna
from sterna.targets.cpu.target import ARCHITECTURES

CODE = """
import math
import numpy as np
import sterna

@sterna.kernel
def k(x, out):
    i = sterna.grid(1)
    out[i] = {call}(x[i])
"""
FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10,
    "erf": np.vectorize(math.erf, otypes=[float]),
}  # fmt: skip


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, sterna.Kernel]:
    import importlib.util

    folder, found = tmp_path_factory.mktemp("mathematics"), {}
    for name in FUNCTIONS:
        path = folder / f"of_{name}.py"
        path.write_text(CODE.format(call=f"math.{name}"))
        spec = importlib.util.spec_from_file_location(f"of_{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found[name] = module.k
    return found


def apart(kernel: sterna.Kernel, function: np.ufunc, x: np.ndarray) -> np.ndarray:
    """Distance of the kernel's results from the exact ones, in units in the last place; specials must be equal."""
    out = np.empty_like(x)
    kernel.over(x.size)(x, out)
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.float64))
        rounded = exact.astype(np.float32)
    ordinary = np.isfinite(rounded) & (rounded != 0)
    np.testing.assert_array_equal(out[~ordinary], rounded[~ordinary])
    assert np.isfinite(out[ordinary]).all()
    np.testing.assert_array_equal(np.signbit(out[~np.isnan(out)]), np.signbit(rounded[~np.isnan(out)]))
    unit = np.spacing(np.abs(rounded[ordinary])).astype(np.float64)
    return np.abs(out[ordinary].astype(np.float64) - exact[ordinary]) / unit


@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_kinds_of_numbers(kernels, name):
    step = 40009 if name == "erf" else 4001
    x = np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
    edges = np.array([0, -0.0, 1, -1, 2, 8, 1000, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 88.72284, -103.97, -104, 128,
                      -149, -150, -151, 4, 3.9192059, 3.999999, 1 - 2**-24, 1 + 2**-23], np.float32)  # fmt: skip
    x = np.concatenate([x, edges, np.nextafter(edges, np.float32(0)), np.nextafter(edges, np.float32(np.inf))])
    assert apart(kernels[name], FUNCTIONS[name], x).max() <= 0.52


@pytest.mark.parametrize("name", FUNCTIONS)
def test_around_one_and_zero(kernels, name):
    close = np.linspace(-4, 4, 8001).astype(np.float32)
    x = np.concatenate([close, 1 + close * 2**-20, close * 2**-60])
    assert apart(kernels[name], FUNCTIONS[name], x).max() <= 0.52


@given(st.lists(st.floats(width=32), min_size=1, max_size=40), st.sampled_from(sorted(FUNCTIONS)))
def test_any_numbers(kernels, values, name):
    found = apart(kernels[name], FUNCTIONS[name], np.array(values, np.float32))
    assert found.size == 0 or found.max() <= 0.52


def test_exact_results_are_exact(kernels):
    whole = np.arange(-149, 128, dtype=np.float32)
    out, back = np.empty_like(whole), np.empty_like(whole)
    kernels["exp2"].over(whole.size)(whole, out)
    assert out.tolist() == [math.ldexp(1.0, int(n)) for n in whole]
    kernels["log2"].over(whole.size)(out, back)
    assert back.tolist() == whole.tolist()
    tens = np.array([10.0**n for n in range(11)], np.float32)
    kernels["log10"].over(tens.size)(tens, back)
    assert back[:11].tolist() == list(range(11))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_half_precision_is_computed_with_them(kernels, dtype):
    x = np.linspace(0.1, 5, 100).astype(dtype)
    out = np.empty_like(x)
    kernels["log"].over(x.size)(x, out)
    np.testing.assert_array_max_ulp(out, np.log(x.astype(np.float64)).astype(dtype), 1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_loops_are_vectorised(kernels, name):
    given_types = "float32[:]", "float32[:]"
    for arch in ARCHITECTURES:
        built = kernels[name].build(*given_types, target=f"cpu-{arch}", over=1)
        assembly = built.text("asm")
        assert not re.search(rf"\b(call\w*|bl)\s+{name}f?\b", assembly), f"{name} calls the library on {arch}"
        wide = {"aarch64": r"\bf(mla|add|mul)\s+v\d+\.2d", "x86-64": r"\bmulpd\b", "x86-64-v2": r"\bmulpd\b"}
        assert re.search(wide.get(arch, r"\bvf?n?madd\w*pd\b|\bvmulpd\b"), assembly), (
            f"{name} is not vectorised on {arch}"
        )


def test_float64_is_left_to_the_library(kernels):
    text = kernels["erf"].build("float64[:]", "float64[:]", target="cpu-x86-64-v3", over=1).text("asm")
    assert re.search(r"\berf\b", text)
