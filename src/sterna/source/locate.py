"""From a live function to the syntax tree it was made from, whatever it was made from.

Nothing is taken on trust: a text counts when it compiles to exactly the live code.  The one exception is code
that an import hook rewrote (pytest's assertions, say): there position, name and parameters must agree and the
file must be the one that was imported; such a function's facts are not persisted (`Located.exact`).
A function is taken as it is: ``__wrapped__`` is not followed, because that is not what a call would run.
"""

from __future__ import annotations

import marshal
import os
import threading
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from sterna.errors import SourceError
from sterna.frozen import frozen

if TYPE_CHECKING:
    # the parser's modules load when a source is read, which a launch from stores never does
    from sterna.source.canonical import FunctionNode
    from sterna.source.parsed import ParsedSource

__all__ = ["Located", "locate", "note_import", "remember_source", "statement_line"]

_MAX_REMEMBERED = 256
_Stat = tuple[int, int, int]

_lock = threading.RLock()
_files: dict[str, tuple[_Stat, ParsedSource | SyntaxError]] = {}
_imported: dict[str, tuple[Any, _Stat]] = {}
_remembered: dict[str, list[ParsedSource]] = {}


@frozen
class Located:
    """A function's source.

    Attributes
    ----------
    filename : str
        As the code object names it; for showing only.
    text : str
        The whole file, cell or string.
    node : ast.FunctionDef or ast.AsyncFunctionDef or ast.Lambda
        In the form Python runs (`sterna.source.canonical.prepare`).  Its positions are those of `text`.
    exact : bool
        False if the live code was rewritten by an import hook.
    """

    filename: str
    text: str
    node: FunctionNode
    exact: bool

    @property
    def def_line(self) -> int:
        """1-based line of the ``def`` or ``lambda``."""
        return self.node.lineno

    def line_text(self, line: int) -> str:
        """Text of a 1-based line of the file, without its end; empty if there is none."""
        lines = self.text.split("\n")
        return lines[line - 1] if 0 < line <= len(lines) else ""


def locate(function: FunctionType) -> Located:
    """Find a function's syntax tree.

    Parameters
    ----------
    function : function
        Any Python function or lambda.

    Returns
    -------
    Located

    Raises
    ------
    SourceError
        If the source cannot be had or was changed since it was imported; says which, and what to do.
    """
    with _lock:
        similar: Located | None = None
        for source in _sources(function):
            found = source.find(function.__code__)
            if found is None:
                continue
            located = Located(source.filename, source.text, *found)
            if located.exact:
                return located
            similar = similar or located
        if similar is not None and _is_rewritten(function):
            return similar
        raise SourceError(_explain(function, similar is not None))


def statement_line(function: FunctionType, ordinal: int) -> int | None:
    """1-based line of a function's statement by its ordinal, from the source as it is now.

    None if the source is gone, was changed in another way than formatting, or has no such statement.
    """
    from sterna.source.canonical import ordered_statements

    try:
        statements = ordered_statements(locate(function).node)
    except SourceError:
        return None
    return statements[ordinal].lineno if 0 <= ordinal < len(statements) else None


def note_import(function: FunctionType) -> None:
    """Remember the state of a function's file, for the decorator to call; one `os.stat`, no reading.

    For a function that no file holds its text is looked for instead (`remember_source`).
    """
    filename = function.__code__.co_filename
    now = _stat(filename)
    if now is None:
        remember_source(function)
        return
    spec = function.__globals__.get("__spec__")
    known = _imported.get(filename)
    if known is None or known[0] is not spec:
        _imported[filename] = (spec, now)


def remember_source(function: FunctionType) -> None:
    """Keep the text of a function that no file holds, while it can still be found on the caller's stack.

    Parameters
    ----------
    function : function
        The function being decorated.
    """
    code = function.__code__
    with _lock:
        kept = _remembered.setdefault(code.co_filename, [])
        if any(_is_exact(source, code) for source in kept):
            return
        for text in _loose_texts(function):
            source = _parsed(code, text)
            if source is not None and _is_exact(source, code):
                kept.append(source)
                del kept[:-_MAX_REMEMBERED]
                return


def _sources(function: FunctionType) -> Iterator[ParsedSource]:
    code = function.__code__
    from_file = _from_file(code.co_filename)
    if from_file is not None:
        if not isinstance(from_file, SyntaxError):
            yield from_file
        return
    yield from reversed(_remembered.get(code.co_filename, []))
    for text in _loose_texts(function):
        source = _parsed(code, text)
        if source is not None:
            yield source


