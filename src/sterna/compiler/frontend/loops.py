"""Loops: the types of names at a loop's head are found by translating its body until they settle.

At the head a name the body assigns is in a home and no constant.  Every path back to the head moves its values
into those homes; if a type widens on the way (an int accumulator that a float is added to), the body is
translated again.  A name bound only by the body may be unbound after it.  A name read before the body
binds it comes from the turn before: it then joins the head.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from sterna.compiler.frontend.diagnostics import Unresolved
from sterna.compiler.frontend.environment import Edge, Env, Slot, conform, merge, merge_slots, settled
from sterna.compiler.frontend.frame import Frame, Loop
from sterna.compiler.frontend.iteration import sequence_of
from sterna.compiler.frontend.scopes import assigned_in
from sterna.compiler.frontend.values import Rt, Value
from sterna.compiler.ir.nodes import Assign, Break, Const, Continue, Expr, ForRange, If, Local, Stmt, Unary, While
from sterna.types import BOOL, PYINT

__all__ = ["for_loop", "while_loop"]

_MAX_TURNS = 32
Body = Callable[[], None]
AssignTarget = Callable[[Frame, ast.expr, Value], None]


def while_loop(frame: Frame, node: ast.While, body: Body, orelse: Body) -> None:
    """``while test: body else: orelse``.

    A test that needs statements of its own becomes ``while True`` with an exit at the top of the body.
    """
    from sterna.compiler.frontend.expressions import condition

    line = frame.line
    test: Expr = Const(True, BOOL)
    inner_exit: Edge | None = None

    def turn() -> None:
        nonlocal test, inner_exit
        frame.at(node)
        inner_exit = None
        test = condition(frame, node.test)
        if isinstance(test, Const):
            frame.alive = bool(test.value)
        elif frame.out:
            inner_exit = Edge(dict(frame.env), [])
            frame.out.append(If(_not(test), inner_exit.out, [], line))  # type: ignore[arg-type]
        if frame.alive:
            body()

    loop, out = _settle(frame, node, assigned_in([node.test, *node.body]), turn)
    if isinstance(test, Const) and not test.value:
        frame.env = loop.head
        frame.out.extend(out)
        orelse()
        return
    if inner_exit is not None:
        inner_exit.env = {**loop.extra, **inner_exit.env}
        frame.out.append(While(Const(True, BOOL), out, line))  # type: ignore[arg-type]
        _after(frame, loop, inner_exit, orelse if node.orelse else None, inside=True)
        inner_exit.out.append(Break())
        return
    exit_edge = None if isinstance(test, Const) else Edge({**loop.extra, **loop.head}, [])
    frame.out.append(While(test, out, line))  # type: ignore[arg-type]
    _after(frame, loop, exit_edge, orelse if node.orelse else None)


def for_loop(frame: Frame, node: ast.For, body: Body, orelse: Body, assign: AssignTarget) -> None:
    """``for target in iterable: body else: orelse``."""
    from sterna.compiler.frontend.expressions import expression

    assigned = assigned_in([node.target, *node.body])
    sequence = sequence_of(frame, node.iter, expression(frame, node.iter), assigned)
    if sequence.items is not None:
        _unrolled(frame, node, sequence.items, body, orelse, assign)
        return
    line = frame.line
    target = node.target.id if isinstance(node.target, ast.Name) and sequence.item is None else None
    counter = frame.fresh(PYINT) if target is None else frame.home(target, PYINT)

    def turn() -> None:
        frame.at(node)
        index = Rt(Local(counter, PYINT), False, sequence.nonneg)
        if target is not None:
            frame.env[target] = Slot(index, counter)
        else:
            assign(frame, node.target, index if sequence.item is None else sequence.item(index))
        body()

    loop, out = _settle(frame, node, assigned, turn)
    frame.out.append(ForRange(counter, sequence.start, sequence.stop, sequence.step, out, line))  # type: ignore[arg-type]
    _after(frame, loop, Edge({**loop.extra, **loop.head}, []), orelse if node.orelse else None)


def _not(test: Expr) -> Expr:
    return test.operand if isinstance(test, Unary) and test.op == "not" else Unary("not", test, BOOL)


# ---- the common part ----


def _settle(frame: Frame, node: ast.AST, assigned: frozenset[str], turn: Body) -> tuple[Loop, list[Stmt]]:
    """Translate the body until the head's types settle; the loop and the body's statements."""
    entry = Edge(frame.env, frame.out)
    key = (id(node), frame.unrolled)
    head = _first_head(frame, entry, assigned, frame.spec.loop_heads.get(key, {}))
    for _ in range(_MAX_TURNS):
        loop = Loop(assigned, head)
        out, falls_through = _one_turn(frame, loop, turn)
        edges = [*loop.continues, *([falls_through] if falls_through else [])]
        widened = _widen(frame, loop, edges)
        if widened == head:
            frame.spec.loop_heads[key] = {name: head[name] for name in assigned if name in head}
            _connect(frame, loop, entry, edges)
            for edge in loop.continues:
                edge.out.append(Continue())
            return loop, out
        head = widened
    frame.fail(node, "the types of this loop's variables do not settle", "give each name one type before the loop")


def _first_head(frame: Frame, entry: Edge, assigned: frozenset[str], hints: Env) -> Env:
    """The head to begin with: what names mean before the loop, widened as an earlier translation found."""
    head: Env = {}
    for name, slot in entry.env.items():
        if name in assigned:
            slot = settled(frame, name, slot)
            hint = hints.get(name)
            if hint is not None and isinstance(hint.value, Rt) and slot.value is not None:
                t = hint.value.expr.type
                home = frame.home(name, t)
                again = Slot(Rt(Local(home, t), hint.value.pybool, hint.value.nonneg), home, hint.maybe)
                joined = merge_slots(frame, name, [slot, again], missing=False)
                slot = slot if joined.conflict else joined
        head[name] = slot
    return head


def _one_turn(frame: Frame, loop: Loop, turn: Body) -> tuple[list[Stmt], Edge | None]:
    """Translate the body once; its statements, and the edge at its end if that is reached."""
    env, before = frame.env, frame.out
    out: list[Stmt] = []
    frame.env, frame.out = dict(loop.head), out
    frame.loops.append(loop)
    try:
        turn()
    except Unresolved:
        frame.alive = False
    finally:
        frame.loops.pop()
    edge = Edge(frame.env, frame.out) if frame.alive else None
    frame.env, frame.out, frame.alive = env, before, True
    return out, edge


def _widen(frame: Frame, loop: Loop, edges: list[Edge]) -> Env:
    """The head joined with every path back to it, and with the names the body needs from the turn before."""
    head = dict(loop.head)
    for name, slot in loop.head.items():
        backs = [edge.env[name] for edge in edges if name in edge.env] if name in loop.assigned else []
        if backs and slot.value is not None:
            homed = [settled(frame, name, back) for back in backs]
            head[name] = merge_slots(frame, name, [slot, *homed], missing=False)
    for name, node in loop.needed.items():
        if name in head:
            continue
        backs = [edge.env[name] for edge in edges if name in edge.env]
        if backs:
            homed = [settled(frame, name, back) for back in backs]
            head[name] = merge_slots(frame, name, homed, missing=True)
        elif any(name in outer.needed for outer in frame.loops):
            raise Unresolved
        else:
            frame.fail(node, f"local variable {name} is read before it is assigned", "assign it before the loop")
    return head


def _connect(frame: Frame, loop: Loop, entry: Edge, edges: list[Edge]) -> None:
    """Move values into the head's homes on every edge; find the names that only the body binds."""
    for name, slot in loop.head.items():
        if name not in loop.assigned:
            continue
        for edge in (entry, *edges):
            given = edge.env.get(name)
            if given is not None:
                conform(frame, name, given, slot, edge.out)
    for name in sorted(loop.assigned - set(loop.head)):
        backs = [(edge.env[name], edge) for edge in edges if name in edge.env]
        if backs:
            slot = merge_slots(frame, name, [settled(frame, name, back) for back, _ in backs], missing=True)
            for back, edge in backs:
                conform(frame, name, back, slot, edge.out)
            loop.extra[name] = slot


