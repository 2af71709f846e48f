"""What host functions and their callers agree on: symbols, and structures in memory.

Host functions are native code that the launching side calls, the same for all kernels of a CPU architecture
(`sterna.compiler.codegen.cpu.host`): those of the thread pool, and the one that reads launch arguments.
"""

from __future__ import annotations

__all__ = ["OFFER_FIELDS", "PACK", "PACK_ARGUMENT", "PACK_HEAD", "PACK_KINDS", "PACK_WORDS", "TEAM"]

TEAM = {name: f"sterna_team_{name}" for name in ("launch", "offer", "run", "wait", "work")}
"""Symbols of the functions that every CPU image has for the thread pool (`sterna.compiler.codegen.cpu.team`)."""
OFFER_FIELDS = {"state": 0, "args": 1, "launch": 2, "words": 16}
"""A place on the board where CPU launches are offered to the pool: index of each 64-bit field, and its size in words.

``state``: tickets left in the upper half, threads inside in the lower.  The board has a head of the same size, whose
first word is the number of places.
"""
PACK = "sterna_pack"
"""Symbol of the function that reads launch arguments (`sterna.compiler.codegen.cpu.packing`)."""
PACK_HEAD = ("count", "items", "integer")
PACK_ARGUMENT = ("kind", "type", "dtype", "ndim", "flags", "offset")
PACK_WORDS, PACK_KINDS = 8, ("array", "strided", "float", "int")
"""What that function is told: 64-bit words, eight that hold for all arguments and then eight for each.

``count``: of arguments; ``items``: where a tuple's items begin; ``integer``: address of C's
``PyLong_AsLongLongAndOverflow``; ``kind``: index in `PACK_KINDS`; ``type`` and ``dtype``: addresses of the objects that
an argument must have; ``offset``: where its fields go.
"""
