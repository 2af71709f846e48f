"""``print`` where the host makes the text: the template of a line, and the values that a kernel leaves for it.

The record is described where it is read (`sterna.runtime.printing`).
"""

from __future__ import annotations

from collections.abc import Callable

from sterna.compiler.codegen.values import Emitter, Value
from sterna.compiler.ir import nodes as ir
from sterna.errors import UnsupportedError
from sterna.types import Scalar

__all__ = ["RECORD_HEAD", "Operand", "lay_out"]

RECORD_HEAD = 16
"""Bytes of a record ahead of its values, which take eight bytes each."""

Operand = tuple[str, str]
"""Type and text of one value to store."""


def lay_out(
    e: Emitter, node: ir.Print, name: Callable[[Scalar], str], store: Callable[[Scalar, Value], list[Operand]]
) -> tuple[list[list[str]], list[Operand]]:
    """What a line consists of.

    Parameters
    ----------
    e : Emitter
        Computes what is printed.
    node : Print
        The statement.
    name : callable
        The type a number is printed as.
    store : callable
        What to store of a number of this type, from its operands.

    Returns
    -------
    template : list of [str, str]
        ``text`` and the text, or ``value`` and a type.
    operands : list of (str, str)
        The values' types and operands.
    """
    template: list[list[str]] = []
    operands: list[Operand] = []
    for part in node.parts:
        if isinstance(part, str):
            template.append(["text", part])
            continue
        value, t = e.value(part), part.type
        if isinstance(t, Scalar):
            template.append(["value", name(t)])
            operands += store(t, value)
        elif value:
            raise UnsupportedError(f"print of a value of type {t}")
        else:
            template.append(["text", "None"])
    template.append(["text", node.end])
    return template, operands
