"""Method tables: what a function means to device code, apart from what it means to the host.

One table for all devices, one for each target and one for each architecture; a job looks in its own first, the most
specific before the others (`tables_for`), and by the function *object*, never by a name.  An entry is either a named
operation of the language, for which the compiler has a typing rule and each target an emitter, or Python functions
that are device code in its place.

Shared vocabulary: it imports no compiler and knows no target.  The tables are a named registry; an entry is frozen,
and replacing one is noticed by every kernel that relied on the former (`changes`).
"""

from __future__ import annotations

import ast
import linecache
import threading
from collections.abc import Iterator
from types import FunctionType
from typing import Any, Protocol

from sterna.errors import OverlayError
from sterna.frozen import frozen

__all__ = [
    "DEVICE", "DEVICE_TABLES", "HOST_TABLES", "MethodTable", "Overlay", "Tables", "changes", "method_table", "name_of",
    "note_runtime", "overlays", "overlays_of", "register", "remove", "runtime_overrides", "shown_table", "stub_name",
    "tables_for",
]  # fmt: skip

DEVICE = "device"
"""Name of the table that all devices share."""


@frozen
class Overlay:
    """What stands for one function in one table.

    Attributes
    ----------
    subject : object
        The function that device code names: by identity.
    table : str
        ``device``, a target (``cuda``) or an architecture (``cuda-sm_90``).
    operation : str
        Name of an operation of the language; empty if `definitions` stand for the subject.
    definitions : tuple of function
        One function, or an overload set whose members differ in their annotated signatures.
    place : tuple of (str, int)
        File and line of the definition.
    stub : str
        The subject's name if it has no meaning on the host; empty for an override of a host function.
    """

    subject: Any
    table: str
    operation: str = ""
    definitions: tuple[FunctionType, ...] = ()
    place: tuple[str, int] = ("", 0)
    stub: str = ""

    # by identity: values of any kind are inside
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def origin(self) -> tuple[str, str]:
        """Module and qualified name of the definition; the same when it is run again."""
        if not self.definitions:
            return "", self.operation
        return self.definitions[0].__module__ or "", self.definitions[0].__qualname__

    @property
    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.place[0]}:{self.place[1]}"


class MethodTable:
    """The overlays of one target, of one architecture, or of all devices.

    Attributes
    ----------
    name : str
        ``device``, ``cuda``, ``cuda-sm_90``…
    """

    __slots__ = ("_definitions", "_entries", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        # by identity of the subject and of the definitions, which the entry keeps alive
        self._entries: dict[int, Overlay] = {}
        self._definitions: dict[int, Overlay] = {}

    def find(self, subject: Any) -> Overlay | None:
        """The entry of a function, if it has one here."""
        return self._entries.get(id(subject))

    def defined_by(self, function: FunctionType) -> Overlay | None:
        """The entry that a function is a definition of, if it is one here."""
        return self._definitions.get(id(function))

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Overlay]:
        """The entries, in the order of their registration."""
        return iter(tuple(self._entries.values()))

    def __repr__(self) -> str:
        return f"<method table {self.name}: {len(self._entries)} entries>"

    def _set(self, overlay: Overlay) -> None:
        if id(overlay.subject) in self._entries:
            self._drop(overlay.subject)
        self._entries[id(overlay.subject)] = overlay
        self._definitions.update((id(function), overlay) for function in overlay.definitions)

    def _drop(self, subject: Any) -> None:
        former = self._entries.pop(id(subject))
        for function in former.definitions:
            self._definitions.pop(id(function), None)


_TABLES: dict[str, MethodTable] = {DEVICE: MethodTable(DEVICE)}
_STUBS: dict[int, Overlay] = {}
_RUNTIME: dict[str, Any] = {}
_LOCK = threading.RLock()

changes: list[object] = [object()]
"""One item, another object after every change of any table; what kernels look at to notice one."""


def method_table(name: str) -> MethodTable:
    """The table called `name`; an empty one that is not kept if there is none yet."""
    found = _TABLES.get(name)
    return MethodTable(name) if found is None else found


@frozen
class Tables:
    """The tables of one job, most specific first; empty for code of the host.

    Attributes
    ----------
    names : tuple of str
        Names of the tables.
    """

    names: tuple[str, ...]

    @property
    def in_use(self) -> tuple[str, ...]:
        """Names of those that hold anything: jobs with the same ones find the same."""
        return tuple(name for name in self.names if name in _TABLES and len(_TABLES[name]))

    def find(self, subject: Any, behind: str = "") -> Overlay | None:
        """What a function means to this job, or None if it is what it is on the host.

        Parameters
        ----------
        subject : object
            The function object.
        behind : str
            Look only in tables less specific than the one of this name.
        """
        names = self.names[self.names.index(behind) + 1 :] if behind in self.names else self.names
        for name in names:
            table = _TABLES.get(name)
            found = None if table is None else table.find(subject)
            if found is not None:
                return found
        return None

    def defined_by(self, function: FunctionType) -> Overlay | None:
        """The entry of these tables that a function is a definition of, if it is one."""
        for name in self.names:
            table = _TABLES.get(name)
            found = None if table is None else table.defined_by(function)
            if found is not None:
                return found
        return None


