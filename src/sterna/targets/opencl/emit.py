"""SPIR-V of a module: LLVM's back end, in a process of its own.

The back end ends its process where it cannot select something, and keeps, by the addresses of its own objects,
something of every module it has seen there, which spoils later ones.  So a helper process forks a new one for each
module: what ends that is told as a `CompileError`, and each begins with nothing.  The helper starts with the first
kernel that is compiled and ends with this process.
"""

from __future__ import annotations

import atexit
import os
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO

from sterna.errors import CompileError
from sterna.targets.opencl.renumber import UnknownInstruction, renumbered

__all__ = ["disassemble", "emit_spirv"]

_REQUEST, _ANSWER = struct.Struct("<QB"), struct.Struct("<BQ")
_SAID = 400
_AS_TEXT = 4
"""Flag beside the level."""
_HELPER = """
import os, struct, sys, tempfile
sys.path[:] = sys.argv[2].split(os.pathsep)
import llvmlite.binding as llvm
llvm.initialize_all_targets(); llvm.initialize_all_asmprinters()
target = llvm.Target.from_triple(sys.argv[1])
ask, tell = os.fdopen(0, "rb"), os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)

def emit(text, level):
    machine, module = target.create_target_machine(opt=level & 3), llvm.parse_assembly(text.decode())
    return machine.emit_assembly(module).encode() if level & 4 else machine.emit_object(module)

def apart(text, level):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        child = os.fork()
        if not child:
            os.dup2(said.fileno(), 2)
            try:
                out.write(emit(text, level)); out.flush()
            except BaseException as error:
                os.write(2, str(error).encode()); os._exit(1)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        found = said if status else out
        found.seek(0)
        return (1 if status else 0), found.read()

while len(head := ask.read(9)) == 9:
    size, level = struct.unpack("<QB", head)
    failed, data = apart(ask.read(size), level) if hasattr(os, "fork") else (0, emit(ask.read(size), level))
    tell.write(struct.pack("<BQ", failed, len(data)) + data)
    tell.flush()
"""


class _Helper:
    """The helper process of this one."""

    def __init__(self, triple: str) -> None:
        self.owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _HELPER, triple, os.pathsep.join(p or os.curdir for p in sys.path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        atexit.register(self.stop)

    def emit(self, text: bytes, level: int) -> tuple[bool, bytes]:
        """Whether it failed, and the SPIR-V or what was said.

        Raises
        ------
        OSError, EOFError
            When the helper is gone.
        """
        ask, tell = self._process.stdin, self._process.stdout
        assert ask is not None
        assert tell is not None
        ask.write(_REQUEST.pack(len(text), level) + text)
        ask.flush()
        failed, size = _ANSWER.unpack(_exactly(tell, _ANSWER.size))
        return bool(failed), _exactly(tell, size)

    def stop(self) -> None:
        """End it."""
        atexit.unregister(self.stop)
        if self.owner != os.getpid():  # a forked child must leave its parent's alone
            return
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):  # what was not sent to a process that is gone
                    stream.close()
        self._process.wait()


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError("the helper process is gone")
    return data


_lock = threading.Lock()
_helpers: dict[str, _Helper] = {}


def emit_spirv(text: str, triple: str, level: int) -> bytes:
    """The SPIR-V of a module's text, the same in every process.

    Parameters
    ----------
    text : str
        LLVM IR.
    triple : str
        Of the target.
    level : int
        Optimisation level of the back end.

    Raises
    ------
    CompileError
        When LLVM cannot; with what it said.
    """
    found = _emit(text.encode(), triple, level)
    try:
        return renumbered(found)
    except UnknownInstruction:  # right as it is, if perhaps other bytes in another process
        return found


def disassemble(text: str, triple: str, level: int) -> str:
    """The SPIR-V of a module's text, for people."""
    return _emit(text.encode(), triple, level | _AS_TEXT).decode()


def _emit(text: bytes, triple: str, level: int) -> bytes:
    failed, found = _ask(text, triple, level)
    if failed:
        said = found.decode("utf-8", "replace").strip() or "it ended without a word"
        raise CompileError(f"LLVM cannot make SPIR-V of this kernel: {said[:_SAID]}")
    return found


def _ask(text: bytes, triple: str, level: int) -> tuple[bool, bytes]:
    with _lock:
        for _ in range(2):
            helper = _helpers.get(triple)
            if helper is None or helper.owner != os.getpid():
                try:
                    helper = _helpers[triple] = _Helper(triple)
                except (OSError, TypeError, ValueError) as error:  # no interpreter to start, or no room for it
                    raise CompileError(f"the process that makes SPIR-V cannot be started: {error}") from None
            try:
                return helper.emit(text, level)
            except (OSError, EOFError):
                del _helpers[triple]
                helper.stop()
    raise CompileError("the process that makes SPIR-V has ended twice; can Python import llvmlite in a new process?")
