"""The text of one kernel in Metal: prelude, device functions, the entry.

The entry takes its arguments in one buffer: the launch arguments as `sterna.abi` lays them out, then those state words
that the kernel reads (`sterna.abi.STATE_WORDS`); the rest of what a thread knows is in its ``Frame``.

All arrays that a block shares lie in one threadgroup buffer, the launch's dynamic memory behind them.  The text depends
on the IR alone (I4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sterna.abi import STATE_WORDS
from sterna.compiler.codegen.msl.atomics import emit_atomic
from sterna.compiler.codegen.msl.emitter import FunctionEmitter
from sterna.compiler.codegen.msl.entry import emit_entry
from sterna.compiler.codegen.msl.functions import emit_function, function_infos, plain
from sterna.compiler.codegen.msl.intrinsics import emit_intrinsic
from sterna.compiler.codegen.msl.layout import Value
from sterna.compiler.codegen.msl.meeting import Step, meeting_steps
from sterna.compiler.codegen.msl.prelude import FRAME, prelude_text
from sterna.compiler.codegen.msl.runtime import runtime_texts
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk_function
from sterna.compiler.passes.kernel_state import kernel_state
from sterna.errors import CompileError, SourceLocation, UnsupportedError
from sterna.types import itemsize

if TYPE_CHECKING:
    from sterna.options import CompileOptions

__all__ = ["SHARED_BYTES", "ModuleContext", "emit_module", "entry_name"]

SHARED_BYTES = 32 * 1024
"""Threadgroup memory that every Apple GPU has."""
_VOTES = ("syncthreads_count", "syncthreads_and", "syncthreads_or")


def entry_name(name: str) -> str:
    """The kernel's name in the text; no word of Metal begins so."""
    return f"sterna_{plain(name) or 'kernel'}"


