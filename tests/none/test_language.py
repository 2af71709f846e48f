"""The language's names: one list, complete everywhere, and honest on the host."""

from __future__ import annotations

import inspect
from importlib import import_module

import numpy as np
import pytest

import sterna
from sterna import language
from sterna.errors import DeviceOnlyError
from sterna.interpreter.operations import DeviceThread
from sterna.language.names import INTRINSICS, OPERATIONS, VECTORS
from sterna.overlays import DEVICE, method_table


def test_every_public_name_is_in_the_list_once():
    marked = {
        found.operation
        for name in language.__all__
        for found in [method_table(DEVICE).find(getattr(language, name))]
        if found is not None and found.subject is not sterna.bfloat16
    }
    spaces = {
        f"{space}.{name}"
        for space in ("shared", "local", "atomic", "state")
        for name in import_module(f"sterna.language.{space}").__all__
    }
    assert marked | spaces == set(INTRINSICS)


def test_sterna_exports_the_language():
    for name in language.__all__:
        assert getattr(sterna, name) is getattr(language, name)


def test_the_interpreter_implements_every_operation():
    thread = DeviceThread(None, (0, 0, 0), None, None)
    assert set(thread) == set(OPERATIONS)


@pytest.mark.parametrize("name", INTRINSICS)
def test_every_intrinsic_raises_on_the_host(name):
    item = INTRINSICS[name]
    with pytest.raises(DeviceOnlyError, match="runs on the device only"):
        if name in VECTORS:
            _ = item.x
        elif callable(item):
            item(*[0] * sum(p.default is p.empty for p in inspect.signature(item).parameters.values()))
        else:
            int(item)


@pytest.mark.parametrize("name", INTRINSICS)
def test_every_intrinsic_is_documented(name):
    assert INTRINSICS[name].__doc__


def test_scalar_types_are_numpys():
    assert sterna.float32 is np.float32
    assert sterna.bool_ is np.bool_
    assert repr(sterna.bfloat16) == "sterna.bfloat16"


def test_the_message_names_what_was_called():
    with pytest.raises(DeviceOnlyError, match=r"^grid\(\) runs on the device only"):
        sterna.grid(1)
    with pytest.raises(DeviceOnlyError, match=r"^threadIdx\.x runs"):
        _ = sterna.threadIdx.x
    with pytest.raises(DeviceOnlyError, match=r"^atomic\.add\(\) runs"):
        sterna.atomic.add(np.zeros(1), 0, 1)
