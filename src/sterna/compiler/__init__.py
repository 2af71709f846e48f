"""The compiler: from a job (captures, argument types, target, options) to a kernel image.

::

    scan + types ──frontend──▶ typed IR ──finish──lower_references──▶ lowered IR ──target──▶ payloads ──▶ KernelImage

The runtime never imports this package (I1); `sterna.kernels` asks for it by name when an image is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any

from sterna.compiler.annotate import annotated_source
from sterna.compiler.frontend import build_function, build_module
from sterna.compiler.ir.nodes import Module
from sterna.compiler.ir.text import module_text
from sterna.compiler.ir.verify import verify
from sterna.compiler.job import Job
from sterna.compiler.passes.aliasing import Aliasing
from sterna.compiler.passes.lower_references import lower_references
from sterna.compiler.passes.start_generator import start_generator
from sterna.compiler.runtime_library import runtime_library
from sterna.errors import CompileError, SourceLocation, UnsupportedError
from sterna.frozen import field, frozen
from sterna.image.format import KernelImage
from sterna.source.captures import Scan
from sterna.source.locate import locate
from sterna.targets.base import TargetCompiler
from sterna.targets.registry import compiler_versions

__all__ = ["Compilation", "Job", "annotated_source", "compile_function", "compile_kernel"]


@frozen
class Compilation:
    """What one compilation gave: the image, and texts for people (never stored)."""

    image: KernelImage
    ir: str
    texts: Mapping[str, str | Callable[[], str]] = field(default_factory=dict)
    module: Module | None = None

    def text(self, name: str) -> str:
        """One of the target's texts (``llvm``, ``asm``…); made now if the target makes it on demand.

        Raises
        ------
        UnsupportedError
            For a text that code of this target does not have.
        """
        found = self.texts.get(name)
        if found is None:
            raise UnsupportedError(
                f"kernel {self.image.name}: code for {self.image.target}-{self.image.arch} has no {name!r}; "
                f"it has {', '.join(map(repr, sorted(self.texts)))}"
            )
        return found if isinstance(found, str) else found()


def compile_kernel(job: Job) -> Compilation:
    """Compile one job.

    Raises
    ------
    CompileError
        For kernel code that cannot be compiled; nothing is stored then.
    """
    return _compile(job, build_module(job.scan, job.types, job.options, job.device.target))


def compile_function(job: Job) -> Compilation:
    """Compile a function on its own, behind an entry that calls it and drops what it returns.

    The job's scan says for whom: with the tables of a target it is device code, with none code of the host
    (`sterna.overlays`).

    Raises
    ------
    CompileError
        For code that cannot be compiled.
    """
    return _compile(job, build_function(job.scan, job.types, job.options, job.device.target))


def _compile(job: Job, typed: Module) -> Compilation:
    target = job.device.target
    verify(typed, "typed")
    compiler = target.compiler()
    lowered = lower_references(_finish(typed, compiler, job), job.strategy, job.resolve)
    library = runtime_library(lowered, job.scan.tables, target)
    lowered = replace(lowered, places=_places(job.scan), runtime=library)
    verify(lowered, "lowered")
    manifest = lowered.manifest
    assert manifest is not None
    try:
        payloads, facts, texts = compiler.compile(lowered, target, job.options)
    except CompileError as error:
        raise _with_source(error, lowered, job.scan) from None
    if job.options.noalias:
        facts["written"] = _written(lowered)
    image = KernelImage(
        key=job.key,
        name=job.name,
        module=job.scan.functions[0].function.__module__ or "<exec>",
        target=target.name,
        arch=target.arch,
        entry=facts.pop("entry", lowered.entry),
        signature=", ".join(map(str, job.types)),
        manifest=manifest,
        facts=facts,
        errors=tuple(_error_json(e) for e in lowered.errors),
        sources=lowered.sources,
        provenance=_provenance(job, compiler_versions(target) or compiler.versions()),
        payloads=payloads,
    )
    return Compilation(image, module_text(typed), texts, typed)


def _written(module: Module) -> list[int]:
    """Positions of the arguments whose memory the kernel may write."""
    written = Aliasing(module).written
    return [n for n, (name, _) in enumerate(module.functions[module.entry].params) if name in written]


def _finish(module: Module, compiler: TargetCompiler, job: Job) -> Module:
    """The target's ``finish`` hook; of a target that has none, the common one."""
    hook = getattr(compiler, "finish", None)
    return start_generator(module) if hook is None else hook(module, job.device.target, job.options)


def _places(captures: Scan) -> tuple[tuple[str, int], ...]:
    """File (by module, not by path) and line of the ``def`` of every function, for line tables."""
    return tuple((_file_of(r.function), locate(r.function).def_line) for r in captures.functions)


def _with_source(error: CompileError, module: Module, captures: Scan) -> CompileError:
    """An error of a code generator, which knows lines by their function only, with the user's text."""
    place = error.location
    if place is None or place.text:
        return error
    for ordinal, (file, start) in enumerate(module.places):
        if (file, module.sources[ordinal][1]) == (place.filename, place.function) and start <= place.line:
            located = locate(captures.functions[ordinal].function)
            text = located.line_text(place.line)
            column = len(text) - len(text.lstrip())
            shown = SourceLocation(located.filename, place.line, column, len(text.rstrip()), text, place.function)
            return type(error)(error.message, shown, error.kernel, error.hint)
    return error


def _file_of(function: FunctionType) -> str:
    file = re.split(r"[\\/]", function.__code__.co_filename)[-1]
    folder = (function.__module__ or "__main__").split(".")
    if folder == ["__main__"] or file != folder[-1] + ".py":
        folder = folder if file == "__init__.py" else folder[:-1]
        return "/".join([*folder, file])
    return "/".join(folder) + ".py"


def _error_json(error: Any) -> dict[str, Any]:
    return {
        "exception": error.exception,
        "message": error.message,
        "function": error.site.function,
        "statement": error.site.statement,
        "line": error.site.line,
    }


def _provenance(job: Job, versions: Mapping[str, str]) -> dict[str, Any]:
    return {"versions": dict(versions), "options": job.options.key_fields()}
