"""Memory for loaded code: writable while it is filled, then executable or writable, never both.

Pages come from an anonymous private mapping, so a forked child has its own copy of the slots.  The C library is called
itself: loading the module ``mmap`` takes longer than loading a kernel.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from sterna.errors import LinkError

__all__ = ["PAGE", "READ", "READ_EXECUTE", "CodeMemory"]

READ, READ_EXECUTE = 1, 1 | 4
_READ_WRITE = 1 | 2
_PRIVATE_ANONYMOUS = 0x2 | (0x1000 if sys.platform == "darwin" else 0x20)
_FAILED = 2 ** (8 * ctypes.sizeof(ctypes.c_void_p)) - 1
_WRITABLE_VIEW = 0x200  # PyBUF_WRITE
PAGE = os.sysconf("SC_PAGESIZE") if hasattr(os, "sysconf") else 4096


@functools.cache
def _c_library() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    library.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_ssize_t
    )  # fmt: skip
    library.mmap.restype = ctypes.c_void_p
    return library


@functools.cache
def _viewer() -> Any:
    view = ctypes.pythonapi.PyMemoryView_FromMemory
    view.argtypes, view.restype = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int), ctypes.py_object
    return view


@functools.cache
def _cache_flush() -> Any:
    """The function ``(start, end)`` that makes new instructions visible, or None where none is needed."""
    if sys.platform == "darwin":
        invalidate = _c_library().sys_icache_invalidate
        invalidate.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        return lambda start, end: invalidate(start, end - start)
    try:
        clear = ctypes.CDLL("libgcc_s.so.1")["__clear_cache"]
    except (OSError, AttributeError):
        return None  # Linux flushes pages itself when they become executable
    clear.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    return clear


class CodeMemory:
    """One mapping of whole pages.

    Parameters
    ----------
    size : int
        Bytes, rounded up to pages.

    Attributes
    ----------
    address : int
        Where it begins.
    view : memoryview
        Its bytes, while they are being filled.

    Raises
    ------
    LinkError
        When the system gives no memory.
    """

    def __init__(self, size: int) -> None:
        if sys.platform == "win32":
            raise LinkError("CPU kernels need a system with POSIX memory mapping (Linux or macOS)")
        self.size = max(-(-size // PAGE) * PAGE, PAGE)
        address = None
        if self.size <= _FAILED >> 1:
            address = _c_library().mmap(None, self.size, _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
        if address is None or address == _FAILED:
            raise LinkError(f"no memory for {self.size} bytes of code: {os.strerror(ctypes.get_errno())}")
        self.address: int = address
        self.view: memoryview = _viewer()(address, self.size, _WRITABLE_VIEW)
        self._open = True

    def protect(self, start: int, end: int, access: int) -> None:
        """Give the pages of the byte range (page-aligned offsets) an access: `READ` or `READ_EXECUTE`."""
        if start == end:
            return
        if _c_library().mprotect(self.address + start, end - start, access) != 0:
            number = ctypes.get_errno()
            raise LinkError(
                f"the system refuses to make loaded code executable (error {number}); a security policy of this "
                "machine may forbid it"
            )

    def flush(self, start: int, end: int) -> None:
        """Make instructions just written visible to the processor (needed off x86)."""
        flush = _cache_flush()
        if flush is not None:
            flush(self.address + start, self.address + end)

    def close(self) -> None:
        """Unmap; nothing may run in it or point into it any more."""
        if self._open:
            self._open = False
            self.view.release()
            _c_library().munmap(self.address, self.size)

    def __del__(self, _finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_open", False) and not _finalizing():
            self.close()
