"""Emits statements: control flow stays structured, as Metal wants it (there is no ``goto``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sterna.compiler.codegen.msl import memory
from sterna.compiler.codegen.msl.code import bare, is_atom
from sterna.compiler.codegen.msl.emitter import FunctionEmitter
from sterna.compiler.codegen.msl.layout import long_literal
from sterna.compiler.codegen.msl.printing import emit_print
from sterna.compiler.codegen.msl.scalars import cast
from sterna.compiler.ir import nodes as ir
from sterna.types import INT64, ArrayType, RecordRefType, Scalar, field_align, itemsize

__all__ = ["emit_body", "enter_turn", "for_head"]

_DEEPEST = 40
"""Branches that nest in each other, at most; Apple's compiler refuses 256 brackets in each other."""
_LEAVING = (ir.Break, ir.Continue, ir.Return, ir.Raise)


def emit_body(e: FunctionEmitter, body: Iterable[ir.Stmt]) -> None:
    """Emit statements in order; what follows a statement that leaves is dropped."""
    for statement in body:
        line = getattr(statement, "line", 0)
        if line and line != e.line:
            e.line = line
            e.code.emit(f"// line {line}")
        _EMIT[type(statement)](e, statement)
        if isinstance(statement, _LEAVING):
            return


def _assign(e: FunctionEmitter, node: ir.Assign) -> None:
    e.write(node.target, e.value(node.value))


def _store(e: FunctionEmitter, node: ir.Store) -> None:
    value = e.value(node.value)
    place = memory.element_place(e, node, node.nonnegative)
    array = node.array.type
    assert isinstance(array, ArrayType)
    if isinstance(array.dtype, Scalar):
        text = value[0]  # of an object, its identity word
        text = text if isinstance(node.value.type, Scalar) else f"{_word_type(array.dtype)}({bare(text)})"
        memory.store(e, array.dtype, place, text, array.space, array.align)
    else:
        _copy_record(e, place, value[0], array.dtype.itemsize)


def _word_type(t: Scalar) -> str:
    return "ulong" if t.kind == "u" else "long"


def _copy_record(e: FunctionEmitter, target: str, source: str, size: int) -> None:
    e.code.emit(f"{e.helper('copy_bytes', target, source, f'{size}u')};")


def _store_field(e: FunctionEmitter, node: ir.StoreField) -> None:
    ref = node.record.type
    assert isinstance(ref, RecordRefType)
    value = e.value(node.value)
    field = next(f for f in ref.record.fields if f.name == node.name)
    place = memory.offset(e.one(node.record), long_literal(field.offset))
    if isinstance(field.type, Scalar) and not field.shape:
        memory.store(e, field.type, place, value[0], ref.space, field_align(ref.record, ref.align, field))
        return
    size = itemsize(field.type)  # type: ignore[arg-type]
    for extent in field.shape:
        size *= extent
    _copy_record(e, place, value[0], size)


def _expression(e: FunctionEmitter, node: ir.ExprStatement) -> None:
    e.value(node.value)


def _if(e: FunctionEmitter, node: ir.If) -> None:
    """A chain of ``else if``, as far as the tests are mere expressions."""
    code = e.code
    code.emit(f"if ({bare(e.one(node.test))}) {{")
    ends = 1
    step = node
    while True:
        _indented(e, step.then)
        following = step.orelse
        if not following:
            break
        if len(following) != 1 or not isinstance(following[0], ir.If):
            code.emit("} else {")
            _indented(e, following)
            break
        step = following[0]
        before, test = _test_of(e, step)
        if not before:
            code.emit(f"}} else if ({test}) {{")
            continue
        code.emit("} else {")
        if ends == _DEEPEST:
            code.depth += 1
            _flat_chain(e, step)
            code.depth -= 1
            break
        code.depth += 1
        code.lines += before
        code.emit(f"if ({test}) {{")
        ends += 1
    code.emit("}")
    for _ in range(ends - 1):
        code.depth -= 1
        code.emit("}")


