"""From an exception record to the Python exception: class, message, place, whatever is missing."""

from __future__ import annotations

import struct

import pytest

from sterna.runtime.exceptions import RECORD_BYTES, ExceptionRecord, Failure, KernelFailure, build_exception


class Refused(Exception):
    """A user's exception class."""


class Particular(Exception):
    """One with parameters of its own."""

    def __init__(self, code, reason):
        super().__init__(code, reason)


class Slotted(ValueError):
    """One that accepts no attribute but its own."""

    __slots__ = ()

    def __setattr__(self, name, value):
        raise AttributeError(name)


def helper(x):
    # a comment
    y = x + 1

    return y


def kernel(out):
    out[0] = helper(1)


def failure(exception: str = "IndexError", message: str = "m", **changes) -> Failure:
    site = {"exception": exception, "message": message, "function": 0, "statement": 0, "line": 1} | changes
    record = ExceptionRecord(0, (1, 2, 3), (4, 5, 6), (10, -11, 12))
    return Failure("kernel", record, (site,), (("", "kernel"), ("globals:helper", "helper")), kernel)


def test_reading_a_record() -> None:
    data = struct.pack("=2i9q", 2, 7, 1, 2, 3, 4, 5, 6, -7, 8, 9)
    assert len(data) == RECORD_BYTES == 80
    assert ExceptionRecord.unpack(bytes(8) + data, 8) == ExceptionRecord(7, (1, 2, 3), (4, 5, 6), (-7, 8, 9))
    assert ExceptionRecord.unpack(bytes(RECORD_BYTES)) is None


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("IndexError", IndexError),
        ("AssertionError", AssertionError),
        ("ZeroDivisionError", ZeroDivisionError),
        ("KeyError", KeyError),
        ("StopIteration", StopIteration),
        ("globals:Refused", Refused),
    ],
)
def test_classes(name: str, cls: type[BaseException]) -> None:
    error = build_exception(failure(name))
    assert type(error) is cls
    assert error.block == (1, 2, 3) and error.thread == (4, 5, 6) and error.kernel == "kernel"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("UnicodeDecodeError", "UnicodeDecodeError: m"),
        ("globals:Particular", "Particular: m"),
        ("globals:NotThere", "globals:NotThere: m"),
        ("print", "print: m"),
        ("", ": m"),
    ],
)
def test_classes_that_cannot_be_made(name: str, says: str) -> None:
    error = build_exception(failure(name))
    assert type(error) is KernelFailure and str(error).startswith(says)


def test_a_class_that_takes_no_attributes() -> None:
    error = build_exception(failure("globals:Slotted"))
    assert type(error) is Slotted and "block (1, 2, 3)" in str(error)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (
            "index {0} is out of bounds for axis {1} with size {2}",
            "index 10 is out of bounds for axis -11 with size 12",
        ),
        ("{name} {} {3} {{0}}", "{name} {} {3} {10}"),
        ("100 %s", "100 %s"),
    ],
)
def test_messages(template: str, text: str) -> None:
    assert str(build_exception(failure(message=template))).startswith(f"{text} (kernel kernel, ")


def test_no_message() -> None:
    assert str(build_exception(failure("AssertionError", ""))).startswith("(kernel kernel, ")


def test_the_place_in_a_callee_comes_from_the_live_source() -> None:
    error = build_exception(failure(function=1, statement=1, line=40))
    line = helper.__code__.co_firstlineno + 4
    assert (error.line, error.function, error.filename) == (line, "helper", __file__)
    assert f"{__file__}:{line}, block (1, 2, 3), thread (4, 5, 6))" in str(error)
    assert error.__notes__ == [f'in device code: File "{__file__}", line {line}, in helper\n    return y']


def test_the_place_without_source() -> None:
    scope: dict = {}
    exec(compile("def kernel(out):\n    out[0] = 1\n", "<gone>", "exec"), scope)
    base = failure()
    error = build_exception(Failure("kernel", base.record, base.errors, base.sources, scope["kernel"]))
    assert (error.filename, error.line) == ("<gone>", 2)
    assert error.__notes__ == ['in device code: File "<gone>", line 2, in kernel']


def test_the_place_without_a_live_function() -> None:
    base = failure(function=1)
    error = build_exception(Failure("kernel", base.record, base.errors, base.sources))
    assert type(error) is IndexError and "<unknown>:1" in str(error)
    error = build_exception(Failure("kernel", base.record, base.errors, (), kernel))
    assert type(error) is IndexError and error.function == "kernel"


def test_an_error_site_that_is_not_there() -> None:
    base = failure()
    record = ExceptionRecord(5, (0, 0, 0), (0, 0, 0), (0, 0, 0))
    assert type(build_exception(Failure("kernel", record, base.errors, base.sources, kernel))) is KernelFailure
