"""Device functions and overrides: what device code calls, and what the host goes on calling."""

from __future__ import annotations

import functools
import math
import types

import numpy as np
import pytest

import sterna
from helpers.launching import Place
from sterna.errors import CompileError, DeviceOnlyError, UnsupportedError
from sterna.overlays import remove
from sterna.targets.registry import TARGETS

LUT = np.array([10.0, 20.0, 30.0])
TOOLS = types.ModuleType("tools")


@sterna.device_function
def entry(i):
    """The table's entry."""
    return LUT[i]


@sterna.device_function
def power(x, n):
    if n == 0:
        return 1.0
    return x * power(x, n - 1)


@sterna.device_function
def squared(x):
    return x * x


def scale(x):
    return 2 * x


TOOLS.scale = scale
also_scale = scale


@sterna.device_override(scale)
def scale_on_devices(x):
    return scale(x) + 100


@sterna.kernel
def calls(out):
    out[0] = entry(1)
    out[1] = squared(3.0)
    out[2] = scale(1.0)
    out[3] = TOOLS.scale(2.0) + also_scale(3.0)


def test_device_functions_and_overrides(place: Place):
    out = np.zeros(4)
    place.launch(calls, 1, 1, out)
    # by any name of the function; inside the override it is the host's own
    assert out.tolist() == [20.0, 9.0, 102.0, 104.0 + 106.0]
    assert scale(1.0) == 2.0


@sterna.kernel
def recursive(out):
    out[0] = power(3.0, 4)


def test_a_device_function_that_calls_itself(place: Place):
    out = np.zeros(1)
    try:
        place.launch(recursive, 1, 1, out)
    except UnsupportedError as error:  # some targets have no recursion at all
        assert "a recursive function on" in str(error)
    else:
        assert out[0] == 81.0


def test_a_device_function_on_the_host():
    with pytest.raises(DeviceOnlyError, match=r"^entry\(\) runs on the device only; call it from a kernel"):
        entry(1)
    assert entry.__doc__ == "The table's entry."
    assert str(__import__("inspect").signature(entry)) == "(i)"
    with pytest.raises(DeviceOnlyError, match=r"power\(\)"):
        power(2.0, n=3)


@pytest.fixture
def overridden_for_a_while():
    """Overrides of functions that other tests of this process use too."""

    @sterna.device_override(math.sinh)
    def sinh_of_devices(x):
        return math.sinh(x) + 1000

    @sterna.device_override(divmod)
    def divmod_of_devices(a, b):
        return a + b, 7

    @sterna.device_override(np.cbrt)
    def cbrt_of_devices(x):
        return np.cbrt(x) + 500

    yield
    for function in (math.sinh, divmod, np.cbrt):
        remove(function)


@sterna.kernel
def overridden_functions_of_others(out):
    out[0] = math.sinh(0.0)
    out[1], out[2] = divmod(1, 2)
    out[3] = np.cbrt(8.0)


def test_functions_of_python_and_numpy(place: Place, overridden_for_a_while):
    out = np.zeros(4)
    place.launch(overridden_functions_of_others, 1, 1, out)
    assert out.tolist() == [1000.0, 3.0, 7.0, pytest.approx(502.0)]
    assert (math.sinh(0.0), divmod(7, 2), np.cbrt(8.0)) == (0.0, (3, 1), pytest.approx(2.0))


def test_an_operator_passed_as_a_value(place: Place, make_module):
    module = make_module(
        "import math, sterna\n"
        "def apply(f, x):\n    return f(x)\n"
        "@sterna.device_override(math.cosh)\ndef cosh(x):\n    return 5.0\n"
        "@sterna.kernel\ndef k(out):\n    out[0] = apply(math.cosh, 1.0)\n    pair = (math.cosh, math.exp)\n"
        "    out[1] = pair[0](1.0) + pair[1](0.0)\n"
    )
    out = np.zeros(2)
    try:
        place.launch(module.k, 1, 1, out)
    finally:
        remove(math.cosh)
    assert out.tolist() == [5.0, 6.0]


@sterna.kernel
def writes_one(out):
    out[0] = 1.0


@sterna.device_override(writes_one)
def writes_two(out):
    out[0] = 2.0


@functools.lru_cache
def remembered(x):
    return x


@sterna.device_override(remembered)
def not_remembered(x):
    return x + 5


class Adder:
    """An object that can be called: opaque to kernels otherwise."""

    def __call__(self, x):
        return x


adder = Adder()


@sterna.device_override(adder)
def added(x):
    return x + 6


@sterna.kernel
def calls_objects(out):
    writes_one(out)
    out[1] = remembered(1.0)
    out[2] = adder(1.0)
    function = remembered
    out[3] = function(2.0)


def test_kernels_wrappers_and_objects_that_can_be_called(place: Place):
    out = np.zeros(4)
    place.launch(calls_objects, 1, 1, out)
    assert out.tolist() == [2.0, 6.0, 7.0, 7.0]
    assert (remembered(1.0), adder(1.0)) == (1.0, 1.0)


def test_inferred_types_show_the_definitions():
    text = calls_objects.specialize("float64[:]", device="cpu").types
    assert "not_remembered(x: Python float) -> Python float" in text
    assert "globals:adder → override:device" in text


@sterna.device_function(target="cpu")
def only_there(x):
    return x + 1