def _test_of(e: FunctionEmitter, node: ir.If) -> tuple[list[str], str]:
    """The test of a further branch, and the statements that it needs."""
    e.code.depth += 1
    with e.code.aside() as before:
        test = bare(e.one(node.test))
    e.code.depth -= 1
    return before, test


def _flat_chain(e: FunctionEmitter, node: ir.If) -> None:
    """Branches that do not nest, for a compiler that counts brackets: a flag says that none was taken yet."""
    code, flag = e.code, e.code.fresh()
    code.emit(f"bool {flag} = true;")
    rest: tuple[ir.Stmt, ...] = (node,)
    while len(rest) == 1 and isinstance(rest[0], ir.If):
        step = rest[0]
        with code.block(f"if ({flag})"), code.block(f"if ({bare(e.one(step.test))})"):
            code.emit(f"{flag} = false;")
            emit_body(e, step.then)
        rest = step.orelse
    if rest:
        with code.block(f"if ({flag})"):
            emit_body(e, rest)


def _indented(e: FunctionEmitter, body: tuple[ir.Stmt, ...]) -> None:
    e.code.depth += 1
    emit_body(e, body)
    e.code.depth -= 1


def _while(e: FunctionEmitter, node: ir.While) -> None:
    code = e.code
    code.depth += 1
    with code.aside() as before:
        test = bare(e.one(node.test))
    code.depth -= 1
    if not before:
        with code.block(f"while ({test})"):
            emit_body(e, node.body)
    else:
        with code.block("while (true)"):
            code.lines += before
            code.emit(f"if (!({test})) break;")
            emit_body(e, node.body)
    e.left_loop((node,))


def _for(e: FunctionEmitter, node: ir.ForRange) -> None:
    with e.code.block(for_head(e, node)):
        enter_turn(e, node)
        emit_body(e, node.body)
    e.left_loop(node.body)


def for_head(e: FunctionEmitter, node: ir.ForRange) -> str:
    """The head of a counted loop."""
    code = e.code
    start, stop, step = (_fixed(e, bound) for bound in (node.start, node.stop, node.step))
    index = code.fresh()
    e.counters[node.target] = index
    if step in ("1L", "-1L"):
        test, turn = ("<", "++") if step == "1L" else (">", "--")
        return f"for (long {index} = {start}; {index} {test} {stop}; {turn}{index})"
    count = code.fresh()
    code.emit(f"long {index} = {start};")
    turns = e.helper("range_count", start, stop, step)
    following = e.helper("add", index, step)
    return f"for (ulong {count} = {turns}; {count} != 0; --{count}, {index} = {following})"


def enter_turn(e: FunctionEmitter, node: ir.ForRange) -> None:
    """The loop's local takes the value of this turn."""
    e.code.emit(f"{e.names[node.target]} = {e.counters[node.target]};")


def _fixed(e: FunctionEmitter, bound: ir.Expr) -> str:
    """A bound that the loop's body cannot change."""
    text = e.one(bound)
    return text if isinstance(bound, ir.Const) and is_atom(text) else e.code.temp("long", text)


def _break(e: FunctionEmitter, node: ir.Break) -> None:
    e.code.emit("break;")


def _continue(e: FunctionEmitter, node: ir.Continue) -> None:
    e.code.emit("continue;")


def _return(e: FunctionEmitter, node: ir.Return) -> None:
    e.finish(() if node.value is None else e.value(node.value))


def _raise(e: FunctionEmitter, node: ir.Raise) -> None:
    details = []
    for detail in node.details:
        assert isinstance(detail.type, Scalar)
        details.append(cast(e, detail.type, INT64, e.one(detail)))
    e.fail(node.error, tuple(details))


_EMIT: dict[type, Callable[[FunctionEmitter, Any], None]] = {
    ir.Assign: _assign, ir.Store: _store, ir.StoreField: _store_field, ir.ExprStatement: _expression, ir.If: _if,
    ir.While: _while, ir.ForRange: _for, ir.Break: _break, ir.Continue: _continue, ir.Return: _return,
    ir.Raise: _raise, ir.Print: emit_print,
}  # fmt: skip
