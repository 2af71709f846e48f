"""Calls: binding of arguments, one specialisation per types, closures, recursion, functions as values."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from helpers.frontend import body_of, build, lines_of
from sterna.compiler.ir.text import module_text
from sterna.types import FLOAT32, FLOAT64, NONE, OPAQUE, PYFLOAT, PYINT, ArrayType, LiteralType, TupleType

F1 = ArrayType(FLOAT32, 1)
Pair = namedtuple("Pair", "x y")


class Named(NamedTuple):
    x: int
    y: float = 2.5


@dataclass(frozen=True)
class Box:
    low: float
    pair: Pair
    high: int = 3


def scaled(value, factor=2.0, *, offset=0):
    return value * factor + offset


def total(first, *rest):
    result = first
    for value in rest:
        result += value
    return result


def apply(function, value):
    return function(function(value))


def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)


def late(n):
    if n > 0:
        return late(n - 1)
    return 1.5


def even(n):
    if n == 0:
        return True
    return odd(n - 1)


def odd(n):
    if n == 0:
        return False
    return even(n - 1)


def nothing(a):
    a[0] = 1


def pick(which):
    if which:
        return scaled
    return scaled


def signatures(module) -> list[str]:
    return [line for line in lines_of(module) if line.startswith("function ")]


def test_one_specialisation_per_types() -> None:
    def k(a, n):
        a[0] = scaled(a[1])
        a[1] = scaled(a[2])
        a[2] = scaled(n, offset=n, factor=3)

    assert signatures(build(k, F1, PYINT)) == [
        "function scaled.1(value: float32, factor: float, offset: int) -> float32",
        "function scaled.1.s1(value: int, factor: int, offset: int) -> int",
    ]


def test_star_args_have_a_known_length() -> None:
    def k(a, n):
        a[0] = total(n, 2.0, *(a[1], 4))

    assert signatures(build(k, F1, PYINT)) == [
        "function total.1(first: int, rest: tuple(float, float32, int)) -> float32",
    ]


def test_a_function_passed_as_an_argument_is_part_of_the_specialisation() -> None:
    def k(a, n):
        a[0] = apply(scaled, a[0])
        a[1] = apply(lambda v: v + n, 1)

    assert signatures(build(k, F1, PYINT)) == [
        "function apply.1(value: float32) -> float32",
        "function scaled.2(value: float32, factor: float, offset: int) -> float32",
        "function apply.1.s1(function:n: int, value: int) -> int",
        "function test_a_function_passed_as_an_argument_is_part_of_the_specialisation_locals_k.0._lambda_"
        "(v: int, :n: int) -> int",
    ]


def test_a_closure_reads_the_enclosing_names_when_it_is_called() -> None:
    def k(a, n):
        s = n
        held = lambda v, kept=s: v + s + kept  # noqa: E731
        s = 2.5
        a[0] = held(1)

    body = body_of(k, F1, PYINT)
    assert body[:3] == ["s = n", ".1 = s", "s.2 = 2.5"]
    assert body[3].endswith("(1, .1, 2.5): float)")


@pytest.mark.parametrize(
    ("function", "given", "returns"), [(fib, PYINT, "int"), (even, PYINT, "bool"), (late, PYINT, "float")]
)
def test_recursion_with_a_return_type_to_be_found(function, given, returns) -> None:
    def k(a, n):
        a[0] = function(n)

    lines = signatures(build(k, F1, given))
    assert lines
    assert all(line.endswith(f", .depth: int) -> {returns} raises") for line in lines)


def test_a_recursion_that_widens_its_own_result() -> None:
    def grow(n):
        if n == 0:
            return 1
        return grow(n - 1) * 0.5

    def k(a, n):
        a[0] = grow(n)

    assert signatures(build(k, F1, PYINT)) == [
        "function test_a_recursion_that_widens_its_own_result_locals_grow.1(n: int, .depth: int) -> float raises"
    ]


def test_nested_functions_may_recur() -> None:
    def k(a, n):
        step = 2

        def down(m):
            if m <= 0:
                return 0
            return 1 + down(m - step)

        a[0] = down(n)

    (line,) = signatures(build(k, F1, PYINT))
    assert line.endswith(".0.down(m: int, :step: int, .depth: int) -> int raises")


def test_the_depth_of_a_recursion_is_counted_and_limited() -> None:
    def on_the_way(n):
        return fib(n)

    def k(a, n):
        a[0] = on_the_way(n)

    module = build(k, F1, PYINT)
    outer, inner = signatures(module)
    assert outer.endswith("(n: int) -> int raises")  # not a part of the cycle, but it may fail
    assert inner.endswith("(n: int, .depth: int) -> int raises")
    lines = [line.strip() for line in lines_of(module)]
    assert "if (.depth > 1000):" in lines
    assert sum("(n, 1): int" in line for line in lines) == 1  # the call from outside
    assert sum("(.depth + 1)" in line for line in lines) >= 1
    assert [site.exception for site in module.errors] == ["IndexError", "RecursionError"]


def test_a_function_that_returns_nothing_gives_none() -> None:
    def k(a):
        if nothing(a) is None:
            a[1] = 2

    assert body_of(k, F1) == ["call nothing.1(a): void", "a[1] = float32(2.0)"]


def test_a_function_may_be_returned_where_it_is_one() -> None:
    def k(a, n):
        a[0] = pick(n)(a[0])

    assert "scaled.2(value: float32" in "\n".join(signatures(build(k, F1, PYINT)))


def test_structs_by_value() -> None:
    def k(a, n):
        box = Box(1.5, Pair(n, y=2))
        x, y = box.pair
        a[0] = box.low + box.high + x + y + box.pair[0]
        a[1] = Named(n).y

    module = build(k, F1, PYINT)
    assert str(module.functions[module.entry].locals["box"]) == (
        "struct Box(low: float, pair: namedtuple Pair(x: int, y: int), high: int)"
    )
    assert body_of(k, F1, PYINT)[-1] == "a[1] = float32(2.5)"


def test_arguments_of_every_kind() -> None:
    def k(a, thing, text, missing, pair):
        if text == "fast" and missing is None:
            a[0] = pair[0] + pair[1][0]
        if thing is None:
            a[1] = 1

    pair = TupleType((PYINT, TupleType((PYFLOAT, NONE))))
    assert body_of(k, F1, OPAQUE, LiteralType("fast"), NONE, pair) == ["a[0] = float32((float(pair.0) + pair.1.0))"]


def test_the_module_is_the_same_every_time() -> None:
    def k(a, n):
        for j in range(n):
            a[j] = apply(scaled, fib(j)) + total(1, 2.0, a[j])

    texts = {module_text(build(k, F1, PYINT)) for _ in range(3)}
    assert len(texts) == 1


def test_error_sites_name_the_function_and_its_statement() -> None:
    def k(a, n):
        x = 1
        a[n] = checked(n) + x

    module = build(k, F1, PYINT)
    assert [(e.exception, e.site.function, e.site.statement) for e in module.errors] == [
        ("IndexError", 0, 1),
        ("ValueError", 1, 2),
    ]
    assert module.sources == (("", k.__qualname__), ("globals:checked", "checked"))
    assert module.functions["checked.1"].may_raise
    assert module.functions[module.entry].may_raise


def checked(n):
    """A docstring is no statement."""
    y = n
    if y < 0:
        raise ValueError("negative")
    return y


def test_a_function_without_failures_says_so() -> None:
    def k(a, n):
        a[0] = scaled(a[0])

    module = build(k, ArrayType(FLOAT64, 1), PYINT, boundscheck=False)
    assert not any(f.may_raise for f in module.functions.values())
