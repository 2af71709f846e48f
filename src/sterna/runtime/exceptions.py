"""Kernel exceptions: from the record a failing thread leaves to a Python exception at the next synchronise.

The first failing thread of a launch writes one `ExceptionRecord`; the device turns it into a `Failure`, which
waits in its `PendingFailures` until something synchronises.  Only then is the Python exception made: its class
from the image's error site (a built-in name, or the path of a captured class), its line from the live source, so
that comment edits since the image was made are accounted for.

Invariants: a failure is raised once; one that nobody synchronised on is reported on standard error when the
interpreter ends; reporting never raises anything else than the kernel's own exception.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import linecache
import re
import struct
import sys
import threading
import weakref
from collections.abc import Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

from sterna.errors import SternaError
from sterna.frozen import frozen

if TYPE_CHECKING:
    from sterna.image.format import KernelImage

__all__ = [
    "RECORD_BYTES",
    "ExceptionRecord",
    "Failure",
    "KernelFailure",
    "PendingFailures",
    "build_exception",
    "report_unobserved",
]

_RECORD = struct.Struct("=2i9q")
RECORD_BYTES = _RECORD.size
"""Size of an exception record: status, error index (32-bit), block, thread, details (three 64-bit each)."""

Triple = tuple[int, int, int]


class KernelFailure(SternaError, RuntimeError):
    """A kernel failed with an exception whose class cannot be found or built in this session."""


@frozen
class ExceptionRecord:
    """What the first failing thread of a launch recorded: error site, place, details of the message."""

    error: int
    block: Triple
    thread: Triple
    details: Triple

    @classmethod
    def unpack(cls, memory: Any, offset: int = 0) -> ExceptionRecord | None:
        """Read a record out of a buffer; None when no thread failed."""
        status, error, *words = _RECORD.unpack_from(memory, offset)
        if status == 0:
            return None
        b0, b1, b2, t0, t1, t2, d0, d1, d2 = words
        return cls(error, (b0, b1, b2), (t0, t1, t2), (d0, d1, d2))


@frozen
class Failure:
    """A failed launch: its record, the error sites and sources of its image, the live kernel function.

    Attributes
    ----------
    kernel : str
        Name of the kernel.
    record : ExceptionRecord
        Of the first failing thread.
    errors : tuple of mapping
        ``KernelImage.errors``: exception, message, function, statement, line.
    sources : tuple of (str, str)
        ``KernelImage.sources``: path of each function from the kernel.
    function : function or None
        The live kernel function; None when the loader was not told.
    """

    kernel: str
    record: ExceptionRecord
    errors: tuple[Mapping[str, Any], ...]
    sources: tuple[tuple[str, str], ...]
    function: FunctionType | None = None

    @classmethod
    def of(cls, image: KernelImage, record: ExceptionRecord, function: FunctionType | None) -> Failure:
        """The failure of a launch of an image."""
        return cls(image.name, record, image.errors, image.sources, function)


def build_exception(failure: Failure) -> BaseException:
    """The Python exception of a failed launch.

    Returns
    -------
    BaseException
        Of the class the kernel raised, with attributes `kernel`, `function`, `filename`, `line`, `block` and `thread`
        where the class allows them, a message that ends in the same facts, and a note with the source line.
    """
    record = failure.record
    if not 0 <= record.error < len(failure.errors):
        return KernelFailure(f"kernel {failure.kernel} failed at an error site that its image does not have")
    site = failure.errors[record.error]
    place = _locate(failure, site)
    message = _message(str(site.get("message", "")), record.details)
    facts = f"kernel {failure.kernel}, {place.text}, block {record.block}, thread {record.thread}"
    error = _instance(failure, str(site.get("exception", "")), f"{message} ({facts})" if message else f"({facts})")
    values = {
        "kernel": failure.kernel, "function": place.function, "filename": place.filename, "line": place.line,
        "block": record.block, "thread": record.thread,
    }  # fmt: skip
    for name, value in values.items():
        with contextlib.suppress(AttributeError, TypeError):
            setattr(error, name, value)
    note = f'in device code: File "{place.filename}", line {place.line}, in {place.function}'
    _add_note(error, f"{note}\n    {place.source}" if place.source else note)
    return error


def _add_note(error: BaseException, text: str) -> None:
    with contextlib.suppress(AttributeError, TypeError):  # a class may refuse
        error.add_note(text)


def _message(template: str, details: Triple) -> str:
    """Put details in the places ``{0}`` to ``{2}``; any other brace is the user's own text."""
    return re.sub(r"\{([0-2])\}", lambda match: str(details[int(match[1])]), template)


