"""The facts index: fingerprint → facts, in memory and in stores, so that known code is never parsed again (I8).

The facade installs the stores with `set_stores`; this module knows only two functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from sterna.source.code import fingerprint
from sterna.source.facts import FunctionFacts
from sterna.source.paths import module_name

__all__ = ["Getter", "Putter", "find_facts", "forget", "set_stores"]

Getter = Callable[[str, str], Mapping[str, Any] | None]
"""Facts by fingerprint and name of the function's module (whose bundle may have them), or None."""
Putter = Callable[[str, dict[str, Any]], object]
"""Keep facts under a fingerprint; may do nothing, must not raise."""

_SCHEMA = 1

_memory: dict[object, FunctionFacts] = {}
_stores: list[tuple[Getter, Putter]] = []


def set_stores(getter: Getter | None, putter: Putter | None = None) -> None:
    """Install where facts are looked up and kept beyond this process; None for nowhere."""
    _stores.clear()
    if getter is not None or putter is not None:
        _stores.append((getter or _get_nothing, putter or _put_nothing))


def forget() -> None:
    """Empty the memory (not the stores)."""
    _memory.clear()


def find_facts(function: FunctionType) -> FunctionFacts:
    """Facts of a function; see `sterna.source.facts.facts_of`."""
    code = function.__code__
    print_ = fingerprint(code)
    # rewritten code is known only at its own place: its text is not what its fingerprint says
    place = (print_, code.co_filename, code.co_firstlineno)
    facts = _memory.get(print_) or _memory.get(place)
    if facts is not None:
        return facts
    facts = _stored(print_, module_name(function))
    if facts is not None:
        _memory[print_] = facts
        return facts
    return _read(function, print_, place)


def _read(function: FunctionType, print_: str, place: object) -> FunctionFacts:
    # imported here: a launch from stores never needs the parser
    from sterna.source.canonical import digest
    from sterna.source.locate import locate
    from sterna.source.scopes import free_names

    located = locate(function)
    facts = FunctionFacts(digest(located.node), free_names(located.node))
    if not located.exact:
        _memory[place] = facts
        return facts
    _memory[print_] = facts
    for _, put in _stores:
        put(print_, {"schema": _SCHEMA, **facts.to_json()})
    return facts


def _stored(print_: str, module: str) -> FunctionFacts | None:
    for get, _ in _stores:
        data = get(print_, module)
        if data is None:
            continue
        try:
            if data["schema"] == _SCHEMA:
                return FunctionFacts.from_json(data)
        except (KeyError, TypeError, ValueError):
            continue
    return None


def _get_nothing(_fingerprint: str, _module: str) -> None:
    return None


def _put_nothing(_fingerprint: str, _facts: dict[str, Any]) -> None:
    return None
