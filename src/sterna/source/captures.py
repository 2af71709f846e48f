"""The scan of a kernel: all device code it reaches and everything that code captures from the host.

One breadth-first walk over live objects, from the kernel's function through every function it can name, in any
file.  Both the key (I8) and the frontend read the same `Scan`; both therefore see the same code and the same
captures.  A function that the job's method tables give another definition is followed into that one
(`sterna.overlays`), so a scan belongs to the tables it was made with.  Functions are numbered in order of discovery by
identity, so that two names of one function are one function, and the numbers say so in the key.  Facts of known code
come from the index: a scan then touches no file.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from sterna.errors import SourceError
from sterna.frozen import field, frozen
from sterna.overlays import DEVICE_TABLES, Overlay, Tables, runtime_overrides, stub_name
from sterna.source.classify import CaptureKind, Classified, classify, intrinsic
from sterna.source.constants import fields_of
from sterna.source.facts import FunctionFacts, facts_of
from sterna.source.guards import MISSING, Guard, TableGuard, make_check
from sterna.source.paths import (
    builtins_of,
    defaults_of,
    extend_path,
    module_name,
    overlay_subject,
    underlying_function,
)  # fmt: skip
from sterna.types import OPAQUE, StructType, TupleType, Type

__all__ = ["MAX_FUNCTIONS", "Capture", "CaptureKind", "Reached", "Scan", "scan"]

MAX_FUNCTIONS = 1000
"""Functions that one kernel may reach; a function captured beyond is an opaque object."""


@frozen
class Capture:
    """One host value that device code reads by name.

    Attributes
    ----------
    owner : int
        Ordinal of the function that reads it.
    chain : str
        The dotted name as far as it leads to a captured value (``TABLE`` of ``TABLE.shape``);
        ``default:x`` for the default of parameter `x`.
    path : str
        From the kernel's function (`sterna.source.paths`).
    kind : CaptureKind
        What becomes of it.
    value : object
        The live value.
    type : Type or None
        Device type, where it has one.
    function : int or None
        Ordinal of the function, for FUNCTION: of the one that stands for it in the job's method tables.
    key : str
        Deterministic text of all that the code depends on.
    items : tuple of Capture
        For TUPLE: the items, in order.
    nameable : bool
        False if walking the path a second time gives another object, as for an attribute that makes a new one
        at each access (I7).
    note : str
        Why it is not what might be expected (an unsupported dtype, a function without source).
    overlay : Overlay or None
        The entry of the job's method tables that decides what it is.
    overloads : tuple of int
        Ordinals of an overload set.
    """

    owner: int
    chain: str
    path: str
    kind: CaptureKind
    value: Any
    type: Type | None
    function: int | None
    key: str
    items: tuple[Capture, ...] = ()
    nameable: bool = True
    note: str = ""
    overlay: Overlay | None = None
    overloads: tuple[int, ...] = ()

    # by identity: values of any kind are inside
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Reached:
    """One function of the device code: ordinal, path from the kernel, live function, facts; what it overlays if any."""

    __slots__ = ("facts", "function", "ordinal", "overlay", "path")

    def __init__(
        self, ordinal: int, path: str, function: FunctionType, facts: FunctionFacts, overlay: Overlay | None = None
    ) -> None:
        self.ordinal, self.path, self.function, self.facts = ordinal, path, function, facts
        self.overlay = overlay

    @property
    def name(self) -> str:
        """Qualified name, the same in every process."""
        return self.function.__qualname__

    @property
    def module(self) -> str:
        """Name of its module; ``<exec>`` if it has none."""
        return module_name(self.function)


@frozen
class Scan:
    """What `scan` found.

    Attributes
    ----------
    functions : tuple of Reached
        The kernel first, then in order of discovery.
    captures : tuple of Capture
        In order of owner, then of first appearance.
    guards : tuple of Guard
        What must still hold for this scan to be right; `holds` checks them all.
    missing : tuple of (int, str)
        Owner and chain of names that exist nowhere.
    tables : Tables
        The method tables it was made with.
    table_guard : TableGuard or None
        What they must still say for this scan to be right.
    """

    functions: tuple[Reached, ...]
    captures: tuple[Capture, ...]
    guards: tuple[Guard, ...]
    missing: tuple[tuple[int, str], ...] = ()
    tables: Tables = DEVICE_TABLES
    table_guard: TableGuard | None = None
    _index: dict[tuple[int, str], Capture] = field(default_factory=dict)
    _checks: list[Callable[[], bool]] = field(default_factory=list)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __post_init__(self) -> None:
        self._index.update({(c.owner, c.chain): c for c in self.captures})

    def holds(self) -> bool:
        """True while nothing the scan relied on was rebound; well below a microsecond for most kernels."""
        return self.check()

    @property
    def check(self) -> Callable[[], bool]:
        """The function that `holds` calls, for callers that ask again and again."""
        if not self._checks:
            self._checks.append(make_check(self.guards, self.table_guard))
        return self._checks[0]

    def __repr__(self) -> str:
        return f"<scan of {self.kernel.name}: {len(self.functions)} functions, {len(self.captures)} captures>"

    @property
    def kernel(self) -> Reached:
        """The kernel's own function."""
        return self.functions[0]

    @property
    def overlays(self) -> dict[str, str]:
        """Overlays in force: path of the definition → its table and the digest of its source.

        Those of the runtime library, which code does not name, are among them by their names.
        """
        found = {r.path: f"{r.overlay.table} {r.facts.digest}" for r in self.functions[1:] if r.overlay is not None}
        for name, entry in runtime_overrides(self.tables):
            digests = " ".join(_digest_of(definition, self.tables) for definition in entry.definitions)
            found[f"runtime:{name}"] = f"{entry.table} {digests}"
        return found

    @property
    def unnameable(self) -> tuple[str, ...]:
        """Why the image can only be kept in memory (I7), a line for each such capture; empty if it can be stored."""
        return tuple(
            f"{self.functions[c.owner].name} captures {c.chain}, and each access to it makes another object"
            for c in self.captures
            if not c.nameable
        )

    def lookup(self, owner: int, chain: str) -> tuple[Capture, str] | None:
        """The capture that a dotted name in function `owner` leads to, and the attributes left over.

        Parameters
        ----------
        owner : int
            Ordinal of the function.
        chain : str
            A dotted name as the source has it, ``TABLE.shape``.

        Returns
        -------
        (Capture, str) or None
            For example the capture of ``TABLE`` and ``".shape"``; None if there is no such name.
        """
        prefix = chain
        while prefix:
            capture = self._index.get((owner, prefix))
            if capture is not None:
                return capture, chain[len(prefix) :]
            prefix = prefix.rpartition(".")[0]
        return None

    def values(self) -> dict[str, Any]:
        """Value of every capture (not of the items of tuples) by its path."""
        return {capture.path: capture.value for capture in self.captures}

    def default(self, owner: int, parameter: str) -> Capture | None:
        """The captured default of a parameter; None if it has none."""
        return self._index.get((owner, f"default:{parameter}"))


