"""What a key and a scan need to know of a function's source: two facts that survive without the source."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from sterna.frozen import frozen

__all__ = ["FunctionFacts", "facts_of"]


@frozen
class FunctionFacts:
    """Facts of one function.

    Attributes
    ----------
    digest : str
        Hex digest of the normalised syntax tree (`sterna.source.canonical`); the same on all Python versions.
    names : tuple of str
        Free dotted chains that it and everything nested in it read, in order of first appearance.
    """

    digest: str
    names: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data for a store."""
        return {"digest": self.digest, "names": list(self.names)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FunctionFacts:
        """The facts that `to_json` wrote; KeyError, TypeError or ValueError for anything else."""
        digest, names = data["digest"], data["names"]
        if not isinstance(digest, str) or len(digest) != 64 or not isinstance(names, list):
            raise ValueError("not the facts of a function")
        if not all(isinstance(name, str) and all(map(str.isidentifier, name.split("."))) for name in names):
            raise ValueError("not the facts of a function")
        return cls(digest, tuple(names))


def facts_of(function: FunctionType) -> FunctionFacts:
    """Facts of a live function: from memory, from the installed stores, else from its source.

    Raises
    ------
    SourceError
        If no store knows the function and its source cannot be had.
    """
    from sterna.source.index import find_facts

    return find_facts(function)
