"""What LLVM may know of memory under the promise ``noalias``: scopes that lie apart, and loads of what nobody writes.

Each origin of memory (`sterna.compiler.passes.aliasing`) that the kernel uses is one alias scope.  Memory that no
thread writes does not change during a launch, so its loads are invariant: LLVM moves them freely, and a GPU reads them
through its read-only cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sterna.compiler.passes.aliasing import Aliasing

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.module import ModuleContext

__all__ = ["AliasNotes"]


class AliasNotes:
    """Notes on loads and stores of one module.

    Parameters
    ----------
    context : ModuleContext
        Whose metadata it extends.
    """

    def __init__(self, context: ModuleContext) -> None:
        self._context = context
        self._aliasing = Aliasing(context.module)
        self._scopes: dict[str, str] = {}
        self._notes: dict[frozenset[str], str] = {}

    def note(self, function: str, array: Any, is_load: bool) -> str:
        """The note of an access, such as ``, !alias.scope !7, !noalias !8``."""
        if getattr(array.type, "space", "global") != "global":
            return ""
        origins = self._aliasing.of(function, array)
        if not origins:
            return ""
        note = self._notes.get(origins)
        if note is None:
            note = self._notes[origins] = self._make(origins)
        if is_load and not origins & self._aliasing.written:
            note += ", !invariant.load !1"
        return note

    def _make(self, origins: frozenset[str]) -> str:
        others = self._aliasing.origins - origins
        note = f", !alias.scope {self._list(origins)}"
        return f"{note}, !noalias {self._list(others)}" if others else note

    def _list(self, origins: frozenset[str]) -> str:
        node = self._context.metadata_node
        if not self._scopes:
            domain = node("distinct !{{self}}")
            for origin in sorted(self._aliasing.origins):
                self._scopes[origin] = node(f"distinct !{{{{self}}, {domain}}}")
        return node(f"!{{{', '.join(self._scopes[origin] for origin in sorted(origins))}}}")
