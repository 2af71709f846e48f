"""What the compiler is asked for, as it sees it: the runtime's `CompileRequest` has these fields (I1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sterna.options import CompileOptions
from sterna.relocation.record import Manifest
from sterna.relocation.resolve import Resolution
from sterna.source.captures import Scan
from sterna.targets.base import Target
from sterna.types import Type

__all__ = ["Job", "TypedJob"]


class _HasTarget(Protocol):
    @property
    def target(self) -> Target: ...


class TypedJob(Protocol):
    """A job as far as types go."""

    @property
    def scan(self) -> Scan: ...
    @property
    def types(self) -> tuple[Type, ...]: ...
    @property
    def device(self) -> _HasTarget: ...
    @property
    def options(self) -> CompileOptions: ...


class Job(TypedJob, Protocol):
    """One compilation: `sterna.runtime.dispatch.CompileRequest` is one."""

    @property
    def name(self) -> str: ...
    @property
    def strategy(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def resolve(self) -> Callable[[Manifest], Resolution]: ...
