"""``sterna inspect``: import a kernel by name, compile it for given types, give one of its forms as text."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from sterna.targets.registry import target

__all__ = ["FORMS", "InspectError", "inspect_kernel", "load_kernel"]

FORMS = ("ir", "llvm", "asm", "ptx", "sass", "spirv", "msl", "types", "image", "relocations")


class InspectError(Exception):
    """A kernel or form that cannot be had; the message says what to write instead."""


def load_kernel(spec: str) -> Any:
    """The object that ``module:name`` or ``file.py:name`` names.

    Raises
    ------
    InspectError
        When the module or the name is not there, or is no kernel; lists the module's kernels.
    """
    where, separator, name = spec.rpartition(":")
    if not separator or not where or not name:
        raise InspectError(f"{spec!r} does not name a kernel; write module:kernel or path/to/file.py:kernel")
    module = _load_file(Path(where)) if where.endswith(".py") else _load_module(where)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None or not hasattr(found, "specialize"):
        kernels = sorted(key for key, value in vars(module).items() if hasattr(value, "specialize"))
        raise InspectError(f"{where} has no kernel {name!r}; it has {', '.join(kernels) or 'none'}")
    return found


def _load_module(name: str, folder: str = "") -> ModuleType:
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as `python -m` does: modules of the current folder are found
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InspectError(f"cannot import {name}: {error}") from None


def _load_file(path: Path) -> ModuleType:
    """The module in a file: one of its package, if it lies in one, so that it may import its neighbours."""
    if not path.is_file():
        raise InspectError(f"there is no file {path}")
    path = path.resolve()
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if len(names) > 1:
        return _load_module(".".join(names).removesuffix(".__init__"), str(folder))
    sys.path.insert(0, str(folder))  # as for a script
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None  # a .py file has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def inspect_kernel(spec: str, types: str, form: str, over: int = 0, arch: str = "") -> str:
    """Compile and give one form.

    Parameters
    ----------
    spec : str
        ``module:kernel`` or ``file.py:kernel``.
    types : str
        Argument types, comma-separated, each as `sterna.typespec` reads it.
    form : str
        One of `FORMS`.
    over : int
        Axes of an ``over(shape)`` launch, or 0.
    arch : str
        Architecture to build for, with no device: ``sm_90``, or ``target-architecture``; empty for the current device.
    """
    if form not in FORMS:
        raise InspectError(f"unknown form {form!r}; known are {', '.join(FORMS)}")
    kernel = load_kernel(spec)
    if arch:
        name = f"cuda-{arch}" if arch.startswith("sm_") else arch
        try:
            target(name)
        except ValueError as error:
            raise InspectError(str(error)) from None
        built = kernel.build(*split_types(types), target=name, over=over)
        image = built.image
    else:
        built = kernel.specialize(*split_types(types), over=over)
        image = built.image
    if form == "image":
        return describe_image(image)
    if form == "relocations":
        return "\n".join(json.dumps(record.to_json()) for record in image.manifest) or "no relocations"
    if not arch or form == "ir":
        return str(getattr(built, form))
    return str(built.text(form))


def split_types(text: str) -> list[str]:
    """Split at the commas that are outside brackets.

    Examples
    --------
    >>> split_types("float32[:, :], int")
    ['float32[:, :]', 'int']
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def describe_image(image: Any) -> str:
    """A kernel image's header, one line a field."""
    payloads = ", ".join(f"{name} {len(data)} bytes" for name, data in image.payloads.items())
    lines = {
        "key": image.key, "name": image.name, "module": image.module, "target": f"{image.target}-{image.arch}",
        "entry": image.entry, "signature": image.signature, "strategy": image.manifest.strategy,
        "relocations": len(image.manifest), "facts": image.facts, "error sites": len(image.errors),
        "provenance": image.provenance, "payloads": payloads, "size": f"{len(image.to_bytes())} bytes",
    }  # fmt: skip
    return "\n".join(f"{key:12} {value}" for key, value in lines.items())
