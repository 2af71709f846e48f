"""Readable, deterministic text of an IR module: what ``CompiledKernel.ir`` shows.

Expressions are written the way Python would; types stand at definitions, conversions and calls.  The text
depends on the module alone.
"""

from __future__ import annotations

from typing import Any

from sterna.compiler.deep import with_deep_stack
from sterna.compiler.ir import nodes as n
from sterna.types import Scalar

__all__ = ["expr_text", "function_text", "module_text"]

_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "and": "&",
    "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "is": "is", "is not": "is not"}


def module_text(module: n.Module) -> str:
    """The whole module: functions, error sites, and the manifest if it has one."""
    parts = [function_text(f, entry=name == module.entry) for name, f in module.functions.items()]
    if module.errors:
        lines = [
            f"  {k}: {e.exception}({e.message!r}) at function {e.site.function} statement {e.site.statement}"
            for k, e in enumerate(module.errors)
        ]
        parts.append("errors\n" + "\n".join(lines) + "\n")
    if module.manifest is not None and len(module.manifest):
        lines = [f"  {r.slot}: {r.kind.value} {r.path!r} +{r.addend} words {r.words} {r.type}" for r in module.manifest]
        parts.append(f"references ({module.manifest.strategy})\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def function_text(function: n.Function, entry: bool = False) -> str:
    """One function with its locals and body."""
    params = ", ".join(f"{name}: {t}" for name, t in function.params)
    head = f"{'kernel' if entry else 'function'} {function.name}({params}) -> {function.returns}"
    head += " raises" if function.may_raise else ""
    names = {name for name, _ in function.params}
    lines = [head]
    lines += [f"  local {name}: {t}" for name, t in function.locals.items() if name not in names]
    return "\n".join(lines + with_deep_stack(_body, function.body)) + "\n"


def _body(statements: tuple[n.Stmt, ...]) -> list[str]:
    lines: list[str] = []
    _block(statements, 1, lines)
    return lines


def _block(statements: tuple[n.Stmt, ...], depth: int, lines: list[str]) -> None:
    for s in statements:
        _statement(s, depth, lines)


def _statement(s: n.Stmt, depth: int, lines: list[str]) -> None:
    pad = "  " * depth
    if isinstance(s, n.If):
        lines.append(f"{pad}if {expr_text(s.test)}:")
        _block(s.then, depth + 1, lines)
        if s.orelse:
            lines.append(f"{pad}else:")
            _block(s.orelse, depth + 1, lines)
    elif isinstance(s, n.While):
        lines.append(f"{pad}while {expr_text(s.test)}:")
        _block(s.body, depth + 1, lines)
    elif isinstance(s, n.ForRange):
        bounds = ", ".join(map(expr_text, (s.start, s.stop, s.step)))
        lines.append(f"{pad}for {s.target} in range({bounds}):")
        _block(s.body, depth + 1, lines)
    else:
        lines.append(pad + _simple(s))


def _simple(s: n.Stmt) -> str:
    if isinstance(s, n.Assign):
        return f"{s.target} = {expr_text(s.value)}"
    if isinstance(s, n.Store):
        return f"{_access(s.array, s.indices, s.check, s.nonnegative)} = {expr_text(s.value)}"
    if isinstance(s, n.StoreField):
        return f"{expr_text(s.record)}.{s.name} = {expr_text(s.value)}"
    if isinstance(s, n.ExprStatement):
        return expr_text(s.value)
    if isinstance(s, n.Return):
        return "return" if s.value is None else f"return {expr_text(s.value)}"
    if isinstance(s, n.Raise):
        details = "".join(f", {expr_text(d)}" for d in s.details)
        return f"raise error {s.error}{details}"
    if isinstance(s, n.Print):
        shown = ", ".join(repr(p) if isinstance(p, str) else expr_text(p) for p in s.parts)
        return f"print {shown} end {s.end!r}"
    return type(s).__name__.lower()


def _access(array: n.Expr, indices: tuple[Any, ...], check: int | None, nonnegative: bool) -> str:
    flags = ("" if check is None else f" ?{check}") + (" +" if nonnegative else "")
    return f"{expr_text(array)}[{', '.join(map(expr_text, indices))}{flags}]"


def _list(items: tuple[Any, ...]) -> str:
    return ", ".join(map(expr_text, items))


def _slice(item: n.SliceAxis) -> str:
    start, stop = ("" if part is None else expr_text(part) for part in (item.start, item.stop))
    return f"{start}:{stop}" + ("" if item.step is None else f":{expr_text(item.step)}")


def _const(e: n.Const) -> str:
    if isinstance(e.type, Scalar) and not e.type.weak and e.type.kind != "b":
        return f"{e.type}({e.value!r})"
    return repr(e.value)


def _view(e: n.View) -> str:
    if e.transpose is not None:
        return f"{expr_text(e.array)}.transpose{e.transpose}"
    if e.field is not None:
        return f"{expr_text(e.array)}[{e.field!r}]"
    check = "" if e.check is None else f" ?{e.check}"
    return f"view({expr_text(e.array)}[{_list(e.items)}{check}]: {e.type})"


def _reference(e: n.HostRef) -> str:
    extra = f" +{e.addend}:{e.extent}" if e.addend or e.extent else ""
    return f"<{e.kind.value} {e.path}{extra}: {e.type}>"


def _intrinsic(e: n.Intrinsic) -> str:
    attrs = f"<{', '.join(map(repr, e.attrs))}>" if e.attrs else ""
    return f"{e.name}{attrs}({_list(e.args)})" + (f": {e.type}" if e.args else "")


_WRITERS: dict[type[Any], Any] = {
    n.Const: _const,
    n.Local: lambda e: e.name,
    n.Unary: lambda e: f"{({'neg': '-', 'invert': '~', 'not': 'not '})[e.op]}{_inner(e.operand)}",
    n.Binary: lambda e: _binary(e),
    n.Compare: lambda e: f"({expr_text(e.left)} {_COMPARE[e.op]} {expr_text(e.right)})",
    n.IfExp: lambda e: f"({expr_text(e.then)} if {expr_text(e.test)} else {expr_text(e.orelse)})",
    n.Cast: lambda e: f"{e.type}({expr_text(e.operand)})",
    n.Call: lambda e: f"call {e.function}({_list(e.args)}): {e.type}",
    n.Intrinsic: _intrinsic,
    n.HostRef: _reference,
    n.SlotWord: lambda e: f"slot {e.slot}[{e.index}]",
    n.TableWord: lambda e: f"table[{e.index}]",
    n.RefWord: lambda e: f"word({_list(e.words)}): {e.type}",
    n.ArrayOf: lambda e: f"array({expr_text(e.address)}, ({_list(e.shape)}), ({_list(e.strides)})): {e.type}",
    n.Element: lambda e: _access(e.array, e.indices, e.check, e.nonnegative),
    n.FieldRef: lambda e: f"{expr_text(e.value)}.{e.name}",
    n.SliceAxis: _slice,
    n.NewAxis: lambda e: "None",
    n.View: _view,
    n.Extent: lambda e: f"{expr_text(e.array)}.shape[{e.axis}]",
    n.Stride: lambda e: f"{expr_text(e.array)}.strides[{e.axis}]",
    n.MakeTuple: lambda e: f"({_list(e.items)}): {e.type}",
    n.GetItem: lambda e: f"{expr_text(e.value)}.{e.index}",
    n.TypeOf: lambda e: f"type({expr_text(e.value)})",
    n.SharedArray: lambda e: f"shared {e.name}{list(e.shape)}: {e.type}",
    n.LocalArray: lambda e: f"local {e.name}{list(e.shape)}: {e.type}",
    n.Atomic: lambda e: _atomic(e),
}


def _inner(e: Any) -> str:
    return expr_text(e)


def _binary(e: n.Binary) -> str:
    if e.op in ("min", "max"):
        return f"{e.op}({expr_text(e.left)}, {expr_text(e.right)})"
    return f"({expr_text(e.left)} {_BINARY[e.op]} {expr_text(e.right)})"


def _atomic(e: n.Atomic) -> str:
    place = _access(e.array, e.indices, e.check, False) if e.field is None else f"{expr_text(e.array)}.{e.field}"
    return f"atomic.{e.op}({place}, {_list(e.values)})"


def expr_text(e: Any) -> str:
    """One expression."""
    text: str = _WRITERS[type(e)](e)
    return text
