"""What the functions of one LLVM module share, and the module's text.

A target's entry (`sterna.compiler.codegen.cpu.entry`) emits the kernel with a `ModuleContext`; the context emits the
device functions, collects declarations and puts everything together in an order that depends on the
IR alone (I4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sterna.compiler.codegen.llvm.aliases import AliasNotes
from sterna.compiler.codegen.llvm.atomics import emit_atomic
from sterna.compiler.codegen.llvm.debug import LineTable
from sterna.compiler.codegen.llvm.failures import raise_text
from sterna.compiler.codegen.llvm.functions import emit_call, emit_function, function_infos
from sterna.compiler.codegen.llvm.intrinsics import emit_intrinsic
from sterna.compiler.codegen.llvm.layout import Value, components
from sterna.compiler.codegen.llvm.printing import emit_print
from sterna.compiler.codegen.llvm.profile import LLVMProfile
from sterna.compiler.ir import nodes as ir
from sterna.compiler.passes.kernel_state import kernel_state
from sterna.errors import UnsupportedError
from sterna.relocation.record import SLOTS, WORD_BYTES

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
    from sterna.options import CompileOptions

__all__ = ["ModuleContext", "entry_symbol"]

_FAST = " reassoc nsz arcp contract afn"


def entry_symbol(name: str) -> str:
    """The symbol of a kernel: its name with only letters, digits and underscores."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return plain if plain and not plain[0].isdigit() else f"k_{plain}"


class ModuleContext:
    """Shared state of emitting one module.

    Parameters
    ----------
    module : Module
        *Lowered* IR.
    profile : LLVMProfile
        The target's facts and hooks.
    options : CompileOptions
        Options of the compilation.
    target_name : str
        For messages.
    """

    inline_limit = 400

    def __init__(self, module: ir.Module, profile: LLVMProfile, options: CompileOptions, target_name: str) -> None:
        self.module, self.profile, self.options, self.target_name = module, profile, options, target_name
        self.fast_flags = _FAST if options.fastmath else " contract" if options.contract else ""
        self.infos = function_infos(module)
        self.state = kernel_state(module, options.over)
        self.shared_bytes = 0
        self.prints: list[Any] = []
        self._declarations: dict[str, None] = {}
        self._helpers: dict[str, str] = {}
        self._strings: dict[bytes, str] = {}
        self.metadata = [
            '!{!"branch_weights", i32 2000, i32 1}',
            "!{}",
            '!{!"branch_weights", i32 1, i32 2000}',
            "!{i64 1, i64 1025}",
            f"!{{i64 0, i64 {2**63 - 1}}}",
        ]
        self._records = {r.slot: r for r in module.manifest or ()}
        self._reads_slots = False
        self._slot_words = sum(record.words for record in self._records.values())
        self._slots_in = profile.slots_in(self._slot_words)
        self.lines = LineTable(self)
        self.aliases = AliasNotes(self) if options.noalias else None

    # ---- collected on the way ----------------------------------------------------------------

    def declare(self, text: str) -> None:
        """Declare an external function (once)."""
        self._declarations.setdefault(text)

    def helper(self, name: str, text: str) -> bool:
        """Define a helper function or global (once); whether it is new."""
        is_new = name not in self._helpers
        self._helpers.setdefault(name, text)
        return is_new

    def has_helper(self, name: str) -> bool:
        """Whether a helper was asked for."""
        return name in self._helpers

    def string(self, data: bytes) -> str:
        """A constant byte string; gives its symbol."""
        return self._strings.setdefault(data, f"@text{len(self._strings)}")

    def metadata_node(self, text: str) -> str:
        """A metadata node; gives its name.  ``{self}`` in the text is the node itself; others are shared."""
        if not text.startswith("distinct") and text in self.metadata:
            return f"!{self.metadata.index(text)}"
        name = f"!{len(self.metadata)}"
        self.metadata.append(text.replace("{self}", name))
        return name

    # ---- nodes that need the module ----------------------------------------------------------

    def call(self, e: FunctionEmitter, name: str, args: Value) -> Value:
        """Call of a device function."""
        types = tuple(kind for _, t in self.module.functions[name].params for kind in components(t))
        return emit_call(e, self.infos[name], types, args)

    def intrinsic(self, e: FunctionEmitter, node: ir.Intrinsic, args: tuple[Value, ...]) -> Value:
        """An operation of the language."""
        return emit_intrinsic(e, node, args)

    def atomic(self, e: FunctionEmitter, node: ir.Atomic) -> Value:
        """An atomic operation."""
        return emit_atomic(e, node)

    def print_line(self, e: FunctionEmitter, node: ir.Print) -> None:
        """A ``print``."""
        self.prints.append(None)
        emit_print(e, node)

    def slot_word(self, e: FunctionEmitter, slot: str, index: int) -> str:
        """A word of a reference, in the visible global that the loader writes before the first launch."""
        self._reads_slots = True
        place, pointer, at = f"@{SLOTS}", f"ptr {self._slots_in}", self._records[slot].index + index
        if at:
            place = f"getelementptr inbounds (i8, {pointer}@{SLOTS}, i64 {WORD_BYTES * at})"
        return e.b.op(f"load i64, {pointer}{place}, !invariant.load !1")

    def shared_array(self, e: FunctionEmitter, node: ir.SharedArray) -> Value:
        """An array of a block that is not in the kernel's own code."""
        raise UnsupportedError("shared.array in a device function that is not part of the kernel's own code")

    def can_copy(self, body: tuple[ir.Stmt, ...]) -> bool:
        """Whether threads of a block may run different copies of this code."""
        return True

    def raise_text(self) -> str:
        """Definition of ``sterna_raise``, which reports a failure."""
        return raise_text(self)

    def loop_note(self, node: ir.ForRange, bounds: tuple[str, str, str]) -> str:
        """A note for the jump back of a counted loop, such as ``, !llvm.loop !n``."""
        return ""

    # ---- the module's text -------------------------------------------------------------------

    def text(self, entries: list[str]) -> str:
        """The whole module, given the text of the target's own functions."""
        device = {name: f for name, f in self.module.functions.items() if name != self.module.entry}
        functions = [emit_function(self, f, self.infos[name]) for name, f in device.items()]
        lines = ['source_filename = "kernel"', f'target triple = "{self.profile.triple}"']
        if self.profile.data_layout:
            lines.insert(1, f'target datalayout = "{self.profile.data_layout}"')
        if self._reads_slots:
            kind = f"{self._slots_in}externally_initialized global [{self._slot_words} x i64]"
            lines.append(f"@{SLOTS} = hidden {kind} zeroinitializer, align 8")
        for data, name in self._strings.items():
            text = "".join(f"\\{c:02X}" for c in data)
            lines.append(f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{text}"')
        lines += entries
        lines += functions
        lines += self._helpers.values()
        lines += self._declarations
        lines += self.lines.named()
        lines += [f"!{n} = {text}" for n, text in enumerate(self.metadata)]
        return self.profile.legalise("\n".join(lines) + "\n")
