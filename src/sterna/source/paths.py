"""Textual paths from a live function to a value it captures: what relocation records hold (I2).

A path is a sequence of steps joined by ``" → "``; each is ``kind:name``:

=========  =====================================================================
globals    a global of the function reached so far
builtins   a built-in of that function
closure    a free variable of that function
default    the default of one of its parameters
attr       an attribute of a module, a class or a field of a frozen dataclass
item       an item of a tuple
override   what stands for the function reached in the method table of that name
type       the class of the value reached (no name)
=========  =====================================================================

The empty path is the function itself.  Walking reads objects that exist; it imports and evaluates nothing.
"""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any, cast

from sterna.overlays import method_table

__all__ = [
    "EXEC_MODULE", "SEPARATOR", "builtins_of", "defaults_of", "extend_path", "module_name", "overlay_subject",
    "type_of_path", "underlying_function", "walk",
]  # fmt: skip

SEPARATOR = " → "
EXEC_MODULE = "<exec>"


def extend_path(path: str, step: str) -> str:
    """The path one step on."""
    return f"{path}{SEPARATOR}{step}" if path else step


def type_of_path(path: str) -> str:
    """The path of the class of the value at `path`."""
    return extend_path(path, "type:")


def module_name(function: FunctionType) -> str:
    """Name of the function's module; ``<exec>`` for code executed without one."""
    name = function.__globals__.get("__name__")
    return name if isinstance(name, str) and name else EXEC_MODULE


def underlying_function(value: Any) -> FunctionType | None:
    """The Python function that a function or kernel object stands for; None for anything else."""
    if type(value) is FunctionType:
        return value
    if isinstance(value, type):
        return None
    try:
        inner = getattr(value, "__sterna_kernel__", None)
    except Exception:  # a property of the user's object may raise anything
        return None
    return inner if type(inner) is FunctionType else None


def overlay_subject(value: Any) -> Any:
    """What a value is looked up as in method tables: a kernel stands for its function."""
    return underlying_function(value) or value


def walk(function: FunctionType, path: str) -> Any:
    """The value at `path`, starting from a live function.

    Parameters
    ----------
    function : function
        The kernel's function (not the kernel object).
    path : str
        See the module's header.

    Returns
    -------
    object
        The value itself, not a copy.

    Raises
    ------
    LookupError
        If a name is gone or a step does not apply to what it meets; says which step.
    ValueError
        If the text is no path.
    """
    value: Any = function
    if not path:
        return value
    for step in path.split(SEPARATOR):
        kind, colon, name = step.partition(":")
        if not colon or kind not in _STEPS:
            raise ValueError(f"{path!r} is not a path: {step!r} is no step")
        try:
            value = _STEPS[kind](value, name)
        except (LookupError, AttributeError, ValueError, TypeError) as error:
            raise LookupError(f"{path!r}: nothing at {step!r} ({error})") from None
    return value


def _function(value: Any) -> FunctionType:
    function = underlying_function(value)
    if function is None:
        raise TypeError(f"a function is expected, found {type(value).__name__}")
    return function


def _global(value: Any, name: str) -> Any:
    return _function(value).__globals__[name]


def _builtin(value: Any, name: str) -> Any:
    return builtins_of(_function(value))[name]


def _closure(value: Any, name: str) -> Any:
    function = _function(value)
    cells = function.__closure__ or ()
    return cells[function.__code__.co_freevars.index(name)].cell_contents


def _default(value: Any, name: str) -> Any:
    return defaults_of(_function(value))[name]


def _attribute(value: Any, name: str) -> Any:
    if isinstance(value, ModuleType):
        names = vars(value)
        return names[name] if name in names else getattr(value, name)
    return getattr(value, name)


def _item(value: Any, name: str) -> Any:
    if not isinstance(value, tuple):
        raise TypeError(f"a tuple is expected, found {type(value).__name__}")
    return value[int(name)]


def _type(value: Any, name: str) -> Any:
    if name:
        raise ValueError("this step has no name")
    return type(value)


def _override(value: Any, name: str) -> Any:
    found = method_table(name).find(overlay_subject(value))
    if found is None or not found.definitions:
        raise LookupError(f"the method table {name} has no definition of it")
    return found.definitions[0] if len(found.definitions) == 1 else found.definitions


_STEPS = {
    "globals": _global,
    "builtins": _builtin,
    "closure": _closure,
    "default": _default,
    "attr": _attribute,
    "item": _item,
    "override": _override,
    "type": _type,
}


def builtins_of(function: FunctionType) -> dict[str, Any]:
    """The built-in names that a function sees."""
    names: dict[str, Any] = cast(Any, function).__builtins__  # not known to every version of the type stubs
    return names


def defaults_of(function: FunctionType) -> dict[str, Any]:
    """Defaults of a function's parameters by name, positional ones first."""
    values = function.__defaults__ or ()
    code = function.__code__
    named = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    found = dict(zip(named, values, strict=False))
    found.update(function.__kwdefaults__ or {})
    return found
