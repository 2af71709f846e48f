"""Emits statements: structured control flow becomes basic blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
from sterna.compiler.codegen.llvm.guards import Guard, count_checks, has_checks, make_guard
from sterna.compiler.codegen.llvm.integers import int_constant, range_count
from sterna.compiler.codegen.llvm.layout import register_type
from sterna.compiler.codegen.llvm.ranges import RangeAnalysis
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk
from sterna.types import ArrayType, RecordRefType, Scalar, field_align

__all__ = ["emit_body"]

_GUARDED_NODES, _GUARDED_CHECKS = 200, 2
"""Most nodes of straight code that is emitted twice, and the fewest accesses whose checks one test replaces."""
_UNROLLED_TURNS = 16
"""Loops of so few turns are unrolled: a second copy does not pay."""


def emit_body(e: FunctionEmitter, body: Iterable[ir.Stmt]) -> None:
    """Emit statements in order; what follows a statement that leaves is dropped."""
    statements = tuple(body)
    while statements and e.b.open:
        count = _straight_run(e, statements)
        if count and _guarded_run(e, statements[:count]):
            statements = statements[count:]
            continue
        for statement in statements[: count or 1]:
            _emit_one(e, statement)
        statements = statements[count or 1 :]


def _emit_one(e: FunctionEmitter, statement: ir.Stmt) -> None:
    if e.b.open:
        if e.scope is not None:
            e.at(getattr(statement, "line", 0))
        _EMIT[type(statement)](e, statement)


def _straight_run(e: FunctionEmitter, statements: tuple[ir.Stmt, ...]) -> int:
    """How many statements from the first on are straight code, where several checks of one piece may be one test."""
    if not e.profile.guards_statements or not e.versions_loops or e.loops:
        return 0
    size = 0
    for count, statement in enumerate(statements):
        if not isinstance(statement, ir.Assign | ir.Store | ir.ExprStatement):
            return count
        nodes = list(walk([statement]))
        size += len(nodes)
        if size > _GUARDED_NODES or any(isinstance(n, ir.Call | ir.Atomic) for n in nodes):
            return count
    return len(statements)


def _guarded_run(e: FunctionEmitter, statements: tuple[ir.Stmt, ...]) -> bool:
    """Emit straight code twice, without and with its index checks, behind one test; False if that does not pay."""
    if not e.context.can_copy(statements):
        return False
    e.at(getattr(statements[0], "line", 0))
    analysis = RangeAnalysis(e, statements, lambda name: True, None)
    if count_checks(analysis.nodes, e.proven) < _GUARDED_CHECKS:
        return False
    guard = make_guard(analysis, e.proven)
    if guard is None or len(guard.proven) < _GUARDED_CHECKS:
        return False
    fast, slow, done = e.b.label("fast"), e.b.label("slow"), e.b.label("both")
    e.b.branch(guard.test, fast, slow, ", !prof !0")
    e.b.place(fast)
    outer, e.proven = e.proven, e.proven | guard.proven
    for statement in statements:
        _emit_one(e, statement)
    e.proven = outer
    e.b.jump(done)
    e.b.place(slow)
    for statement in statements:
        _emit_one(e, statement)
    e.b.place(done)
    return True


def _assign(e: FunctionEmitter, node: ir.Assign) -> None:
    e.write(node.target, e.value(node.value))


def _store(e: FunctionEmitter, node: ir.Store) -> None:
    value = e.value(node.value)
    address = e.address(node, node.nonnegative)
    array = node.array.type
    assert isinstance(array, ArrayType)
    if isinstance(array.dtype, Scalar):
        source = node.value.type
        if not isinstance(source, Scalar):
            value = value[:1]  # an identity word
        if array.space == "local" and array.dtype.kind in "iuf":
            e.profile.keep_in_place(e, register_type(array.dtype), value[0])
        e.store(array.dtype, address, value, array.space, array.align, e.alias_note(node.array, False))
    else:
        _copy_record(e, address, value[0], array.dtype.itemsize)


def _copy_record(e: FunctionEmitter, target: str, source: str, size: int) -> None:
    e.b.emit(f"call void @llvm.memmove.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")


def _store_field(e: FunctionEmitter, node: ir.StoreField) -> None:
    ref = node.record.type
    assert isinstance(ref, RecordRefType)
    value = e.value(node.value)
    field = next(f for f in ref.record.fields if f.name == node.name)
    address = e.b.op(f"getelementptr inbounds i8, ptr {e.one(node.record)}, i64 {field.offset}")
    if isinstance(field.type, Scalar) and not field.shape:
        part = value if isinstance(node.value.type, Scalar) else value[:1]
        note = e.alias_note(node.record, False)
        e.store(field.type, address, part, ref.space, field_align(ref.record, ref.align, field), note)
    else:
        size = field.type.bits // 8 if isinstance(field.type, Scalar) else field.type.itemsize  # type: ignore[union-attr]
        for extent in field.shape:
            size *= extent
        _copy_record(e, address, value[0], size)


def _expression(e: FunctionEmitter, node: ir.ExprStatement) -> None:
    e.value(node.value)


def _if(e: FunctionEmitter, node: ir.If) -> None:
    done = e.b.label("end")
    step: ir.If | None = node
    while step is not None:
        then, orelse = e.b.label("then"), e.b.label("else")
        e.b.branch(e.one(step.test), then, orelse if step.orelse else done)
        e.b.place(then)
        emit_body(e, step.then)
        e.b.jump(done)
        following = step.orelse
        if following:
            e.b.place(orelse)
        if len(following) == 1 and isinstance(following[0], ir.If):
            step = following[0]
            continue
        emit_body(e, following)
        step = None
    e.b.place(done)


def _while(e: FunctionEmitter, node: ir.While) -> None:
    test, body, done = e.b.label("while"), e.b.label("do"), e.b.label("done")
    e.b.place(test)
    _leave_unless(e, node.test, body, done)
    e.b.place(body)
    e.loops.append((done, test))
    emit_body(e, node.body)
    e.loops.pop()
    e.b.jump(test, e.loop_note(node, None))
    e.b.place(done)


def _leave_unless(e: FunctionEmitter, test: ir.Expr, body: str, done: str) -> None:
    """Go to `body` or `done`: the parts of an ``and`` one by one, so that LLVM can count the turns of each."""
    while isinstance(test, ir.IfExp) and isinstance(test.orelse, ir.Const) and not test.orelse.value:
        more = e.b.label("and")
        _leave_unless(e, test.test, more, done)
        e.b.place(more)
        test = test.then
    e.b.branch(e.one(test), body, done)


def _for(e: FunctionEmitter, node: ir.ForRange) -> None:
    """A counted loop; an innermost one whose index checks a guard can prove ahead exists twice."""
    bounds = e.one(node.start), e.one(node.stop), e.one(node.step)
    guard = _loop_guard(e, node, bounds)
    if guard is None:
        _counted(e, node, bounds)
        return
    fast, slow, done = e.b.label("loop.fast"), e.b.label("loop.slow"), e.b.label("loop.end")
    e.b.branch(guard.test, fast, slow)
    e.b.place(fast)
    outer, e.proven = e.proven, e.proven | guard.proven
    _counted(e, node, bounds)
    e.proven = outer
    e.b.jump(done)
    e.b.place(slow)
    _counted(e, node, bounds)
    e.b.place(done)


def _loop_guard(e: FunctionEmitter, node: ir.ForRange, bounds: tuple[str, str, str]) -> Guard | None:
    if not e.versions_loops or not e.context.can_copy(node.body):
        return None
    if any(isinstance(n, ir.ForRange | ir.While) for n in walk(node.body)):
        return None
    start, stop, step = (int_constant(bound) for bound in bounds)
    if start is not None and stop is not None and step and len(range(start, stop, step)) <= _UNROLLED_TURNS:
        return None
    analysis = RangeAnalysis(e, (node,), lambda name: True, None)
    if not has_checks(analysis.nodes, e.proven):
        return None
    analysis.loops[id(node)] = bounds
    return make_guard(analysis, e.proven)


def _counted(e: FunctionEmitter, node: ir.ForRange, bounds: tuple[str, str, str]) -> None:
    b = e.b
    start, stop, step = bounds
    test, body, turn, done = (b.label(h) for h in ("for", "for.do", "for.next", "for.done"))
    counter, current = b.slot("i64"), b.slot("i64")
    b.emit(f"store i64 {start}, ptr {current}")
    known = int_constant(step)
    if known == 1:
        limit = b.call("i64", "llvm.smax.i64", f"i64 {start}, i64 {stop}")
        b.place(test)
        index = b.op(f"load i64, ptr {current}")
        b.branch(b.icmp("ne", 64, index, limit), body, done)
    else:
        b.emit(f"store i64 {range_count(b, start, stop, step)}, ptr {counter}")
        b.place(test)
        left = b.op(f"load i64, ptr {counter}")
        b.branch(b.icmp("ne", 64, left, "0"), body, done)
    b.place(body)
    index = b.op(f"load i64, ptr {current}")
    e.write(node.target, (index,))
    e.loops.append((done, turn))
    emit_body(e, node.body)
    e.loops.pop()
    b.place(turn)
    if known == 1:
        b.emit(f"store i64 {b.op(f'add nsw i64 {index}, 1')}, ptr {current}")
    else:
        b.emit(f"store i64 {b.op(f'add i64 {index}, {step}')}, ptr {current}")
        b.emit(f"store i64 {b.op(f'sub i64 {left}, 1')}, ptr {counter}")
    b.jump(test, e.loop_note(node, bounds))
    b.place(done)


def _break(e: FunctionEmitter, node: ir.Break) -> None:
    e.b.jump(e.loops[-1][0])


def _continue(e: FunctionEmitter, node: ir.Continue) -> None:
    e.b.jump(e.loops[-1][1])


def _return(e: FunctionEmitter, node: ir.Return) -> None:
    e.finish(() if node.value is None else e.value(node.value))


def _raise(e: FunctionEmitter, node: ir.Raise) -> None:
    details = []
    for detail in node.details:
        t = detail.type
        assert isinstance(t, Scalar)
        details.append(e.cast_value(t, Scalar("i", 64), e.value(detail))[0])
    e.fail(node.error, tuple(details))


def _print(e: FunctionEmitter, node: ir.Print) -> None:
    e.context.print_line(e, node)


_EMIT: dict[type, Callable[[FunctionEmitter, Any], None]] = {
    ir.Assign: _assign, ir.Store: _store, ir.StoreField: _store_field, ir.ExprStatement: _expression, ir.If: _if,
    ir.While: _while, ir.ForRange: _for, ir.Break: _break, ir.Continue: _continue, ir.Return: _return,
    ir.Raise: _raise, ir.Print: _print,
}  # fmt: skip
