"""Launch configurations: what is possible, and the words about what is not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sterna.errors import LaunchError
from sterna.runtime.config import LaunchConfig, make_config, over_shape
from sterna.targets.base import Limits

LIMITS = Limits()


def test_axes_left_out_are_one() -> None:
    assert make_config(LIMITS, 3, (32, 4)) == LaunchConfig((3, 1, 1), (32, 4, 1))
    assert make_config(LIMITS, [1, 2, 3], np.int32(7), np.int64(16)) == LaunchConfig((1, 2, 3), (7, 1, 1), (), 16)


def test_over_runs_its_last_axis_along_x() -> None:
    config = LaunchConfig((1, 1, 1), (1, 1, 1), (5, 6, 7))
    assert config.extents == (7, 6, 5)
    assert LaunchConfig((1, 1, 1), (1, 1, 1), (5, 6)).extents == (6, 5, 1)
    assert not config.is_empty
    assert LaunchConfig((0, 0, 0), (1, 1, 1), (5, 0)).is_empty
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.blocks = (2, 2, 2)  # type: ignore[misc]


def test_shapes_of_over() -> None:
    assert over_shape(5) == (5,)
    assert over_shape([0]) == (0,)
    assert over_shape((np.int64(3), 4)) == (3, 4)


@pytest.mark.parametrize(
    ("blocks", "threads", "shared", "words"),
    [
        (0, 32, 0, ["blocks = 0", "axis x is 0", "1 to 2147483647"]),
        ((1, 70000), 32, 0, ["blocks", "axis y is 70000", "1 to 65535"]),
        (1, 0, 0, ["threads = 0", "1 to 1024"]),
        (1, -4, 0, ["axis x is -4"]),
        (1, 1025, 0, ["1025", "1 to 1024"]),
        (1, (64, 32), 0, ["2048 threads", "at most 1024"]),
        (1, (1, 1, 65), 0, ["axis z is 65", "1 to 64"]),
        ((1, 1, 1, 1), 1, 0, ["4 axes", "1, 2 or 3"]),
        ((), 1, 0, ["0 axes"]),
        (1.0, 1, 0, ["blocks = 1.0 (float)", "an int"]),
        (True, 1, 0, ["bool"]),
        (1, "32", 0, ["threads = '32' (str)"]),
        (1, (32, None), 0, ["NoneType"]),
        (1, 1, 49153, ["shared_bytes = 49153", "49152"]),
        (1, 1, -1, ["shared_bytes = -1"]),
        (1, 1, 1.5, ["shared_bytes = 1.5 (float)"]),
    ],
)
def test_impossible_configurations_say_what_is_allowed(blocks, threads, shared, words) -> None:
    with pytest.raises(LaunchError) as caught:
        make_config(LIMITS, blocks, threads, shared, "blur")
    assert str(caught.value).startswith("kernel blur: ")
    for word in words:
        assert word in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("shape", [-1, (3, -2), (1, 2, 3, 4), (), 1.5, "x", None, True, 2**63])
def test_impossible_shapes_of_over(shape) -> None:
    with pytest.raises(LaunchError, match="over shape"):
        over_shape(shape, "blur")
