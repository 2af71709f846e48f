"""The one list of the kernel language: table name → the Python object that stands for it.

The compiler's typing rules, a target's overlays and the interpreter each have an entry for every name
here; a test holds them to it.  A three-component index has one entry (``thread_idx``) and three operations
(``thread_idx.x`` …).
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from sterna.language import atomic, bits, index, inline, local, shared, state, sync, warp
from sterna.overlays import DEVICE, method_table

__all__ = ["INTRINSICS", "OPERATIONS", "VECTORS"]

VECTORS = ("thread_idx", "block_idx", "block_dim", "grid_dim")
"""Table names of the three-component indices."""


def _operations(module: ModuleType) -> dict[str, Any]:
    """What the module registered for all devices, by the operation's name."""
    table = method_table(DEVICE)
    found = ((table.find(item), item) for item in (getattr(module, name) for name in module.__all__))
    return {overlay.operation: item for overlay, item in found if overlay is not None}


INTRINSICS: dict[str, Any] = {
    name: item
    for module in (index, sync, shared, local, atomic, warp, bits, inline, state)
    for name, item in _operations(module).items()
}
"""Table name → function or value object, in the order of the language's modules."""

OPERATIONS: tuple[str, ...] = tuple(
    operation
    for name in INTRINSICS
    for operation in ([f"{name}.{axis}" for axis in "xyz"] if name in VECTORS else [name])
)
"""Every operation's name, as the interpreter and the targets implement them."""
