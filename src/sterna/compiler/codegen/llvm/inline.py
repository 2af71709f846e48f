"""LLVM intrinsics by name, and inline assembly: emitted as they were written, after they were tried out.

LLVM ends the process on an intrinsic that a target cannot select and on assembly with a wrong constraint, and takes a
name it does not know for an outside function.  So each such call is compiled once on its own in a process that may end
(`problem_of`), before it stands in a kernel; equal calls are tried once.  Assembly is tried twice over in one module,
since the optimiser may copy it.  What it does to the rest of a kernel (registers that run out) shows only there, so
the object of a kernel with assembly is made in such a process too (`object_apart`).
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from sterna.compiler.codegen.llvm.builder import float_text, int_text
from sterna.compiler.codegen.llvm.layout import Value, int_bits, register_type
from sterna.compiler.ir.nodes import Const
from sterna.errors import CompileError
from sterna.types import Scalar, Type

if TYPE_CHECKING:
    from sterna.compiler.codegen.llvm.emitter import FunctionEmitter
    from sterna.compiler.codegen.llvm.profile import LLVMProfile
    from sterna.compiler.ir.nodes import Intrinsic

__all__ = ["INLINE_OPERATIONS", "has_assembly", "object_apart", "problem_of"]

_NAME = re.compile(r"llvm(\.[A-Za-z0-9_]+)+")
_TARGETS = frozenset(
    {"aarch64", "amdgcn", "arm", "bpf", "dx", "hexagon", "loongarch", "mips", "nvvm", "ppc", "r600", "riscv", "s390",
     "spv", "ve", "wasm", "x86", "xcore"}
)  # fmt: skip
"""Second parts of the names of intrinsics that belong to one target."""
_SECONDS = 60

_TRIAL = """
import sys
import llvmlite.binding as llvm
triple, cpu, features, name = sys.argv[1:]
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
llvm.initialize_native_asmparser()
text = sys.stdin.buffer.read().decode()
machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=2)
try:
    module = llvm.parse_assembly(text)
    module.verify()
except RuntimeError as error:
    sys.exit(str(error))
names = [function.name for function in module.functions if function.is_declaration]
if name and names and name not in names:
    sys.exit("with these types LLVM calls it " + names[0])
assembly = machine.emit_assembly(module)
if name and name in assembly:
    sys.exit("LLVM has no intrinsic of this name and these types")
if "nvptx" not in triple and "spir" not in triple:
    module = llvm.parse_assembly(text)
    machine.emit_object(module)
"""

_OBJECT = """
import os, sys
import llvmlite.binding as llvm
triple, cpu, features, level = sys.argv[1:]
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
llvm.initialize_native_asmparser()
target = llvm.Target.from_triple(triple)
machine = target.create_target_machine(
    cpu=cpu, features=features, opt=int(level), reloc="pic", codemodel="small"
)
module = llvm.parse_assembly(sys.stdin.buffer.read().decode())
with os.fdopen(1, "wb") as out:
    out.write(machine.emit_object(module))
