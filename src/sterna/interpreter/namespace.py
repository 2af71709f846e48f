"""A kernel's function with its captures replaced by what device code sees.

The function's code is the user's own (breakpoints and tracebacks work); only the namespaces it reads
are copies, made anew for each launch so that rebinding is noticed:

* `math`, `cmath` and their functions get NumPy's meaning (`sterna.interpreter.mathematics`);
* a captured array is read-only (NumPy) or a view (Sterna); a `sterna.Global` is its value;
* an `IntEnum` member is an int, a kernel called as a function is its function;
* functions reached, in any module, are treated alike;
* a function with a definition in the method table of all devices is that definition (`sterna.overlays`): the
  interpreter is of no target.
"""

from __future__ import annotations

import cmath
import copy
import ctypes
import dataclasses
import enum
import math
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from sterna.interpreter.arrays import device_view, host_array
from sterna.interpreter.mathematics import SHIMS, shim_module
from sterna.language.device import choose_definition
from sterna.overlays import DEVICE_TABLES, Overlay
from sterna.source.paths import builtins_of, overlay_subject

__all__ = ["Translation"]

_OWN = ("sterna", "numpy", "builtins")


def _names_in(code: CodeType) -> Iterator[str]:
    """Names that a code object and those nested in it read."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


class Translation:
    """What one launch sees: a memo from host values to device views.

    Attributes
    ----------
    finish : list of callable
        To be called after the launch: write-backs of arrays that the host cannot address.
    """

    def __init__(self) -> None:
        self.finish: list[Callable[[], None]] = []
        self._memo: dict[int, tuple[Any, Any]] = {}  # id → (host value, kept alive; device view)
        self._globals: dict[int, dict[str, Any]] = {}

    def function(self, function: FunctionType, within: Overlay | None = None) -> FunctionType:
        """A copy of `function` over translated globals, closure and defaults.

        `within` is what it is a definition of: that function has its own meaning in there.
        """
        known = self._memo.get(id(function))
        if known is not None:
            return known[1]  # type: ignore[no-any-return]
        cells = tuple(CellType() for _ in function.__closure__ or ())
        namespace = self._globals.get(id(function.__globals__))
        if namespace is None or within is not None:
            namespace = dict(function.__globals__)
            if within is None:
                self._globals[id(function.__globals__)] = namespace
        twin = FunctionType(function.__code__, namespace, function.__name__, None, cells or None)
        twin.__qualname__, twin.__module__ = function.__qualname__, function.__module__
        self._memo[id(function)] = (function, twin)
        names = frozenset(_names_in(function.__code__))
        for name in sorted(names & function.__globals__.keys()):
            namespace[name] = self._captured(function.__globals__[name], names, within)
        for name, value in _overlaid_builtins(function, names):
            namespace[name] = self._captured(value, names, within)
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self._captured(original.cell_contents, names, within)
            except ValueError:  # an empty cell stays empty
                continue
        if function.__defaults__ is not None:
            twin.__defaults__ = tuple(self._captured(item, names, within) for item in function.__defaults__)
        if function.__kwdefaults__ is not None:
            twin.__kwdefaults__ = {
                key: self._captured(item, names, within) for key, item in function.__kwdefaults__.items()
            }
        return twin

    def _captured(self, value: Any, names: frozenset[str], within: Overlay | None) -> Any:
        if within is not None:
            if overlay_subject(value) is within.subject:
                return self._plain_object(value, names)
            if isinstance(value, ModuleType):
                return self._module(value, names, within)
        return self.value(value, names)

    def value(self, value: Any, names: frozenset[str] = frozenset()) -> Any:
        """What device code sees of a captured value; `names` are the attributes it may ask of a module."""
        if isinstance(value, ModuleType):
            return self._module(value, names)
        known = self._memo.get(id(value))
        if known is None:
            known = self._memo[id(value)] = (value, self._convert(value, names, captured=True))
        return known[1]

    def argument(self, value: Any) -> Any:
        """What device code sees of a launch argument: as a capture, but arrays may be written."""
        if isinstance(value, FunctionType) or getattr(value, "__sterna_global__", False):
            return self.value(value)
        return self._convert(value, frozenset(), captured=False)

    def _convert(self, value: Any, names: frozenset[str], captured: bool) -> Any:
        if isinstance(value, int | float | complex | str | bytes | type(None)):
            return int(value) if isinstance(value, enum.IntEnum) else value
        if isinstance(value, np.ndarray):
            if captured and not value.flags.c_contiguous:
                value = np.array(value, order="C")  # as a device gets it
            return device_view(value, readonly=captured)
        if isinstance(value, np.void) and value.dtype.names is not None:
            return device_view(np.asarray(value), readonly=captured)[()]
        if getattr(type(value), "__sterna_array__", False):
            host, write_back = host_array(value)
            if write_back is not None:
                self.finish.append(write_back)
            return device_view(host)
        if type(value) is tuple:
            convert = self.value if captured else lambda item, names: self.argument(item)
            return tuple(convert(item, names) for item in value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self._convert(item, names, captured) for item in value))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._dataclass(value, names, captured)
        return self._convert_object(value, names)

    def _definition(self, value: Any, overlay: Overlay) -> Any:
        """What the method table of all devices puts in the place of a function."""
        if overlay.operation:
            return value
        within = None if overlay.stub else overlay
        twins = [self.function(definition, within) for definition in overlay.definitions]
        if len(twins) == 1:
            return twins[0]

        def call(*args: Any, **kwargs: Any) -> Any:
            return twins[choose_definition(overlay, args, kwargs)](*args, **kwargs)

        return call

    def _dataclass(self, value: Any, names: frozenset[str], captured: bool) -> Any:
        """A dataclass by value; a copy only if a field looks different to device code."""
        before = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        after = {name: self._convert(item, names, captured) for name, item in before.items()}
        if all(after[name] is before[name] for name in before):
            return value
        twin = copy.copy(value)
        for name, item in after.items():
            object.__setattr__(twin, name, item)
        return twin

    def _convert_object(self, value: Any, names: frozenset[str]) -> Any:
        overlay = DEVICE_TABLES.find(overlay_subject(value)) if callable(value) else None
        if overlay is not None:
            return self._definition(value, overlay)
        return self._plain_object(value, names)

    def _plain_object(self, value: Any, names: frozenset[str]) -> Any:
        kernel = getattr(value, "__sterna_kernel__", None)
        if isinstance(kernel, FunctionType):
            return self.function(kernel)
        if isinstance(value, FunctionType):
            own = (value.__module__ or "").partition(".")[0] in _OWN
            return value if own else self.function(value)
        if getattr(value, "__sterna_global__", False):
            return _global_value(value)
        symbol = getattr(value, "__sterna_symbol__", None)
        if isinstance(symbol, str):
            return _symbol_value(symbol)
        if isinstance(value, type) and issubclass(value, enum.IntEnum):
            return SimpleNamespace(**{name: int(member) for name, member in value.__members__.items()})
        return SHIMS.get(value, value) if _hashable(value) else value

    def _module(self, module: ModuleType, names: frozenset[str], within: Overlay | None = None) -> Any:
        own = module.__name__.partition(".")[0] in _OWN and not module.__name__.startswith("sterna_")
        if own or module in (math, cmath):
            return self._known_module(module, names, within)
        view = ModuleType(module.__name__, module.__doc__)
        vars(view).update(vars(module))
        known = self._memo.get(id(module))
        if known is not None and within is None:
            view = known[1]
        if within is None:
            self._memo[id(module)] = (module, view)
        for name in sorted(names & vars(module).keys()):
            vars(view)[name] = self._captured(vars(module)[name], names, within)
        return view

    def _known_module(self, module: ModuleType, names: frozenset[str], within: Overlay | None) -> Any:
        """A module that device code knows, with the functions that have other definitions there."""
        known = shim_module(module) if module in (math, cmath) else module
        others = {}
        for name in sorted(names & vars(module).keys()):
            overlay = DEVICE_TABLES.find(vars(module)[name])
            if overlay is not None and not overlay.operation and overlay is not within:
                others[name] = self.value(vars(module)[name], names)
            elif module is np and _hashable(vars(module)[name]) and vars(module)[name] in SHIMS:
                others[name] = SHIMS[vars(module)[name]]
        if not others:
            return known
        view = ModuleType(module.__name__, module.__doc__)
        vars(view).update({**vars(known), **others})
        return view


def _overlaid_builtins(function: FunctionType, names: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Built-ins that a function reads and that have another definition on devices."""
    known = builtins_of(function)
    for name in sorted(names & known.keys() - function.__globals__.keys()):
        if DEVICE_TABLES.find(known[name]) is not None:
            yield name, known[name]


def _global_value(source: Any) -> Any:
    """A `sterna.Global` in device code: a scalar of its dtype whose ``.value`` is itself."""
    scalar = np.dtype(source.dtype).type
    value = scalar(source.value)
    if scalar is np.bool_:
        return value

    def current(self: Any) -> Any:
        return scalar(self)

    return type(f"Global_{scalar.__name__}", (scalar,), {"value": property(current), "__slots__": ()})(value)


def _symbol_value(name: str) -> Any:
    """The object that a data symbol of the Python runtime is, such as ``PyFloat_Type``."""
    address = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name))
    if name.endswith(("_Type", "Struct")):
        return ctypes.cast(address, ctypes.py_object).value
    return address
