"""Fingerprints of code objects: what a live function is, without reading its source.

The fingerprint leads from a function in memory to its facts (`sterna.source.facts`), so that the key of a
known, unchanged function needs neither its file nor a parser.  It covers bytecode, constants, names, flags and
line numbers counted from the function's first line; it does not cover the file's name, absolute line
numbers or the function's own name.  It holds for one Python version and one optimisation level.

Relative line numbers are in it although they mean nothing to the code: two texts that compile to equal
bytecode (an added comment, a folded constant) may number their statements differently, and the facts of one
must not be taken for the other's.  The cost is one more parse after such an edit, never a compilation.
"""

from __future__ import annotations

import struct
import sys
from types import CodeType
from typing import Any

from sterna.digest import sha256_hex

__all__ = ["FUTURE_FLAGS", "encode_constant", "fingerprint", "same_code"]

FUTURE_FLAGS = 0x1FE0000
"""``CO_FUTURE_*`` bits of a code object's flags."""

_FLOAT = struct.Struct("<d")
_VERSION = f"{sys.implementation.cache_tag}-{sys.flags.optimize}".encode()


def fingerprint(code: CodeType) -> str:
    """Hex digest of a code object; the same in every process of one Python version.

    Parameters
    ----------
    code : code object
        ``function.__code__``.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    out: list[bytes] = [_VERSION]
    _feed_code(out, code, lines=True)
    return sha256_hex(b"".join(out))


def same_code(first: CodeType, second: CodeType) -> bool:
    """True if two code objects do the same: equal in all but their names, files and line numbers."""
    if first.co_code != second.co_code or first.co_names != second.co_names:
        return False
    left: list[bytes] = []
    right: list[bytes] = []
    _feed_code(left, first, lines=False)
    _feed_code(right, second, lines=False)
    return b"".join(left) == b"".join(right)


def encode_constant(value: Any) -> bytes:
    """Bytes of a constant of a code object or a syntax tree: type-exact, floats by their bits.

    Raises
    ------
    TypeError
        For a value that Python does not put in code.
    """
    out: list[bytes] = []
    _feed_constant(out, value, lines=False)
    return b"".join(out)


def _feed(out: list[bytes], tag: bytes, data: bytes) -> None:
    out.append(b"%s%d:" % (tag, len(data)))
    out.append(data)


def _feed_code(out: list[bytes], code: CodeType, lines: bool) -> None:
    # what a __future__ import switches on shows in the bytecode, if it does anything there
    flags = code.co_flags & ~FUTURE_FLAGS
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, flags)
    out.append(b"code(%d,%d,%d,%d;" % counts)
    _feed(out, b"b", code.co_code)
    _feed(out, b"x", code.co_exceptiontable)
    for names in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
        _feed(out, b"n", "\0".join(names).encode("utf-8", "surrogatepass"))
    for constant in code.co_consts:
        _feed_constant(out, constant, lines)
    if lines:
        first = code.co_firstlineno
        spans = [f"{end}@{'' if line is None else line - first}" for _, end, line in code.co_lines()]
        _feed(out, b"l", ",".join(spans).encode())
    out.append(b")")


def _feed_constant(out: list[bytes], value: Any, lines: bool) -> None:
    kind = type(value)
    if value is None or value is True or value is False or value is Ellipsis:
        _feed(out, b"k", repr(value).encode())
    elif kind is int:
        _feed(out, b"i", hex(value).encode())
    elif kind is float:
        _feed(out, b"f", _FLOAT.pack(value))
    elif kind is complex:
        _feed(out, b"c", _FLOAT.pack(value.real) + _FLOAT.pack(value.imag))
    elif kind is str:
        _feed(out, b"s", value.encode("utf-8", "surrogatepass"))
    elif kind is bytes:
        _feed(out, b"y", value)
    elif kind is CodeType:
        _feed(out, b"q", value.co_name.encode("utf-8", "surrogatepass"))
        _feed_code(out, value, lines)
    else:
        _feed_container(out, value, lines)


def _feed_container(out: list[bytes], value: Any, lines: bool) -> None:
    if type(value) is tuple:
        out.append(b"t%d(" % len(value))
        for item in value:
            _feed_constant(out, item, lines)
        out.append(b")")
    elif type(value) is frozenset:
        encoded = []
        for item in value:
            part: list[bytes] = []
            _feed_constant(part, item, lines)
            encoded.append(b"".join(part))
        # a set's own order follows the salted hash of its strings
        _feed(out, b"z", b"".join(sorted(encoded)))
    elif type(value) is slice:
        out.append(b"e")
        _feed_container(out, (value.start, value.stop, value.step), lines)
    else:
        raise TypeError(f"a constant of type {type(value).__name__} in a code object")
