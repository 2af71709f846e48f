"""Device functions: signatures, calls, bodies.

A device function takes the components of its parameters, behind the hidden parameters of the frame when
it (or what it calls) reads an index, may fail or prints.  It returns the components of its result; one that may
fail returns an ``i1`` first: true when the thread has failed and must leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
from sterna.compiler.codegen.llvm.intrinsics import FRAME_OPERATIONS
from sterna.compiler.codegen.llvm.layout import Value, components
from sterna.compiler.codegen.llvm.statements import emit_body
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk
from sterna.frozen import frozen

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.module import ModuleContext

__all__ = ["FunctionInfo", "emit_call", "emit_function", "function_infos"]


@frozen
class FunctionInfo:
    """How a device function is called."""

    symbol: str
    hidden: bool
    may_raise: bool
    returns: tuple[str, ...]
    recursive: bool
    size: int

    @property
    def result(self) -> str:
        """LLVM type of the result."""
        parts = (("i1",) if self.may_raise else ()) + self.returns
        if not parts:
            return "void"
        return parts[0] if len(parts) == 1 else f"{{ {', '.join(parts)} }}"


def _reads_frame(node: object) -> bool:
    if isinstance(node, ir.Intrinsic):
        return node.name in FRAME_OPERATIONS
    if isinstance(node, ir.Element | ir.Store | ir.View | ir.Atomic):
        return node.check is not None
    return isinstance(node, ir.Raise | ir.Print | ir.TableWord)


def function_infos(module: ir.Module) -> dict[str, FunctionInfo]:
    """Calling conventions of all device functions."""
    calls: dict[str, set[str]] = {}
    hidden: set[str] = set()
    sizes: dict[str, int] = {}
    for name, function in module.functions.items():
        called, size = set(), 0
        for node in walk(function.body):
            size += 1
            if isinstance(node, ir.Call):
                called.add(node.function)
            elif _reads_frame(node):
                hidden.add(name)
        calls[name], sizes[name] = called, size
        if function.may_raise:
            hidden.add(name)
    reached = _closure(calls)
    infos = {}
    for number, (name, function) in enumerate(module.functions.items()):
        if name == module.entry:
            continue
        infos[name] = FunctionInfo(
            f"f{number}_{_plain(name)}", bool(hidden & (reached[name] | {name})), function.may_raise,
            components(function.returns), name in reached[name], sizes[name],
        )  # fmt: skip
    return infos


def _plain(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)


def _closure(calls: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Functions reached from each, by calls of any depth."""
    reached = {}
    for name in calls:
        seen: set[str] = set()
        todo = list(calls[name])
        while todo:
            item = todo.pop()
            if item not in seen:
                seen.add(item)
                todo.extend(calls.get(item, ()))
        reached[name] = seen
    return reached


def emit_call(e: FunctionEmitter, info: FunctionInfo, types: tuple[str, ...], args: Value) -> Value:
    """Call a device function; leaves if it failed."""
    operands = [e.frame.hidden()] if info.hidden else []
    operands += [f"{t} {a}" for t, a in zip(types, args, strict=True)]
    note = " noinline" if e.plain else ""  # where speed does not matter
    text = f"call {info.result} @{info.symbol}({', '.join(operands)}){note}"
    if info.result == "void":
        e.b.emit(text)
        return ()
    result = e.b.op(text)
    count = len(info.returns) + info.may_raise
    parts = [result] if count == 1 else [e.b.op(f"extractvalue {info.result} {result}, {n}") for n in range(count)]
    if not info.may_raise:
        return tuple(parts)
    go, failed = e.b.label("ok"), e.b.label("failed")
    e.b.branch(parts[0], failed, go, ", !prof !2")
    e.b.place(failed)
    e.b.jump(e.leave)
    e.b.place(go)
    return tuple(parts[1:])


class _DeviceFunction(FunctionEmitter):
    def __init__(self, context: ModuleContext, info: FunctionInfo) -> None:
        super().__init__(context, context.profile.device_frame(context.state))
        self.info = info
        self.result: tuple[str, ...] = ()

    def finish(self, value: Value) -> None:
        self._return("false", value)

    def _return(self, failed: str, value: Value) -> None:
        info, parts = self.info, (*value,)
        kinds = info.returns
        if info.may_raise:
            parts, kinds = (failed, *parts), ("i1", *kinds)
        if not parts:
            self.b.end("ret void")
        elif len(parts) == 1:
            self.b.end(f"ret {kinds[0]} {parts[0]}")
        elif not self.profile.returns_once:
            self._return_whole(kinds, parts)
        else:
            self.result = self.result or tuple(self.b.slot(kind) for kind in kinds)
            for slot, kind, part in zip(self.result, kinds, parts, strict=True):
                self.b.emit(f"store {kind} {part}, ptr {slot}")
            self.b.jump("result")

    def _return_whole(self, kinds: tuple[str, ...], parts: Value) -> None:
        whole = "poison"
        for n, (kind, part) in enumerate(zip(kinds, parts, strict=True)):
            whole = self.b.op(f"insertvalue {self.info.result} {whole}, {kind} {part}, {n}")
        self.b.end(f"ret {self.info.result} {whole}")

    def close(self) -> None:
        nothing = tuple("null" if kind == "ptr" else "zeroinitializer" for kind in self.info.returns)
        if self.b.open:
            self._return("false", nothing)
        self.place_failure()
        if self.info.may_raise:
            self.b.place(self.leave)
            self._return("true", nothing)
        if self.result:
            self.b.place("result")
            kinds = (("i1",) if self.info.may_raise else ()) + self.info.returns
            pairs = zip(kinds, self.result, strict=True)
            self._return_whole(kinds, tuple(self.b.op(f"load {kind}, ptr {slot}") for kind, slot in pairs))


def emit_function(context: ModuleContext, function: ir.Function, info: FunctionInfo, attributes: str = "") -> str:
    """Text of one device function, with the target's usual `attributes` or these."""
    e = _DeviceFunction(context, info)
    e.types = function.locals
    debug = e.open_scope(function)
    params: list[str] = [e.frame.hidden()] if info.hidden else []
    names = {name for name, _ in function.params}
    for name, t in function.locals.items():
        e.declare(name, t)
        if name not in names:
            e.clear(name)
    for position, (name, t) in enumerate(function.params):
        if name not in e.locals:
            e.declare(name, t)
        value = tuple(f"%p{position}_{n}" for n in range(len(components(t))))
        params += [f"{kind} {part}" for kind, part in zip(components(t), value, strict=True)]
        e.write(name, value)
    emit_body(e, function.body)
    e.close()
    inline = " alwaysinline" if not info.recursive and info.size <= context.inline_limit else ""
    attributes = attributes or context.profile.call_attributes() + inline
    return f"define internal {info.result} @{info.symbol}({', '.join(params)}) {attributes}{debug} {{\n{e.b.body()}\n}}"
