"""Memory of simulated devices: the host's address of a buffer is another than the GPU's.

Both are views of the same pages.  The GPU's view can be touched only while a dispatch that declared it runs, so that
code which forgets to declare a buffer, or hands a kernel a host address of one, faults as on hardware.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from collections.abc import Iterable, Iterator

__all__ = ["Pages", "opened"]

_NONE, _READ, _WRITE = 0, 1, 2
_SHARED = 1
_PAGE = os.sysconf("SC_PAGE_SIZE")
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Pages:
    """Whole pages with two addresses.

    Attributes
    ----------
    host, gpu : int
        The addresses.
    nbytes : int
        Bytes asked for.
    """

    def __init__(self, nbytes: int, writable: bool = True) -> None:
        self.nbytes, self._writable, self._users = nbytes, writable, 0
        self._size = max(-(-nbytes // _PAGE), 1) * _PAGE
        with tempfile.TemporaryFile() if not hasattr(os, "memfd_create") else _anonymous() as file:
            os.ftruncate(file.fileno(), self._size)
            self.host = self._map(file.fileno(), _READ | _WRITE)
            self.gpu = self._map(file.fileno(), _NONE)

    def _map(self, descriptor: int, access: int) -> int:
        found: int = _libc.mmap(None, self._size, access, _SHARED, descriptor, 0)
        if found == ctypes.c_void_p(-1).value:
            raise MemoryError(f"no {self._size} bytes for the simulator")
        return found

    def open(self) -> None:
        """Let the GPU touch it, until as many calls of `close`."""
        self._users += 1
        if self._users == 1:
            _libc.mprotect(self.gpu, self._size, _READ | (_WRITE if self._writable else 0))

    def close(self) -> None:
        """Undo one `open`."""
        self._users -= 1
        if not self._users:
            _libc.mprotect(self.gpu, self._size, _NONE)

    def __del__(self) -> None:
        for address in (getattr(self, "host", 0), getattr(self, "gpu", 0)):
            if address:
                _libc.munmap(address, self._size)


def _anonymous():  # type: ignore[no-untyped-def]
    return os.fdopen(os.memfd_create("sterna-metal"), "w+b")


@contextlib.contextmanager
def opened(pages: Iterable[Pages]) -> Iterator[None]:
    """These pages are the GPU's inside a ``with`` block."""
    found = list(pages)
    for page in found:
        page.open()
    try:
        yield
    finally:
        for page in found:
            page.close()
