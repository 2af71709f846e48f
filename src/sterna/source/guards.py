"""Guards: what a scan relied on, checked by identity at every launch.

Python's meaning of a name holds: a global, closure variable, module or class attribute, default or function body
that is rebound between two launches is noticed.  The check is on the launch path, so it runs in C loops
over grouped guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter, is_, itemgetter
from typing import Any

__all__ = ["MISSING", "Guard", "make_check"]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()
"""The expected value of a name that does not exist."""

_Check = Callable[[], bool]


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """One expectation.

    Attributes
    ----------
    holder : object
        A mapping (a module's names), or an object with attributes (a cell, class or function).
    name : str
        Key or attribute.
    expected : object
        The value by identity; `MISSING` if there must be none.
    """

    holder: Any
    name: str
    expected: Any

    def holds(self) -> bool:
        """True if the name still has the expected value."""
        if isinstance(self.holder, dict):
            found = self.holder.get(self.name, MISSING)
        else:
            try:
                found = getattr(self.holder, self.name, MISSING)
            except ValueError:  # an empty cell
                found = MISSING
        return found is self.expected


def make_check(guards: Iterable[Guard]) -> _Check:
    """One function that checks all guards, grouped by holder, or by attribute for objects."""
    mappings: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
    absent: dict[int, tuple[dict[str, Any], set[str]]] = {}
    attributes: dict[str, list[Guard]] = {}
    others: list[Guard] = []
    for guard in guards:
        if isinstance(guard.holder, dict):
            if guard.expected is MISSING:
                absent.setdefault(id(guard.holder), (guard.holder, set()))[1].add(guard.name)
            else:
                mappings.setdefault(id(guard.holder), (guard.holder, {}))[1][guard.name] = guard.expected
        elif guard.expected is MISSING:
            others.append(guard)
        else:
            attributes.setdefault(guard.name, []).append(guard)
    checks = [_mapping_check(holder, names) for holder, names in mappings.values()]
    checks += [_absence_check(holder, names) for holder, names in absent.values()]
    checks += [_attribute_check(name, group) for name, group in attributes.items()]
    checks += [guard.holds for guard in others]
    return _all_of(tuple(checks))


def _all_of(checks: tuple[_Check, ...]) -> _Check:
    def check() -> bool:
        for one in checks:
            if not one():
                return False
        return True

    return check


def _mapping_check(holder: dict[str, Any], names: dict[str, Any]) -> _Check:
    expected = tuple(names.values())
    # itemgetter gives a tuple only for two names and more
    get = itemgetter(*names, *names) if len(names) == 1 else itemgetter(*names)

    def check() -> bool:
        try:
            return all(map(is_, get(holder), expected))
        except KeyError:
            return False

    return check


def _absence_check(holder: dict[str, Any], names: set[str]) -> _Check:
    def check() -> bool:
        return holder.keys().isdisjoint(names)

    return check


def _attribute_check(name: str, guards: list[Guard]) -> _Check:
    holders = tuple(guard.holder for guard in guards)
    expected = tuple(guard.expected for guard in guards)
    get = attrgetter(name)

    def check() -> bool:
        try:
            return all(map(is_, map(get, holders), expected))
        except (AttributeError, ValueError):  # ValueError: a cell that was emptied
            return False

    return check
