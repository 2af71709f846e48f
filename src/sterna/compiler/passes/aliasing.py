"""Which memory each array of the code may be, and which of it the kernel writes: what ``noalias`` promises is about.

The *origins* of an array are parameters of the entry, by name, `CAPTURED` for what the host references hold, or
nothing for shared and local arrays.  The analysis goes through the whole module, ignores the order of statements, and
errs towards more origins; an expression that it cannot follow may be of any origin.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk, walk_function
from sterna.types import ArrayType, RecordRefType, StructType, TupleType, Type

__all__ = ["CAPTURED", "Aliasing", "holds_arrays"]

CAPTURED = "*captured*"
"""Origin of all memory that host references name."""

_RETURN = "return value"
_Place = tuple[str, str]


def holds_arrays(t: Type) -> bool:
    """Whether values of this type reach memory: arrays, record references, and tuples with such items."""
    if isinstance(t, TupleType | StructType):
        return any(holds_arrays(item) for item in t.items)
    return isinstance(t, ArrayType | RecordRefType)


class Aliasing:
    """Origins of the arrays of a module.

    Parameters
    ----------
    module : Module
        *Lowered* IR; all its functions are looked at.

    Attributes
    ----------
    origins : frozenset of str
        All there are: the entry's parameters that hold arrays, and `CAPTURED`.
    """

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        entry = module.functions[module.entry]
        arrays = [name for name, t in entry.params if holds_arrays(t)]
        self.origins = frozenset([*arrays, CAPTURED])
        self._known: dict[_Place, frozenset[str]] = {
            (function.name, name): frozenset()
            for function in module.functions.values()
            for name, t in (*function.params, *function.locals.items())
            if holds_arrays(t)
        }
        self._known |= {(entry.name, name): frozenset([name]) for name in arrays}
        while self._spread():
            pass

    def _spread(self) -> bool:
        """One turn over all assignments, calls and returns; whether anything new was found."""
        before = sum(map(len, self._known.values()))
        for function in self._module.functions.values():
            for node in walk_function(function):
                if isinstance(node, ir.Assign) and holds_arrays(node.value.type):
                    self._add((function.name, node.target), function.name, node.value)
                elif isinstance(node, ir.Return) and node.value is not None and holds_arrays(node.value.type):
                    self._add((function.name, _RETURN), function.name, node.value)
                elif isinstance(node, ir.Call):
                    params = self._module.functions[node.function].params
                    for (name, t), arg in zip(params, node.args, strict=True):
                        if holds_arrays(t):
                            self._add((node.function, name), function.name, arg)
        return sum(map(len, self._known.values())) != before

    def _add(self, place: _Place, function: str, value: Any) -> None:
        self._known[place] = self._known.get(place, frozenset()) | self.of(function, value)

    def of(self, function: str, node: Any) -> frozenset[str]:
        """Origins of the memory that an expression in a function reaches."""
        if not holds_arrays(node.type) or isinstance(node, ir.SharedArray | ir.LocalArray):
            return frozenset()
        if isinstance(node, ir.ArrayOf):
            return frozenset([CAPTURED])
        if isinstance(node, ir.Local):
            return self._known.get((function, node.name), self.origins)
        if isinstance(node, ir.Call):
            return self._known.get((node.function, _RETURN), frozenset())
        if isinstance(node, ir.View | ir.Element):
            return self.of(function, node.array)
        if isinstance(node, ir.FieldRef | ir.GetItem):
            return self.of(function, node.value)
        if isinstance(node, ir.MakeTuple | ir.IfExp):
            items = node.items if isinstance(node, ir.MakeTuple) else (node.then, node.orelse)
            return frozenset().union(*(self.of(function, item) for item in items))
        return self.origins

    @cached_property
    def written(self) -> frozenset[str]:
        """Origins that some thread may write."""
        found: frozenset[str] = frozenset()
        for function in self._module.functions.values():
            for node in walk(function.body):
                if isinstance(node, ir.Store | ir.Atomic):
                    found |= self.of(function.name, node.array)
                elif isinstance(node, ir.StoreField):
                    found |= self.of(function.name, node.record)
                elif isinstance(node, ir.Intrinsic):
                    found = found.union(*(self.of(function.name, arg) for arg in node.args))
        return found