class _Target(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def arch(self) -> str: ...


DEVICE_TABLES = Tables((DEVICE,))
"""What a job of no particular target sees: the interpreter's."""
HOST_TABLES = Tables(())
"""What code of the host sees."""


def tables_for(target: _Target) -> Tables:
    """The tables of a target: of its architecture, of the target, of all devices."""
    return Tables((f"{target.name}-{target.arch}", target.name, DEVICE))


def register(overlay: Overlay) -> None:
    """Put an entry into its table.

    Running the same definition again (a notebook's cell, a reloaded module, a file that is run and imported) replaces
    the former; two functions of one name that stand in one file are two definitions.

    Raises
    ------
    OverlayError
        If another definition stands there for the same function; names both places.
    """
    with _LOCK:
        table = method_table(overlay.table)
        former = table.find(overlay.subject)
        if former is not None and not _is_again(former, overlay):
            raise OverlayError(
                f"{name_of(overlay.subject)} has two definitions for {shown_table(overlay.table)}: "
                f"{former.origin[1]} ({former.where}) and {overlay.origin[1]} ({overlay.where}); "
                "remove one, or give it another target"
            )
        _TABLES.setdefault(overlay.table, table)._set(overlay)
        if overlay.stub:
            _STUBS[id(overlay.subject)] = overlay
        changes[0] = object()


def _is_again(former: Overlay, overlay: Overlay) -> bool:
    """Whether an entry is the same definition as the former, run once more."""
    if former.place == overlay.place and former.origin[1] == overlay.origin[1]:
        return True
    return former.origin == overlay.origin and not _both_stand(former, overlay)


def _both_stand(former: Overlay, overlay: Overlay) -> bool:
    """Whether definitions of one name are two, as the file has the former still, on a line of its own."""
    file, line = former.place
    if not former.definitions or overlay.place[0] != file or overlay.place[1] == line:
        return False
    linecache.checkcache(file)
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return False
    name = former.definitions[0].__name__
    return any(_first_line(node) == line and getattr(node, "name", "<lambda>") == name for node in ast.walk(tree))


def _first_line(node: ast.AST) -> int:
    """The first line of a function, that of its decorators; 0 for any other node."""
    if isinstance(node, ast.FunctionDef):
        return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return node.lineno if isinstance(node, ast.Lambda) else 0


def note_runtime(stub: Any) -> None:
    """Make a device function part of the runtime library, by its name (`sterna.language.runtime`)."""
    _RUNTIME[stub.__name__] = stub


def runtime_overrides(tables: Tables) -> tuple[tuple[str, Overlay], ...]:
    """Functions of the runtime library that have another definition than their own in these tables, by name.

    Where the library was never imported, nobody can have overridden it.
    """
    found = ((name, stub, tables.find(stub)) for name, stub in sorted(_RUNTIME.items()))
    return tuple(
        (name, entry) for name, stub, entry in found if entry is not None and entry.definitions != (stub.__wrapped__,)
    )


def remove(subject: Any, table: str = DEVICE) -> None:
    """Take the entry of a function out of a table.

    Raises
    ------
    LookupError
        If there is none.
    """
    with _LOCK:
        if method_table(table).find(subject) is None:
            raise LookupError(f"{name_of(subject)} has no definition for {shown_table(table)}")
        _TABLES[table]._drop(subject)
        changes[0] = object()


def overlays() -> tuple[Overlay, ...]:
    """All entries of all tables, in the order of their registration in each."""
    return tuple(entry for table in tuple(_TABLES.values()) for entry in table)


def overlays_of(subject: Any) -> tuple[Overlay, ...]:
    """The entries of one function in all tables."""
    return tuple(entry for table in tuple(_TABLES.values()) for entry in (table.find(subject),) if entry is not None)


def stub_name(subject: Any) -> str:
    """The name of a function that exists on devices only; empty for any other value."""
    found = _STUBS.get(id(subject))
    return "" if found is None else found.stub


def name_of(subject: Any) -> str:
    """A function's name with its module, for messages."""
    name = getattr(subject, "__qualname__", None) or getattr(subject, "__name__", None) or type(subject).__name__
    module = getattr(subject, "__module__", None)
    return f"{module}.{name}" if isinstance(module, str) and module not in ("builtins", "__main__") else str(name)


def shown_table(name: str) -> str:
    """A table in words."""
    return "all devices" if name == DEVICE else name
