"""Reading and writing of small files that many processes share, on any file system.

The only commit point is a rename within one folder: a reader sees the whole old file, the whole new one or
none, with no locks, so network file systems and killed writers do no harm.  Nothing here raises for trouble of
the file system; outcomes say in words what went wrong.  Modification times decide only when the left-overs of
killed writers are swept, never what is valid.
"""

from __future__ import annotations

import os
import stat
import sys

from sterna.digest import sha256_hex
from sterna.frozen import frozen

__all__ = [
    "ReadOutcome", "WriteOutcome", "atomic_write", "ensure_folder", "list_folder", "move_aside", "read_file", "remove",
    "sweep_temporaries",
]  # fmt: skip

TEMPORARY_PREFIX = ".writing-"
STALE_SECONDS = 24 * 3600
"""Age, by the file system's own clock, after which another machine's unfinished file is taken for abandoned."""

_MAX_BYTES = 1 << 30
_ATTEMPTS = 3
_READ_FLAGS = (
    os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
)  # O_NONBLOCK: a FIFO in a file's place must not hang the reader
_WRITE_FLAGS = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
)  # fmt: skip


@frozen
class ReadOutcome:
    """Contents of a file, or None; `reason` is empty when there simply is no such file."""

    data: bytes | None
    reason: str = ""


@frozen
class WriteOutcome:
    """Whether a write was committed, and if not, why; true in a condition when it was."""

    stored: bool
    reason: str = ""
    path: str = ""

    def __bool__(self) -> bool:
        return self.stored


def reason_of(error: BaseException) -> str:
    """An error of the file system in words, without the path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


def read_file(path: str) -> ReadOutcome:
    """Read a whole regular file."""
    try:
        handle = os.open(path, _READ_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return ReadOutcome(None)
    except (OSError, ValueError) as error:
        return ReadOutcome(None, reason_of(error))
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            return ReadOutcome(None, "not a regular file")
        if facts.st_size > _MAX_BYTES:
            return ReadOutcome(None, "larger than any image")
        data = os.read(handle, facts.st_size + 1)
        if len(data) != facts.st_size:  # a short read, or a file that grew
            data = _read_rest(handle, data)
        return ReadOutcome(data)
    except OSError as error:
        return ReadOutcome(None, reason_of(error))
    finally:
        os.close(handle)


def _read_rest(handle: int, data: bytes) -> bytes:
    parts, size = [data], len(data)
    while size <= _MAX_BYTES and (part := os.read(handle, 1 << 20)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def atomic_write(path: str, data: bytes, *, durable: bool = True) -> WriteOutcome:
    """Put `data` at `path`, whole or not at all.  The folder is made when it is missing.

    Parameters
    ----------
    path : str
        Where; an existing file is replaced.
    data : bytes
        What.
    durable : bool
        Wait until the data is on the medium before the rename, so that a power cut cannot leave an empty file
        under the final name.
    """
    folder = os.path.dirname(path)
    outcome = WriteOutcome(False, "not tried", path)
    for _ in range(_ATTEMPTS):
        outcome, again = _write_once(folder, path, data, durable)
        if outcome or not again:
            return outcome
        made = ensure_folder(folder)  # missing at first, or deleted by someone while we wrote
        if not made:
            return WriteOutcome(False, made.reason, path)
    return outcome


def _write_once(folder: str, path: str, data: bytes, durable: bool) -> tuple[WriteOutcome, bool]:
    """One attempt; also whether another, after making the folder, may help."""
    temporary = os.path.join(folder, _temporary_name())
    committed = False
    try:
        handle = os.open(temporary, _WRITE_FLAGS, 0o666)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(temporary, path)
        committed = True
        return WriteOutcome(True, "", path), False
    except (FileNotFoundError, FileExistsError) as error:
        return WriteOutcome(False, reason_of(error), path), True
    except (OSError, ValueError) as error:
        return WriteOutcome(False, reason_of(error), path), False
    finally:
        if not committed:
            remove(temporary)


def host_digest() -> str:
    """This machine, without its name."""
    name = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    return sha256_hex(name.encode("utf-8", "surrogateescape"))[:8]


def _temporary_name() -> str:
    return f"{TEMPORARY_PREFIX}{host_digest()}-{os.getpid()}-{os.urandom(6).hex()}"


def remove(path: str) -> bool:
    """Remove a file if that is possible."""
    try:
        os.unlink(path)
    except (OSError, ValueError):
        return False
    return True


def move_aside(path: str, folder: str, keep: int) -> str:
    """Move a file into `folder`, where at most `keep` files stay; the new path, or empty."""
    if not ensure_folder(folder):
        return ""
    name = os.path.basename(path)
    others = sorted(n for n in list_folder(folder) if n != name)
    for surplus in others[: max(len(others) - keep + 1, 0)]:
        remove(os.path.join(folder, surplus))
    goal = os.path.join(folder, name)
    try:
        os.replace(path, goal)
    except (OSError, ValueError):
        return ""
    return goal


def ensure_folder(path: str, mode: int = 0o777) -> WriteOutcome:
    """Make a folder and those above it; other processes may be doing the same."""
    try:
        os.makedirs(path, mode, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = "a file is in the place of the folder" if isinstance(error, FileExistsError) else reason_of(error)
        return WriteOutcome(False, reason, path)
    return WriteOutcome(True, "", path)


def list_folder(path: str) -> list[str]:
    """Names in a folder, sorted; none if it cannot be listed."""
    try:
        return sorted(os.listdir(path))
    except (OSError, ValueError):
        return []


def sweep_temporaries(folder: str, written: str) -> int:
    """Remove what killed writers left in `folder`; the number of files removed.

    A file is abandoned when its writer, on this machine, is gone, or when it is a day older than the file
    `written`, just written there: that is the file system's own clock, which may differ from ours.  Sweeping a file
    that is still being written costs its writer a second attempt, nothing else.
    """
    names = [n for n in list_folder(folder) if n.startswith(TEMPORARY_PREFIX)]
    if not names:
        return 0
    try:
        now = os.stat(written).st_mtime
    except OSError:
        return 0
    paths = [(name, os.path.join(folder, name)) for name in names]
    return sum(remove(path) for name, path in paths if _is_abandoned(name, path, now))


def _is_abandoned(name: str, path: str, now: float) -> bool:
    host, _, rest = name.removeprefix(TEMPORARY_PREFIX).partition("-")
    writer = rest.partition("-")[0]
    if host == host_digest() and writer.isdecimal() and sys.platform != "win32":
        try:
            os.kill(int(writer), 0)  # asks only whether it exists
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            pass
    try:
        return now - os.stat(path).st_mtime > STALE_SECONDS
    except OSError:
        return False
