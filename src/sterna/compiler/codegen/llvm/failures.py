"""How a failing thread reports: a call of the runtime library's ``report_failure``.

The record (see the CPU ABI): status (0 free, 1 claimed, 2 written), error index, then block, thread and
details as 64-bit words.  What is written here as text is only what the kernel language cannot say: where the
record is (`ModuleContext` emits the function itself from its IR).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sterna.abi import LAUNCH_FIELDS
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.module import ModuleContext

__all__ = ["RECORD_ARRAYS", "raise_text", "runtime_symbol"]

RECORD_ARRAYS = "ptr {record}, i64 2, ptr {record}, i64 10"
"""The record as arguments of ``report_failure``: an array of int32 and one of int64."""


def runtime_symbol(context: ModuleContext, name: str) -> str:
    """Symbol of a function of the runtime library, which is put into the module."""
    from sterna.compiler.codegen.llvm.functions import emit_function
    from sterna.compiler.codegen.llvm.module import ModuleContext

    module = dict(context.module.runtime)[name]  # what a module that can fail comes with
    profile = replace(context.profile, line_info=False)
    # nothing that would make metadata nodes of its own: their numbers are the kernel's module's
    options = context.options.with_(boundscheck=False, noalias=False)
    own = ModuleContext(module, profile, options, context.target_name)
    (first,) = (node.function for node in walk(module.functions[module.entry].body) if isinstance(node, ir.Call))
    symbol = f"@sterna_{name}.{own.infos[first].symbol}"
    if not context.has_helper(symbol):
        rare = context.profile.rare_attributes()
        texts = [
            emit_function(own, f, own.infos[f.name], rare) for f in module.functions.values() if f.name != module.entry
        ]
        # its symbols are apart from the kernel's own
        text = "\n".join(texts)
        for info in own.infos.values():
            text = text.replace(f"@{info.symbol}(", f"@sterna_{name}.{info.symbol}(")
        context.helper(symbol, text)
    return symbol


def raise_text(context: ModuleContext) -> str:
    """LLVM IR of ``sterna_raise(launch, error, block, thread, details)`` where the launch is a structure in memory."""
    report = runtime_symbol(context, "report_failure")
    record = RECORD_ARRAYS.format(record="%record")
    words = ", ".join(f"i64 %{name}" for name in ("bx", "by", "bz", "tx", "ty", "tz", "d0", "d1", "d2"))
    return f"""define internal void @sterna_raise(ptr %launch, i32 %error, {words}) cold noinline nounwind {{
entry:
  %field = getelementptr inbounds i64, ptr %launch, i64 {LAUNCH_FIELDS["exception"]}
  %record = load ptr, ptr %field
  %none = icmp eq ptr %record, null
  br i1 %none, label %done, label %report
report:
  %size.x = getelementptr inbounds i64, ptr %launch, i64 {LAUNCH_FIELDS["block_dim"]}
  %width = load i64, ptr %size.x
  %size.y = getelementptr inbounds i64, ptr %launch, i64 {LAUNCH_FIELDS["block_dim"] + 1}
  %height = load i64, ptr %size.y
  %number = zext i32 %error to i64
  call void {report}({record}, i64 %width, i64 %height, i64 %number, {words})
  br label %done
done:
  ret void
}}"""
