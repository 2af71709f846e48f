"""Which member of an overload set a call means.

A member fits a call if its parameters can be bound to the arguments and every annotation names the type of its
argument, or one that a Python number is converted to.  An exact match wins over one by conversion, and that over a
parameter that takes anything; of two members that fit equally well neither is chosen.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

from sterna.frozen import frozen
from sterna.typeof import type_of
from sterna.types import BOOL, PYINT, Scalar, Type
from sterna.typespec import signature_types

__all__ = ["Argument", "argument_of", "describe_set", "fitting_members"]

_EXACT, _CONVERTED, _PROMOTED, _ANYTHING = range(4)


@frozen
class Argument:
    """An argument as far as the choice goes: its device type, if it has one, and whether it is a Python bool."""

    type: Type | None
    pybool: bool = False


def argument_of(value: Any) -> Argument:
    """A value of the host as an argument."""
    try:
        return Argument(type_of(value), type(value) is bool)
    except (TypeError, KeyError):
        return Argument(None)


def fitting_members(
    members: Sequence[FunctionType], args: Sequence[Argument], keywords: Mapping[str, Argument]
) -> list[int]:
    """Positions of the members that fit a call best: one if the choice is clear, none if nothing fits."""
    ranked = []
    for number, member in enumerate(members):
        rank = _rank(member, args, keywords)
        if rank is not None:
            ranked.append((rank, number))
    best = min(ranked, default=(0, 0))[0]
    return [number for rank, number in ranked if rank == best]


def describe_set(members: Sequence[FunctionType]) -> str:
    """The members with their signatures, for messages."""
    return "; ".join(f"{f.__name__}{inspect.signature(f)}" for f in members)


def _rank(member: FunctionType, args: Sequence[Argument], keywords: Mapping[str, Argument]) -> int | None:
    """How well a call fits, smaller is better; None if it does not."""
    try:
        bound = inspect.signature(member).bind(*args, **keywords)
    except TypeError:
        return None
    wanted, total = signature_types(member), 0
    for name, argument in bound.arguments.items():
        rank = _fit(wanted.get(name), argument)
        if rank is None:
            return None
        total += rank
    return total


def _fit(wanted: Type | None, argument: Any) -> int | None:
    if wanted is None:
        return _ANYTHING
    found = argument.type if isinstance(argument, Argument) else None
    if found == wanted:
        return _EXACT
    if not isinstance(found, Scalar) or not isinstance(wanted, Scalar):
        return None
    if found.weak and wanted.kind == found.kind:
        return _CONVERTED
    # a Python bool is an int, and a Python int a float, where there is no nearer definition
    is_int = found.weak and found.kind == "i"
    is_bool = argument.pybool and found == BOOL
    return _PROMOTED if (is_int and wanted.kind == "f") or (is_bool and wanted == PYINT) else None
