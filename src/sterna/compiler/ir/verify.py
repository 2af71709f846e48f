"""Which IR is legal at which stage, and whether a module is.

Stages: ``typed`` (what the frontend makes) and ``lowered`` (no `HostRef`; words instead).  The verifier checks
node classes, operand types, declared locals, called functions, error indices and the placement of ``break``.
A failure is a fault of the compiler, never of a user; the report shows the function and the statement.
"""

from __future__ import annotations

from typing import Any

from sterna.compiler.deep import with_deep_stack
from sterna.compiler.ir import nodes as n
from sterna.compiler.ir.rewrite import walk
from sterna.compiler.ir.text import expr_text
from sterna.errors import CompileError
from sterna.types import BOOL, NONE, OPAQUE, PYINT, TYPE_TAG, VOID, ArrayType, RecordRefType, Scalar

__all__ = ["STAGES", "IRError", "verify"]

_COMMON = frozenset(
    {
        n.Const, n.Local, n.Unary, n.Binary, n.Compare, n.IfExp, n.Cast, n.Call, n.Intrinsic, n.Element, n.FieldRef,
        n.SliceAxis, n.NewAxis, n.View, n.Extent, n.Stride, n.MakeTuple, n.GetItem, n.TypeOf, n.SharedArray,
        n.LocalArray, n.Atomic, n.Assign, n.Store, n.StoreField, n.ExprStatement, n.If, n.While, n.ForRange, n.Break,
        n.Continue, n.Return, n.Raise, n.Print,
    }
)  # fmt: skip
STAGES: dict[str, frozenset[type[Any]]] = {
    "typed": _COMMON | {n.HostRef},
    "lowered": _COMMON | {n.SlotWord, n.TableWord, n.RefWord, n.ArrayOf},
}
"""Stage → node classes allowed in it."""


class IRError(CompileError):
    """Ill-formed IR: a fault of the compiler."""


def verify(module: n.Module, stage: str) -> None:
    """Check a module.

    Parameters
    ----------
    module : Module
        To check.
    stage : str
        ``typed`` or ``lowered``.

    Raises
    ------
    IRError
        Naming the function, the statement and what is wrong.
    """
    if module.entry not in module.functions:
        raise IRError(f"the entry {module.entry} is not in the module")
    if module.functions[module.entry].returns != VOID:
        raise IRError(f"the entry {module.entry} returns {module.functions[module.entry].returns}")
    for name, function in module.functions.items():
        if function.name != name:
            raise IRError(f"function {function.name} is filed as {name}")
        with_deep_stack(_Checker(module, function, STAGES[stage], stage).run)


class _Checker:
    """One function's check."""

    def __init__(self, module: n.Module, function: n.Function, legal: frozenset[type[Any]], stage: str) -> None:
        self.module, self.function, self.legal, self.stage = module, function, legal, stage

    def run(self) -> None:
        """Check everything."""
        for name, t in self.function.params:
            if self.function.locals.get(name) != t:
                raise IRError(f"in {self.function.name}: parameter {name} is not declared as {t}")
        self._block(self.function.body, 0)

    def _wrong(self, node: Any, why: str) -> None:
        shown = (
            expr_text(node)
            if not isinstance(node, n.Stmt)
            else f"{type(node).__name__} at line {getattr(node, 'line', 0)}"
        )
        raise IRError(f"in {self.function.name} (stage {self.stage}): {why}: {shown[:300]}")

    def _block(self, statements: Any, loops: int) -> None:
        if not isinstance(statements, tuple):
            raise IRError(f"in {self.function.name}: a block is a {type(statements).__name__}, not a tuple")
        for s in statements:
            if type(s) not in self.legal:
                self._wrong(s, f"a {type(s).__name__} is not legal here")
            self._statement(s, loops)

    def _statement(self, s: Any, loops: int) -> None:
        if isinstance(s, n.If):
            self._exprs(s.test)
            self._typed(s.test, BOOL, s)
            self._block(s.then, loops)
            self._block(s.orelse, loops)
        elif isinstance(s, n.While):
            self._exprs(s.test)
            self._typed(s.test, BOOL, s)
            self._block(s.body, loops + 1)
        elif isinstance(s, n.ForRange):
            self._exprs(s.start, s.stop, s.step)
            for bound in (s.start, s.stop, s.step):
                self._typed(bound, PYINT, s)
            self._declared(s.target, PYINT, s)
            self._block(s.body, loops + 1)
        elif isinstance(s, n.Break | n.Continue):
            if not loops:
                self._wrong(s, f"{type(s).__name__} outside a loop")
        else:
            self._exprs(*(child for child in walk([s]) if child is not s), deep=False)
            self._simple(s)

    def _simple(self, s: Any) -> None:
        if isinstance(s, n.Assign):
            self._declared(s.target, s.value.type, s)
        elif isinstance(s, n.Store):
            self._array(s.array, len(s.indices), s)
            self._typed(s.value, s.array.type.dtype, s)  # type: ignore[union-attr]
            self._error(s.check, s)
        elif isinstance(s, n.StoreField):
            if not isinstance(s.record.type, RecordRefType):
                self._wrong(s, f"a field of {s.record.type} is stored")
        elif isinstance(s, n.Return):
            found = VOID if s.value is None else s.value.type
            if found != self.function.returns:
                self._wrong(s, f"returns {found} from a function of {self.function.returns}")
        elif isinstance(s, n.Raise):
            self._error(s.error, s)
            if len(s.details) > 3:
                self._wrong(s, "more than three details")

    def _exprs(self, *exprs: Any, deep: bool = True) -> None:
        for e in walk(exprs) if deep else exprs:
            if type(e) not in self.legal:
                self._wrong(e, f"a {type(e).__name__} is not legal here")
            check = _EXPR_CHECKS.get(type(e))
            if check is not None:
                check(self, e)

    # ---- helpers of the table below ----

    def _typed(self, e: Any, t: Any, where: Any) -> None:
        if e.type != t:
            self._wrong(where, f"{expr_text(e)[:120]} is {e.type}, {t} is expected")

    def _declared(self, name: str, t: Any, where: Any) -> None:
        if self.function.locals.get(name) != t:
            self._wrong(where, f"local {name} is {self.function.locals.get(name)}, used as {t}")

    def _error(self, index: int | None, where: Any) -> None:
        if index is not None and not 0 <= index < len(self.module.errors):
            self._wrong(where, f"there is no error {index}")

    def _array(self, array: Any, indices: int, where: Any) -> None:
        if not isinstance(array.type, ArrayType):
            self._wrong(where, f"{array.type} is indexed")
        if array.type.ndim != indices:
            self._wrong(where, f"{indices} indices for {array.type}")


