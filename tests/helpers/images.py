"""Kernel images made by hand: no compiler, no device."""

from __future__ import annotations

from typing import Any

from sterna.image.format import KernelImage
from sterna.relocation.record import Manifest, RefKind, RelocationRecord

__all__ = ["CODE", "PLACE", "make_image", "make_key"]

PLACE = "cpu-x86-64-v3"
CODE = bytes(range(256)) * 8


def make_key(number: int) -> str:
    """A key that looks like one: 64 hexadecimal digits."""
    return f"{number:064x}"


def make_image(number: int = 1, **changes: Any) -> KernelImage:
    """An image with every field in use; `number` tells images apart."""
    records = (
        RelocationRecord("slot_0", 0, RefKind.BUFFER, "globals:TABLE", 16, 64, 3, "array(float32, 1, C, readonly)"),
        RelocationRecord("slot_1", 3, RefKind.OBJECT, "globals:Mode → attr:SOFT", type="object"),
        RelocationRecord("slot_2", 4, RefKind.GLOBAL, "globals:EXPOSURE", type="float32"),
    )
    fields: dict[str, Any] = {
        "key": make_key(number), "name": "blur", "module": "darkroom.kernels", "target": "cpu", "arch": "x86-64-v3",
        "entry": "sterna_blur", "signature": "array(float32, 2, C), float",
        "manifest": Manifest("patch", records), "facts": {"shared_bytes": 2048},
        "errors": ({"function": 0, "statement": 3, "kind": "IndexError"},),
        "sources": (("", "0f" * 32), ("globals:helper", "a1" * 32)),
        "provenance": {"versions": {"llvmlite": "0.50.0"}, "options": {"opt": 3}},
        "payloads": {"object": CODE + number.to_bytes(8, "little"), "notes": b"n"},
    }  # fmt: skip
    return KernelImage(**(fields | changes))
