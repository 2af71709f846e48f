"""One function while it is translated: names, homes, temporaries, the statements made so far, error sites.

The translators (`statements`, `loops`, `expressions`, `rules`) are functions over a `Frame`.  A frame makes IR by
appending to `out`; `env` says what names mean at that point (`environment`) and `alive` whether
control can reach it.  Statement lists stay mutable until `freeze`, because joins append moves to them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from sterna.compiler.frontend.diagnostics import Place, Unresolved, fail, unsupported
from sterna.compiler.frontend.environment import Edge, Env, Slot, flag_of
from sterna.compiler.frontend.promotion import Unfit, cast_expr, join_types
from sterna.compiler.frontend.values import (
    BoundMethod,
    Closure,
    IterValue,
    RangeValue,
    Rt,
    Static,
    TupleValue,
    Value,
    describe,
    is_constant,
    items_of,
    runtime_expr,
)  # fmt: skip
from sterna.compiler.ir.nodes import (
    Assign,
    Const,
    Expr,
    ForRange,
    GetItem,
    If,
    Local,
    MakeTuple,
    Raise,
    SiteRef,
    Stmt,
    Unary,
    While,
)  # fmt: skip
from sterna.types import BOOL, NONE, ArrayType, Scalar, StructType, TupleType, Type

if TYPE_CHECKING:
    from sterna.compiler.frontend.build import Build, Specialisation

__all__ = ["Frame", "Loop", "freeze"]


@dataclass(slots=True)
class Loop:
    """A loop being translated (one attempt).

    Attributes
    ----------
    assigned : frozenset of str
        Names its body binds.
    head : dict of str to Slot
        What names mean at its head.
    breaks, continues : list of Edge
        Paths that leave the body; the statement that does so is appended when the moves before it are known.
    needed : dict of str to ast.AST
        Names read before the body binds them, that the head does not have.
    extra : dict of str to Slot
        Names that only the body binds, as they are after it.
    """

    assigned: frozenset[str]
    head: Env
    breaks: list[Edge] = field(default_factory=list)
    continues: list[Edge] = field(default_factory=list)
    needed: dict[str, ast.AST] = field(default_factory=dict)
    extra: Env = field(default_factory=dict)

    def leave(self, frame: Frame, edges: list[Edge]) -> None:
        """End the current path as one of `edges`."""
        edges.append(Edge(frame.env, frame.out))
        frame.alive = False


class Frame:
    """State of the translation of one specialisation (one attempt of it)."""

    def __init__(self, build: Build, spec: Specialisation, place: Place) -> None:
        self.build, self.spec, self.place = build, spec, place
        self.env: Env = {}
        self.out: list[Stmt] = []
        self.alive = True
        self.locals: dict[str, Type] = {}
        self.loops: list[Loop] = []
        self.inbounds = 0
        self.callees: dict[str, None] = {}
        self.raises = False
        self.incomplete: ast.AST | None = None
        self.returns: Type | None = spec.returns
        self.static_return: Value | None = None
        self.returned: set[Type] = set()
        self.return_pybool = spec.returns_pybool
        self.node: ast.AST = spec.node
        self.walrus = 0
        self.loop_assigns: frozenset[str] | None = None
        self.unrolled: tuple[int, ...] = ()
        self.statement = 0
        self.line = 0
        self._homes: dict[tuple[str, Type], str] = {}
        self._temps = 0
        self._arrays: dict[object, str] = {}
        self._flags: dict[str, bool] = {}

    # ---- places and errors ----

    def fail(self, node: ast.AST, message: str, hint: str = "") -> NoReturn:
        """Raise a `CompileError` at `node`; in a function of the language, at the user's call of it."""
        blamed, inner = self._blamed()
        fail(blamed.place, node if blamed is self else blamed.node, message + inner._called_with(), hint)

    def unsupported(self, node: ast.AST, message: str, hint: str = "") -> NoReturn:
        """Raise an `UnsupportedError` at `node`; in a function of the language, at the user's call of it."""
        blamed, inner = self._blamed()
        unsupported(blamed.place, node if blamed is self else blamed.node, message + inner._called_with(), hint)

    def _blamed(self) -> tuple[Frame, Frame]:
        """The innermost frame of the user's code, and what it calls; this frame twice if it is, or there is none."""
        inner = self
        if self.build.is_language(self.spec.owner):
            for spec in reversed(self.build.stack):
                if spec.current is not None and not self.build.is_language(spec.owner):
                    return spec.current, inner
                inner = spec.current or inner
        return self, self

    def _called_with(self) -> str:
        """What a device function was called with, for errors in it."""
        if self.spec.name == self.build.entry:
            return ""
        args = ", ".join(f"{name}: {describe(value)}" for name, value in self.spec.arguments.items())
        return f" [in {self.spec.shown}({args})]"

    def at(self, node: ast.stmt) -> None:
        """Make `node` the statement that error sites and lines refer to."""
        self.statement = self.build.statement_ordinal(self.spec.owner, node)
        self.line = node.lineno - self.build.first_line(self.spec.owner)

    def error_site(self, exception: str, message: str) -> int:
        """Index of an error site at the current statement."""
        self.raises = True
        return self.build.error_site(exception, message, self.spec.site or self._here())

    def site_of_call(self, owner: int, tree: ast.AST) -> SiteRef | None:
        """Where failures in a function that is called here are reported, if that is not in the function itself.

        Those of the language are reported at the user's call; of one that may fail each call has its own code.
        """
        if not self.build.is_language(owner) or not any(isinstance(n, ast.Raise) for n in ast.walk(tree)):
            return None
        return self.spec.site if self.build.is_language(self.spec.owner) else self._here()

    def _here(self) -> SiteRef:
        return SiteRef(self.spec.owner, self.statement, self.line)

    def index_check(self) -> int | None:
        """The error index of a checked access here, or None where checks are off."""
        if self.inbounds or not self.build.options.boundscheck:
            return None
        return self.error_site("IndexError", "index {0} is out of bounds for axis {1} with size {2}")

    def check(self, test: Expr, exception: str, message: str, details: tuple[Expr, ...] = ()) -> None:
        """Emit: if `test` then raise."""
        if isinstance(test, Const) and not test.value:
            return
        site = self.error_site(exception, message)
        if isinstance(test, Const):
            self.out.append(Raise(site, details, self.line))
            return
        self.out.append(If(test, [Raise(site, details, self.line)], [], self.line))  # type: ignore[arg-type]

    # ---- locals ----

    def home(self, name: str, t: Type) -> str:
        """The IR local that holds values of type `t` of a name."""
        found = self._homes.get((name, t))
        if found is None:
            found, k = name, 1
            while found in self.locals:
                k += 1
                found = f"{name}.{k}"
            self._homes[name, t] = found
            self.locals[found] = t
        return found

    def adopt(self, name: str, home: str) -> None:
        """Make the existing local `home` (a parameter) the home of its type for `name`."""
        self._homes[name, self.locals[home]] = home

    def temp(self, expr: Expr) -> Local:
        """Evaluate `expr` now, into a fresh local."""
        self._temps += 1
        name = f".{self._temps}"
        self.locals[name] = expr.type
        self.out.append(Assign(name, expr, self.line))
        return Local(name, expr.type)

    def fresh(self, t: Type) -> str:
        """A fresh local with no value yet."""
        self._temps += 1
        name = f".{self._temps}"
        self.locals[name] = t
        return name

    def array_name(self, node: ast.AST, kind: str) -> str:
        """Name of the shared or local array made at `node`: the same in every attempt, unique in the module."""
        key = (id(node), kind)
        if key not in self._arrays:
            self._arrays[key] = f"{self.spec.name}.{kind}{len(self._arrays)}"
        return self._arrays[key]

    def use_flag(self, name: str) -> None:
        """Declare the flag of a name that may be unbound."""
        self._flags.setdefault(name, False)
        self.locals.setdefault(flag_of(name), BOOL)

    # ---- values ----

    def stable(self, value: Value) -> Value:
        """`value` in a form that may be read several times."""
        if isinstance(value, Rt):
            if is_constant(value.expr) or root_local(value.expr) is not None:
                return value
            return Rt(self.temp(value.expr), value.pybool, value.nonneg)
        if isinstance(value, TupleValue):
            return TupleValue(tuple(self.stable(item) for item in value.items), value.struct)
        return value

    def hold(self, value: Value, assigned: frozenset[str] | None = None) -> Value:
        """`value` now, whatever is assigned later: to any name, or to the names `assigned` only.

        A local that may be assigned is copied.
        """
        if isinstance(value, Rt) and not is_constant(value.expr):
            root = root_local(value.expr)
            if root is not None and not self.is_home_of(root.name, assigned):
                return value
            return Rt(self.temp(value.expr), value.pybool, value.nonneg)
        if isinstance(value, TupleValue):
            return TupleValue(tuple(self.hold(item, assigned) for item in value.items), value.struct)
        if isinstance(value, RangeValue):
            return RangeValue(*(self.hold(part, assigned) for part in (value.start, value.stop, value.step)))  # type: ignore[arg-type]
        if isinstance(value, BoundMethod):
            return BoundMethod(self.hold(value.receiver, assigned), value.name)
        return value

    def is_home_of(self, local: str, names: frozenset[str] | None) -> bool:
        """Whether a local is the home of one of `names` (None: of any name)."""
        if local.startswith("."):
            return False
        return names is None or local.partition("[")[0].partition(".")[0] in names

    def spill(self, values: Sequence[Value], mark: int, walrus: int) -> list[Value]:
        """Evaluate `values` before the statements from `mark` on, which came from a later operand."""
        tail = self.out[mark:]
        del self.out[mark:]
        kept = [self.hold(v) if self.walrus != walrus else self.stable(v) for v in values]
        self.out.extend(tail)
        return kept

    def runtime(self, value: Value, node: ast.AST, what: str = "a value") -> Expr:
        """The expression of `value`, or an error that it cannot exist at run time."""
        if isinstance(value, Static):
            expr = self.build.static_expr(self, value)
            if expr is not None:
                return expr
        expr = runtime_expr(value)
        if expr is None:
            self.fail(node, f"{describe(value)} cannot be used as {what} at run time")
        return expr

    def cast(self, expr: Expr, t: Scalar, node: ast.AST) -> Expr:
        """`expr` as `t`; an error at `node` if a constant does not fit."""
        try:
            return cast_expr(expr, t)
        except Unfit as error:
            self.fail(node, str(error), error.hint)

    # ---- names ----

    def read(self, node: ast.Name, free: bool = False) -> Value | None:
        """The value of a local name, or None if the name is not one of this function's.

        `free`: it is read by a nested function.
        """
        name = node.id
        slot = self.env.get(name)
        if slot is None:
            if name not in self.spec.local_names:
                return None
            return self._unbound(node)
        if slot.maybe:
            self._note_needed(node)
            self.use_flag(name)
            self._flags[name] = True
            bound = Local(flag_of(name), BOOL)
            kind, where = ("free", " in enclosing scope") if free else ("local", "")
            message = f"cannot access {kind} variable '{name}' where it is not associated with a value{where}"
            self.check(Unary("not", bound, BOOL), "NameError" if free else "UnboundLocalError", message)
            slot = self.env[name] = Slot(slot.value, slot.home, False, slot.conflict)
        if slot.value is None:
            self.fail(node, slot.conflict, "give each meaning its own name")
        return slot.value

    def is_carried(self, name: str) -> bool:
        """Whether a name without meaning here may have one from the turn before of a loop."""
        return any(name in loop.assigned and name not in loop.head for loop in self.loops)

    def _note_needed(self, node: ast.Name) -> bool:
        found = False
        for loop in self.loops:
            if node.id in loop.assigned and node.id not in loop.head:
                loop.needed[node.id] = node
                found = True
        return found

    def _unbound(self, node: ast.Name) -> NoReturn:
        if self._note_needed(node):
            raise Unresolved
        self.fail(node, f"local variable {node.id} is read before it is assigned", "assign it first on every path")

    def assign(self, name: str, value: Value, node: ast.AST) -> None:
        """Bind a local name to a value."""
        expr = runtime_expr(value)
        if expr is None and isinstance(value, TupleValue):
            items = tuple(self._assign_item(f"{name}[{k}]", item, node) for k, item in enumerate(value.items))
            self.env[name] = Slot(TupleValue(items, value.struct))
            return
        if expr is None:
            self.env[name] = Slot(self._kept(value, node))
            return
        if expr.type == NONE:
            if not isinstance(expr, Const):
                self.fail(node, "this call returns nothing")
            self.env[name] = Slot(value)
            return
        if isinstance(expr, Const) and isinstance(expr.type, Scalar):
            self.cast(expr, expr.type, node)
        home = self.home(name, expr.type)
        self.out.append(Assign(home, expr, self.line))
        if is_constant(expr):
            self.env[name] = Slot(value, home)
            return
        pybool = isinstance(value, Rt) and value.pybool
        nonneg = isinstance(value, Rt) and value.nonneg
        self.env[name] = Slot(Rt(Local(home, expr.type), pybool, nonneg), home)

    def _kept(self, value: Value, node: ast.AST) -> Value:
        """A compile-time value that a name can stand for."""
        if isinstance(value, IterValue):
            self.unsupported(
                node, f"{value.kind} is an iterator, used up by its first loop; it cannot have a name in device code",
                f"write it into the for: `for … in {value.kind}(…):`",
            )  # fmt: skip
        return self.hold(value)

    def _assign_item(self, name: str, value: Value, node: ast.AST) -> Value:
        expr = runtime_expr(value)
        if expr is None:
            if isinstance(value, TupleValue):
                items = tuple(self._assign_item(f"{name}[{k}]", item, node) for k, item in enumerate(value.items))
                return TupleValue(items, value.struct)
            return self._kept(value, node)
        if is_constant(expr):
            return value
        home = self.home(name, expr.type)
        self.out.append(Assign(home, expr, self.line))
        if isinstance(value, Rt):
            return Rt(Local(home, expr.type), value.pybool, value.nonneg)
        return Rt(Local(home, expr.type))

    # ---- returning ----

    def note_return(self, value: Value, node: ast.AST) -> Expr | None:
        """Join `value` into what the function returns; the expression to return."""
        expr = runtime_expr(value)
        t: Type = NONE
        if expr is not None and expr.type == NONE:
            expr = None
        elif expr is None:
            self._static_return(value, node)
            return None
        else:
            t = expr.type
        if isinstance(t, ArrayType) and t.space == "local":
            self.unsupported(node, "a local array cannot be returned: it ends with the function", "pass it in")
        self.return_pybool = self.return_pybool and isinstance(value, Rt) and value.pybool
        if self.static_return is not None:
            self._conflicting_returns(node, describe(self.static_return), describe(value))
        if self.returns is None:
            self.returns = t
        joined = join_types(self.returns, t)
        if joined is None:
            self._conflicting_returns(node, describe(Rt(Local("", self.returns))), describe(value))
        self.returns = joined
        return expr

    def _static_return(self, value: Value, node: ast.AST) -> None:
        if not isinstance(value, Static):
            what = f"function {value.name}" if isinstance(value, Closure) else describe(value)
            self.unsupported(node, f"{what} cannot be returned", "return its parts, or call it here")
        before = self.static_return
        if before is None and self.returns is None:
            self.static_return = value
        elif not (isinstance(before, Static) and (before.value is value.value or before.value == value.value)):
            shown = describe(before) if before is not None else describe(Rt(Local("", self.returns or NONE)))
            self._conflicting_returns(node, shown, describe(value))

    def _conflicting_returns(self, node: ast.AST, one: str, other: str) -> NoReturn:
        one, other = (("nothing" if shown == "None" else shown) for shown in (one, other))
        self.fail(node, f"{self.place.function} returns {other} here and {one} on another path", "return one type")

    # ---- finishing ----

    def body(self) -> tuple[Stmt, ...]:
        """The finished statements: flags that nobody reads left out, those read set to false first."""
        read = [flag_of(name) for name, used in self._flags.items() if used]
        unread = {flag_of(name) for name, used in self._flags.items() if not used}
        for name in unread:
            self.locals.pop(name, None)
        start: list[Stmt] = [Assign(name, Const(False, BOOL)) for name in read]
        return freeze(start + self.out, unread)