def _check_local(c: _Checker, e: n.Local) -> None:
    c._declared(e.name, e.type, e)


def _check_binary(c: _Checker, e: n.Binary) -> None:
    c._typed(e.left, e.type, e)
    c._typed(e.right, e.type, e)
    if not isinstance(e.type, Scalar) or e.type.kind == "e":
        c._wrong(e, f"arithmetic on {e.type}")


def _check_compare(c: _Checker, e: n.Compare) -> None:
    left, right = e.left.type, e.right.type
    if e.op in ("is", "is not"):
        if left != right or left not in (OPAQUE, TYPE_TAG):
            c._wrong(e, f"identity of {left} and {right}")
    elif left != right and {str(left), str(right)} != {"int64", "uint64"}:
        c._wrong(e, f"comparison of {left} and {right}")


def _check_ifexp(c: _Checker, e: n.IfExp) -> None:
    c._typed(e.test, BOOL, e)
    c._typed(e.then, e.type, e)
    c._typed(e.orelse, e.type, e)


def _check_cast(c: _Checker, e: n.Cast) -> None:
    if not isinstance(e.operand.type, Scalar) or not isinstance(e.type, Scalar):
        c._wrong(e, f"conversion from {e.operand.type} to {e.type}")


def _check_call(c: _Checker, e: n.Call) -> None:
    callee = c.module.functions.get(e.function)
    if callee is None:
        c._wrong(e, f"there is no function {e.function}")
        return
    found = tuple(arg.type for arg in e.args)
    if found != tuple(t for _, t in callee.params):
        c._wrong(e, f"arguments {found} for {callee.params}")
    if e.type != callee.returns:
        c._wrong(e, f"{callee.returns} is returned, {e.type} expected")


def _check_element(c: _Checker, e: n.Element) -> None:
    c._array(e.array, len(e.indices), e)
    for index in e.indices:
        c._typed(index, PYINT, e)
    c._error(e.check, e)


def _check_atomic(c: _Checker, e: n.Atomic) -> None:
    if e.field is None:
        c._array(e.array, len(e.indices), e)
    for value in e.values:
        c._typed(value, e.type, e)
    c._error(e.check, e)


def _check_view(c: _Checker, e: n.View) -> None:
    if not isinstance(e.array.type, ArrayType):
        c._wrong(e, f"a view of {e.array.type}")
    c._error(e.check, e)


def _check_tuple(c: _Checker, e: n.MakeTuple) -> None:
    if tuple(item.type for item in e.items) != e.type.items:
        c._wrong(e, f"items {[str(i.type) for i in e.items]} for {e.type}")


def _check_const(c: _Checker, e: n.Const) -> None:
    ok = e.value is None if e.type == NONE else isinstance(e.type, Scalar)
    if not ok:
        c._wrong(e, f"constant {e.value!r} of {e.type}")


def _check_intrinsic(c: _Checker, e: n.Intrinsic) -> None:
    if e.name == "state.generator" and c.stage == "lowered":
        c._wrong(e, "the generator was not started")


_EXPR_CHECKS: dict[type[Any], Any] = {
    n.Local: _check_local, n.Binary: _check_binary, n.Compare: _check_compare, n.IfExp: _check_ifexp,
    n.Cast: _check_cast, n.Call: _check_call, n.Element: _check_element, n.Atomic: _check_atomic,
    n.View: _check_view, n.MakeTuple: _check_tuple, n.Const: _check_const, n.Intrinsic: _check_intrinsic,
}  # fmt: skip