@sterna.device_override(only_there, target=tuple(name for name in TARGETS if name != "cpu"))
def elsewhere(x):
    return x + 2


@sterna.kernel
def somewhere(out):
    out[0] = only_there(1.0)


def test_a_definition_for_each_target(device: Place):
    out = np.zeros(1)
    device.launch(somewhere, 1, 1, out)
    assert out[0] == (2.0 if device.name.startswith("cpu") else 3.0)


def test_the_most_specific_definition_wins(device: Place):
    target = sterna.device(device.name).target

    def plain(x):
        return x

    @sterna.kernel
    def k(out):
        out[0] = plain(1.0)

    for table, value in ((None, 10.0), (target.name, 20.0), (str(target), 30.0)):
        # each is noticed by the next launch, without anything being said to the kernel
        @sterna.device_override(plain, target=table)
        def definition(x, value=value):
            return x + value

        out = np.zeros(1)
        device.launch(k, 1, 1, out)
        assert out[0] == 1.0 + value
    for table, value in ((str(target), 20.0), (target.name, 10.0), ("device", 0.0)):
        remove(plain, table)
        out = np.zeros(1)
        device.launch(k, 1, 1, out)
        assert out[0] == 1.0 + value


def test_only_kernels_that_call_it_are_linked_again(device: Place):
    def plain(x):
        return x

    def other(x):
        return x

    @sterna.kernel
    def k(out):
        out[0] = plain(1.0)

    out = np.zeros(1)
    device.launch(k, 1, 1, out)
    (before,) = k._dispatcher.specialisations()

    @sterna.device_override(other)
    def definition(x):
        return x

    device.launch(k, 1, 1, out)
    (after,) = k._dispatcher.specialisations()
    assert after is before
    assert len(k.explain_cache().events) == 1


def test_a_function_that_the_target_lacks(device: Place):
    name = device.name.partition(":")[0]

    @sterna.device_function(target="cuda-sm_120" if name != "cuda" else "cpu")
    def far(x):
        return x

    @sterna.kernel
    def k(out):
        out[0] = far(1.0)

    with pytest.raises(CompileError, match=r"far has no definition for .*") as caught:
        device.launch(k, 1, 1, np.zeros(1))
    assert "out[0] = far(1.0)" in str(caught.value)
    assert "it is defined for c" in str(caught.value)


def test_rsqrt_of_a_target(device: Place):
    """An operation of the language has another definition on one target, in terms of the common one."""
    name = device.name.partition(":")[0]

    @sterna.device_override(sterna.rsqrt, target=name)
    def rsqrt(x):
        return sterna.rsqrt(x) + 8

    @sterna.kernel
    def k(out):
        out[0] = sterna.rsqrt(out[0])

    try:
        out = np.full(1, 4.0)
        device.launch(k, 1, 1, out)
    finally:
        remove(sterna.rsqrt, name)
    assert out[0] == pytest.approx(8.5)


def test_the_runtime_library_has_other_definitions_too(device: Place):
    """How a failure is reported is a device function, found through the job's tables, and part of the key."""
    from sterna.language.runtime import report_failure

    @sterna.kernel
    def k(out):
        out[3] = 1.0

    def launch():
        device.launch(k, 1, 1, np.zeros(2, np.float32))

    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 2"):
        launch()
    name = device.name.partition(":")[0]

    @sterna.device_override(report_failure, target=name)
    def tell_more(status, words, width, height, error, bx, by, bz, tx, ty, tz, d0, d1, d2):
        report_failure(status, words, width, height, error, bx, by, bz, tx, ty, tz, d0 + 1000, d1, d2)

    try:
        with pytest.raises(IndexError, match="index 1003 is out of bounds for axis 0 with size 2"):
            launch()
    finally:
        remove(report_failure, name)

    @sterna.device_override(report_failure, target=name)
    def never_mind(status, words, width, height, error, bx, by, bz, tx, ty, tz, d0, d1, d2):
        return None

    try:
        launch()  # the failing thread leaves, and nothing is reported
    finally:
        remove(report_failure, name)
    with pytest.raises(IndexError):
        launch()
    assert [event.outcome for event in k.explain_cache().events] == ["compiled"] * 3

    @sterna.device_override(report_failure, target=name)
    def failing(status, words, width, height, error, bx, by, bz, tx, ty, tz, d0, d1, d2):
        assert d0 > 0

    try:
        with pytest.raises(
            CompileError, match="failing stands for report_failure of the runtime library, and may fail"
        ):
            launch()
    finally:
        remove(report_failure, name)


def test_overrides_of_the_runtime_library_are_in_the_key():
    from sterna.language.runtime import report_failure
    from sterna.overlays import DEVICE_TABLES
    from sterna.source.captures import scan

    def kernel():
        return None

    before = scan(kernel)
    assert before.overlays == {}

    @sterna.device_override(report_failure, target="cpu")
    def mine(status, words, width, height, error, bx, by, bz, tx, ty, tz, d0, d1, d2):
        status[0] = 2

    try:
        tables = type(DEVICE_TABLES)(("cpu", "device"))
        assert list(scan(kernel, tables=tables).overlays) == ["runtime:report_failure"]
        assert scan(kernel).overlays == {}
        assert before.holds()
    finally:
        remove(report_failure, "cpu")
