"""Device functions by the class body: `device_functions`.

Every function that the body defines becomes a device function, wherever in the body it stands: behind ``if``, in
``with`` or ``try``, assigned to a second name.  A name that is defined more than once at the body's own level is an
overload set.  Python keeps the last of such definitions only; the others are taken from the body's code object, with
their defaults and annotations from the source.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any, TypeVar, overload

from sterna.errors import OverlayError
from sterna.language.device import DeviceFunction, define, plain_definition, table_names
from sterna.source.locate import locate
from sterna.typespec import signature_types

__all__ = ["device_functions"]

C = TypeVar("C", bound=type)
_FUTURE_ANNOTATIONS = 0x1000000


@overload
def device_functions(cls: C, /) -> C: ...
@overload
def device_functions(*, target: str | tuple[str, ...] | None = ...) -> Callable[[C], C]: ...


def device_functions(cls: Any = None, /, *, target: str | tuple[str, ...] | None = None) -> Any:
    """Make every function of a class body a device function.

    Functions of one name with different annotated signatures are an overload set: a call means the member that its
    argument types fit.  Names with two underscores on both sides, other values and functions defined elsewhere stay
    as they are.

    Parameters
    ----------
    cls : type
        When used as ``@sterna.device_functions`` without a target.
    target : str or tuple of str, optional
        As for `device_function`.

    Returns
    -------
    type
        The class, with stubs in the place of its functions: ``geometry.area(r)`` in a kernel.

    Raises
    ------
    OverlayError
        For something that is not a class, a method that needs an object, or two definitions that cannot be told apart.

    Examples
    --------
    >>> import sterna
    >>> @sterna.device_functions
    ... class geometry:
    ...     def area(r: float):
    ...         return 3.0 * r * r
    ...     def area(w: float, h: float):
    ...         return w * h
    >>> geometry.area
    <sterna.device_function sterna.language.groups.geometry.area>
    """
    if cls is None:
        tables = table_names(target)
        return lambda given: _convert(given, tables, sys._getframe(1))
    return _convert(cls, table_names(target), sys._getframe(1))


def _convert(cls: Any, tables: tuple[str, ...], frame: FrameType) -> Any:
    if not isinstance(cls, type):
        raise OverlayError(f"device_functions goes over a class body, given {type(cls).__name__}; use device_function")
    found = dict(_functions_of(cls))
    sets: dict[int, tuple[FunctionType, ...]] = {}
    stubs: dict[int, DeviceFunction] = {}
    lost = _lost_definitions(cls, found, frame)
    for function in found.values():
        sets.setdefault(id(function), (*lost.get(id(function), ()), function))
    for members in sets.values():
        _check_members(cls, members)
    for name, function in found.items():
        stub = stubs.get(id(function))
        if stub is None:
            stub = stubs[id(function)] = DeviceFunction(function)
            define(stub, sets[id(function)], tables, function.__qualname__)
        setattr(cls, name, stub)
    return cls


def _functions_of(cls: type) -> list[tuple[str, FunctionType]]:
    """Name and function of what the body defined, in order."""
    found = []
    for name, value in vars(cls).items():
        if name.startswith("__") and name.endswith("__"):
            continue
        if isinstance(value, classmethod | property | functools.cached_property):
            raise OverlayError(
                f"{cls.__qualname__}.{name} is a {type(value).__name__}; a device function has no object or class to "
                "be called on: write a plain function"
            )
        function = value.__func__ if isinstance(value, staticmethod) else value
        if isinstance(function, FunctionType) and _defined_in(cls, function):
            found.append((name, plain_definition(function, "a device function")))
    return found


def _defined_in(cls: type, function: FunctionType) -> bool:
    return function.__module__ == cls.__module__ and function.__qualname__.rpartition(".")[0] == cls.__qualname__


def _check_members(cls: type, members: tuple[FunctionType, ...]) -> None:
    """Refuse members of an overload set that no call could tell apart."""
    seen: dict[Any, FunctionType] = {}
    for member in members:
        types, parameters = signature_types(member), inspect.signature(member).parameters
        shape = tuple((str(p.kind), p.default is p.empty, types.get(name)) for name, p in parameters.items())
        other = seen.setdefault(shape, member)
        if other is not member:
            lines = " and ".join(f"{f.__code__.co_filename}:{f.__code__.co_firstlineno}" for f in (other, member))
            raise OverlayError(
                f"{cls.__qualname__}.{member.__name__} is defined twice with the same signature, at {lines}; "
                "members of an overload set differ in the number or the annotated types of their parameters"
            )


# ---- definitions that a later one of the same name replaced --------------------------------------


def _lost_definitions(
    cls: type, found: Mapping[str, FunctionType], frame: FrameType
) -> dict[int, tuple[FunctionType, ...]]:
    """The former members of each overload set, by identity of its last one."""
    alive = {id(function.__code__) for function in found.values()}
    body = next(
        (c for c in _codes(frame.f_code) if c.co_name == cls.__name__ and any(id(k) in alive for k in _codes(c))), None
    )
    if body is None:
        return {}
    by_name = {function.__name__: function for function in found.values()}
    candidates = [c for c in _codes(body) if c.co_name in by_name and id(c) not in alive]
    lost: dict[int, tuple[FunctionType, ...]] = {}
    for code in candidates:
        last = by_name[code.co_name]
        node = _definition_at(last, cls.__name__, code)
        if node is not None:
            lost[id(last)] = (*lost.get(id(last), ()), _rebuild(cls, node, code, last, frame))
    return lost


def _codes(code: CodeType) -> list[CodeType]:
    return [c for c in code.co_consts if isinstance(c, CodeType)]


def _definition_at(last: FunctionType, name: str, code: CodeType) -> ast.FunctionDef | None:
    """The ``def`` of `code` if it stands at the class body's own level, where it has certainly run."""
    for node in ast.walk(ast.parse(locate(last).text)):
        if isinstance(node, ast.ClassDef) and node.name == name:
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == code.co_name:
                    first = item.decorator_list[0].lineno if item.decorator_list else item.lineno
                    if first == code.co_firstlineno:
                        return item
    return None