def scan(function: FunctionType, previous: Scan | None = None, tables: Tables = DEVICE_TABLES) -> Scan:
    """Scan a kernel.

    Parameters
    ----------
    function : function
        The kernel's Python function.
    previous : Scan, optional
        An earlier scan of it, given back if nothing was rebound since.
    tables : Tables
        The job's method tables (`sterna.overlays.tables_for`).

    Raises
    ------
    SourceError
        If the kernel's own source facts cannot be had.  A captured function of which they cannot is an opaque
        object, with the reason as its `note`.
    """
    same = previous is not None and previous.kernel.function is function and previous.tables == tables
    if previous is not None and same and previous.holds():
        return previous
    return _Scanner(function, tables).run()


@frozen
class _Place:
    """Where a chain led: value, path, resolved chain, whether the path gives the same object again."""

    value: Any
    path: str
    chain: str
    nameable: bool = True


class _Scanner:
    def __init__(self, function: FunctionType, tables: Tables) -> None:
        self.tables = tables
        self.subjects: dict[int, Any] = {}
        self.functions = [Reached(0, "", function, facts_of(function), tables.defined_by(function))]
        self.ordinals = {id(function): 0}
        self.captures: list[Capture] = []
        self.missing: list[tuple[int, str]] = []
        self.guards: dict[tuple[int, str], Guard] = {}

    def run(self) -> Scan:
        for reached in self.functions:  # grows while it is walked: breadth first
            self._scan_one(reached)
        tables = TableGuard(self.subjects.values(), self.tables)
        return Scan(
            tuple(self.functions), tuple(self.captures), tuple(self.guards.values()), tuple(self.missing), self.tables,
            tables,
        )  # fmt: skip

    def _scan_one(self, reached: Reached) -> None:
        function = reached.function
        self._guard(function, "__code__", function.__code__)
        self._guard(function, "__defaults__", function.__defaults__)
        if function.__code__.co_kwonlyargcount:
            self._guard(function, "__kwdefaults__", function.__kwdefaults__)
            for name, value in (function.__kwdefaults__ or {}).items():
                self._guard(function.__kwdefaults__, name, value)
        for name, value in defaults_of(function).items():
            step = f"default:{name}"
            self._add(reached.ordinal, _Place(value, extend_path(reached.path, step), step))
        seen: set[str] = set()
        for chain in reached.facts.names:
            place = self._resolve(reached, chain)
            if place is None:
                self.missing.append((reached.ordinal, chain))
            elif place.chain not in seen:
                seen.add(place.chain)
                self._add(reached.ordinal, place)

    # ---- names to values -----------------------------------------------------------------------

    def _resolve(self, reached: Reached, chain: str) -> _Place | None:
        root, *attributes = chain.split(".")
        place = self._root(reached, root)
        if place is None:
            return None
        for name in attributes:
            following = self._follow(place, name)
            if following is None:
                break
            place = following
        return place

    def _root(self, reached: Reached, name: str) -> _Place | None:
        function = reached.function
        free = function.__code__.co_freevars
        if name in free and function.__closure__ is not None:
            cell = function.__closure__[free.index(name)]
            try:
                value = cell.cell_contents
            except ValueError:
                self._guard(cell, "cell_contents", MISSING)
                return None
            self._guard(cell, "cell_contents", value)
            return _Place(value, extend_path(reached.path, f"closure:{name}"), name)
        for kind, names in (("globals", function.__globals__), ("builtins", builtins_of(function))):
            value = names.get(name, MISSING)
            # nobody rebinds a built-in between launches, but a global may come to hide it
            if kind == "globals" or value is MISSING:
                self._guard(names, name, value)
            if value is not MISSING:
                return _Place(value, extend_path(reached.path, f"{kind}:{name}"), name)
        return None

    def _follow(self, place: _Place, name: str) -> _Place | None:
        """One attribute further, if the value is a module, class or enum member and has it."""
        value = place.value
        path, chain = extend_path(place.path, f"attr:{name}"), f"{place.chain}.{name}"
        if isinstance(value, ModuleType):
            names = vars(value)
            fixed = value.__name__.partition(".")[0] in _FIXED_MODULES
            if name in names:
                if not fixed:
                    self._guard(names, name, names[name])
                return _Place(names[name], path, chain, place.nameable)
            if fixed and hasattr(value, name):  # one that the module makes when it is first asked for
                return _Place(getattr(value, name), path, chain, place.nameable)
            return self._follow_attribute(place, name, path, chain)
        if isinstance(value, type) and value.__module__ != "builtins" and not issubclass(value, np.generic):
            return self._follow_attribute(place, name, path, chain)
        if isinstance(value, enum.Enum) and name in ("value", "name"):
            return _Place(getattr(value, name), path, chain, place.nameable)
        return None

    def _follow_attribute(self, place: _Place, name: str, path: str, chain: str) -> _Place | None:
        holder = place.value
        try:
            found = getattr(holder, name)
            again = getattr(holder, name)
        except AttributeError:
            self._guard(holder, name, MISSING)
            return None
        if found is again and not (isinstance(holder, enum.EnumMeta) and isinstance(found, holder)):
            self._guard(holder, name, found)  # members of an enum cannot be rebound
        return _Place(found, path, chain, place.nameable and found is again)

    def _guard(self, holder: Any, name: str, expected: Any) -> None:
        self.guards.setdefault((id(holder), name), Guard(holder, name, expected))

    # ---- values to captures --------------------------------------------------------------------

    def _add(self, owner: int, place: _Place) -> None:
        self.captures.append(self._capture(owner, place))

    def _capture(self, owner: int, place: _Place) -> Capture:
        overlay = self._overlay(owner, place.value) if callable(place.value) or stub_name(place.value) else None
        if overlay is not None:
            return self._overlaid(owner, place, overlay)
        found = classify(place.value)
        if found.kind is CaptureKind.FUNCTION:
            return self._function_capture(owner, place)
        items: tuple[Capture, ...] = ()
        key, kind_type = found.key, found.type
        if found.kind is CaptureKind.TUPLE:
            items = tuple(
                self._capture(
                    owner, _Place(value, extend_path(place.path, step), f"{place.chain} {step}", place.nameable)
                )
                for step, value in fields_of(place.value)
            )
            key = f"{key}({','.join(f'{len(item.key)}:{item.key}' for item in items)})"
            kind_type = _tuple_type(place.value, items)
        nameable = place.nameable or found.kind in _BY_VALUE
        return Capture(
            owner, place.chain, place.path, found.kind, place.value, kind_type, None, key, items, nameable, found.note
        )

    def _overlay(self, owner: int, value: Any) -> Overlay | None:
        """What the job's tables say of a function that `owner` names.

        A definition that names what it stands for means the next one: of a less specific table, or the host's; one
        that has no meaning on the host means itself.
        """
        subject = overlay_subject(value)
        self.subjects[id(subject)] = subject
        own = self.functions[owner].overlay
        if own is None or own.subject is not subject:
            return self.tables.find(subject)
        found = self.tables.find(subject, behind=own.table)
        return own if found is None and own.stub else found

    def _overlaid(self, owner: int, place: _Place, overlay: Overlay) -> Capture:
        """A capture that a method table gives its meaning."""
        if overlay.operation:
            found = intrinsic(f"sterna.{overlay.operation}")
            return Capture(
                owner, place.chain, place.path, found.kind, place.value, None, None, found.key, overlay=overlay
            )
        path = extend_path(place.path, f"override:{overlay.table}")
        several = len(overlay.definitions) > 1
        ordinals = []
        for number, definition in enumerate(overlay.definitions):
            ordinal = self.ordinals.get(id(definition))
            if ordinal is None:
                step = extend_path(path, f"item:{number}") if several else path
                refused = self._reach(definition, step, overlay)
                if refused.kind is not CaptureKind.FUNCTION:
                    return Capture(
                        owner, place.chain, place.path, refused.kind, place.value, refused.type, None, refused.key,
                        nameable=place.nameable, note=refused.note, overlay=overlay,
                    )  # fmt: skip
                ordinal = self.ordinals[id(definition)]
            ordinals.append(ordinal)
        key = "function:" + ",".join(map(str, ordinals))
        return Capture(
            owner, place.chain, place.path, CaptureKind.FUNCTION, place.value, None, ordinals[0], key,
            nameable=place.nameable, overlay=overlay, overloads=tuple(ordinals) if several else (),
        )  # fmt: skip

    def _function_capture(self, owner: int, place: _Place) -> Capture:
        function = underlying_function(place.value)
        ordinal = self.ordinals.get(id(function))
        found = Classified(CaptureKind.FUNCTION, None, "")
        if ordinal is None and function is not None:
            found = self._reach(function, place.path)
            ordinal = self.ordinals.get(id(function))
        key = found.key or f"function:{ordinal}"
        return Capture(
            owner, place.chain, place.path, found.kind, place.value, found.type, ordinal, key,
            nameable=place.nameable, note=found.note,
        )  # fmt: skip

    def _reach(self, function: FunctionType, path: str, overlay: Overlay | None = None) -> Classified:
        """Number a function met for the first time; an opaque object if its source facts cannot be had."""
        note = f"the kernel reaches more than {MAX_FUNCTIONS} functions"
        if len(self.functions) < MAX_FUNCTIONS:
            try:
                facts = facts_of(function)
            except SourceError as error:
                note = str(error)
            else:
                ordinal = self.ordinals[id(function)] = len(self.functions)
                overlay = overlay or self.tables.defined_by(function)
                self.functions.append(Reached(ordinal, path, function, facts, overlay))
                return Classified(CaptureKind.FUNCTION, None, "")
        return Classified(CaptureKind.OBJECT, OPAQUE, "object", note)


def _digest_of(function: FunctionType, tables: Tables) -> str:
    """Digests of a definition of the runtime library and of all that it reaches and captures."""
    found = _Scanner(function, tables).run()
    return ",".join([*(r.facts.digest for r in found.functions), *(c.key for c in found.captures)])


_FIXED_MODULES = frozenset({"math", "cmath", "numpy", "sterna"})
"""Modules whose attributes nobody rebinds between launches; what is captured from them is checked at each scan."""
_BY_VALUE = frozenset({CaptureKind.CONSTANT, CaptureKind.INTRINSIC, CaptureKind.MODULE})


def _tuple_type(value: Any, items: tuple[Capture, ...]) -> Type | None:
    types = tuple(item.type for item in items if item.type is not None)
    if len(types) != len(items):
        return None
    if type(value) is tuple:
        return TupleType(types)
    is_tuple = isinstance(value, tuple)
    names = tuple(step.partition(":")[2] for step, _ in fields_of(value)) if not is_tuple else type(value)._fields
    return StructType(type(value).__name__, names, types, is_tuple)