def root_local(expr: Expr) -> Local | None:
    """The local that `expr` is, or is an item of."""
    while isinstance(expr, GetItem):
        expr = expr.value
    return expr if isinstance(expr, Local) else None


def freeze(statements: Sequence[Stmt], dropped: set[str]) -> tuple[Stmt, ...]:
    """Statements with tuples for lists, without assignments to `dropped` locals."""
    frozen: list[Stmt] = []
    for s in statements:
        if isinstance(s, If):
            frozen.append(If(s.test, freeze(s.then, dropped), freeze(s.orelse, dropped), s.line))
        elif isinstance(s, While):
            frozen.append(While(s.test, freeze(s.body, dropped), s.line))
        elif isinstance(s, ForRange):
            frozen.append(ForRange(s.target, s.start, s.stop, s.step, freeze(s.body, dropped), s.line))
        elif not (isinstance(s, Assign) and s.target in dropped):
            frozen.append(s)
    return tuple(frozen)


def tuple_items(frame: Frame, value: Value, node: ast.AST) -> tuple[Value, ...] | None:
    """Items of a tuple or struct value, made stable first; None for other values."""
    known = isinstance(value, Rt) and not isinstance(value.expr, MakeTuple)
    if known and isinstance(value, Rt) and isinstance(value.expr.type, TupleType | StructType):
        value = frame.stable(value)
    return items_of(value)
