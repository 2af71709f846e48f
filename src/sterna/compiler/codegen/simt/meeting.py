"""Where threads of a block meet: whether they all come to a barrier by the same way.

Hardware has a faster barrier for threads that arrive together; one under a condition that may differ between threads
needs the general one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk
from sterna.compiler.passes.collectives import contains_collective
from sterna.compiler.passes.uniformity import Uniformity

__all__ = ["barriers_diverge", "holds_meeting"]


def holds_meeting(nodes: Any, meeting: frozenset[str]) -> bool:
    """Whether code holds a collective, or calls one of the functions `meeting` that do."""
    return contains_collective(nodes) or any(isinstance(n, ir.Call) and n.function in meeting for n in walk(nodes))


def barriers_diverge(module: ir.Module, meeting: frozenset[str]) -> bool:
    """Whether some barrier is under a condition that may differ between threads of a block."""
    for name, function in module.functions.items():
        if name == module.entry or name in meeting:
            known = Uniformity(function) if name == module.entry else None
            if _diverges(function.body, known, meeting):
                return True
    return False


def _diverges(body: Sequence[ir.Stmt], known: Uniformity | None, meeting: frozenset[str]) -> bool:
    for node in body:
        if not isinstance(node, ir.If | ir.While | ir.ForRange) or not holds_meeting([node], meeting):
            continue
        tests = (node.start, node.stop, node.step) if isinstance(node, ir.ForRange) else (node.test,)
        if known is None or id(node) in known.divergent_loops or not all(known.is_uniform(t) for t in tests):
            return True
        inner = (*node.then, *node.orelse) if isinstance(node, ir.If) else node.body
        if _diverges(inner, known, meeting):
            return True
    return False
