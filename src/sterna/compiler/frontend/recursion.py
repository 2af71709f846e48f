"""A limit on the depth of recursion: device functions that call themselves count their depth.

The stack of a device is small and nothing guards its end, so a recursion without end would end the process.
Each function on a cycle of calls has one more parameter, its depth, and raises RecursionError past the depth at
which CPython, as it is set up, does; earlier if local arrays of that many calls do not fit the stack.  Part of
the frontend's last step (`sterna.compiler.frontend.finish`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from sterna.compiler.ir.nodes import Binary, Call, Compare, Const, Expr, Function, If, Local, LocalArray, Raise
from sterna.compiler.ir.rewrite import Node, rewrite_function, walk_function
from sterna.types import PYINT, itemsize

__all__ = ["MAX_DEPTH", "MESSAGE", "count_depth", "depth_limit", "recursive_functions"]

MAX_DEPTH = 1000
MESSAGE = "maximum recursion depth exceeded"
_DEPTH = Local(".depth", PYINT)


def recursive_functions(callees: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Functions that call themselves, through others or not."""
    return {name for name in callees if name in _reached(callees, name)}


def _reached(callees: Mapping[str, tuple[str, ...]], start: str) -> set[str]:
    seen: set[str] = set()
    stack = [*callees[start]]
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack.extend(callees[name])
    return seen


def depth_limit(recursive: Iterable[Function], stack_bytes: int) -> int:
    """Calls that may be under way at once, for the local arrays of `recursive` functions in `stack_bytes`."""
    largest = max(map(_local_bytes, recursive), default=0)
    return min(MAX_DEPTH, max(1, stack_bytes // max(largest, 1)))


def _local_bytes(function: Function) -> int:
    arrays = {node.name: node for node in walk_function(function) if isinstance(node, LocalArray)}
    return sum(math.prod(node.shape) * itemsize(node.type.dtype) for node in arrays.values())


def count_depth(function: Function, recursive: set[str], limit: int, site: int | None, line: int) -> Function:
    """`function` with its calls of `recursive` functions one deeper; its own depth is checked if `site` is given."""
    deeper: Expr = Const(1, PYINT) if site is None else Binary("add", _DEPTH, Const(1, PYINT), PYINT)

    def with_depth(node: Node) -> Node:
        if isinstance(node, Call) and node.function in recursive:
            return replace(node, args=(*node.args, deeper))
        return node

    function = rewrite_function(function, with_depth)
    if site is None:
        return function
    check = If(Compare("gt", _DEPTH, Const(limit, PYINT)), (Raise(site, (), line),), (), line)
    return replace(
        function, params=(*function.params, (_DEPTH.name, PYINT)), locals={**function.locals, _DEPTH.name: PYINT},
        body=(check, *function.body), may_raise=True,
    )  # fmt: skip
