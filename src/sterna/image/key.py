"""Kernel keys: the name under which an image is stored, covering everything its code depends on (I8).

A key is a SHA-256 over labelled, length-prefixed fields and is made in two steps.  The *base key* covers
the device code (the digest of every function reached), all captures, argument types, options, target and the
schema numbers.  The *kernel key* adds the compiler's versions.  A machine without a compiler can so ask a bundle for
the versions that the bundle declares.

Nothing of one session is in it: no address, no file name, no line number, no Python version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sterna.digest import sha256_hex
from sterna.image.format import FORMAT_VERSION
from sterna.options import CompileOptions
from sterna.source.captures import Capture, Reached, Scan
from sterna.types import Type

if TYPE_CHECKING:
    from sterna.targets.base import Target

__all__ = ["CODEGEN_SCHEMA", "KEY_SCHEMA", "base_key", "kernel_key"]

KEY_SCHEMA = 1
"""Bumped when the meaning of the fields changes."""
CODEGEN_SCHEMA = 31
"""Bumped when Sterna's own frontend, passes or code generation make other code from the same input."""


class _Fields:
    """Bytes to hash: each field with its label and both their lengths, so that no two lists run together."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def add(self, label: str, value: str) -> None:
        name = label.encode()
        data = value.encode("utf-8", "surrogatepass")
        self._parts += (b"%d:" % len(name), name, b"%d:" % len(data), data)

    def hex(self) -> str:
        return sha256_hex(b"".join(self._parts))


def base_key(
    scan: Scan,
    types: tuple[Type, ...],
    target: Target,
    options: CompileOptions,
) -> str:
    """Key of a job without the compiler's versions.

    Parameters
    ----------
    scan : Scan
        The kernel with all it reaches and captures, and the overlays in force for it.
    types : tuple of Type
        Argument types.
    target : Target
        With its architecture.
    options : CompileOptions
        All of them, with the strategy that was chosen.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    fields = _Fields()
    fields.add("key schema", str(KEY_SCHEMA))
    fields.add("code generation", str(CODEGEN_SCHEMA))
    fields.add("image format", str(FORMAT_VERSION))
    fields.add("target", str(target))
    for name, value in sorted(options.key_fields().items()):
        fields.add(f"option {name}", f"{type(value).__name__}:{value}")
    fields.add("arguments", str(len(types)))
    for found in types:
        fields.add("argument", str(found))
    for name, text in sorted(scan.overlays.items()):
        fields.add(f"overlay {name}", text)
    for reached in scan.functions:
        _add_function(fields, reached)
    for capture in scan.captures:
        _add_capture(fields, capture)
    for owner, chain in scan.missing:
        fields.add("missing", f"{owner} {chain}")
    return fields.hex()


def kernel_key(base: str, versions: Mapping[str, str]) -> str:
    """Key of an image: a base key and the versions of what compiled it.

    Parameters
    ----------
    base : str
        From `base_key`.
    versions : mapping of str to str
        Component → version; their order does not matter.
    """
    fields = _Fields()
    fields.add("base", base)
    for name, version in sorted(versions.items()):
        fields.add(f"version {name}", version)
    return fields.hex()


def _add_function(fields: _Fields, reached: Reached) -> None:
    # emitted names are made of qualified names, so equal bytes need them here (I4)
    fields.add("function", str(reached.ordinal))
    fields.add("name", reached.name)
    fields.add("path", reached.path)
    fields.add("source", reached.facts.digest)


def _add_capture(fields: _Fields, capture: Capture) -> None:
    fields.add("capture", str(capture.owner))
    fields.add("chain", capture.chain)
    # a manifest holds paths, and a path tells a closure variable from a global of that name
    fields.add("path", capture.path)
    fields.add("kind", capture.kind.value)
    fields.add("value", capture.key)
    for item in capture.items:
        _add_capture(fields, item)
