"""Which words of the launch's state a kernel reads: it is given those and no others.

A word is reached by a marker in the IR (a check that may fail, a `TableWord`, a `Print`, ``state.seed``), which each
target's code generator lowers: to a hidden argument on a GPU, to a field of the launch structure on the CPU.
"""

from __future__ import annotations

from typing import Any

from sterna.abi import STATE_WORDS
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk_function

__all__ = ["kernel_state"]

_CHECKED = (ir.Element, ir.Store, ir.View, ir.Atomic)


def kernel_state(module: ir.Module, over: int) -> tuple[str, ...]:
    """Names of the state words that `module` reads, in the order of `sterna.abi.STATE_WORDS`.

    Parameters
    ----------
    module : Module
        *Lowered* IR.
    over : int
        Axes of an ``over`` launch, else 0.
    """
    found: set[str] = set()
    for function in module.functions.values():
        for node in walk_function(function):
            found.update(_words_of(node))
    if over:
        found.add("extents")
    if over > 1:
        found.add("flat")
    return tuple(name for name in STATE_WORDS if name in found)


def _words_of(node: Any) -> tuple[str, ...]:
    if isinstance(node, ir.Raise) or (isinstance(node, _CHECKED) and node.check is not None):
        return ("record",)
    if isinstance(node, ir.Print):  # a line says which kernel printed it by its record
        return ("record", "print")
    if isinstance(node, ir.TableWord):
        return ("table",)
    if isinstance(node, ir.Intrinsic) and node.name == "state.seed":
        return ("seed",)
    return ()
