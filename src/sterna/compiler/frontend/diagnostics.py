"""Compile errors that show the user's line, a caret, what was inferred and what to write instead.

Control-flow exceptions of the frontend live here too: `Unresolved` ends a path whose types depend on something
not inferred yet (a recursive call's result, a name that the next loop turn binds); the function or loop is
then translated again.
"""

from __future__ import annotations

import ast
from typing import NoReturn

from sterna.errors import CompileError, SourceLocation, UnsupportedError
from sterna.source.locate import Located

__all__ = ["Place", "Unresolved", "fail", "unsupported"]


class Unresolved(Exception):
    """A type is not known in this attempt; the path ends here until the next."""


class Place:
    """Where code stands: the located function, and the names an error shows."""

    def __init__(self, located: Located, function: str, kernel: str) -> None:
        self.located, self.function, self.kernel = located, function, kernel

    def location(self, node: ast.AST) -> SourceLocation | None:
        """The source location of `node`, with its line of text."""
        line = getattr(node, "lineno", None)
        if line is None:
            return None
        text = source_line(self.located, line)
        column = _characters(text, node.col_offset)  # type: ignore[attr-defined]
        end = len(text)
        if getattr(node, "end_lineno", None) == line and node.end_col_offset is not None:  # type: ignore[attr-defined]
            end = _characters(text, node.end_col_offset)  # type: ignore[attr-defined]
        return SourceLocation(self.located.filename, line, column, end, text, self.function)


def source_line(located: Located, line: int) -> str:
    """Line `line` (1-based) of the file `located` was found in, or an empty string."""
    lines = located.text.splitlines()
    return lines[line - 1] if 0 < line <= len(lines) else ""


def _characters(text: str, utf8_offset: int) -> int:
    """A column in characters from one in UTF-8 bytes."""
    if text.isascii():
        return utf8_offset
    return len(text.encode()[:utf8_offset].decode(errors="ignore"))


def fail(place: Place, node: ast.AST, message: str, hint: str = "") -> NoReturn:
    """Raise a `CompileError` at `node`."""
    raise CompileError(message, place.location(node), place.kernel, hint)


def unsupported(place: Place, node: ast.AST, message: str, hint: str = "") -> NoReturn:
    """Raise an `UnsupportedError` at `node`."""
    raise UnsupportedError(message, place.location(node), place.kernel, hint)
