"""SHA-256 without the start-up cost of OpenSSL.

Importing `hashlib` loads OpenSSL, some 4 ms that a first launch from a store would pay for hashing a few
kilobytes.  CPython carries its own SHA-256, which is slower per byte and free to load; the digests are
the same.  Where `hashlib` is loaded anyway, or CPython was built without its own, it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["sha256_bytes", "sha256_hex"]


def _implementation() -> Callable[..., Any]:
    if "hashlib" not in sys.modules:
        for name in ("_sha2", "_sha256"):  # 3.12 and later, 3.11
            try:
                found: Callable[..., Any] = __import__(name).sha256
            except (ImportError, AttributeError):
                continue
            return found
    import hashlib

    return hashlib.sha256


_sha256 = _implementation()


def sha256_bytes(data: bytes | bytearray | memoryview) -> bytes:
    """The 32 bytes of the SHA-256 digest of `data`."""
    digest: bytes = _sha256(data).digest()
    return digest


def sha256_hex(data: bytes | bytearray | memoryview) -> str:
    """The SHA-256 digest of `data` as 64 hexadecimal digits."""
    text: str = _sha256(data).hexdigest()
    return text
