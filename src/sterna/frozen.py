"""`frozen`: immutable value classes that cost little to define.

``@dataclass(frozen=True, slots=True)`` compiles some six functions one by one and takes about a millisecond of
start-up per class; a package of dozens would spend its whole import budget on that.  `frozen` makes the same kind
of class in a tenth of the time: what must be fast (construction, equality, hash) is compiled when it is first
called, so that a class a process never uses costs next to nothing; what need not be fast is shared by all classes.
Type checkers treat it as a frozen dataclass, and `dataclasses.fields`, `replace` and `asdict` work on it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, field
from typing import Any, NoReturn, TypeVar, dataclass_transform

__all__ = ["field", "frozen"]

T = TypeVar("T")

_INIT = """\
def __init__(self, {parameters}):
    {stores}
"""
_COMPARE = """\
def __eq__(self, other):
    return {mine} == {theirs} if other.__class__ is self.__class__ else NotImplemented
def __hash__(self):
    return hash({mine})
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
    _compile_at_first_call(made, ("__init__",), lambda: _constructor(made, names, defaults))
    _compile_at_first_call(made, ("__eq__", "__hash__"), lambda: _comparisons(made, names))
    return made  # type: ignore[no-any-return]


Functions = dict[str, Callable[..., Any]]


def _compile_at_first_call(made: Any, names: tuple[str, ...], compile_all: Callable[[], Functions]) -> None:
    """Give `made` those methods of `names` that it has not itself; a first call of one makes all of them."""
    missing = [n for n in names if made.__dict__.get(n) is None]  # __hash__ is None where __eq__ is its own

    def stand_in(name: str) -> Callable[..., Any]:
        def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            functions = compile_all()
            for missed in missing:
                functions[missed].__qualname__ = f"{made.__qualname__}.{missed}"
                setattr(made, missed, functions[missed])
            return functions[name](self, *args, **kwargs)

        return method

    for name in missing:
        setattr(made, name, stand_in(name))


def _check(made: Any, defaults: dict[str, Any]) -> None:
    for name, default in defaults.items():
        if isinstance(default, dataclasses.Field) and (
            default.default_factory is MISSING or not (default.init and default.repr and default.compare)
        ):
            raise TypeError(f"field {name} of {made.__name__}: only field(default_factory=…) is supported")


def _constructor(made: type, names: tuple[str, ...], defaults: dict[str, Any]) -> Functions:
    scope: dict[str, Any] = {"MISSING": MISSING}
    parameters, stores = [], []
    for name in names:
        scope[f"set_{name}"] = made.__dict__[name].__set__  # the slot itself: __setattr__ refuses
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
    return _defined(made, _INIT.format(parameters=", ".join(parameters), stores="; ".join(stores) or "pass"), scope)


def _comparisons(made: type, names: tuple[str, ...]) -> Functions:
    mine, theirs = (f"({''.join(f'{of}.{n}, ' for n in names)})" for of in ("self", "other"))
    return _defined(made, _COMPARE.format(mine=mine, theirs=theirs), {})


def _defined(made: type, text: str, scope: dict[str, Any]) -> Functions:
    functions: Functions = {}
    scope["__name__"] = made.__module__
    exec(text, scope, functions)
    return functions


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
        made = getattr(dataclasses.make_dataclass(owner.__name__, items, frozen=True), self._name)
        setattr(owner, self._name, made)
        return made
