"""No function of `math`, `cmath`, NumPy's scalars or the built-ins is forgotten: known to device code, or listed."""

from __future__ import annotations

import builtins
import cmath
import math

import numpy as np
import pytest

from sterna.compiler.frontend.rules import find_rule
from sterna.compiler.frontend.rules.dtypes import scalar_type_of

# Not NumPy's, or of whole collections; a new Python's function fails here first.
NOT_KNOWN = {
    math: {"comb", "dist", "factorial", "fsum", "isclose", "isqrt", "perm", "sumprod"},
    cmath: {"isclose"},
    np: {"isnat", "matmul", "matvec", "vecdot", "vecmat"},
}
# Of the built-ins: what makes or asks for Python objects.
OBJECTS = {
    "aiter", "anext", "ascii", "bin", "breakpoint", "bytearray", "chr", "classmethod", "compile", "copyright",
    "credits", "delattr", "dir", "exit", "format", "globals", "help", "hex", "issubclass", "license", "locals",
    "memoryview", "oct", "ord", "property", "quit", "setattr", "staticmethod",
}  # fmt: skip


@pytest.mark.parametrize("module", NOT_KNOWN, ids=lambda module: module.__name__)
def test_mathematics(module) -> None:
    names = [name for name in dir(module) if not name.startswith("_") and callable(getattr(module, name))]
    if module is np:
        names = [name for name in names if isinstance(getattr(np, name), np.ufunc)]
    unknown = {name for name in names if find_rule(getattr(module, name)) is None}
    assert unknown <= NOT_KNOWN[module]
    assert len(names) > len(NOT_KNOWN[module])


def test_dtype_constructors() -> None:
    for name in ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
                 "float32", "float64", "complex64", "complex128", "intp", "uintp"):  # fmt: skip
        assert find_rule(getattr(np, name)) is not None
        assert scalar_type_of(getattr(np, name)) is not None


def test_builtins() -> None:
    named = {name for name in dir(builtins) if name[0].islower() and callable(getattr(builtins, name))}
    assert {name for name in named if find_rule(getattr(builtins, name)) is None} <= OBJECTS
