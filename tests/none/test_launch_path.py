"""The short path of a launch: launchers that are kept, arguments that go as they are, addresses of arrays."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from sterna.errors import LaunchError, SignatureError
from sterna.runtime.config import launch_key
from sterna.runtime.signature import adapt_argument, are_plain, argument_key

RECORD = np.dtype([("a", np.int32), ("b", np.float32, (2,))])
BASE = np.arange(100.0).reshape(10, 10)
READ_ONLY = BASE[2:4].copy()
READ_ONLY.flags.writeable = False


@sterna.kernel
def idle():
    pass


def test_a_launch_written_the_same_is_the_same_launcher():
    assert idle[2, 4] is idle[2, 4]
    assert idle[(1, 2), 4] is idle[(1, 2), 4]
    assert idle.over(5) is idle.over(5)
    assert idle[2, 4] is not idle[4, 2]
    assert idle[2, 4] is not idle.over((2, 4))
    assert idle.over((5,)) is not idle.over((5, 1))


def test_what_equals_an_int_is_still_refused():
    idle[1, 4]()
    idle.over((1, 4))()
    for blocks, threads in ((True, 4), (1.0, 4), ((1, True), 4)):
        with pytest.raises(LaunchError):
            idle[blocks, threads]()
    with pytest.raises(LaunchError):
        idle.over((1.0, 4))
    assert launch_key(True) is None
    assert launch_key(1, (2, 1.0)) is None
    assert launch_key(1, (2, 3)) == (1, (2, 3))


def test_which_arguments_go_as_they_are():
    assert are_plain((BASE, 1, 2.0, 1j, True, None, np.float32(1), np.bool_(True), np.int64(3), np.complex64(1)))
    for other in (np.zeros(2, RECORD)[0], "text", (1, 2), object(), np.ma.masked_array([1.0]), sterna.zeros(2)):
        assert not are_plain((BASE, other))
    array = sterna.zeros(2)
    assert adapt_argument(array) is array
    assert argument_key(array) == argument_key(np.zeros(2))


@pytest.mark.parametrize(
    "array",
    [BASE, BASE[::2], BASE.T, BASE[3:, 4:], BASE[::-1], np.ones((0, 3)), np.array(3.0), np.zeros(4, RECORD)[1:],
     np.zeros(4, RECORD)["b"], np.zeros(3, bool)[1:], np.zeros(3, np.float16), np.zeros(3, np.complex64), READ_ONLY],
    ids=lambda array: f"{array.dtype}-{array.shape}-{array.strides}",
)  # fmt: skip
def test_addresses(array):
    from sterna.runtime.signature import ArgumentPacker, type_of

    packed = ArgumentPacker("k", ("x",), (type_of(array),)).pack((array,))
    assert int.from_bytes(packed[:8], "little") == array.__array_interface__["data"][0]


@sterna.kernel
def given(x, value):
    x[0] = 1 if value is None else 2


@pytest.mark.parametrize(
    "value", [np.longdouble(1), np.datetime64("2020"), np.str_("a")], ids=lambda value: str(value.dtype)
)
def test_a_scalar_that_no_kernel_takes_is_named(value):
    with pytest.raises(SignatureError, match=r"kernel given: argument value: NumPy scalars of dtype .* allowed are"):
        given[1, 1](np.zeros(1), value)


def test_the_history_of_a_kernel_is_bounded():
    assert given._dispatcher.events.maxlen
