"""Definitions that only device code sees: `device_function`, and `device_override` of a function of the host.

Both are entries of method tables (`sterna.overlays`), keyed by the function object that code names.  What a device
function leaves on the host is a stub: it has the signature and the docstring, and raises when it is called.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, overload

from sterna.errors import CompileError, DeviceOnlyError, OverlayError
from sterna.language.context import active
from sterna.language.overloads import argument_of, describe_set, fitting_members
from sterna.overlays import DEVICE, DEVICE_TABLES, Overlay, name_of, overlays_of, register
from sterna.source.locate import note_import
from sterna.source.paths import underlying_function
from sterna.targets.registry import target as find_target
from sterna.typespec import signature_types

__all__ = [
    "DeviceFunction",
    "choose_definition",
    "define",
    "device_function",
    "device_override",
    "plain_definition",
    "table_names",
]

F = TypeVar("F", bound=Callable[..., Any])


class DeviceFunction:
    """What a device function leaves on the host: its signature, its docstring, and an error when it is called.

    Kernels and device functions call it as any function; `sterna.interpret` runs its definition in Python.
    """

    __name__: str
    __qualname__: str

    def __init__(self, function: FunctionType) -> None:
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if active() is None:
            raise DeviceOnlyError(
                f"{self.__name__}() runs on the device only; call it from a kernel, or use sterna.interpret"
            )
        found = DEVICE_TABLES.find(self)
        if found is None:
            raise DeviceOnlyError(f"{name_of(self)} has no definition for all devices, which sterna.interpret needs")
        return found.definitions[choose_definition(found, args, kwargs)](*args, **kwargs)

    def overload(self, function: Callable[..., Any]) -> DeviceFunction:
        """Decorator that adds a member to the overload set: ``@area.overload``.

        Raises
        ------
        OverlayError
            For something that is not a plain Python function.
        """
        plain = plain_definition(function, f"a member of {name_of(self)}")
        for found in overlays_of(self):
            define(self, (*found.definitions, plain), (found.table,), found.stub)
        return self

    def __repr__(self) -> str:
        return f"<sterna.device_function {self.__module__}.{self.__qualname__}>"

    def __reduce__(self) -> str:
        """Pickled and copied as functions are: by name, and as itself."""
        return self.__qualname__


def choose_definition(found: Overlay, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Position of the definition that a call with Python values means.

    Raises
    ------
    CompileError
        If none fits, or several fit equally well; lists them.
    """
    if len(found.definitions) == 1:
        return 0
    given = [argument_of(value) for value in args], {name: argument_of(value) for name, value in kwargs.items()}
    fitting = fitting_members(found.definitions, *given)
    if len(fitting) != 1:
        what = "several definitions that fit" if fitting else "no definition for"
        shown = ", ".join(repr(value) for value in (*args, *kwargs.values()))
        hint = f"its definitions are {describe_set(found.definitions)}"
        raise CompileError(f"{name_of(found.subject)} has {what} ({shown})", hint=hint)
    return fitting[0]


@overload
def device_function(function: Callable[..., Any], /) -> DeviceFunction: ...
@overload
def device_function(
    *, target: str | tuple[str, ...] | None = ...
) -> Callable[[Callable[..., Any]], DeviceFunction]: ...


def device_function(function: Any = None, /, *, target: str | tuple[str, ...] | None = None) -> Any:
    """Make a Python function one that exists on devices only.

    Kernels call it as any function.  On the host its name is a stub that raises `DeviceOnlyError`, and code
    compiled for the host does not see it.

    Parameters
    ----------
    function : function
        When used as ``@sterna.device_function`` without a target.
    target : str or tuple of str, optional
        Where it exists: a target (``"cuda"``) or an architecture (``"cuda-sm_90"``); all devices if not given.
        `device_override` gives it another definition elsewhere.

    Returns
    -------
    DeviceFunction
        The stub.

    Raises
    ------
    OverlayError
        For something that is not a plain Python function, or an unknown target.

    Examples
    --------
    >>> import sterna
    >>> @sterna.device_function
    ... def next_thread():
    ...     return sterna.grid(1) + 1
    >>> next_thread()
    Traceback (most recent call last):
    sterna.errors.DeviceOnlyError: next_thread() runs on the device only; call it from a kernel, or use sterna.interpret
    """
    if function is None:
        return functools.partial(_make_stub, tables=table_names(target))
    return _make_stub(function, table_names(target))


def _make_stub(function: Any, tables: tuple[str, ...]) -> DeviceFunction:
    plain = plain_definition(function, "a device function")
    stub = DeviceFunction(plain)
    define(stub, (plain,), tables, plain.__qualname__)
    return stub


def plain_definition(function: Any, what: str) -> FunctionType:
    """The plain function of a definition.

    Raises
    ------
    OverlayError
        For anything else, with what to write.
    """
    if isinstance(function, staticmethod):
        function = function.__func__
    if not isinstance(function, FunctionType):
        raise OverlayError(
            f"{what} is made from a plain Python function; given {type(function).__name__} "
            "(for a kernel or a class, move the code into a function)"
        )
    return function


def define(subject: Any, definitions: tuple[FunctionType, ...], tables: tuple[str, ...], stub: str) -> None:
    """Register definitions for a function in tables."""
    for definition in definitions:
        note_import(definition)
    code = definitions[0].__code__
    for table in tables:
        register(Overlay(subject, table, "", definitions, (code.co_filename, code.co_firstlineno), stub))


