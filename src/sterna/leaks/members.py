"""What a package holds: its modules, its functions with a concrete signature, its kernels, its device code."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import traceback
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from sterna.errors import DeviceOnlyError, OverlayError
from sterna.overlays import Overlay, overlays
from sterna.types import Type
from sterna.typespec import signature_types

__all__ = ["concrete_types", "definitions_of", "functions_of", "kernels_of", "modules_of", "shown"]

_VARIADIC = 0x04 | 0x08
_CACHED = type(functools.cache(len))


def modules_of(package: str | ModuleType) -> tuple[list[ModuleType], list[tuple[str, str]]]:
    """The modules of a package, imported, and those that cannot be, with the reason.

    Raises
    ------
    ImportError
        If the package itself cannot be imported.
    OverlayError
        If a module calls a function of devices when it is imported; says where.
    """
    name = package if isinstance(package, str) else package.__name__
    root = _imported(name)
    found, missing = [root], []
    path = getattr(root, "__path__", None)
    for item in () if path is None else pkgutil.walk_packages(path, f"{name}.", onerror=lambda _: None):
        if item.name.rpartition(".")[2] == "__main__":
            continue
        try:
            found.append(_imported(item.name))
        except (OverlayError, KeyboardInterrupt):
            raise
        except BaseException as error:  # whatever a module does when it is imported, be it to end the process
            missing.append((item.name, f"cannot be imported: {str(error) or type(error).__name__}"))
    return found, missing


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except DeviceOnlyError as error:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [f for f in frames if "/sterna/language/" not in f.filename.replace("\\", "/")]
        where = f" ({theirs[-1].filename}:{theirs[-1].lineno})" if theirs else ""
        raise OverlayError(
            f"module {name} calls a function of devices when it is imported{where}: {error}; "
            "move the call into a kernel or a device function"
        ) from error


def functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """Functions that a module defines for the host, also in the bodies of its classes and behind decorators."""
    device_code = {id(f) for overlay in overlays() for f in overlay.definitions}
    stubs = {id(overlay.subject) for overlay in overlays() if overlay.stub or overlay.operation}
    seen: set[int] = set()
    for value in _members(module, module.__name__):
        for function in () if id(value) in stubs else _wrapped(value):
            own = function.__module__ == module.__name__
            if own and id(function) not in device_code and id(function) not in seen:
                seen.add(id(function))
                yield function


def _members(owner: Any, module: str) -> Iterator[Any]:
    """Values of a module and of the classes that it defines, nested ones among them."""
    for value in tuple(vars(owner).values()):
        yield value
        inside = f"{owner.__qualname__}." if isinstance(owner, type) else ""
        if isinstance(value, type) and value.__module__ == module and value.__qualname__ == inside + value.__name__:
            yield from _members(value, module)


def _wrapped(value: Any) -> Iterator[FunctionType]:
    """The plain functions that a value is, or that decorators of the standard library's kind have around them."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    while isinstance(value, FunctionType | _CACHED):
        if isinstance(value, FunctionType):
            yield value
        value = vars(value).get("__wrapped__")


def kernels_of(module: ModuleType) -> Iterator[FunctionType]:
    """The functions of the kernels that a module defines."""
    for value in tuple(vars(module).values()):
        inner = None if isinstance(value, type | FunctionType | ModuleType) else _kernel(value)
        if inner is not None and inner.__module__ == module.__name__:
            yield inner


def _kernel(value: Any) -> FunctionType | None:
    try:
        inner = getattr(value, "__sterna_kernel__", None)
    except Exception:  # a property of the user's object may raise anything
        return None
    return inner if isinstance(inner, FunctionType) else None


def definitions_of(names: frozenset[str]) -> tuple[Overlay, ...]:
    """Entries of method tables whose definitions stand in modules of these names."""
    return tuple(entry for entry in overlays() if entry.definitions and entry.definitions[0].__module__ in names)


def concrete_types(function: FunctionType) -> tuple[Type, ...] | None:
    """Types of a function's parameters if all are annotated with device types, else None."""
    code = function.__code__
    if code.co_flags & _VARIADIC:
        return None
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    types = signature_types(function)
    return tuple(types[name] for name in names) if types.keys() >= set(names) else None


def shown(function: FunctionType) -> str:
    """A function's name with its module."""
    return f"{function.__module__}.{function.__qualname__}"
