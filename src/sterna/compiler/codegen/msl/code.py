"""Lines of one function: indentation, temporaries, pieces put aside.

Names are numbered in the order of their making, so equal IR gives equal text (I4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Code", "bare", "call", "is_atom"]

_ATOM = re.compile(r"-?[0-9][0-9.]*(e[+-]?[0-9]+)?(f|L|UL|u)?|[A-Za-z_][A-Za-z0-9_.]*")


def is_atom(text: str) -> bool:
    """Whether an operand is a name or a number, which may be written twice."""
    return _ATOM.fullmatch(text) is not None


def bare(text: str) -> str:
    """An expression without the parentheses around the whole of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


def call(name: str, *args: str) -> str:
    """A call, or a conversion written as one."""
    return f"{name}({', '.join(map(bare, args))})"


class Code:
    """Lines of a function's body.

    Attributes
    ----------
    lines : list of str
        Indented.
    depth : int
        Of indentation.
    """

    longest = 88
    """Longest operand that is not given a name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self._temporaries = 0

    def emit(self, text: str) -> None:
        """Append a line."""
        self.lines.append("    " * self.depth + text)

    def fresh(self) -> str:
        """A new name; no local of the kernel looks like it."""
        self._temporaries += 1
        return f"t{self._temporaries}"

    def temp(self, kind: str, text: str) -> str:
        """Give a value a name."""
        name = self.fresh()
        self.emit(f"const {kind} {name} = {bare(text)};" if "*" not in kind else f"{kind}{name} = {bare(text)};")
        return name

    def atom(self, kind: str, text: str) -> str:
        """An operand that may be written twice."""
        return text if is_atom(text) else self.temp(kind, text)

    def short(self, kind: str, text: str) -> str:
        """An operand that is not too long to stand inside another."""
        return text if len(text) <= self.longest else self.temp(kind, text)

    @contextmanager
    def block(self, head: str, foot: str = "}") -> Iterator[None]:
        """Lines inside ``head {`` and ``}``."""
        self.emit(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.emit(foot)

    @contextmanager
    def aside(self) -> Iterator[list[str]]:
        """What is emitted inside goes to the list given, not to the function."""
        kept, self.lines = self.lines, []
        piece = self.lines
        yield piece
        self.lines = kept