def _instance(failure: Failure, name: str, message: str) -> BaseException:
    cls = getattr(builtins, name, None) if name.isidentifier() else _walk(failure.function, name)
    if not (isinstance(cls, type) and issubclass(cls, BaseException)):
        return KernelFailure(f"{name}: {message}")
    try:
        return cls(message)
    except Exception:  # a class with its own parameters
        return KernelFailure(f"{cls.__name__}: {message}")


@frozen
class _Place:
    filename: str
    line: int
    function: str
    source: str

    @property
    def text(self) -> str:
        return f"{self.filename}:{self.line}"


def _walk(function: Any, path: str) -> Any:
    if function is None:
        return None
    try:
        from sterna.source.paths import walk

        return walk(function, path) if path else function
    except Exception:  # the name is gone since: say what is known without it
        return None


def _locate(failure: Failure, site: Mapping[str, Any]) -> _Place:
    ordinal = int(site.get("function", 0))
    path = failure.sources[ordinal][0] if 0 <= ordinal < len(failure.sources) else ""
    function = _walk(failure.function, path)
    relative = int(site.get("line", 0))
    if not isinstance(function, FunctionType):
        return _Place("<unknown>", relative, path or failure.kernel, "")
    code = function.__code__
    line = _statement_line(function, int(site.get("statement", -1)))
    if line is None:
        line = code.co_firstlineno + relative
    source = linecache.getline(code.co_filename, line, function.__globals__).strip()
    return _Place(code.co_filename, line, function.__qualname__, source)


def _statement_line(function: FunctionType, ordinal: int) -> int | None:
    try:
        from sterna.source.locate import statement_line

        found: int | None = statement_line(function, ordinal)
        return found
    except Exception:  # no source in this session
        return None


class PendingFailures:
    """Failures of one device that no synchronise has reported yet; safe for many threads.

    Attributes
    ----------
    any : bool
        Whether there is something to raise; read it before calling, it costs nothing.
    """

    __slots__ = ("__weakref__", "_failures", "_lock", "any")

    def __init__(self) -> None:
        self._failures: list[Failure] = []
        self._lock = threading.RLock()  # a failing kernel may be collected, and add to it, inside
        self.any = False

    def add(self, failure: Failure) -> None:
        """Keep a failure until the next synchronise."""
        with self._lock:
            self._failures.append(failure)
            self.any = True
        _watch(self)

    def take(self) -> list[Failure]:
        """All failures, in order; none is left."""
        with self._lock:
            self.any = False
            taken, self._failures = self._failures, []
        return taken

    def raise_first(self) -> None:
        """Raise the first failure, with a note for each further one; nothing when there is none."""
        taken = self.take()
        if not taken:
            return
        error = build_exception(taken[0])
        for other in taken[1:6]:
            later = build_exception(other)
            _add_note(error, f"a later launch failed too: {type(later).__name__}: {later}")
        if len(taken) > 6:
            _add_note(error, f"{len(taken) - 6} more launches failed")
        raise error


_watched: weakref.WeakSet[PendingFailures] = weakref.WeakSet()
_watch_lock = threading.RLock()


def _watch(pending: PendingFailures) -> None:
    """Report what `pending` still holds when the interpreter ends."""
    with _watch_lock:
        if not _watched:
            atexit.unregister(report_unobserved)
            atexit.register(report_unobserved)
        _watched.add(pending)


def report_unobserved() -> None:
    """Print every failure that no synchronise has raised; called when the process ends."""
    for pending in list(_watched):
        for failure in pending.take():
            error = build_exception(failure)
            lines = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
            print("sterna: a kernel failed and nothing synchronised after it:", *lines, sep="\n  ", file=sys.stderr)
