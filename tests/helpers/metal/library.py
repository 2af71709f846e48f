"""Simulated Metal libraries: MSL text compiled by the system's C++ compiler, once per text.

The entry of each kernel gets a trampoline that fills its parameters by their attributes; what Metal's own compiler
would refuse, and a C++ compiler takes, is refused here by name.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CompileFailure", "Entry", "build", "entries", "load", "runtime"]

HERE = Path(__file__).parent
FLAGS = (
    "-std=c++17", "-O0", "-fPIC", "-w", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-ffp-contract=off",
    "-fno-exceptions", "-fno-rtti", "-fsanitize-undefined-trap-on-error",
    "-fsanitize=signed-integer-overflow,shift,integer-divide-by-zero,float-cast-overflow,alignment",
)  # fmt: skip
"""What the language leaves undefined ends the dispatch: Metal's compiler may take it to mean anything."""
_KEPT, _WEEK = 5000, 7 * 24 * 3600
_KERNEL = re.compile(r"\bkernel\s+((?:\[\[[^]]*\]\]\s*)*)void\s+(\w+)\s*\(")
_PARAMETER = re.compile(
    r"^(?P<type>.*?)\s*(?P<name>\w+)\s*\[\[\s*(?P<attribute>\w+)\s*(?:\(\s*(?P<index>\d+)\s*\))?\s*\]\]$", re.S
)
_ABSENT = re.compile(
    r"\b(double|goto|throw|try|catch|new|delete|virtual|dynamic_cast|typeid|long\s+long|std::\w+|printf)\b"
)
"""What C++ has and Metal's language has not."""

_TRIPLES = {
    "thread_position_in_threadgroup": "t.position[{n}]",
    "threadgroup_position_in_grid": "t.group[{n}]",
    "threads_per_threadgroup": "d.threads[{n}]",
    "dispatch_threads_per_threadgroup": "d.threads[{n}]",
    "threadgroups_per_grid": "d.groups[{n}]",
    "threads_per_grid": "d.groups[{n}] * d.threads[{n}]",
    "thread_position_in_grid": "t.group[{n}] * d.threads[{n}] + t.position[{n}]",
}
_SINGLES = {
    "thread_index_in_threadgroup": "t.index",
    "thread_index_in_simdgroup": "t.lane()",
    "simdgroup_index_in_threadgroup": "t.simdgroup()",
    "threads_per_simdgroup": "sterna_sim::LANES",
    "thread_execution_width": "sterna_sim::LANES",
    "simdgroups_per_threadgroup": "(d.threads[0] * d.threads[1] * d.threads[2] + 31) / 32",
}


class CompileFailure(Exception):
    """The text cannot be compiled; the message is the compiler's log."""


@dataclass(frozen=True)
class Entry:
    """One kernel of a library, as it is declared.

    Attributes
    ----------
    buffers, group_memory : tuple of int
        Indices of its ``buffer(n)`` and ``threadgroup(n)`` parameters.
    max_threads : int
        Of its ``max_total_threads_per_threadgroup`` attribute, or 1024.
    call : str
        The trampoline's arguments, as C++.
    """

    name: str
    buffers: tuple[int, ...]
    group_memory: tuple[int, ...]
    max_threads: int
    call: str


def entries(text: str) -> dict[str, Entry]:
    """The kernels that a text declares.

    Raises
    ------
    CompileFailure
        For what Metal's language does not have.
    """
    plain = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S))
    absent = _ABSENT.search(plain)
    if absent is not None:
        raise CompileFailure(f"error: Metal's language has no {absent[1]!r}")
    found = {}
    for match in _KERNEL.finditer(plain):
        entry = _entry(match[2], match[1], _parameters(plain, match.end()))
        found[entry.name] = entry
    return found


def _parameters(text: str, start: int) -> list[str]:
    depth, parts, at = 0, [], start
    for place in range(start, len(text)):
        letter = text[place]
        if letter == ")" and depth == 0:
            parts.append(text[at:place])
            return [part.strip() for part in parts if part.strip()]
        depth += (letter in "([<") - (letter in ")]>")
        if letter == "," and depth == 0:
            parts.append(text[at:place])
            at = place + 1
    raise CompileFailure("error: a kernel's parameters do not end")


def _entry(name: str, before: str, parameters: list[str]) -> Entry:
    arguments, buffers, memory = [], [], []
    for parameter in parameters:
        match = _PARAMETER.match(parameter)
        if match is None:
            raise CompileFailure(f"error: kernel {name}: parameter {parameter!r} has no attribute")
        kind, attribute = " ".join(match["type"].split()), match["attribute"]
        if attribute == "buffer":
            if not re.search(r"\b(device|constant)\b.*[*&]", kind):
                raise CompileFailure(f"error: kernel {name}: buffer parameter {parameter!r} has no address space")
            buffers.append(int(match["index"]))
            reference = "*" if kind.endswith("&") else ""
            arguments.append(f"{reference}({kind.replace('&', '*')})d.buffers[{match['index']}]")
        elif attribute == "threadgroup":
            memory.append(int(match["index"]))
            arguments.append(f"({kind})d.group_memory[{match['index']}]")
        else:
            arguments.append(_position(name, kind, attribute))
    if any(index >= 31 for index in buffers + memory):
        raise CompileFailure(f"error: kernel {name}: an index beyond 30")
    bound = re.search(r"max_total_threads_per_threadgroup\s*\(\s*(\d+)\s*\)", before)
    return Entry(name, tuple(buffers), tuple(memory), int(bound[1]) if bound else 1024, ", ".join(arguments))


