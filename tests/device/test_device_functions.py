"""Class bodies of device functions, and overload sets: which definition a call means, everywhere the same."""

from __future__ import annotations

import contextlib
import math
import pickle
import sys

import numpy as np
import pytest

import sterna
from helpers.launching import Place
from sterna.errors import CompileError, DeviceOnlyError, OverlayError
from sterna.overlays import overlays_of

STEP = 3.0


@sterna.device_functions
class shapes:
    """Areas and more."""

    PI = 3.0

    def area(r: float):
        """Of a circle."""
        return shapes.PI * r * r

    def area(w: float, h: float, *, times=STEP):  # noqa: F811
        """Of a rectangle."""
        return w * h * times

    def area(n: np.int32):  # noqa: F811
        return n + 1000

    if sys.platform == "nowhere":

        def side(x):
            return x - 1

    else:

        def side(x, y=STEP):
            return x + y

    with contextlib.suppress(KeyError):

        def guarded(x):
            return x * 2

    try:

        @staticmethod
        def tried(x):
            return x * 4
    finally:
        pass
    again = tried
    plus = lambda x: x + STEP  # noqa: E731
    sin = math.sin


@sterna.kernel
def uses(out):
    out[0] = shapes.area(2.0)
    out[1] = shapes.area(2.0, 5.0)
    out[2] = shapes.area(np.int32(1))
    out[3] = shapes.side(1)
    out[4] = shapes.guarded(4) + shapes.tried(1) + shapes.again(2)
    out[5] = shapes.plus(1)
    out[6] = shapes.sin(0.0)
    out[7] = shapes.area(h=1.0, w=2.0, times=5.0)


def test_a_class_body(place: Place):
    out = np.zeros(8)
    place.launch(uses, 1, 1, out)
    assert out.tolist() == [12.0, 30.0, 1001.0, 4.0, 20.0, 4.0, 0.0, 10.0]


def test_what_the_class_keeps():
    assert (shapes.__doc__, shapes.PI, shapes.sin) == ("Areas and more.", 3.0, math.sin)
    assert shapes.again is shapes.tried
    assert pickle.loads(pickle.dumps(shapes.side)) is shapes.side
    (entry,) = overlays_of(shapes.area)
    assert [f.__doc__ for f in entry.definitions] == ["Of a circle.", "Of a rectangle.", None]
    with pytest.raises(DeviceOnlyError, match=r"^area\(\) runs on the device only"):
        shapes.area(1.0)


def local(scale):
    @sterna.device_functions(target="cpu")
    class inner:
        def f(x: float):
            return inner.g(x) * scale

        def f(x: int):  # noqa: F811
            return x * scale

        def g(x):
            return x + 1

    return inner


def test_variables_around_a_class():
    inner = local(10)

    @sterna.kernel
    def k(out):
        out[0] = inner.f(1.5)
        out[1] = inner.f(2)

    out = np.zeros(2)
    k[1, 1](out)
    sterna.synchronize()
    assert out.tolist() == [25.0, 20.0]
    assert [entry.table for entry in overlays_of(inner.f)] == ["cpu"]


@sterna.device_function
def kind(x: float):
    return 1


@kind.overload
def kind(x: int):
    return 2


@kind.overload
def kind(x: np.float32):
    return 3


@kind.overload
def kind(x):
    return 4


@sterna.kernel
def kinds(out, x):
    out[0] = kind(1.5)
    out[1] = kind(7)
    out[2] = kind(np.float32(1))
    out[3] = kind(x)
    out[4] = kind(True)
    out[5] = kind(1j)
    out[6] = kind(np.int16(4))


def test_the_nearest_member_is_meant(place: Place):
    out = np.zeros(7, np.int64)
    place.launch(kinds, 1, 1, out, np.ones(2))
    # a Python bool is an int where nothing is nearer; an unannotated parameter takes what is left
    assert out.tolist() == [1, 2, 3, 4, 2, 4, 4]


def test_no_member_fits(place: Place):
    @sterna.kernel
    def k(out):
        out[0] = shapes.area(1j)

    with pytest.raises(CompileError, match=r"shapes\.area has no definition for \(") as caught:
        place.launch(k, 1, 1, np.zeros(1))
    assert "area(r: " in str(caught.value)
    assert "area(n: " in str(caught.value)


def test_two_members_fit(place: Place):
    @sterna.device_function
    def f(x: float, y=1):
        return x

    @f.overload
    def f(x: float, z=2.0):
        return x

    @sterna.kernel
    def k(out):
        out[0] = f(1.0)

    with pytest.raises(CompileError, match="f has several definitions that fit"):
        place.launch(k, 1, 1, np.zeros(1))


def test_members_that_cannot_be_told_apart():
    with pytest.raises(OverlayError, match=r"twice\.f is defined twice with the same signature, at .* and .*:\d+"):

        @sterna.device_functions
        class twice:
            def f(x):
                return x

            def f(x):  # noqa: F811
                return x + 1


def test_what_a_class_body_cannot_hold():
    with pytest.raises(OverlayError, match=r"odd\.f is a classmethod; a device function has no object or class"):

        @sterna.device_functions
        class odd:
            @classmethod
            def f(cls):
                return 1

    with pytest.raises(OverlayError, match="a member of an overload set cannot have decorators"):

        @sterna.device_functions
        class decorated:
            @contextlib.contextmanager
            def f(x: int):
                return x

            def f(x: float):  # noqa: F811
                return x

    with pytest.raises(OverlayError, match="goes over a class body, given function"):
        sterna.device_functions(test_what_the_class_keeps)