def _rebuild(cls: type, node: ast.FunctionDef, code: CodeType, last: FunctionType, frame: FrameType) -> FunctionType:
    """The function that the body made at `node`."""
    if node.decorator_list:
        raise OverlayError(
            f"{cls.__qualname__}.{node.name} ({code.co_filename}:{code.co_firstlineno}): "
            "a member of an overload set cannot have decorators"
        )
    names = dict(vars(cls))

    def evaluate(expression: ast.expr) -> Any:
        text = compile(ast.Expression(expression), code.co_filename, "eval")
        return eval(text, last.__globals__, {**frame.f_locals, **names})

    closure = tuple(_cell(cls, name, last, frame) for name in code.co_freevars)
    defaults = tuple(evaluate(item) for item in node.args.defaults) or None
    made = FunctionType(code, last.__globals__, node.name, defaults, closure or None)
    pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    made.__kwdefaults__ = {a.arg: evaluate(default) for a, default in pairs if default is not None} or None
    made.__qualname__, made.__module__, made.__doc__ = last.__qualname__, last.__module__, ast.get_docstring(node)
    for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        if argument.annotation is not None:
            text_only = code.co_flags & _FUTURE_ANNOTATIONS
            written = ast.unparse(argument.annotation) if text_only else evaluate(argument.annotation)
            made.__annotations__[argument.arg] = written
    return made


def _cell(cls: type, name: str, last: FunctionType, frame: FrameType) -> CellType:
    """The variable `name` of the function around the class: the last definition's own, else its value now."""
    if name in last.__code__.co_freevars and last.__closure__ is not None:
        return last.__closure__[last.__code__.co_freevars.index(name)]
    value = cls if name == cls.__name__ else frame.f_locals.get(name, frame)
    if value is frame:
        raise OverlayError(f"{cls.__qualname__}.{last.__name__}: {name} has no value yet; define it before the class")
    return CellType(value)
