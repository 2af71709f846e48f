"""Inline device functions into the kernel: those with collectives or shared memory must be part of it.

A body is inlined with its locals renamed and its parameters assigned.  Returns at the end of a path become
assignments of the result; a body that returns from inside a loop runs in a loop of one turn and is left by breaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import rewrite_statements, walk
from sterna.compiler.passes.lift import Lifter
from sterna.errors import UnsupportedError
from sterna.types import BOOL, NONE, VOID, Type

__all__ = ["inline_calls", "small_functions"]

_SMALL = 80
_MOST_NODES = 1500


def small_functions(module: ir.Module) -> frozenset[str]:
    """Small functions with index checks or float arithmetic that are worth inlining into the kernel.

    LLVM would inline them too, but later than guards (`sterna.compiler.codegen.llvm.guards`) and regions look at
    the kernel.  None if the kernel would grow too much.
    """
    found: set[str] = set()
    calls: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for name, function in module.functions.items():
        nodes = list(walk(function.body))
        sizes[name] = len(nodes)
        calls[name] = [n.function for n in nodes if isinstance(n, ir.Call)]
        if name != module.entry and len(nodes) <= _SMALL and _tail(function.body, None) is not None:
            found.add(name)
    found = {name for name in found if not _calls_itself(name, calls)}
    return frozenset(found) if _grown(module.entry, calls, sizes, found) <= _MOST_NODES else frozenset()


def _calls_itself(name: str, calls: dict[str, list[str]]) -> bool:
    seen: set[str] = set()
    todo = list(calls[name])
    while todo:
        item = todo.pop()
        if item == name:
            return True
        if item not in seen:
            seen.add(item)
            todo.extend(calls[item])
    return False


def _grown(entry: str, calls: dict[str, list[str]], sizes: dict[str, int], found: set[str]) -> int:
    """Nodes of the kernel after inlining."""
    total, todo = 0, [entry]
    while todo and total <= _MOST_NODES:
        name = todo.pop()
        total += sizes[name]
        todo.extend(callee for callee in calls[name] if callee in found)
    return total


def inline_calls(module: ir.Module, wanted: frozenset[str]) -> ir.Module:
    """Inline every call of the functions `wanted`, at any depth, into the kernel.

    Raises
    ------
    UnsupportedError
        For a recursive one.
    """
    if not wanted:
        return module
    kernel = module.functions[module.entry]
    types = dict(kernel.locals)
    inliner = _Inliner(module, wanted, types)
    body = inliner.lifter.statements(kernel.body)
    raises = kernel.may_raise or any(module.functions[name].may_raise for name in inliner.used)
    functions = {**module.functions, module.entry: replace(kernel, body=body, locals=types, may_raise=raises)}
    return replace(module, functions=_reachable(functions, module.entry))


def _reachable(functions: dict[str, ir.Function], entry: str) -> dict[str, ir.Function]:
    seen, todo = {entry}, [entry]
    while todo:
        for node in walk(functions[todo.pop()].body):
            if isinstance(node, ir.Call) and node.function not in seen:
                seen.add(node.function)
                todo.append(node.function)
    return {name: f for name, f in functions.items() if name in seen}


class _Inliner:
    def __init__(self, module: ir.Module, wanted: frozenset[str], types: dict[str, Type]) -> None:
        self.module, self.wanted = module, wanted
        self.used: list[str] = []
        self.active: list[str] = []
        self.lifter = Lifter(types, self._is_wanted, self._expand)
        self._count = 0

    def _is_wanted(self, node: Any) -> bool:
        return isinstance(node, ir.Call) and node.function in self.wanted

    def _expand(self, lifter: Lifter, call: ir.Call) -> tuple[list[ir.Stmt], ir.Expr | None]:
        if call.function in self.active:
            cycle = " → ".join([*self.active[self.active.index(call.function) :], call.function])
            raise UnsupportedError(f"a function with barriers, warp operations or shared memory calls itself: {cycle}")
        function = self.module.functions[call.function]
        self.used.append(call.function)
        self._count += 1
        prefix = f".{self._count}:"
        names = {name: prefix + name for name in (*function.locals, *(n for n, _ in function.params))}
        lifter.types.update({names[n]: t for n, t in (*function.params, *function.locals.items())})
        before: list[ir.Stmt] = [
            ir.Assign(names[name], value) for (name, _), value in zip(function.params, call.args, strict=True)
        ]
        result = None
        if function.returns not in (VOID, NONE):
            result = lifter.temporary(function.returns, "result")
        body = rewrite_statements(function.body, lambda node: _renamed(node, names))
        body = _single_exit(body, result, lifter)
        self.active.append(call.function)
        before += lifter.statements(body)
        self.active.pop()
        return before, None if result is None else ir.Local(result, function.returns)


def _renamed(node: Any, names: dict[str, str]) -> Any:
    if isinstance(node, ir.Local):
        return replace(node, name=names[node.name])
    if isinstance(node, ir.Assign | ir.ForRange):
        return replace(node, target=names[node.target])
    return node


def _has_return(nodes: Sequence[ir.Stmt]) -> bool:
    return any(isinstance(n, ir.Return) for n in walk(nodes))


def _assigned(node: ir.Return, result: str | None) -> tuple[ir.Stmt, ...]:
    if node.value is None:
        return ()
    if result is None:
        return () if isinstance(node.value, ir.Const | ir.Local) else (ir.ExprStatement(node.value, node.line),)
    return (ir.Assign(result, node.value, node.line),)


def _single_exit(body: tuple[ir.Stmt, ...], result: str | None, lifter: Lifter) -> tuple[ir.Stmt, ...]:
    straight = _tail(body, result)
    if straight is not None:
        return straight
    done = lifter.temporary(BOOL, "done")
    inside = _broken(body, result, done, depth=0)
    if not isinstance(inside[-1], ir.Break):
        inside = (*inside, ir.Break())
    once = ir.While(ir.Const(True, BOOL), inside)
    return ir.Assign(done, ir.Const(False, BOOL)), once


def _tail(body: Sequence[ir.Stmt], result: str | None) -> tuple[ir.Stmt, ...] | None:
    """The body with returns as assignments, if every return ends its path without being inside a loop."""
    kept: list[ir.Stmt] = []
    for number, node in enumerate(body):
        if isinstance(node, ir.Return):
            return (*kept, *_assigned(node, result))
        if isinstance(node, ir.If) and _has_return([node]):
            rest = tuple(body[number + 1 :])
            then, orelse = _tail(_with_rest(node.then, rest), result), _tail(_with_rest(node.orelse, rest), result)
            if then is None or orelse is None or (rest and _falls(node.then) and _falls(node.orelse)):
                return None
            return (*kept, replace(node, then=then, orelse=orelse))
        if _has_return([node]):
            return None
        kept.append(node)
    return tuple(kept)


def _with_rest(body: tuple[ir.Stmt, ...], rest: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
    return (*body, *rest) if _falls(body) else body


def _falls(body: Sequence[ir.Stmt]) -> bool:
    """Whether control can reach the end of `body`."""
    if not body:
        return True
    last = body[-1]
    if isinstance(last, ir.If):
        return _falls(last.then) or _falls(last.orelse)
    return not isinstance(last, ir.Return | ir.Raise | ir.Break | ir.Continue)


def _broken(body: Sequence[ir.Stmt], result: str | None, done: str, depth: int) -> tuple[ir.Stmt, ...]:
    """Returns as breaks out of every loop, with `done` set."""
    kept: list[ir.Stmt] = []
    for node in body:
        if isinstance(node, ir.Return):
            kept += [*_assigned(node, result), ir.Assign(done, ir.Const(True, BOOL)), ir.Break()]
            break
        if not _has_return([node]):
            kept.append(node)
        elif isinstance(node, ir.If):
            then, orelse = (_broken(arm, result, done, depth) for arm in (node.then, node.orelse))
            kept.append(replace(node, then=then, orelse=orelse))
        else:
            assert isinstance(node, ir.While | ir.ForRange)
            kept.append(replace(node, body=_broken(node.body, result, done, depth + 1)))
            kept.append(ir.If(ir.Local(done, BOOL), (ir.Break(),)))
    return tuple(kept)
