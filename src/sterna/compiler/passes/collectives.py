"""Which operations threads of a block do together, and which code contains them."""

from __future__ import annotations

from typing import Any

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk

__all__ = ["BLOCK_WIDE", "contains_collective", "functions_with_block_state", "is_collective"]

BLOCK_WIDE = frozenset({"grid_sync", "syncthreads", "syncthreads_count", "syncthreads_and", "syncthreads_or"})
"""Collectives whose result, if any, is the same for the whole block."""

_WARP = frozenset(
    {"syncwarp", "activemask", "ballot_sync", "any_sync", "all_sync", "eq_sync", "match_any_sync",
     "match_all_sync.mask", "match_all_sync.pred", "shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync"}
    | {f"reduce_{op}_sync" for op in ("add", "min", "max", "and", "or", "xor")}
)  # fmt: skip


def is_collective(node: Any) -> bool:
    """Whether a node is an operation that several threads do together."""
    return isinstance(node, ir.Intrinsic) and (node.name in BLOCK_WIDE or node.name in _WARP)


def contains_collective(nodes: Any) -> bool:
    """Whether any node below `nodes` is a collective."""
    return any(is_collective(n) for n in walk(nodes))


def functions_with_block_state(module: ir.Module) -> frozenset[str]:
    """Device functions that, at any depth, do a collective or name shared memory: they must be part of the kernel."""
    direct: set[str] = set()
    callers: dict[str, set[str]] = {}
    for name, function in module.functions.items():
        for node in walk(function.body):
            if is_collective(node) or isinstance(node, ir.SharedArray):
                direct.add(name)
            elif isinstance(node, ir.Call):
                callers.setdefault(node.function, set()).add(name)
    todo = list(direct)
    while todo:
        for caller in callers.get(todo.pop(), ()):
            if caller not in direct:
                direct.add(caller)
                todo.append(caller)
    return frozenset(direct - {module.entry})
