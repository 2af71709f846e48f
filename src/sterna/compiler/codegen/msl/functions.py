"""Device functions: how they are called, and their text.

A device function takes the components of its parameters, behind the thread's frame if it (or what it calls) needs it.
A single result is returned; several, and those of a function that may fail, go through references.  A function that may
fail returns true when the thread has failed and must leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.compiler.codegen.msl.code import bare
from sterna.compiler.codegen.msl.emitter import FunctionEmitter, component_names
from sterna.compiler.codegen.msl.intrinsics import FRAME_OPERATIONS
from sterna.compiler.codegen.msl.layout import Value, components
from sterna.compiler.codegen.msl.statements import emit_body
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk
from sterna.errors import SourceLocation, UnsupportedError
from sterna.frozen import frozen

if TYPE_CHECKING:
    from sterna.compiler.codegen.msl.module import ModuleContext

__all__ = ["FunctionInfo", "declare_locals", "emit_function", "function_infos", "local_names", "plain"]


@frozen
class FunctionInfo:
    """How a device function is called."""

    symbol: str
    hidden: bool
    may_raise: bool
    returns_value: bool


def plain(name: str) -> str:
    """A name with only letters, digits and single underscores, none at its ends."""
    text = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    return "_".join(part for part in text.split("_") if part)


def local_names(function: ir.Function) -> dict[str, str]:
    """Local → its name in the text, which ends in an underscore, so that it is no word of Metal."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for name in function.locals:
        base = plain(name) or "v"
        base = f"v{base}" if base[0].isdigit() else base
        text, number = f"{base}_", 1
        while text in taken:
            number += 1
            text = f"{base}_{number}_"
        taken.add(text)
        names[name] = text
    return names


def _reads_frame(node: object) -> bool:
    if isinstance(node, ir.Intrinsic):
        return node.name in FRAME_OPERATIONS
    if isinstance(node, ir.Element | ir.Store | ir.View | ir.Atomic):
        return node.check is not None
    return isinstance(node, ir.Raise | ir.Print | ir.TableWord | ir.SlotWord | ir.SharedArray)


def function_infos(module: ir.Module, prefix: str = "f") -> dict[str, FunctionInfo]:
    """Calling conventions of all device functions, callees before their callers.

    Parameters
    ----------
    module : Module
        *Lowered* IR.
    prefix : str
        How their symbols begin.

    Raises
    ------
    UnsupportedError
        For a recursion, which Metal does not have.
    """
    calls: dict[str, list[str]] = {}
    frames: set[str] = set()
    for name, function in module.functions.items():
        nodes = list(walk(function.body))
        calls[name] = list(dict.fromkeys(n.function for n in nodes if isinstance(n, ir.Call)))
        if function.may_raise or any(map(_reads_frame, nodes)):
            frames.add(name)
    order = _callees_first(module, calls)
    for name in order:
        if frames.intersection(calls[name]):
            frames.add(name)
    numbers = {name: k for k, name in enumerate(module.functions)}
    return {
        name: FunctionInfo(
            f"{prefix}{numbers[name]}_{plain(name)}", name in frames, f.may_raise,
            not f.may_raise and len(components(f.returns)) == 1,
        )
        for name, f in ((name, module.functions[name]) for name in order)
    }  # fmt: skip


def _callees_first(module: ir.Module, calls: dict[str, list[str]]) -> list[str]:
    order: list[str] = []
    open_: list[str] = []

    def visit(name: str) -> None:
        if name in open_:
            raise _recursion(module, module.functions[name])
        if name in order:
            return
        open_.append(name)
        for callee in calls[name]:
            visit(callee)
        open_.pop()
        order.append(name)

    visit(module.entry)
    return order


def _recursion(module: ir.Module, function: ir.Function) -> UnsupportedError:
    shown = module.sources[function.ordinal][1] if module.sources else function.name
    place = None
    if function.ordinal < len(module.places):
        file, line = module.places[function.ordinal]
        place = SourceLocation(file, line, function=shown)
    message = f"{shown.rpartition('.')[2]} calls itself, and target metal has no recursion"
    return UnsupportedError(message, place, hint="write it as a loop, with a stack of its own")


class _DeviceFunction(FunctionEmitter):
    def __init__(self, context: ModuleContext, function: ir.Function, info: FunctionInfo) -> None:
        super().__init__(context, function, local_names(function))
        self.info = info

    def leave(self) -> None:
        """The thread that has failed leaves: the caller does so, too."""
        self.code.emit("return true;")

    def finish(self, value: Value) -> None:
        if self.info.returns_value:
            self.code.emit(f"return {bare(value[0])};")
            return
        for k, part in enumerate(value):
            self.code.emit(f"result{k} = {bare(part)};")
        self.code.emit("return false;" if self.info.may_raise else "return;")

    def close(self) -> None:
        """The end, where no ``return`` stands."""
        body = self.function_node.body
        if body and isinstance(body[-1], ir.Return | ir.Raise):
            return
        kinds = components(self.function_node.returns)
        if self.info.returns_value:
            self.code.emit(f"return {zero(kinds[0])};")
        elif self.info.may_raise:
            self.code.emit("return false;")


def zero(kind: str) -> str:
    """The value that a variable starts with."""
    if "*" in kind:
        return "nullptr"
    if kind == "float2":
        return "float2(0.0f, 0.0f)"
    return {"half": "half(0.0f)", "bool": "false", "float": "0.0f"}.get(kind, "0")


def declare_locals(function: ir.Function, names: dict[str, str], skip: set[str]) -> list[str]:
    """Definitions of all locals but those in `skip`."""
    lines = []
    used = {n.target for n in walk(function.body) if isinstance(n, ir.Assign | ir.ForRange)}
    used |= {n.name for n in walk(function.body) if isinstance(n, ir.Local)}
    for name, t in function.locals.items():
        if name in skip or name not in used:
            continue
        for text, kind in zip(component_names(names[name], t), components(t), strict=True):
            lines.append(f"    {definition(kind, text)} = {zero(kind)};")
    return lines


def definition(kind: str, name: str) -> str:
    """``float x``, ``device uchar *x``."""
    return f"{kind}{name}" if kind.endswith("*") else f"{kind} {name}"


def emit_function(context: ModuleContext, function: ir.Function, info: FunctionInfo) -> str:
    """Text of one device function."""
    e = _DeviceFunction(context, function, info)
    context.emitting(e)
    params = ["thread const Frame &f"] if info.hidden else []
    for name, t in function.params:
        texts = component_names(e.names[name], t)
        params += [definition(kind, text) for kind, text in zip(components(t), texts, strict=True)]
    kinds = components(function.returns)
    if not info.returns_value:
        params += [f"thread {definition(kind, f'&result{k}')}" for k, kind in enumerate(kinds)]
    emit_body(e, function.body)
    e.close()
    result = kinds[0] if info.returns_value else "bool" if info.may_raise else "void"
    head = f"static {definition(result, info.symbol)}({', '.join(params)})"
    locals_ = declare_locals(function, dict(e.names), {name for name, _ in function.params})
    return "\n".join([context.title(function), head, "{", *locals_, *context.arrays_of(e), *e.code.lines, "}"])
