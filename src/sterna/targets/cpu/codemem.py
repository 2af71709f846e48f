"""Memory for loaded code: writable while it is filled, then executable or writable, never both.

Pages come from an anonymous private mapping, so a forked child has its own copy of the slots.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys
from typing import Any

from sterna.errors import LinkError

__all__ = ["PAGE", "READ", "READ_EXECUTE", "CodeMemory"]

PAGE = mmap.PAGESIZE
READ, READ_EXECUTE = 1, 1 | 4


@functools.cache
def _c_library() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return library


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
        if not hasattr(mmap, "MAP_PRIVATE"):
            raise LinkError("CPU kernels need a system with POSIX memory mapping (Linux or macOS)")
        self.size = max(-(-size // PAGE) * PAGE, PAGE)
        try:
            self._map: mmap.mmap | None = mmap.mmap(-1, self.size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError, ValueError, MemoryError) as error:
            raise LinkError(f"no memory for {self.size} bytes of code: {error}") from error
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.view = memoryview(self._map)

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
        if self._map is not None:
            self.view.release()
            self._map.close()
            self._map = None
