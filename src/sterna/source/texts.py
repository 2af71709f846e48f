"""Texts of functions that no file holds: ``-c``, standard input, notebooks, doctests, ``exec``.

Every text offered here is a guess; `sterna.source.locate` accepts one only if it compiles to exactly the live
code object.  The texts of ``exec`` are looked for while the decorator runs, as that is when the string is still
on the stack.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

__all__ = ["command_texts", "frame_texts", "line_cache_text", "stdin_texts"]

_MAX_TEXT = 4 << 20
_EXTRA_LINES = 24


def line_cache_text(function: FunctionType) -> str:
    """Text that `linecache` has or can get for the function's file name (notebooks, doctests, zip files)."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        # Python 3.13 keeps what was typed at a prompt or given with -c by code object
        from_code = getattr(linecache, "_getlines_from_code", None)
        lines = from_code(code) if from_code is not None else []
    return "".join(lines)


def command_texts() -> Iterator[str]:
    """What may have followed ``-c`` on the interpreter's command line."""
    arguments = list(getattr(sys, "orig_argv", ()))[1:]
    for number, argument in enumerate(arguments):
        if not argument.startswith("-") or argument.startswith("--") or "c" not in argument:
            continue
        joined = argument.split("c", 1)[1]
        text = joined or (arguments[number + 1] if number + 1 < len(arguments) else "")
        yield text
        if text[:1].isspace():  # Python 3.14 removes a common indent itself
            yield _dedent(text)


def stdin_texts(last_line: int) -> Iterator[str]:
    """The script on standard input: a file, or a pipe whose only block is still in the C library's buffer.

    Parameters
    ----------
    last_line : int
        Last line of the wanted function: where the end of a pipe's script is not known, prefixes that
        end soon after it are tried too.
    """
    try:
        size = os.lseek(0, 0, os.SEEK_END) if _is_file(0) else 0
    except OSError:
        size = 0
    if size:
        # the position was moved to measure; a seek back is not needed: the script has been read to its end
        yield _decode(os.pread(0, min(size, _MAX_TEXT), 0))
        return
    text = _decode(_stdio_buffer().split(b"\0", 1)[0])
    yield text
    lines = text.splitlines(keepends=True)
    for end in range(last_line, min(last_line + _EXTRA_LINES, len(lines))):
        yield "".join(lines[:end])


def frame_texts(code: CodeType) -> Iterator[str]:
    """Strings of the callers' frames (locals, globals, constants) that may hold the function's text."""
    words = ("lambda",) if code.co_name == "<lambda>" else ("def ", code.co_name)
    seen: set[int] = set()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        for value in _frame_values(frame, seen):
            if type(value) is not str or len(value) > _MAX_TEXT or id(value) in seen:
                continue
            seen.add(id(value))
            if all(word in value for word in words):
                yield value
                if value[:1].isspace():
                    yield _dedent(value)
        frame = frame.f_back


def _frame_values(frame: FrameType, seen: set[int]) -> list[Any]:
    values: list[Any] = []
    for names in (frame.f_locals, frame.f_globals):
        if id(names) not in seen:
            if names is frame.f_globals:
                seen.add(id(names))
            values.extend(list(names.values()))
    values.extend(frame.f_code.co_consts)
    return values


def _dedent(text: str) -> str:
    import textwrap

    return textwrap.dedent(text)


def _decode(data: bytes) -> str:
    import importlib.util

    try:
        return importlib.util.decode_source(data)
    except (UnicodeDecodeError, SyntaxError):
        return data.decode("utf-8", "replace")


def _is_file(descriptor: int) -> bool:
    import stat

    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def _stdio_buffer() -> bytes:
    """Bytes in the buffer of C's ``stdin`` (glibc only): `_IO_buf_base` to `_IO_buf_end` of its ``FILE``."""
    try:
        if not os.confstr("CS_GNU_LIBC_VERSION"):
            return b""
    except (ValueError, AttributeError, OSError):
        return b""
    import ctypes

    class _File(ctypes.Structure):
        _fields_ = (
            ("flags", ctypes.c_int),
            ("read", ctypes.c_void_p * 3),
            ("write", ctypes.c_void_p * 3),
            ("base", ctypes.c_void_p),
            ("end", ctypes.c_void_p),
        )

    try:
        stdin = ctypes.POINTER(_File).in_dll(ctypes.CDLL(None), "stdin")
        file = stdin.contents
    except (ValueError, OSError):
        return b""
    if not file.base or not file.end or not 0 < file.end - file.base <= _MAX_TEXT:
        return b""
    return ctypes.string_at(file.base, file.end - file.base)
