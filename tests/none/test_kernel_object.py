"""A kernel as a Python object: copied and pickled as functions are; what it does not have is named."""

from __future__ import annotations

import copy
import pickle

import pytest

import sterna
from sterna.errors import UnsupportedError


@sterna.kernel
def at_top_level(x):
    x[0] = 1


class Holder:
    @staticmethod
    @sterna.kernel
    def in_a_class(x):
        x[0] = 2


def test_copies_are_the_kernel_itself() -> None:
    assert copy.copy(at_top_level) is at_top_level
    assert copy.deepcopy({"k": [at_top_level]})["k"][0] is at_top_level


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_by_name(protocol: int) -> None:
    assert pickle.loads(pickle.dumps(at_top_level, protocol)) is at_top_level


def test_a_kernel_in_a_class_is_pickled_by_its_qualified_name() -> None:
    assert pickle.loads(pickle.dumps(Holder.in_a_class)) is Holder.in_a_class


def test_a_kernel_without_a_name_of_its_own_is_refused_by_pickle() -> None:
    @sterna.kernel
    def local(x):
        x[0] = 3

    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(local)


@sterna.kernel
def looked_at(x):
    x[0] = 1


def test_a_text_that_the_target_does_not_have():
    compiled = looked_at.specialize("float32[:]", device="cpu")
    for name in ("ptx", "sass", "msl"):
        with pytest.raises(UnsupportedError, match=rf"kernel looked_at: .* has no '{name}'; it has 'asm', 'llvm'"):
            getattr(compiled, name)


@pytest.mark.parametrize("name, who", [("stream", "CUDA, OpenCL and Metal"), ("event", "Metal"), ("capture", "CUDA")])
def test_what_the_cpu_does_not_have_names_the_devices_that_do(name, who):
    with pytest.raises(UnsupportedError, match=rf"device cpu has no \w+; .*{who}.* have \(sterna.devices\(\)"):
        getattr(sterna, name)("cpu")