def _after(frame: Frame, loop: Loop, edge: Edge | None, orelse: Body | None, inside: bool = False) -> None:
    """The end of a loop left by its test: ``else`` and the moves of this exit are skipped after a break.

    `inside`: the statements of `edge` stand in the loop itself, so its moves need no flag.
    """
    from sterna.compiler.frontend.expressions import branch

    if edge is not None and orelse is not None and not loop.breaks:
        frame.env = edge.env
        orelse()
        return
    position = len(frame.out) - 1
    ending: list[Edge] = []
    after: list[Stmt] = []
    if edge is not None and orelse is not None:
        frame.env = edge.env
        (_, after), reached = branch(frame, orelse)
        ending = [reached] if reached is not None else []
    elif edge is not None:
        ending, after = [edge], [] if inside else edge.out
    _join_exits(frame, loop, ending)
    needs_flag = loop.breaks and edge is not None and (after or orelse is not None)
    flag = frame.fresh(BOOL) if needs_flag else None
    _append_breaks(frame, loop, flag)
    if flag is not None:
        frame.out.insert(position, Assign(flag, Const(False, BOOL), frame.line))
        frame.out.append(If(_not(Local(flag, BOOL)), after, [], frame.line))  # type: ignore[arg-type]
    else:
        frame.out.extend(after)  # moves only: nothing is appended to them later


