"""Compiling the functions of a package as code of the host, and reading what their objects lack."""

from __future__ import annotations

import importlib
import warnings
from types import FunctionType, ModuleType
from typing import Any

from sterna.errors import CompileError, CompilerUnavailable, SignatureError, SourceError, SternaWarning
from sterna.frozen import frozen
from sterna.image.key import base_key
from sterna.leaks.members import concrete_types, definitions_of, functions_of, kernels_of, modules_of, shown
from sterna.leaks.report import HostLeak, LeakReport, UnusedOverride
from sterna.options import CompileOptions
from sterna.overlays import DEVICE, HOST_TABLES, Overlay, Tables, name_of, shown_table, tables_for
from sterna.relocation.record import Manifest
from sterna.source.captures import Scan, scan
from sterna.source.locate import locate
from sterna.targets.base import Target
from sterna.targets.cpu.elf import undefined_symbols
from sterna.targets.registry import target as find_target
from sterna.types import Type

__all__ = ["check_package", "compile_for", "host_leaks"]


@frozen
class _Place:
    """Where a job without a device is for."""

    target: Target


@frozen
class _Job:
    """A function to be compiled on its own (`sterna.compiler.job`)."""

    name: str
    scan: Scan
    types: tuple[Type, ...]
    device: _Place
    options: CompileOptions
    strategy: str
    key: str

    def resolve(self, manifest: Manifest) -> Any:
        """Words of a session; a job for no device has none."""
        raise ValueError("words of this session are asked for, and the job is for no device")


def compile_for(function: FunctionType, types: tuple[Type, ...], target: Target, host: bool = False) -> Any:
    """Compile one function on its own.

    Parameters
    ----------
    function : function
        A Python function.
    types : tuple of Type
        Of its parameters.
    target : Target
        With its architecture.
    host : bool
        As code of the host: its method tables hold nothing of devices.

    Returns
    -------
    sterna.compiler.Compilation

    Raises
    ------
    CompileError, SourceError, SignatureError
        If it is no code that can be compiled.
    CompilerUnavailable
        If no compiler is installed.
    """
    try:
        compiler = importlib.import_module("sterna.compiler")
        target.compiler()
    except ImportError as error:
        raise CompilerUnavailable(
            f"compiling {shown(function)} needs the compiler, which cannot be imported ({error}); "
            'pip install "sterna[compiler]"'
        ) from error
    captures = scan(function, tables=HOST_TABLES if host else tables_for(target))
    strategy = target.strategies[0]
    options = CompileOptions(strategy=strategy)
    key = base_key(captures, types, target, options)
    return compiler.compile_function(
        _Job(function.__qualname__, captures, types, _Place(target), options, strategy, key)
    )


def host_leaks(package: str | ModuleType) -> LeakReport:
    """Functions of devices that code of the host needs: it must be none.

    Every function of the package whose parameters are all annotated with device types (``int``, ``np.float32``,
    ``"float32[:]"``, named tuples and frozen dataclasses of such) is compiled for the CPU as code of the host, with all
    that it calls.  The undefined symbols of its object are looked through for those of devices.

    Parameters
    ----------
    package : str or module
        A package, whose modules are all imported, or a single module.

    Returns
    -------
    LeakReport
        A sequence of `HostLeak` with function, file and line; also what was compiled and what was not, and why.

    Warns
    -----
    SternaWarning
        For each override of a function that no device code of the package calls.

    Raises
    ------
    OverlayError
        If a module calls a function of devices when it is imported.
    CompilerUnavailable
        If no compiler is installed.

    Examples
    --------
    >>> import sterna
    >>> list(sterna.host_leaks("sterna.language"))
    []
    """
    found = check_package(package)
    for unused in found.unused:
        warnings.warn(str(unused), SternaWarning, stacklevel=2)
    return found


def check_package(package: str | ModuleType) -> LeakReport:
    """As `host_leaks`, with no warnings: overrides that nothing calls are in the report."""
    modules, skipped = modules_of(package)
    target = find_target("cpu")
    leaks: dict[HostLeak, None] = {}
    compiled = []
    for module in modules:
        for function in functions_of(module):
            types = concrete_types(function)
            if types is None:
                continue
            try:
                made = compile_for(function, types, target, host=True)
            except (CompileError, SourceError, SignatureError) as error:
                skipped.append((shown(function), str(error).splitlines()[0]))
                continue
            compiled.append(shown(function))
            leaks.update(dict.fromkeys(_leaks_of(made, function)))
    ordered = sorted(leaks, key=lambda leak: (leak.file, leak.line, leak.symbol))
    name = package if isinstance(package, str) else package.__name__
    return LeakReport(name, tuple(ordered), tuple(compiled), tuple(skipped), tuple(_unused(modules)))


def _leaks_of(made: Any, function: FunctionType) -> list[HostLeak]:
    """The leaks that one object has, at the lines of the code that needs them."""
    codegen = importlib.import_module("sterna.compiler.codegen.llvm.intrinsics")
    nodes = importlib.import_module("sterna.compiler.ir.nodes")
    rewrite = importlib.import_module("sterna.compiler.ir.rewrite")
    lacking = {s for s in undefined_symbols(made.image.payloads["object"]) if s.startswith(codegen.DEVICE_ONLY)}
    if not lacking:
        return []
    captures = scan(function, tables=HOST_TABLES)
    found = []
    for ir in made.module.functions.values():
        owner = captures.functions[ir.ordinal].function
        located = locate(owner)
        for node in rewrite.walk(ir.body):
            call = node.value if isinstance(node, nodes.ExprStatement) else None
            if isinstance(call, nodes.Intrinsic) and call.name == "device_only":
                symbol = codegen.DEVICE_ONLY + call.attrs[0]
                if symbol in lacking:
                    found.append(HostLeak(symbol, shown(owner), located.filename, located.def_line + node.line))
    return found


# ---- overrides that nothing calls ----------------------------------------------------------------


def _unused(modules: list[ModuleType]) -> list[UnusedOverride]:
    """Overrides that stand in these modules and that no kernel or device function of theirs reaches."""
    names = frozenset(module.__name__ for module in modules)
    own = definitions_of(names)
    overrides = [entry for entry in own if not entry.stub]
    if not overrides:
        return []
    roots = [kernel for module in modules for kernel in kernels_of(module)]
    roots += [definition for entry in own if entry.stub for definition in entry.definitions]
    used: set[int] = set()
    for tables in dict.fromkeys(_tables_of(entry) for entry in overrides):
        for root in roots:
            used |= _entries_met(root, tables)
    return [
        UnusedOverride(name_of(entry.subject), shown(entry.definitions[0]), shown_table(entry.table), entry.where)
        for entry in overrides
        if id(entry) not in used
    ]


def _tables_of(entry: Overlay) -> Tables:
    """The tables of a job that the entry is the most specific one of."""
    target = entry.table.partition("-")[0]
    return Tables(tuple(dict.fromkeys((entry.table, target, DEVICE))) if entry.table != DEVICE else (DEVICE,))


def _entries_met(root: FunctionType, tables: Tables) -> set[int]:
    try:
        found = scan(root, tables=tables)
    except SourceError:
        return set()
    return {id(capture.overlay) for capture in found.captures if capture.overlay is not None}
