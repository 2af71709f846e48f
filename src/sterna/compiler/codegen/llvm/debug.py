"""Line tables: which statement of the user's source an instruction came from.

Files are named by module (``package/module.py``), never by a path of this machine (I3); lines are those of the
file when the image was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.module import ModuleContext
    from sterna.compiler.ir.nodes import Function

__all__ = ["LineTable"]


class LineTable:
    """Debug metadata of one module: files, one scope a function, one node a line.

    Parameters
    ----------
    context : ModuleContext
        Whose metadata it extends.
    """

    def __init__(self, context: ModuleContext) -> None:
        self._context = context
        self._files: dict[str, str] = {}
        self._locations: dict[tuple[str, int], str] = {}
        self._type = ""
        self._unit = ""

    def scope(self, function: Function) -> tuple[str, int]:
        """The scope node of a function, and the line of its ``def``."""
        places = self._context.module.places
        file_name, first = places[function.ordinal] if function.ordinal < len(places) else ("kernel", 1)
        node = self._context.metadata_node
        file = self._file(file_name)
        name = function.name.replace("\\", "/").replace('"', "'")
        scope = node(
            f'distinct !DISubprogram(name: "{name}", scope: {file}, file: {file}, line: {first}, type: {self._type}, '
            f"scopeLine: {first}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {self._unit})"
        )
        return scope, first

    def location(self, scope: str, line: int) -> str:
        """The note of an instruction at this line: ``, !dbg !n``."""
        found = self._locations.get((scope, line))
        if found is None:
            found = self._locations[scope, line] = self._context.metadata_node(
                f"!DILocation(line: {line}, scope: {scope})"
            )
        return f", !dbg {found}"

    def _file(self, name: str) -> str:
        found = self._files.get(name)
        if found is not None:
            return found
        node = self._context.metadata_node
        found = self._files[name] = node(f'!DIFile(filename: "{name}", directory: "")')
        if not self._unit:
            self._type = node("!DISubroutineType(types: !{})")
            self._unit = node(
                f"distinct !DICompileUnit(language: DW_LANG_C, file: {found}, isOptimized: true, runtimeVersion: 0, "
                "emissionKind: DebugDirectivesOnly)"
            )
        return found

    def named(self) -> list[str]:
        """Named metadata that goes with it; empty without any scope."""
        if not self._unit:
            return []
        version = self._context.metadata_node('!{i32 2, !"Debug Info Version", i32 3}')
        return [f"!llvm.dbg.cu = !{{{self._unit}}}", f"!llvm.module.flags = !{{{version}}}"]
