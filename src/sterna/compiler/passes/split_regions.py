"""Regions of a kernel: what runs as one loop over a block's threads, and what runs once for the block."""

from __future__ import annotations

from dataclasses import dataclass

from sterna.compiler.ir import nodes as ir

__all__ = ["Program", "Region", "split_regions"]


@dataclass(frozen=True, slots=True)
class Region:
    """Statements that every active thread runs from start to end, in any order of threads."""

    body: tuple[ir.Stmt, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel as a tree of block-level steps."""

    steps: tuple[Region, ...]


def split_regions(function: ir.Function) -> Program:
    """Split a kernel at its collective operations."""
    return Program((Region(function.body),))