"""


def _call(profile: LLVMProfile, node: Intrinsic, operands: tuple[str, ...]) -> str:
    result = "void" if not isinstance(node.type, Scalar) else register_type(node.type)
    given = ", ".join(f"{_kind(a.type)} {x}" for a, x in zip(node.args, operands, strict=True))
    if node.name == "inline.llvm":
        return f"call {result} @{node.attrs[0]}({given})"
    text, constraints, side_effects = node.attrs
    effect = " sideeffect" if side_effects else ""
    # what threads may do together must not come to stand behind a condition
    together = " convergent" if side_effects and "convergent" in profile.call_attributes() else ""
    return f'call {result} asm{effect} "{_quoted(text)}", "{_quoted(constraints)}"({given}) nounwind{together}'


def _kind(t: Type) -> str:
    assert isinstance(t, Scalar)  # the frontend's business
    return register_type(t)


def _quoted(text: str) -> str:
    """Text as LLVM writes it between quotes."""
    return "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in character.encode())


def _declaration(node: Intrinsic) -> str:
    result = "void" if not isinstance(node.type, Scalar) else register_type(node.type)
    return f"declare {result} @{node.attrs[0]}({', '.join(_kind(a.type) for a in node.args)})"


def _emit(e: FunctionEmitter, node: Intrinsic, args: tuple[Value, ...]) -> Value:
    if node.name == "inline.llvm":
        e.context.declare(_declaration(node))
    call = _call(e.profile, node, tuple(value[0] for value in args))
    if not isinstance(node.type, Scalar):
        e.b.emit(call)
        return ()
    return (e.b.op(call),)


INLINE_OPERATIONS = {"inline.llvm": _emit, "inline.asm": _emit}
"""Operation → emitter."""


# ---- trying it out -----------------------------------------------------------------------------


def problem_of(profile: LLVMProfile, node: Intrinsic) -> str:
    """Why the target cannot do it, in words; empty if it can.

    Parameters
    ----------
    profile : LLVMProfile
        The target's.
    node : Intrinsic
        ``inline.llvm`` or ``inline.asm``.
    """
    name = ""
    if node.name == "inline.llvm":
        name = node.attrs[0]
        if not _NAME.fullmatch(name):
            return f"{name!r} is no name of an LLVM intrinsic; such names begin with llvm."
        owner = name.split(".")[1]
        if owner in _TARGETS and owner not in profile.intrinsic_spaces:
            own = ", ".join(f"llvm.{space}.…" for space in profile.intrinsic_spaces)
            return f"{name} belongs to another target; this one has LLVM's common intrinsics and {own or 'no others'}"
    return _tried(profile.triple, profile.cpu, profile.features, name, profile.legalise(_trial(profile, node)))


def _trial(profile: LLVMProfile, node: Intrinsic) -> str:
    """A module that holds nothing but the call, and assembly a second time."""
    operands, parameters = [], []
    for number, arg in enumerate(node.args):
        if isinstance(arg, Const) and isinstance(arg.type, Scalar):
            operands.append(_literal(arg))
        else:
            operands.append(f"%p{number}")
            parameters.append(f"{_kind(arg.type)} %p{number}")
    lines = [f'target triple = "{profile.triple}"']
    if node.name == "inline.llvm":
        lines.append(_declaration(node))
    call = _call(profile, node, tuple(operands))
    if isinstance(node.type, Scalar):
        kind = register_type(node.type)
        body = [f"  %r = {call}", f"  ret {kind} %r"]
    else:
        kind, body = "void", [f"  {call}", "  ret void"]
    for function in ("trial",) if node.name == "inline.llvm" else ("trial", "again"):
        lines += [f"define {kind} @{function}({', '.join(parameters)}) {{", *body, "}"]
    return "\n".join(lines) + "\n"


def _literal(arg: Const) -> str:
    assert isinstance(arg.type, Scalar)
    if arg.type.kind in "iub":
        return int_text(int(arg.value), int_bits(arg.type))
    return float_text(float(arg.value), register_type(arg.type))


@lru_cache(maxsize=1024)
def _tried(triple: str, cpu: str, features: str, name: str, text: str) -> str:
    try:
        done = _apart(_TRIAL, text, triple, cpu, features, name)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"it could not be tried out, which takes a Python process of its own ({error})"
    return "" if done.returncode == 0 else _said(done.stderr)


def _apart(program: str, text: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program that LLVM may end, with a module's text."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, input=text.encode(), capture_output=True, timeout=_SECONDS, check=False)


def _said(stderr: bytes) -> str:
    """What LLVM said last, in one line."""
    said = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    found = next((line for line in said if "error:" in line.lower()), said[0] if said else "LLVM ended the process")
    if "Assertion" in found:
        return "LLVM does not take these operands for it"
    found = re.sub(r"^(<[^>]*>:\d+:\d+: )?(LLVM ERROR|error): ", "", found)
    again = " (the compiler may copy the assembly; names of its own end in ${:uid})"
    return found + (again if "already defined" in found else "")


# ---- kernels with assembly ---------------------------------------------------------------------


def has_assembly(text: str) -> bool:
    """Whether a module's text has inline assembly in it."""
    return ' asm "' in text or ' asm sideeffect "' in text


def object_apart(profile: LLVMProfile, level: int, text: str) -> bytes:
    """The object of an optimised module, made by a process that LLVM may end.

    Raises
    ------
    CompileError
        With what LLVM said.
    """
    try:
        done = _apart(_OBJECT, text, profile.triple, profile.cpu, profile.features, str(level))
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"a kernel with assembly takes a Python process of its own to compile ({error})") from None
    if done.returncode:
        raise CompileError(
            f"sterna.inline_asm: {_said(done.stderr)}",
            hint="alone it compiles; give it fewer registers, or less to stand beside",
        )
    return done.stdout
