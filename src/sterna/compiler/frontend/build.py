"""From a scanned kernel and argument types to a typed IR module: one specialisation per function and types.

A specialisation is translated (`translate`) until its return type is settled.  A call of one that is still being
translated is a recursion: it takes the return type inferred so far, or ends its path until one is known, and
everything that relied on it is translated again should the type change.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any

from sterna.compiler.deep import with_deep_stack
from sterna.compiler.frontend.captures import Names
from sterna.compiler.frontend.diagnostics import Place, Unresolved, fail, unsupported
from sterna.compiler.frontend.environment import Env, Slot
from sterna.compiler.frontend.finish import finish_module
from sterna.compiler.frontend.frame import Frame
from sterna.compiler.frontend.scopes import own_names
from sterna.compiler.frontend.values import Rt, Static, Value, from_expr
from sterna.compiler.ir.nodes import (
    Assign,
    Call,
    ErrorSite,
    Expr,
    ExprStatement,
    Function,
    HostRef,
    Local,
    Module,
    SiteRef,
)
from sterna.errors import SignatureError
from sterna.options import CompileOptions
from sterna.relocation.record import RefKind
from sterna.source.canonical import ordered_statements
from sterna.source.captures import CaptureKind, Scan
from sterna.source.locate import Located, locate
from sterna.targets.base import Target
from sterna.types import BOOL, NONE, OPAQUE, TYPE_TAG, VOID, Type

__all__ = ["Build", "Specialisation", "build_function", "build_module"]

_MAX_ATTEMPTS = 24
_NARROWER = {"float64": "float32", "complex128": "complex64"}


def build_module(scan: Scan, types: tuple[Type, ...], options: CompileOptions, target: Target) -> Module:
    """Translate a kernel and all device code it reaches into typed IR.

    Parameters
    ----------
    scan : Scan
        The kernel's captures and functions (`sterna.source.captures.scan`).
    types : tuple of Type
        Argument types, one a parameter.
    options : CompileOptions
        ``boundscheck`` and ``over`` matter here.
    target : Target
        Its unsupported types are refused.

    Returns
    -------
    Module
        At stage ``typed`` (`sterna.compiler.ir.verify`).

    Raises
    ------
    CompileError, UnsupportedError
        With the user's source line.
    """
    return with_deep_stack(_build, scan, types, options, target)


def _build(scan: Scan, types: tuple[Type, ...], options: CompileOptions, target: Target) -> Module:
    return Build(scan, options, target).module(types)


def build_function(scan: Scan, types: tuple[Type, ...], options: CompileOptions, target: Target) -> Module:
    """Translate a function as if a kernel called it with arguments of these types: one that may return a value."""
    return with_deep_stack(_build_function, scan, types, options, target)


def _build_function(scan: Scan, types: tuple[Type, ...], options: CompileOptions, target: Target) -> Module:
    build = Build(scan, options, target)
    spec = build.function(types)
    given = tuple(Local(name, t) for name, t in spec.params)
    returns = NONE if spec.returns is None else spec.returns
    call = Call(spec.name, given, VOID if returns == NONE else returns)
    body = ExprStatement(call, 0) if returns == NONE else Assign(".result", call, 0)
    locals_ = dict(spec.params) if returns == NONE else {**dict(spec.params), ".result": returns}
    entry = Specialisation(0, spec.node, build.unique("entry", 0), spec.shown, {}, spec.params, frozenset())
    entry.function = Function(entry.name, spec.params, locals_, VOID, (body,), False, 0)
    entry.callees, entry.raises = (spec.name,), spec.raises
    build.specialisations["entry"] = entry
    build.entry = entry.name
    return finish_module(build, entry)


@dataclass(eq=False)
class Specialisation:
    """One function for one set of argument types.

    Attributes
    ----------
    arguments : dict of str to Value
        What each parameter (and each name read from an enclosing function) is, in the function's own locals.
    params : tuple of (str, Type)
        IR parameters: the run-time parts of the arguments.
    returns : Type or None
        Inferred so far.
    site : SiteRef or None
        Where its failures are reported, if not at its own statements.
    """

    owner: int
    node: ast.FunctionDef | ast.Lambda
    name: str
    shown: str
    arguments: dict[str, Value]
    params: tuple[tuple[str, Type], ...]
    local_names: frozenset[str]
    returns: Type | None = None
    static_return: Value | None = None
    in_progress: bool = False
    function: Function | None = None
    raises: bool = False
    callees: tuple[str, ...] = ()
    returns_pybool: bool = True
    site: SiteRef | None = None
    hidden: Env = field(default_factory=dict)
    current: Frame | None = None
    relies_on: set[Specialisation] = field(default_factory=set)
    loop_heads: dict[Any, Env] = field(default_factory=dict)


class Build:
    """State of one compilation."""

    def __init__(self, scan: Scan, options: CompileOptions, target: Target) -> None:
        self.scan, self.options, self.target = scan, options, target
        self.names = Names(self, scan)
        self.kernel = scan.functions[0].function.__name__
        self.specialisations: dict[Any, Specialisation] = {}
        self.stack: list[Specialisation] = []
        self.sites: dict[ErrorSite, int] = {}
        self.entry = ""
        self.keep: list[Any] = []
        self._located: dict[int, Located] = {}
        self._ordinals: dict[int, dict[int, int]] = {}
        self._taken: dict[str, int] = {}
        self._cycle_names: list[str] = []

    @property
    def for_host(self) -> bool:
        """Whether this is code of the host, which sees no definition of devices."""
        return not self.scan.tables.names

    def module(self, types: tuple[Type, ...]) -> Module:
        """Translate the kernel for `types`, and put the module together."""
        spec = self._first(types)
        self.specialisations["entry"] = spec
        self.entry = spec.name
        self.translate(spec)
        return finish_module(self, spec)

    def function(self, types: tuple[Type, ...]) -> Specialisation:
        """Translate the first function for `types`, as a function that others call."""
        spec = self._first(types)
        self.specialisations["function"] = spec
        self.translate(spec)
        return spec

    def _first(self, types: tuple[Type, ...]) -> Specialisation:
        """The scan's first function with parameters of these types."""
        located = self.located(0)
        node = located.node
        place = Place(located, self.kernel, self.kernel)
        if isinstance(node, ast.AsyncFunctionDef):
            unsupported(place, node, "a kernel cannot be a coroutine", "write def, not async def")
        args = node.args
        if args.vararg or args.kwarg:
            fail(place, args.vararg or args.kwarg or node, "a kernel has no *args or **kwargs", "name every parameter")
        names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
        if len(types) != len(names):
            raise SignatureError(f"kernel {self.kernel} takes {len(names)} arguments, {len(types)} types were given")
        for name, t in zip(names, types, strict=True):
            self.allow(t, place, node, f"parameter {name}")
        params = tuple(zip(names, types, strict=True))
        arguments = {name: from_expr(Local(name, t)) for name, t in params}
        return Specialisation(0, node, self.unique("", 0), self.kernel, arguments, params, own_names(node))

    def allow(self, t: Type, place: Place, node: ast.AST, what: str) -> None:
        """Refuse a type that the target does not have."""
        if self.target.unsupported_types:
            for name in sorted(self.target.unsupported_types):
                if re.search(rf"\b{name}\b", str(t)):
                    hint = f"use {_NARROWER[name]} instead" if name in _NARROWER else ""
                    fail(place, node, f"{what} is {t}, and target {self.target.name} has no {name}", hint)

    # ---- functions ----

    def located(self, owner: int) -> Located:
        """Source of the function with this ordinal."""
        found = self._located.get(owner)
        if found is None:
            found = self._located[owner] = locate(self.scan.functions[owner].function)
        return found

    def first_line(self, owner: int) -> int:
        """Line of the ``def``."""
        return self.located(owner).node.lineno

    def statement_ordinal(self, owner: int, node: ast.AST) -> int:
        """Position of a statement in its function (`sterna.source.canonical.ordered_statements`)."""
        table = self._ordinals.get(owner)
        if table is None:
            statements = ordered_statements(self.located(owner).node)
            table = self._ordinals[owner] = {id(s): k for k, s in enumerate(statements)}
        return table.get(id(node), 0)

    def unique(self, nested: str, owner: int) -> str:
        """A name for an IR function: qualified name, ordinal, number of the specialisation."""
        function = self.scan.functions[owner].function
        qualified = re.sub(r"[^A-Za-z0-9_]+", "_", function.__qualname__).strip("_") or "lambda"
        base = qualified if owner == 0 and not nested else f"{qualified}.{owner}"
        base += f".{re.sub(r'[^A-Za-z0-9_]+', '_', nested)}" if nested else ""
        count = self._taken[base] = self._taken.get(base, -1) + 1
        return f"{base}.s{count}" if count else base

    def is_language(self, owner: int) -> bool:
        """Whether a function is part of the language: what is wrong with its use is said at the user's call."""
        return str(self.scan.functions[owner].function.__module__).startswith("sterna.language.")

    def error_site(self, exception: str, message: str, place: SiteRef) -> int:
        """Index of an error site; equal sites share one."""
        site = ErrorSite(exception, message, place)
        return self.sites.setdefault(site, len(self.sites))

    def static_expr(self, frame: Frame, value: Static) -> Expr | None:
        """The host reference of a captured object, class or symbol; None for what has no word."""
        capture = value.capture
        if capture is None:
            return None
        if capture.kind is CaptureKind.SYMBOL:
            return HostRef(RefKind.SYMBOL, capture.path, TYPE_TAG)
        if isinstance(value.value, type):
            return HostRef(RefKind.TYPE, capture.path, TYPE_TAG)
        return HostRef(RefKind.OBJECT, capture.path, OPAQUE)

    # ---- translation ----

    def translate(self, spec: Specialisation) -> None:
        """Translate `spec`, as often as its return type changes.

        Raises
        ------
        Unresolved
            If its return type depends on a caller's that is not known yet.
        """
        spec.in_progress = True
        self.stack.append(spec)
        try:
            for _ in range(_MAX_ATTEMPTS):
                if self._attempt(spec):
                    return
            place = Place(self.located(spec.owner), spec.shown, self.kernel)
            fail(place, spec.node, f"the types of {spec.shown} do not settle", "give each name one type")
        finally:
            self.stack.pop()
            spec.in_progress = False

    def _attempt(self, spec: Specialisation) -> bool:
        from sterna.compiler.frontend.statements import function_body

        place = Place(self.located(spec.owner), spec.shown, self.kernel)
        assumed = spec.returns, spec.static_return, spec.returns_pybool
        spec.relies_on = set()
        frame = Frame(self, spec, place)
        spec.current = frame
        for name, t in spec.params:
            frame.locals[name] = t
        for name, value in spec.arguments.items():
            home = value.expr.name if isinstance(value, Rt) and isinstance(value.expr, Local) else None
            if home is not None:
                frame.adopt(name, home)
            frame.env[name] = Slot(value, home)
        for name, slot in spec.hidden.items():
            if slot.home is not None:
                frame.adopt(name, slot.home)
            frame.env[name] = slot
        settled = function_body(frame, spec.node)
        spec.returns, spec.static_return = frame.returns, frame.static_return
        spec.returns_pybool = frame.return_pybool and spec.returns in (None, BOOL)
        changed = assumed != (spec.returns, spec.static_return, spec.returns_pybool)
        used = spec in spec.relies_on
        outer = {other for other in spec.relies_on if other is not spec and other.in_progress}
        if frame.incomplete is not None and not changed:
            if outer:
                if spec.returns is None and spec.static_return is None:
                    raise Unresolved
            else:
                self._cycle(frame, frame.incomplete)
        elif not settled or (changed and used) or frame.incomplete is not None:
            self._forget(spec)
            return False
        spec.relies_on = outer
        returns = NONE if spec.returns is None else spec.returns
        spec.raises, spec.callees = frame.raises, tuple(frame.callees)
        spec.function = Function(
            spec.name, spec.params, frame.locals, VOID if returns == NONE else returns, frame.body(), False, spec.owner
        )
        return True

    def _forget(self, head: Specialisation) -> None:
        """Translations that relied on what `head` seemed to return are to be made again."""
        for spec in self.specialisations.values():
            if head in spec.relies_on and not spec.in_progress:
                spec.function = None

    def note_cycle(self, head: Specialisation) -> None:
        """Remember the functions from `head`, which is being translated, to the one that calls it again."""
        self._cycle_names = [spec.shown for spec in self.stack[self.stack.index(head) :]]

    def _cycle(self, frame: Frame, node: ast.AST) -> None:
        shown = " → ".join([*self._cycle_names, self._cycle_names[0]])
        frame.fail(
            node, f"the result type of the recursion {shown} cannot be inferred",
            "return a value that does not come from the recursive call on a path before it",
        )  # fmt: skip