def _loose_texts(function: FunctionType) -> Iterator[str]:
    from sterna.source import texts

    code = function.__code__
    yield texts.line_cache_text(function)
    if code.co_filename == "<stdin>":
        yield from texts.stdin_texts(max((n for *_, n in code.co_lines() if n), default=code.co_firstlineno))
    if code.co_filename == "<string>":
        yield from texts.command_texts()
    yield from texts.frame_texts(code)


def _parsed(code: CodeType, text: str) -> ParsedSource | None:
    from sterna.source.parsed import ParsedSource

    if not text.strip():
        return None
    try:
        return ParsedSource(code.co_filename, text, code.co_flags)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _is_exact(source: ParsedSource, code: CodeType) -> bool:
    found = source.find(code)
    return found is not None and found[1]


def _from_file(filename: str) -> ParsedSource | SyntaxError | None:
    """The parsed file, parsed again only if it changed; None if there is no such file or it is no text."""
    now = _stat(filename)
    if now is None:
        return None
    known = _files.get(filename)
    if known is None or known[0] != now:
        try:
            with open(filename, "rb") as file:
                data = file.read()
            from importlib.util import decode_source

            from sterna.source.parsed import ParsedSource

            source: ParsedSource | SyntaxError = ParsedSource(filename, decode_source(data))
        except SyntaxError as error:
            source = error
        except (OSError, ValueError, RecursionError):
            return None
        known = _files[filename] = (now, source)
    return known[1]


def _stat(filename: str) -> _Stat | None:
    try:
        found = os.stat(filename)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ctime_ns


def _is_rewritten(function: FunctionType) -> bool:
    """True if live code that differs from its unchanged file is explained by how it was imported."""
    scope = function.__globals__
    filename = function.__code__.co_filename
    known, now = _imported.get(filename), _stat(filename)
    if now is None or (known is not None and known[1] != now):
        return False
    spec = scope.get("__spec__")
    loader = getattr(spec, "loader", None) or scope.get("__loader__")
    if loader is None:
        return False
    if type(loader).__name__ == "SourceFileLoader" and type(loader).__module__.endswith("importlib_external"):
        return _is_in_bytecode_file(function.__code__, getattr(spec, "cached", None), now)
    return True


def _is_in_bytecode_file(code: CodeType, cached: str | None, now: _Stat) -> bool:
    """True if the module's valid ``.pyc`` holds this code: another patch release of Python compiled it.

    A file touched after its ``.pyc`` was written is a changed one, though a ``.pyc`` knows times by the second only.
    """
    try:
        with open(cached or "", "rb") as file:
            written = os.fstat(file.fileno()).st_mtime_ns
            header, body = file.read(16), file.read()
        if max(now[0], now[2]) > written:
            return False
        stamp = (int.from_bytes(header[8:12], "little"), int.from_bytes(header[12:16], "little"))
        if header[4:8] != bytes(4) or stamp != (now[0] // 10**9 & 0xFFFFFFFF, now[1] & 0xFFFFFFFF):
            return False
        stack = [marshal.loads(body)]
    except (OSError, ValueError, EOFError, TypeError):
        return False
    while stack:
        item = stack.pop()
        if item == code:
            return True
        stack.extend(c for c in item.co_consts if isinstance(c, CodeType))
    return False


def _explain(function: FunctionType, similar: bool) -> str:
    code = function.__code__
    head = f"the source of {function.__qualname__} ({code.co_filename!r}, line {code.co_firstlineno}) cannot be used: "
    if _stat(code.co_filename) is not None:
        if isinstance(_files.get(code.co_filename, (None, None))[1], SyntaxError):
            return f"{head}the file has changed since it was imported and no longer parses. Try: restart Python"
        if similar or code.co_firstlineno > 0:
            return (
                f"{head}the file has changed since it was imported, or something rewrote the function's code. "
                "Try: import the module again, or restart Python"
            )
    if code.co_filename.endswith(".py"):
        return (
            f"{head}there is no such file, only its bytecode. Try: ship the .py file, or a bundle of "
            "kernel images made from it"
        )
    return (
        f"{head}no file holds it, and the text it was made from is no longer at hand. Try: put the function in a "
        "file, or register its text before exec: linecache.cache[name] = (len(text), None, "
        "text.splitlines(True), name), with name the file name given to compile()"
    )
