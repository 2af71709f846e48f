"""The text of one kernel in Metal: prelude, device functions, the entry.

The entry takes its arguments in one buffer: the launch arguments as `sterna.abi` lays them out, then those state words
that the kernel reads (`sterna.abi.STATE_WORDS`); the rest of what a thread knows is in its ``Frame``.

All arrays that a block shares lie in one threadgroup buffer, the launch's dynamic memory behind them.  The text depends
on the IR alone (I4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sterna.abi import STATE_WORDS, ArgField, arg_layout, state_offsets
from sterna.compiler.codegen.msl.atomics import emit_atomic
from sterna.compiler.codegen.msl.code import bare
from sterna.compiler.codegen.msl.emitter import FunctionEmitter, component_names, from_bits
from sterna.compiler.codegen.msl.functions import (
    declare_locals,
    definition,
    emit_function,
    function_infos,
    local_names,
    plain,
)
from sterna.compiler.codegen.msl.intrinsics import emit_intrinsic
from sterna.compiler.codegen.msl.layout import Value, components, memory_type, native
from sterna.compiler.codegen.msl.prelude import FRAME, prelude_text
from sterna.compiler.codegen.msl.statements import emit_body
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk_function
from sterna.compiler.passes.kernel_state import kernel_state
from sterna.errors import CompileError, SourceLocation, UnsupportedError
from sterna.types import Scalar, StructType, TupleType, itemsize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sterna.options import CompileOptions
    from sterna.types import Type

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

    Attributes
    ----------
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

    def __init__(self, module: ir.Module, options: CompileOptions) -> None:
        self.module, self.options = module, options
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
        self.infos = function_infos(module)

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

    def text(self) -> str:
        """The whole module."""
        functions = [
            emit_function(self, self.module.functions[name], info)
            for name, info in self.infos.items()
            if name != self.module.entry
        ]
        entry = _emit_entry(self)
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
        text = context.text()
        if context.shared_bytes > SHARED_BYTES:
            raise UnsupportedError(
                f"shared arrays of {context.shared_bytes} bytes; target metal has {SHARED_BYTES} for a block",
                hint="smaller tiles, or a narrower dtype",
            )
        return text, context
    except CompileError as error:
        if error.location is not None:
            raise
        raise type(error)(error.message, _location(module, context), error.kernel or kernel, error.hint) from None


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


# ---- the entry -----------------------------------------------------------------------------------


class _Entry(FunctionEmitter):
    def finish(self, value: Value) -> None:
        """The thread is done."""
        self.code.emit("return;")


def _emit_entry(context: ModuleContext) -> str:
    kernel = context.module.functions[context.module.entry]
    e = _Entry(context, kernel, local_names(kernel))
    context.emitting(e)
    layout = arg_layout(tuple(t for _, t in kernel.params))
    fields = iter(layout.fields)
    arguments = []
    for name, t in kernel.params:
        values = list(_read(e, t, fields))
        for text, kind, value in zip(component_names(e.names[name], t), components(t), values, strict=True):
            arguments.append(f"    {definition(kind, text)} = {bare(value)};")
    emit_body(e, kernel.body)
    state = -(-layout.size // 8) * 8
    locals_ = declare_locals(kernel, dict(e.names), {name for name, _ in kernel.params})
    parameters = [
        "constant uchar *args [[buffer(0)]]",
        *(["threadgroup uchar *shared [[threadgroup(0)]]"] if context.uses_shared else []),
        "uint3 thread_idx [[thread_position_in_threadgroup]]",
        "uint3 block_idx [[threadgroup_position_in_grid]]",
        "uint3 block_dim [[threads_per_threadgroup]]",
        "uint3 grid_dim [[threadgroups_per_grid]]",
        "uint lane [[thread_index_in_simdgroup]]",
    ]
    bounds = context.options.launch_bounds
    attribute = f"[[max_total_threads_per_threadgroup({bounds[0]})]] " if bounds else ""
    head = f"{attribute}kernel void {entry_name(context.module.entry)}("
    lines = [context.title(kernel), head, ",\n".join(f"    {p}" for p in parameters) + ")", "{"]
    lines += _frame(context, state)
    return "\n".join([*lines, *arguments, *locals_, *context.arrays_of(e), *e.code.lines, "}"])


def _frame(context: ModuleContext, state: int) -> list[str]:
    """The frame of the thread; leaves if it is past the extents."""
    offsets, _ = state_offsets(context.state)
    over = context.options.over

    def word(name: str, kind: str, axis: int = 0) -> str:
        return f"*(constant {kind} *)(args + {state + 8 * (offsets[name] + axis)})"

    lines = []
    if "flat" in offsets:
        lines += [
            f"    const uint2 flat = uint2({word('flat', 'uint')}, {word('flat', 'uint', 1)});",
            "    if (flat.x != 0)  // all blocks lie along x: take the index apart",
            "        block_idx = uint3(block_idx.x % flat.x, block_idx.x / flat.x % flat.y, "
            "block_idx.x / flat.x / flat.y);",
        ]
    for axis, letter in enumerate("xyz"[:over]):
        index = f"ulong(block_idx.{letter}) * block_dim.{letter} + thread_idx.{letter}"
        lines.append(f"    if ({index} >= {word('extents', 'ulong', axis)}) return;")
    addresses = [
        f"({kind})({word(name, 'ulong')})" if name in offsets else "nullptr" for name, kind in _ADDRESSES.items()
    ]
    values = [
        *addresses, "shared" if context.uses_shared else "nullptr",
        *(word(name, "long") if name in offsets else "0L" for name in ("dynamic", "seed")),
        "thread_idx", "block_idx", "block_dim", "grid_dim",
        *(word("extents", "long", axis) if over else "1L" for axis in range(3)), "lane",
    ]  # fmt: skip
    return [*lines, "    const Frame f = {", *(f"        {v}," for v in values), "    };"]


_ADDRESSES = {"record": "device atomic_uint *", "table": "device const long *", "print": "device uchar *"}


def _read(e: FunctionEmitter, t: Type, fields: Iterator[ArgField]) -> Iterator[str]:
    """Components of one argument, out of the buffer."""
    if isinstance(t, TupleType | StructType):
        for item in t.items:
            yield from _read(e, item, fields)
    elif isinstance(t, Scalar):
        yield _read_scalar(e, t, fields)
    else:
        for kind in components(t):
            place = f"(args + {next(fields).offset})"
            yield f"({kind})*(constant ulong *){place}" if "*" in kind else f"*(constant {kind} *){place}"


def _read_scalar(e: FunctionEmitter, t: Scalar, fields: Iterator[ArgField]) -> str:
    if t.weak and t.kind in "fc":  # Python's floats come as float64
        part = Scalar("f", 64, weak=True)
        words = [f"*(constant ulong *)(args + {next(fields).offset})" for _ in range(2 if t.kind == "c" else 1)]
        parts = [from_bits(e, part, word) for word in words]
        return parts[0] if t.kind == "f" else f"float2({', '.join(parts)})"
    if native(t).kind == "c":
        parts = [f"*(constant float *)(args + {next(fields).offset})" for _ in range(2)]
        return f"float2({', '.join(parts)})"
    text = f"*(constant {memory_type(t)} *)(args + {next(fields).offset})"
    return f"({text} != 0)" if t.kind == "b" else text