class ModuleContext:
    """What the functions of one module share.

    Parameters
    ----------
    module : Module
        *Lowered* IR.
    options : CompileOptions
        Of the compilation.
    prefix : str
        How symbols of device functions begin.

    Attributes
    ----------
    entry : str
        The kernel's name in the text.
    prints : list
        Formats of the lines that the kernel may print.
    state : tuple of str
        State words that the kernel reads.
    raises : bool
        Whether a thread may fail.
    slots : dict of str to int
        Slot of a record → place of its first word in the table.
    shared_bytes : int
        Of all arrays that a block shares, without dynamic memory.
    language : str
        The lowest version of Metal that has all the text needs.
    """

    fences = True
    """Whether ``threadfence`` and its like are needed: not where the host reads only what a finished launch left."""

    def __init__(self, module: ir.Module, options: CompileOptions, prefix: str = "f") -> None:
        self.module, self.options = module, options
        self.entry = entry_name(module.entry)
        self.prints: list[Any] = []
        self.raises = False
        self.language = "3.0"
        self.current: FunctionEmitter | None = None
        self._needed: set[str] = set()
        self._arrays: dict[FunctionEmitter, list[str]] = {}
        self.shared_bytes, self.uses_shared = 0, False
        self._starts: dict[str, int] = {}
        self.slots = {record.slot: record.index for record in module.manifest or ()}
        more = self._survey()
        state = {*kernel_state(module, options.over), *more}
        self.state = tuple(name for name in STATE_WORDS if name in state)
        self.infos = function_infos(module, prefix)

    def _survey(self) -> set[str]:
        """Place the arrays of a block; gives the state words that only this target reads."""
        state: set[str] = set()
        for function in self.module.functions.values():
            for node in walk_function(function):
                if isinstance(node, ir.SharedArray):
                    self._reserve(node.name, _bytes_of(node))
                    state.update(() if node.shape else ("dynamic",))
                elif isinstance(node, ir.Intrinsic) and node.name in _VOTES:
                    self._reserve("", 8)
                elif isinstance(node, ir.SlotWord):
                    state.add("table")
        return state

    def _reserve(self, name: str, size: int) -> None:
        self.uses_shared = True
        if name not in self._starts:
            self._starts[name] = self.shared_bytes
            self.shared_bytes += -(-size // 16) * 16

    def shared_start(self, node: ir.SharedArray) -> int:
        """Where an array of a block begins in its shared memory."""
        return self.shared_bytes if not node.shape else self._starts[node.name]

    @property
    def vote_start(self) -> int:
        """Where the two words begin by which threads of a block vote."""
        return self._starts[""]

    # ---- collected on the way ----------------------------------------------------------------

    def need(self, name: str) -> None:
        """Take a function of the prelude in."""
        self._needed.add(name)

    def share_prelude(self, other: ModuleContext) -> None:
        """What this needs of the prelude is in the text of `other`."""
        self._needed = other._needed

    def need_language(self, version: str) -> None:
        """The text needs this version of Metal, at least."""
        self.language = max(self.language, version)

    def emitting(self, e: FunctionEmitter) -> None:
        """`e` is at work now: errors are at its line."""
        self.current = e

    def declare_array(self, e: FunctionEmitter, text: str) -> None:
        """An array of a thread, defined at the function's beginning."""
        self._arrays.setdefault(e, []).append(text)

    def arrays_of(self, e: FunctionEmitter) -> list[str]:
        """Definitions of the arrays of a function."""
        return [f"    {text}" for text in self._arrays.get(e, ())]

    def title(self, function: ir.Function) -> str:
        """The comment over a function: where it comes from."""
        if function.ordinal >= len(self.module.sources):
            return f"// {function.name}"
        path, name = self.module.sources[function.ordinal]
        where = f", {path}" if path else ""
        return f"// {name}{where}; lines are counted from its def".replace("\n", " ")

    # ---- nodes that need the module ----------------------------------------------------------

    def intrinsic(self, e: FunctionEmitter, node: ir.Intrinsic, args: tuple[Value, ...]) -> Value:
        """An operation of the language."""
        return emit_intrinsic(e, node, args)

    def atomic(self, e: FunctionEmitter, node: ir.Atomic) -> Value:
        """An atomic operation."""
        return emit_atomic(e, node)

    # ---- the text ----------------------------------------------------------------------------

    def text(self, steps: tuple[Step, ...] | None) -> str:
        """The whole module; the kernel in steps, if it is cut into some (`meeting`)."""
        functions = [
            emit_function(self, self.module.functions[name], info)
            for name, info in self.infos.items()
            if name != self.module.entry
        ]
        entry = emit_entry(self, steps)
        functions = [*(runtime_texts(self) if self.raises else ()), *functions]
        mode = "fast" if self.options.fastmath else "safe"
        contract = "fast" if self.options.fastmath else "on" if self.options.contract else "off"
        head = [
            "#include <metal_stdlib>", "using namespace metal;", "",
            f"#pragma METAL fp math_mode({mode})", f"#pragma METAL fp contract({contract})", "", FRAME,
        ]  # fmt: skip
        return "\n".join([*head, *prelude_text(self._needed), "\n\n".join([*functions, entry]), ""])


def _bytes_of(node: ir.SharedArray) -> int:
    size = itemsize(node.type.dtype) if node.shape else 0
    for extent in node.shape:
        size *= extent
    return size


def emit_module(module: ir.Module, options: CompileOptions) -> tuple[str, ModuleContext]:
    """Text of a lowered module.

    Raises
    ------
    UnsupportedError
        For what Metal does not have: says where, and what to use instead.
    """
    kernel = module.sources[0][1].rpartition(".")[2] if module.sources else module.entry
    context: ModuleContext | None = None
    try:
        if options.cooperative:
            raise UnsupportedError(
                "target metal has no cooperative launches",
                hint="end the kernel where the grid should meet, and launch another",
            )
        if options.cluster:
            raise UnsupportedError("target metal has no clusters of blocks", hint="leave cluster= away on metal")
        context = ModuleContext(module, options)
        text = context.text(None)
        cut, steps = meeting_steps(module, options.over)
        if steps is not None:  # whatever Metal lacks has been refused by now, where it stands
            context = ModuleContext(cut, options)
            text = context.text(steps)
        if context.shared_bytes > SHARED_BYTES:
            raise UnsupportedError(
                f"shared arrays of {context.shared_bytes} bytes; target metal has {SHARED_BYTES} for a block",
                hint="smaller tiles, or a narrower dtype",
            )
        return text, context
    except CompileError as error:
        place = error.location or _location(module, context)
        raise type(error)(error.message, place, error.kernel or kernel, error.hint) from None


def _location(module: ir.Module, context: ModuleContext | None) -> SourceLocation | None:
    """The statement that was being emitted."""
    if context is None or context.current is None:
        return None
    e = context.current
    ordinal = e.function_node.ordinal
    if ordinal >= len(module.places):
        return None
    file, start = module.places[ordinal]
    return SourceLocation(file, start + e.line, function=module.sources[ordinal][1])
