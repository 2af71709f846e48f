"""The functions of the runtime library that a module needs, as lowered IR of their own.

They are device functions of `sterna.language.runtime`, found through the job's tables.  Code generation puts them
beside the kernel's own functions and calls them where it needs them; they name no host reference and cannot fail.
"""

from __future__ import annotations

from functools import lru_cache
from types import FunctionType

from sterna.compiler.frontend import build_function
from sterna.compiler.ir.nodes import Module
from sterna.compiler.ir.verify import verify
from sterna.compiler.passes.lower_references import lower_references
from sterna.errors import CompileError
from sterna.language import runtime
from sterna.options import CompileOptions
from sterna.overlays import Tables, name_of, tables_for
from sterna.relocation.record import Manifest
from sterna.relocation.resolve import Resolution
from sterna.source.captures import scan
from sterna.targets.base import Target
from sterna.types import INT32, INT64, PYINT, ArrayType, Type

__all__ = ["REPORT_FAILURE", "runtime_library"]

REPORT_FAILURE = "report_failure"
_TYPES: dict[str, tuple[Type, ...]] = {
    REPORT_FAILURE: (ArrayType(INT32, 1), ArrayType(INT64, 1), *(PYINT,) * 12),
}
"""Name → types of its arguments."""


def runtime_library(module: Module, tables: Tables, target: Target) -> tuple[tuple[str, Module], ...]:
    """What the code of `module` calls on its own account: name and IR of each function.

    Raises
    ------
    CompileError
        If a job's own definition of one does not stand alone.
    """
    if not module.errors:
        return ()
    # code of the host has no tables; what reports its failures is the target's all the same
    tables = tables if tables.names else tables_for(target)
    return ((REPORT_FAILURE, _function(REPORT_FAILURE, tables, target)),)


def _function(name: str, tables: Tables, target: Target) -> Module:
    found = tables.find(getattr(runtime, name))
    assert found is not None  # the library registers itself
    return _lowered(name, found.definitions[0], tables, target)


@lru_cache(maxsize=64)
def _lowered(name: str, definition: FunctionType, tables: Tables, target: Target) -> Module:
    options = CompileOptions(boundscheck=False, strategy="patch")
    typed = build_function(scan(definition, tables=tables), _TYPES[name], options, target)
    verify(typed, "typed")
    lowered = lower_references(typed, "patch", _no_words)
    verify(lowered, "lowered")
    if lowered.manifest or lowered.errors:
        what = "may fail itself" if lowered.errors else "captures arrays or objects of the host"
        raise CompileError(
            f"{name_of(definition)} stands for {name} of the runtime library, and {what}",
            hint="use literals, sterna.atomic and array elements",
        )
    return lowered


def _no_words(manifest: Manifest) -> Resolution:
    raise ValueError("the runtime library has no host references")
