"""A kernel's source with the inferred types beside each line: what ``inspect_types`` prints.

Types come from the typed IR, so they are those that were compiled: every specialisation of every function the
kernel reaches is shown, in order of discovery.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sterna.compiler.frontend import build_module
from sterna.compiler.frontend.values import describe_type
from sterna.compiler.ir.nodes import Assign, ForRange, Function, Local, Module, Return, Store, StoreField
from sterna.compiler.ir.rewrite import walk_function
from sterna.compiler.job import TypedJob
from sterna.source.captures import Scan
from sterna.source.locate import Located, locate
from sterna.types import VOID, Type

__all__ = ["annotated_source"]

_WIDEST = 72
_NESTED = re.compile(r"\w+\.\d+\.(?!s\d+$)(\w+)")
"""Names of the specialisations of nested functions and lambdas (`sterna.compiler.frontend.build`)."""


def annotated_source(job: TypedJob) -> str:
    """The source of a kernel and of the functions it reaches, each line with the types of what it binds.

    Parameters
    ----------
    job : TypedJob
        Captures, argument types, options and device of one specialisation.

    Returns
    -------
    str
        One part a function, with an empty line between.
    """
    module = build_module(job.scan, job.types, job.options, job.device.target)
    return "\n\n".join(_function_text(module, function, job.scan) for function in module.functions.values())


def _function_text(module: Module, function: Function, scan: Scan) -> str:
    located = locate(scan.functions[function.ordinal].function)
    path, name = module.sources[function.ordinal]
    nested = _NESTED.match(function.name)
    parameters = [(name, t) for name, t in function.params if not name.startswith(".")]
    notes = _notes(function)
    first, last = 0, (getattr(located.node, "end_lineno", None) or located.def_line) - located.def_line
    if nested is not None:
        inner = "<lambda>" if nested[1] == "_lambda_" else nested[1]
        name, first, last = f"{name}.<locals>.{inner}", min(notes, default=0), max(notes, default=0)
    else:
        notes[0] = {name: [t] for name, t in parameters} | notes.get(0, {})
    returns = "" if function.returns == VOID else f" -> {describe_type(function.returns)}"
    shown = ", ".join(f"{_shown(name)}: {describe_type(t)}" for name, t in parameters)
    where = f'File "{located.filename}", line {located.def_line + first}' + (f", {path}" if path else "")
    return "\n".join([f"{name}({shown}){returns}", f"  {where}", *_lines(located, range(first, last + 1), notes)])


def _lines(located: Located, lines: range, notes: dict[int, dict[str, list[Type]]]) -> Iterator[str]:
    shown = [located.line_text(located.def_line + line) for line in lines]
    indent = min((len(text) - len(text.lstrip()) for text in shown if text.strip()), default=0)
    width = min(max(map(len, shown), default=0) - indent, _WIDEST)
    for line, text in zip(lines, shown, strict=True):
        types = ", ".join(
            f"{name}: {' or '.join(dict.fromkeys(map(describe_type, found)))}"
            for name, found in notes.get(line, {}).items()
        )
        yield f"{located.def_line + line:5}  {text[indent:]:{width}}  {f'# {types}' if types else ''}".rstrip()


def _notes(function: Function) -> dict[int, dict[str, list[Type]]]:
    """Line from the ``def`` → what it binds (or, for want of that, reads) → its types."""
    bound: dict[int, dict[str, list[Type]]] = {}
    read: dict[int, dict[str, list[Type]]] = {}
    line = 0
    for node in walk_function(function):
        line = getattr(node, "line", 0) or line
        for name, t in _bound(node, function):
            bound.setdefault(line, {}).setdefault(name, []).append(t)
        if isinstance(node, Local) and _shown(node.name):
            read.setdefault(line, {}).setdefault(_shown(node.name), []).append(node.type)
    return read | bound


def _bound(statement: object, function: Function) -> Iterator[tuple[str, Type]]:
    if isinstance(statement, Assign | ForRange):
        if not statement.line:  # a move where paths meet, not the source's
            return
        name = _shown(statement.target)
        if name:
            yield name, function.locals[statement.target]
    elif isinstance(statement, Store):
        name = _shown(statement.array.name) if isinstance(statement.array, Local) else ""
        yield f"{name or '…'}[…]", statement.value.type
    elif isinstance(statement, StoreField):
        yield f"….{statement.name}", statement.value.type
    elif isinstance(statement, Return) and statement.value is not None:
        yield "return", statement.value.type


def _shown(local: str) -> str:
    """The name in the source of an IR local: versions count as the name itself, temporaries and flags as none."""
    return "" if local.endswith("?") else local.lstrip(":").partition(".")[0]
