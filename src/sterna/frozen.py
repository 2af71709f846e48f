"""`frozen`: immutable value classes that cost little to define.

``@dataclass(frozen=True, slots=True)`` compiles some six functions one by one and takes about a millisecond of
start-up per class; a package of dozens would spend its whole import budget on that.  `frozen` makes the same kind
of class in a tenth of the time: nothing is compiled when a class is defined, and a constructor only when it has been
called often enough to be worth it.  Type checkers treat it as a frozen dataclass, and `dataclasses.fields`, `replace`
and `asdict` work on it.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, field
from typing import Any, NoReturn, TypeVar, dataclass_transform

__all__ = ["field", "frozen"]

T = TypeVar("T")

_SLOW_CALLS = 16
"""Constructions before the constructor is compiled, which costs about as much as these."""
_INIT = """\
def __init__(self, {parameters}):
    {stores}
"""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class of annotated fields an immutable value class with slots.

    Parameters
    ----------
    cls : type
        A class of annotated fields (or none); defaults, ``field(default_factory=…)`` and ``__post_init__`` work as
        in a dataclass.  It does not derive from another class of fields, and its methods do not use ``super()``.

    Returns
    -------
    type
        The new class, compared and hashed by value.

    Examples
    --------
    >>> @frozen
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1) == Point(1, 0), Point(1)
    (True, Point(x=1, y=0))
    """
    types = {n: t for n, t in cls.__annotations__.items() if not str(t).startswith("ClassVar")}
    names = tuple(types)
    defaults = {n: cls.__dict__[n] for n in names if n in cls.__dict__}
    space = {k: v for k, v in cls.__dict__.items() if k not in defaults and k not in ("__dict__", "__weakref__")}
    space |= {n: _FromDataclass(n, types, defaults) for n in ("__dataclass_fields__", "__dataclass_params__")}
    space |= {"__slots__": names, "__match_args__": names, "__qualname__": cls.__qualname__}
    space.setdefault("__repr__", _repr)
    space |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete, "__reduce__": _reduce, "__replace__": _replace}
    metaclass: Any = type(cls)
    made: Any = metaclass(cls.__name__, cls.__bases__, space)
    _check(made, defaults)
    methods = {"__init__": _first_constructor(made, names, defaults)} | _comparisons(names)
    for name, function in methods.items():
        if made.__dict__.get(name) is None:  # __hash__ is None where the class has its own __eq__
            function.__qualname__ = f"{made.__qualname__}.{name}"
            setattr(made, name, function)
    return made  # type: ignore[no-any-return]


Function = Callable[..., Any]


def _comparisons(names: tuple[str, ...]) -> dict[str, Function]:
    values_of: Function = operator.attrgetter(*names) if names else type

    def __eq__(self: Any, other: Any) -> Any:
        return values_of(self) == values_of(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values_of(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _first_constructor(made: Any, names: tuple[str, ...], defaults: dict[str, Any]) -> Function:
    """A constructor that needs no compilation, and in the end replaces itself by a compiled one.

    A call with wrong arguments is left to the compiled one, which says what is wrong as Python does.
    """
    setters = [(name, made.__dict__[name].__set__) for name in names]  # the slots: __setattr__ refuses
    finish = getattr(made, "__post_init__", None)
    calls = 0

    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        nonlocal calls
        calls += 1
        values = dict(zip(names, args, strict=False)) | kwargs
        if len(values) != len(args) + len(kwargs) or calls > _SLOW_CALLS or not _complete(values, names, defaults):
            compiled = _constructor(made, names, defaults)
            if calls > _SLOW_CALLS:
                made.__init__ = compiled
            compiled(self, *args, **kwargs)
            return
        for name, store in setters:
            store(self, values[name])
        if finish is not None:
            finish(self)

    return __init__


def _complete(values: dict[str, Any], names: tuple[str, ...], defaults: dict[str, Any]) -> bool:
    """Add the defaults that are wanted; False when a value is missing still, or one too many."""
    for name, default in defaults.items():
        if name not in values:
            make: Any = default.default_factory if isinstance(default, dataclasses.Field) else None
            values[name] = default if make is None else make()
    return len(values) == len(names) and all(map(values.__contains__, names))


def _check(made: Any, defaults: dict[str, Any]) -> None:
    for name, default in defaults.items():
        if isinstance(default, dataclasses.Field) and (
            default.default_factory is MISSING or not (default.init and default.repr and default.compare)
        ):
            raise TypeError(f"field {name} of {made.__name__}: only field(default_factory=…) is supported")


def _constructor(made: type, names: tuple[str, ...], defaults: dict[str, Any]) -> Function:
    scope: dict[str, Any] = {"MISSING": MISSING, "__name__": made.__module__}
    parameters, stores = [], []
    for name in names:
        scope[f"set_{name}"] = made.__dict__[name].__set__
        value = name
        if name in defaults:
            scope[f"default_{name}"] = default = defaults[name]
            if isinstance(default, dataclasses.Field):
                scope[f"default_{name}"] = MISSING
                scope[f"make_{name}"] = default.default_factory
                value = f"make_{name}() if {name} is MISSING else {name}"
            parameters.append(f"{name}=default_{name}")
        else:
            parameters.append(name)
        stores.append(f"set_{name}(self, {value})")
    if hasattr(made, "__post_init__"):
        stores.append("self.__post_init__()")
    functions: dict[str, Function] = {}
    exec(_INIT.format(parameters=", ".join(parameters), stores="; ".join(stores) or "pass"), scope, functions)
    functions["__init__"].__qualname__ = f"{made.__qualname__}.__init__"
    return functions["__init__"]


def _repr(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self.__slots__)})"


def _reduce(self: Any) -> tuple[Any, ...]:
    return type(self), tuple(getattr(self, n) for n in self.__slots__)


def _replace(self: Any, /, **changes: Any) -> Any:
    return type(self)(**{n: getattr(self, n) for n in self.__slots__} | changes)


def _refuse_set(self: Any, name: str, value: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


class _FromDataclass:
    """An attribute that `dataclasses` makes when it is first asked for: its description of the fields."""

    def __init__(self, name: str, types: dict[str, Any], defaults: dict[str, Any]) -> None:
        self._name, self._types, self._defaults = name, types, defaults

    def __get__(self, instance: Any, owner: type) -> Any:
        items = [(n, t, self._defaults[n]) if n in self._defaults else (n, t) for n, t in self._types.items()]
        if self._name == "__dataclass_fields__":  # `replace` asks for them: nothing is compiled
            like = dataclasses.make_dataclass(owner.__name__, items, init=False, repr=False, eq=False)
        else:
            like = dataclasses.make_dataclass(owner.__name__, items, frozen=True)
        made = getattr(like, self._name)
        setattr(owner, self._name, made)
        return made
