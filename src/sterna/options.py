"""Compile options: what a kernel's decorator, the environment and a launch form may choose.

All of them change the code, so all of them are in the key (I8); an option given its own
default is the same as one not given.
"""

from __future__ import annotations

import math
import os
from dataclasses import asdict, fields, replace
from typing import Any

from sterna.frozen import frozen

__all__ = ["CompileOptions", "STRATEGIES"]

STRATEGIES = ("bake", "patch", "table")
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


@frozen
class CompileOptions:
    """Options of one compilation.

    Attributes
    ----------
    boundscheck : bool
        Check indices and report out-of-range ones as IndexError (``STERNA_BOUNDSCHECK``).
    fastmath : bool
        Allow reassociation, contraction and approximate functions (``STERNA_FASTMATH``).
    contract : bool
        Compute ``a * b + c`` with one rounding where the hardware can, and nothing else of `fastmath`
        (``STERNA_CONTRACT``).
    noalias : bool
        A promise: no memory that the kernel writes through one array is reached through another of its array
        arguments or captures (``STERNA_NOALIAS``).
    debug : bool
        Keep debug information and do not optimise beyond level 1 (``STERNA_DEBUG``).
    opt : int
        Optimisation level, 0 to 3 (``STERNA_OPT``).
    strategy : str
        How host references reach the code: ``bake``, ``patch`` or ``table``; empty for the target's own
        (``STERNA_STRATEGY``).
    launch_bounds : int, or (int, int)
        The largest block that will be launched, in threads, and how many of them should fit a multiprocessor (cuda).
    cluster : int, or tuple of up to three
        Blocks of a thread block cluster along x, y, z (cuda, from ``sm_90`` on).
    cooperative : bool
        All blocks run at the same time, so that ``grid.sync()`` can be used (cuda).
    over : int
        Number of axes of an ``over(shape)`` launch, 0 for explicit blocks and threads.  Set by the launch.
    """

    boundscheck: bool = True
    fastmath: bool = False
    contract: bool = False
    noalias: bool = False
    debug: bool = False
    opt: int = 3
    strategy: str = ""
    launch_bounds: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()
    cooperative: bool = False
    over: int = 0

    def __post_init__(self) -> None:
        if self.opt not in range(4) or isinstance(self.opt, bool):
            raise ValueError(f"opt is {self.opt!r}; allowed are 0, 1, 2, 3")
        if self.strategy and self.strategy not in STRATEGIES:
            raise ValueError(f"strategy is {self.strategy!r}; allowed are {', '.join(STRATEGIES)}")
        _require_counts("launch_bounds", self.launch_bounds, 2, 1024)
        _require_counts("cluster", self.cluster, 3, 16)

    @property
    def level(self) -> int:
        """The optimiser's level: `opt`, but at most 1 with `debug`."""
        return min(self.opt, 1) if self.debug else self.opt

    def key_fields(self) -> dict[str, Any]:
        """Options by name, as the key and the image's provenance hold them."""
        return asdict(self)

    def with_(self, **changes: Any) -> CompileOptions:
        """A copy with some options changed."""
        return replace(self, **changes)

    @classmethod
    def from_environment(cls, **given: Any) -> CompileOptions:
        """Options from the decorator's keywords, then ``STERNA_*`` variables, then defaults.

        Raises
        ------
        TypeError
            For an unknown keyword.
        ValueError
            For a value out of range, or a variable that cannot be read.
        """
        known = {f.name: f for f in fields(cls) if f.name != "over"}
        unknown = set(given) - set(known)
        if unknown:
            raise TypeError(f"unknown kernel option {sorted(unknown)[0]!r}; known: {', '.join(known)}")
        values: dict[str, Any] = {}
        for name in known:
            text = os.environ.get(f"STERNA_{name.upper()}")
            if name in given:
                values[name] = _counts(given[name]) if isinstance(known[name].default, tuple) else given[name]
            elif text:
                values[name] = _parse(name, text, known[name].default)
        return cls(**values)


def _counts(given: Any) -> Any:
    return (given,) if isinstance(given, int) else tuple(given)


def _require_counts(name: str, counts: tuple[int, ...], most: int, limit: int) -> None:
    """Refuse anything but up to `most` integers; the first, or all of a cluster together, at most `limit`."""
    integers = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in counts)
    size = math.prod(counts[:1] if name == "launch_bounds" else counts)
    if not integers or len(counts) > most or size > limit:
        raise ValueError(f"{name} is {counts!r}; allowed are 1 to {most} positive integers, at most {limit} in all")


def _parse(name: str, text: str, default: Any) -> Any:
    variable = f"STERNA_{name.upper()}"
    if isinstance(default, bool):
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise ValueError(f"{variable}={text!r}; allowed are 1 and 0")
    if isinstance(default, tuple):
        return tuple(_parse(name, part, 0) for part in text.split(","))
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"{variable}={text!r} is not a number") from None
    return text
