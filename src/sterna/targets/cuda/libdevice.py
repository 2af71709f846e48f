"""NVIDIA's maths library for device code (libdevice): the functions a module calls, as text.

The library is bitcode that holds some 350 functions; parsing it takes tens of milliseconds, so that is done once,
and only for a module that calls one.  Of it only the called functions, and what they call, are copied into the module;
their questions to the compiler (``__nvvm_reflect``) are answered on the way.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from sterna.errors import CompilerUnavailable

__all__ = ["find_libdevice", "link_libdevice"]

_FILE = "libdevice.10.bc"
_WHEELS = (
    "nvidia/cu13/nvvm/libdevice", "nvidia/nvvm/libdevice", "nvidia/cuda_nvcc/nvvm/libdevice",
    "nvidia/cu12/nvvm/libdevice", "triton/backends/nvidia/lib",
)  # fmt: skip
_TOOLKITS = ("/usr/local/cuda/nvvm/libdevice", "/opt/cuda/nvvm/libdevice", "/usr/lib/cuda/nvvm/libdevice")
_CALL = re.compile(r"@(__\w+)")
_DECLARATION = re.compile(r"^declare [^\n]*@__nv_\w+\([^\n]*\n", re.MULTILINE)
_REFLECT = re.compile(r"call i32 @__nvvm_reflect\(ptr (?:noundef )?(@\.str[.\d]*)\)")
_ATTRIBUTES = re.compile(r" #\d+")
_NOTE = re.compile(r", ![a-z.]+ !\d+")
_lock = threading.Lock()


@cache
def find_libdevice() -> Path:
    """Where the library is: a wheel's, then a toolkit's.

    Raises
    ------
    CompilerUnavailable
        When there is none, with what to install.
    """
    folders = [Path(entry or ".") / wheel for wheel in _WHEELS for entry in sys.path]
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            folders.append(Path(os.environ[variable]) / "nvvm" / "libdevice")
    folders += [Path(folder) for folder in _TOOLKITS]
    for folder in folders:
        if (folder / _FILE).is_file():
            return folder / _FILE
    raise CompilerUnavailable(
        f"a kernel calls a mathematical function, and {_FILE} is not found; pip install nvidia-nvvm, or set CUDA_HOME "
        "to a CUDA toolkit"
    )


class _Library:
    def __init__(self, path: Path) -> None:
        self._module = llvm.parse_bitcode(path.read_bytes())
        self._functions = {f.name: f for f in self._module.functions}
        self._globals = {g.name: g for g in self._module.global_variables}
        self._texts: dict[str, str] = {}
        self._questions = {f"@{n}": str(g) for n, g in self._globals.items() if n.startswith(".str")}

    def text(self, name: str) -> str:
        """Definition or declaration of one symbol."""
        found = self._texts.get(name)
        if found is None:
            value = self._functions.get(name) or self._globals.get(name)
            if value is None:
                raise CompilerUnavailable(f"this machine's {_FILE} has no function {name!r}")
            found = self._texts[name] = self._clean(str(value))
        return found

    def _clean(self, text: str) -> str:
        note, _, rest = text.strip().partition("\n")
        if not note.startswith("; Function Attrs:"):
            return _NOTE.sub("", _ATTRIBUTES.sub("", text.strip()))
        attributes = note.partition(":")[2].strip()
        rest = re.sub(r"^(define )(?:internal )?([^\n]*?) #\d+ \{", rf"\1internal \2 {attributes} {{", rest, count=1)
        return _NOTE.sub("", _ATTRIBUTES.sub("", rest))

    def question(self, symbol: str) -> str:
        """Text of the name that a ``__nvvm_reflect`` asks for."""
        return self._questions.get(symbol, "")

    def structs(self, text: str) -> list[str]:
        """Definitions of the structures that `text` names."""
        used = set(re.findall(r"%(struct\.\w+)", text))
        return [str(s) for s in self._module.struct_types if s.name in used]


@cache
def _library(path: Path) -> _Library:
    return _Library(path)


def link_libdevice(text: str, arch: str) -> str:
    """The module's text with definitions of all ``__nv_`` functions that it calls."""
    wanted = sorted(set(re.findall(r"@(__nv_\w+)", text)))
    if not wanted:
        return text
    with _lock:
        return _DECLARATION.sub("", text) + _definitions(_library(find_libdevice()), wanted, arch)


def _definitions(library: _Library, wanted: Iterable[str], arch: str) -> str:
    done: dict[str, str] = {}
    declared: dict[str, None] = {}
    todo = list(wanted)
    while todo:
        name = todo.pop(0)
        if name in done:
            continue
        body = _answer(library, library.text(name), arch)
        done[name] = body
        todo += [n for n in _CALL.findall(body) if n not in done]
        declared.update(dict.fromkeys(re.findall(r"@(llvm\.[\w.]+)", body)))
    whole = "\n".join([*done.values(), *(library.text(name) for name in sorted(declared))])
    return "\n".join([*library.structs(whole), whole]) + "\n"


def _answer(library: _Library, text: str, arch: str) -> str:
    """Constants in place of questions: denormals are kept, roots are exact."""

    def replace(match: re.Match[str]) -> str:
        asked = library.question(match[1])
        if "ARCH" in asked:
            return f"add i32 0, {int(arch.removeprefix('sm_')) * 10}"
        return f"add i32 0, {1 if 'PREC' in asked else 0}"

    return _REFLECT.sub(replace, text)
