"""Guards: what a scan relied on, checked by identity at every launch.

Python's meaning of a name holds: a global, closure variable, module or class attribute, default or function body
that is rebound between two launches is noticed; so is a change of the method tables that concerns it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sterna.frozen import frozen
from sterna.overlays import Tables, changes, overlays_of, runtime_overrides

__all__ = ["MISSING", "Guard", "TableGuard", "make_check"]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()
"""The expected value of a name that does not exist."""


@frozen
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

    # by identity: values of any kind are inside
    __eq__ = object.__eq__
    __hash__ = object.__hash__

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


class TableGuard:
    """The expectation that method tables say of some functions what they said when they were scanned.

    A change elsewhere costs one look at these functions; with none, a check is one comparison.

    Parameters
    ----------
    subjects : iterable of object
        The functions, as method tables know them.
    tables : Tables
        The job's; what they have in the place of the runtime library is expected too.
    """

    __slots__ = ("_expected", "_subjects", "_tables", "seen")

    def __init__(self, subjects: Iterable[Any], tables: Tables) -> None:
        self.seen = [changes[0]]
        self._subjects, self._tables = tuple(subjects), tables
        self._expected = self._found()

    def _found(self) -> tuple[Any, ...]:
        return (*map(overlays_of, self._subjects), runtime_overrides(self._tables))

    def holds(self) -> bool:
        """True if what the tables say of these functions is unchanged."""
        now = changes[0]
        if now is not self.seen[0]:
            if self._found() != self._expected:
                return False
            self.seen[0] = now
        return True


def make_check(guards: Iterable[Guard], tables: TableGuard | None = None) -> Callable[[], bool]:
    """One function that checks all guards.

    Its body is generated, one comparison a guard: half the time of the same checks in loops over tuples,
    and it runs at every launch.  Making it takes some 0.2 ms, so it is made at the second launch.
    """
    names: dict[str, Any] = {}
    known: dict[int, str] = {}

    def name_of(value: Any) -> str:
        name = known.get(id(value))
        if name is None:
            name = known[id(value)] = f"v{len(known)}"
            names[name] = value
        return name

    tests = [_test(guard, name_of) for guard in guards] or ["True"]
    if tables is not None:
        unchanged = f"{name_of(changes)}[0] is {name_of(tables.seen)}[0]"
        tests.append(f"({unchanged} or {name_of(tables.holds)}())")
    source = (
        f"def make({', '.join(names)}):\n"
        "    def check():\n"
        "        try:\n"
        f"            return {' and '.join(tests)}\n"
        "        except (KeyError, AttributeError, ValueError):\n"
        "            return False\n"
        "    return check\n"
    )
    scope: dict[str, Any] = {}
    exec(compile(source, "<sterna guards>", "exec"), scope)
    check: Callable[[], bool] = scope["make"](**names)
    return check


def _test(guard: Guard, name_of: Callable[[Any], str]) -> str:
    """One comparison as source text; a name goes in quoted, or bare if it is an identifier and nothing else."""
    if guard.expected is MISSING:
        if isinstance(guard.holder, dict):
            return f"{guard.name!r} not in {name_of(guard.holder)}"
        return f"{name_of(guard.holds)}()"
    if isinstance(guard.holder, dict):
        return f"{name_of(guard.holder)}[{guard.name!r}] is {name_of(guard.expected)}"
    if not guard.name.isidentifier():
        return f"{name_of(guard.holds)}()"
    return f"{name_of(guard.holder)}.{guard.name} is {name_of(guard.expected)}"