def _position(name: str, kind: str, attribute: str) -> str:
    match = re.fullmatch(r"(?:metal::)?(uint|ushort)([23]?)", kind)
    axes = int(match[2] or 1) if match else 0
    if match is None or (attribute in _SINGLES and axes != 1) or attribute not in {**_SINGLES, **_TRIPLES}:
        raise CompileFailure(f"error: kernel {name}: {kind} [[{attribute}]] is not possible")
    if attribute in _SINGLES:
        return f"({match[1]})({_SINGLES[attribute]})"
    parts = ", ".join(f"({match[1]})({_TRIPLES[attribute].format(n=n)})" for n in range(axes))
    return f"metal::{match[1]}{axes}({parts})" if axes > 1 else parts


# ---- compiling -----------------------------------------------------------------------------------


@functools.cache
def folder() -> Path:
    """Where compiled texts are kept: of this user, this compiler and this state of the simulator."""
    base = os.environ.get("METAL_SIMULATOR_CACHE") or os.path.join(
        tempfile.gettempdir(), f"metal-simulator-{os.getuid()}"
    )
    digest = hashlib.sha256(repr((FLAGS, _version())).encode())
    for path in sorted(
        [HERE / "runtime.hpp", HERE / "runtime.cpp", HERE / "library.py", *(HERE / "include").glob("*")]
    ):
        digest.update(path.name.encode() + path.read_bytes())
    found = Path(base) / digest.hexdigest()[:20]
    found.mkdir(parents=True, exist_ok=True)
    _tidy(Path(base), found)
    return found


def _tidy(base: Path, own: Path) -> None:
    """Keep the newest of what was compiled; what other states of the simulator made goes after a week."""
    kept = sorted(own.glob("[0-9a-f]*.so"), key=_age)
    for path in kept[_KEPT:]:
        path.unlink(missing_ok=True)
    for other in base.iterdir():
        if other != own and _age(other) > _WEEK:
            shutil.rmtree(other, ignore_errors=True)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:  # another process tidies too
        return 0.0


@functools.cache
def _version() -> str:
    compiler = shutil.which("g++")
    if compiler is None:
        return ""
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout


def _compile(goal: Path, arguments: list[str], text: str = "") -> None:
    """Run the compiler into `goal`, which appears whole or not at all."""
    descriptor, name = tempfile.mkstemp(dir=goal.parent, suffix=goal.suffix)
    os.close(descriptor)
    command = ["g++", *FLAGS, *arguments, "-o", name]
    try:
        made = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if made.returncode:
            raise CompileFailure(made.stderr)
        os.chmod(name, 0o755)
        os.replace(name, goal)
    finally:
        if os.path.exists(name):
            os.unlink(name)


@functools.cache
def runtime() -> ctypes.CDLL:
    """The scheduler."""
    goal = folder() / "libruntime.so"
    if not goal.exists():
        _compile(goal, ["-O2", "-shared", str(HERE / "runtime.cpp")])
    found = ctypes.CDLL(str(goal), mode=ctypes.RTLD_GLOBAL)
    found.sterna_sim_run.restype = ctypes.c_bool
    return found


@functools.cache
def _header() -> list[str]:
    """The shim, compiled ahead, and where it is."""
    goal = folder() / "metal_stdlib.gch"
    if not goal.exists():
        _compile(goal, ["-x", "c++-header", str(HERE / "include" / "metal_stdlib")])
    return ["-I", str(folder()), "-I", str(HERE / "include")]


def build(text: str) -> Path:
    """A shared object of the text, compiled unless that was done before.

    Raises
    ------
    CompileFailure
        With the compiler's log.
    """
    goal = folder() / f"{hashlib.sha256(text.encode()).hexdigest()}.so"
    found = entries(text)
    if not goal.exists():
        trampolines = "".join(
            f'\nextern "C" void sterna_entry_{e.name}(const sterna_sim::Dispatch &d, const sterna_sim::Thread &t) '
            f"{{ (void)d; (void)t; {e.name}({e.call}); }}"
            for e in found.values()
        )
        arguments = [*_header(), "-shared", "-x", "c++", "-"]
        plain = re.sub(r"\[\[[\w\s(),]*\]\]", "", text)  # the shim's macros would spoil attributes
        _compile(goal, arguments, f'{plain}\n#include "{HERE / "runtime.hpp"}"\n{trampolines}\n')
    return goal


@functools.lru_cache(maxsize=4096)
def load(path: Path, name: str) -> int:
    """Address of a kernel's trampoline."""
    runtime()
    function = ctypes.CDLL(str(path))[f"sterna_entry_{name}"]
    return ctypes.cast(function, ctypes.c_void_p).value or 0