def table_names(target: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Names of the method tables that ``target=`` means.

    Raises
    ------
    OverlayError
        For an unknown target or architecture; lists what there is.
    """
    if target is None:
        return (DEVICE,)
    names = (target,) if isinstance(target, str) else target
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise OverlayError(f"target is a name or a tuple of names, given {target!r}; leave it out for all devices")
    for name in names:
        try:
            find_target(name)
        except ValueError as error:
            raise OverlayError(f"target is {name!r}: {error}; leave target out for all devices") from None
    if not names:
        raise OverlayError("target is empty; leave it out for all devices")
    return names


# ---- overrides ---------------------------------------------------------------------------------


def device_override(function: Any, target: str | tuple[str, ...] | None = None) -> Callable[[F], F]:
    """Give a function another definition in device code only; the host goes on calling the function itself.

    The most specific definition wins: an architecture's over a target's over the one for all devices.  Inside the
    definition, `function` means what it means without it, so that a definition can wrap it.

    Parameters
    ----------
    function : callable
        A built-in, a function of `math` or NumPy, a function of one's own or of another library, a device function.
    target : str or tuple of str, optional
        A target (``"cuda"``), an architecture (``"cuda-sm_90"``) or several; all devices if not given.

    Returns
    -------
    callable
        A decorator for the definition.  It gives back the definition, or `function` if both have one name, so that
        the name goes on meaning the host's.

    Raises
    ------
    OverlayError
        If the definition cannot be called as `function` is, or another one stands there; names both.

    Examples
    --------
    >>> import math, sterna
    >>> @sterna.device_override(math.sin)
    ... def small_sine(x):
    ...     return x - x * x * x / 6
    >>> math.sin(0.0)
    0.0
    """
    subject = underlying_function(function) or function
    if not callable(subject):
        raise OverlayError(f"device_override needs a function, given {type(function).__name__}: nothing calls it")
    if isinstance(subject, type):
        raise OverlayError(
            f"device_override needs a function, given class {name_of(subject)}: a class is a type in device code; "
            "override the functions that make or take its objects"
        )
    tables = table_names(target)

    def decorate(definition: F) -> F:
        plain = plain_definition(definition, f"an override of {name_of(subject)}")
        _check_signature(subject, plain)
        stub = subject.__qualname__ if isinstance(subject, DeviceFunction) else ""
        define(subject, (plain,), tables, stub)
        same = plain.__qualname__ == getattr(function, "__qualname__", None) and plain.__module__ == getattr(
            function, "__module__", None
        )
        return function if same else definition

    return decorate


def _check_signature(subject: Any, definition: FunctionType) -> None:
    """Refuse a definition that calls of the function do not fit."""
    try:
        wanted = inspect.signature(subject)
    except (TypeError, ValueError):  # a built-in that does not say
        return
    problem = _misfit(wanted, inspect.signature(definition))
    if not problem and isinstance(subject, FunctionType):
        problem = _type_misfit(subject, definition)
    if problem:
        code = definition.__code__
        theirs = getattr(underlying_function(subject) or getattr(subject, "__wrapped__", None), "__code__", None)
        place = f" ({theirs.co_filename}:{theirs.co_firstlineno})" if theirs is not None else ""
        raise OverlayError(
            f"{definition.__qualname__}{inspect.signature(definition)} ({code.co_filename}:{code.co_firstlineno}) "
            f"cannot stand for {name_of(subject)}{wanted}{place}: {problem}"
        )


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _misfit(wanted: inspect.Signature, given: inspect.Signature) -> str:
    """Why calls of one signature do not fit another; empty if they do."""
    theirs, ours = (_positional(s) for s in (wanted, given))
    needs = [p.name for p in ours if p.default is p.empty]
    has_rest = any(p.kind is p.VAR_POSITIONAL for p in given.parameters.values())
    takes_rest = any(p.kind is p.VAR_POSITIONAL for p in wanted.parameters.values())
    required = [p.name for p in theirs if p.default is p.empty]
    if len(required) > len(ours) and not has_rest:
        return f"it takes {len(ours)} positional arguments, calls give at least {len(required)}"
    if len(needs) > len(theirs) and not takes_rest:
        return f"it needs {len(needs)} positional arguments, calls give at most {len(theirs)}"
    names = [p.name for p in theirs if p.kind is p.POSITIONAL_OR_KEYWORD]
    order = [p.name for p in ours if p.name in names]
    if order != [name for name in names if name in order]:
        return f"its parameters {', '.join(order)} come in another order"
    known = {p.name for p in given.parameters.values() if p.kind is not p.POSITIONAL_ONLY}
    if any(p.kind is p.VAR_KEYWORD for p in given.parameters.values()):
        return ""
    for p in wanted.parameters.values():
        if p.kind is p.KEYWORD_ONLY and p.default is p.empty and p.name not in known:
            return f"it has no parameter {p.name}, which calls must give by name"
    for p in given.parameters.values():
        if p.kind is p.KEYWORD_ONLY and p.default is p.empty and p.name not in wanted.parameters:
            return f"it needs {p.name} by name, which calls do not give"
    return ""


def _positional(signature: inspect.Signature) -> list[inspect.Parameter]:
    return [p for p in signature.parameters.values() if p.kind in _POSITIONAL]


def _type_misfit(subject: FunctionType, definition: FunctionType) -> str:
    """Which annotated parameter has another type; empty if none has."""
    theirs, ours = signature_types(subject), signature_types(definition)
    names = zip(*(list(inspect.signature(f).parameters) for f in (subject, definition)), strict=False)
    for name, own in names:
        if name in theirs and own in ours and theirs[name] != ours[own]:
            return f"{own} is {ours[own]}, {name} is {theirs[name]}"
    return ""
