"""How a failing thread reports: a call of the runtime library's ``report_failure``, emitted from its IR.

What is written here as text is only what the kernel language cannot say: where the record is, and where the thread.
The library's fences are left out: the host reads a record when the launch is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.compiler.codegen.msl.functions import emit_function
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk

if TYPE_CHECKING:
    from sterna.compiler.codegen.msl.module import ModuleContext

__all__ = ["runtime_texts"]

_NO_EXTENT = "9223372036854775807L"
"""Of a block along x or y: the thread's index is its own."""


def runtime_texts(context: ModuleContext) -> list[str]:
    """The functions of the runtime library, and ``fail``, which calls them."""
    module = next(found for name, found in context.module.runtime if name == "report_failure")
    own = type(context)(module, context.options.with_(boundscheck=False, over=0), "runtime")
    own.fences = False
    own.share_prelude(context)
    texts = [
        emit_function(own, module.functions[name], info) for name, info in own.infos.items() if name != module.entry
    ]
    (first,) = (node.function for node in walk(module.functions[module.entry].body) if isinstance(node, ir.Call))
    info = own.infos[first]
    places = [f"long(f.{what}_idx.{axis})" for what in ("block", "thread") for axis in "xyz"]
    arguments = [
        *(["f"] if info.hidden else []), "record", "2L", "record", "10L", _NO_EXTENT, _NO_EXTENT, "long(error)",
        *places, "detail0", "detail1", "detail2",
    ]  # fmt: skip
    fail = [
        "// Report a failure of this thread.",
        "static void fail(thread const Frame &f, uint error, long detail0, long detail1, long detail2)",
        "{",
        "    device uchar *record = (device uchar *)f.record;",
        f"    {info.symbol}({', '.join(arguments)});",
        "}",
    ]
    return [*texts, "\n".join(fail)]