def _join_exits(frame: Frame, loop: Loop, edges: list[Edge]) -> None:
    """Join the normal end with every break."""
    for edge in loop.breaks:
        edge.env = {**loop.extra, **edge.env}
    every = [*edges, *loop.breaks]
    frame.alive = bool(every)
    if every:
        frame.env = merge(frame, every)


def _append_breaks(frame: Frame, loop: Loop, flag: str | None) -> None:
    """End every path that breaks, after its moves; it sets `flag`."""
    for edge in loop.breaks:
        if flag is not None:
            edge.out.append(Assign(flag, Const(True, BOOL), frame.line))
        edge.out.append(Break())


# ---- unrolled loops over tuples ----


def _unrolled(
    frame: Frame, node: ast.For, items: tuple[Value, ...], body: Body, orelse: Body, assign: AssignTarget
) -> None:
    """A loop over a tuple: its body once per item, each with its own types.

    Where the body breaks or continues, each turn is a ``while True`` left at its end, and a flag says that a
    break skipped the rest.
    """
    jumps = [n for n in _loop_level(node) if isinstance(n, ast.Break | ast.Continue)]
    items = tuple(frame.hold(item) for item in items)
    done = None
    if any(isinstance(n, ast.Break) for n in jumps):
        done = frame.fresh(BOOL)
        frame.out.append(Assign(done, Const(False, BOOL), frame.line))
    breaks: list[Edge] = []
    for k, item in enumerate(items):
        frame.unrolled += (k,)
        try:
            breaks.extend(_one_item(frame, node, item, body, assign, bool(jumps), done))
        finally:
            frame.unrolled = frame.unrolled[:-1]
        if not frame.alive:
            break
    _after_items(frame, breaks, node, orelse, done)


def _loop_level(node: ast.For | ast.While) -> list[ast.AST]:
    """Nodes of the body that belong to this loop and no inner one (an inner ``else`` belongs to this)."""
    found: list[ast.AST] = []
    stack: list[ast.AST] = list(node.body)
    while stack:
        item = stack.pop()
        found.append(item)
        if isinstance(item, ast.For | ast.While):
            stack.extend(item.orelse)
        elif not isinstance(item, ast.FunctionDef | ast.Lambda):
            stack.extend(ast.iter_child_nodes(item))
    return found


def _one_item(
    frame: Frame, node: ast.For, item: Value, body: Body, assign: AssignTarget, jumps: bool, done: str | None
) -> list[Edge]:
    """One turn; the edges of its breaks, whose Break is appended when all turns are known."""
    from sterna.compiler.frontend.expressions import branch

    def turn() -> None:
        frame.at(node)
        assign(frame, node.target, item)
        body()

    if not jumps:
        turn()
        return []
    line = frame.line
    loop = Loop(frozenset(), frame.env)
    frame.loops.append(loop)
    try:
        (_, out), edge = branch(frame, turn)
    finally:
        frame.loops.pop()
    ends = [*([edge] if edge else []), *loop.continues]
    if ends:
        frame.env = merge(frame, ends)
    for end in ends:
        end.out.append(Break())
    once: Stmt = While(Const(True, BOOL), out, line)
    if done is not None:
        once = If(_not(Local(done, BOOL)), [once], [], line)  # type: ignore[arg-type]
    frame.out.append(once)
    frame.alive = bool(ends)
    return loop.breaks


def _after_items(frame: Frame, breaks: list[Edge], node: ast.For, orelse: Body, done: str | None) -> None:
    """``else`` and the join with the breaks."""
    from sterna.compiler.frontend.expressions import branch

    edges = list(breaks)
    if frame.alive and done is None:
        orelse()
        return
    if frame.alive and done is not None:
        (_, out), edge = branch(frame, orelse)
        frame.out.append(If(_not(Local(done, BOOL)), out, [], frame.line))  # type: ignore[arg-type]
        edges.extend([edge] if edge else [])
    if edges:
        frame.env = merge(frame, edges)
    for edge in breaks:
        assert done is not None
        edge.out.append(Assign(done, Const(True, BOOL), frame.line))
        edge.out.append(Break())
    frame.alive = bool(edges)
