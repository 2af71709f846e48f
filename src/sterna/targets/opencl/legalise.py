"""LLVM IR as LLVM's SPIR-V back end takes it.

The code generator's bare ``ptr`` is a generic pointer, which is address space 4 there, while stack slots and the
argument structure are in address space 0; addresses out of tables are global (1).  What the back end cannot select
would end the process, so it is replaced here, or refused by `check` after the optimiser, before LLVM sees it.
"""

from __future__ import annotations

import re

from sterna.errors import UnsupportedError
from sterna.targets.opencl.expand import KNOWN
from sterna.targets.opencl.mathematics import builtin

__all__ = ["check", "legalise", "unfold"]

_HELD = "@@ptr@@"
"""Stands for a pointer into address space 0 until all others are generic."""
_SLOTS = re.compile(r"(?:^  %[\w.]+ = alloca .*\n)+", re.MULTILINE)
_SLOT = re.compile(r"^  (%[\w.]+) = alloca (.*)\n", re.MULTILINE)
_BARE = re.compile(r"(?<![@%\w.$])ptr\b(?! addrspace)")
_ENTRY = re.compile(r"ptr (byval\([^\n]*?\)) align 8 %args([^\n]*)\{\nentry:\n")
_FROM_WORD = re.compile(r"^  (%[\w.]+) = inttoptr i64 (\S+) to ptr$", re.MULTILINE)
_MOVE = re.compile(r"call void @llvm\.mem(?:move|cpy)\.p0\.p0\.i64\((ptr [^,]+, ptr [^,]+, i64 [^,]+), i1 false\)")
_REMAINDER = re.compile(r"= frem[a-z ]*? (float|double) ([^,\n]+), ([^,\n]+)$", re.MULTILINE)
_MOVE_TEXT = """define internal void @sterna_move(ptr %to, ptr %from, i64 %size) nounwind "no-builtins" {
entry:
  %t = ptrtoint ptr %to to i64
  %f = ptrtoint ptr %from to i64
  %down = icmp ugt i64 %t, %f
  %last = sub i64 %size, 1
  br label %test
test:
  %n = phi i64 [ 0, %entry ], [ %next, %copy ]
  %more = icmp ult i64 %n, %size
  br i1 %more, label %copy, label %done
copy:
  %back = sub i64 %last, %n
  %k = select i1 %down, i64 %back, i64 %n
  %source = getelementptr inbounds i8, ptr %from, i64 %k
  %byte = load i8, ptr %source, align 1
  %target = getelementptr inbounds i8, ptr %to, i64 %k
  store i8 %byte, ptr %target, align 1
  %next = add i64 %n, 1
  br label %test
done:
  ret void
}
"""
"""Copies bytes from the end that is safe when the places overlap."""

_WIDTH = re.compile(r"(?<![\w.@%$\"])i(\d+)\b")
_WIDTHS = frozenset({1, 8, 16, 32, 64})
_VECTOR = re.compile(r"<(\d+) x [a-z]\w*>")
_ATOMIC_FLOAT = re.compile(r"atomicrmw (?:volatile )?(f(?:add|sub|max|min)\w*|uinc_wrap|udec_wrap|nand)\b")


def legalise(text: str) -> str:
    """The text of a module with OpenCL's address spaces and built-in functions."""
    text = _MOVE.sub(r"call void @sterna_move(\1)", text)
    if "@sterna_move(" in text:
        text = _MOVE_TEXT + text if "source_filename" not in text else _behind_layout(text, _MOVE_TEXT)
    text = _SLOTS.sub(lambda match: _slots(match[0]), text)
    text = _ENTRY.sub(rf"{_HELD} \1 align 8 %args.f\2{{\nentry:\n{_argument_cast()}", text)
    text = _FROM_WORD.sub(_from_word, text)
    text = _REMAINDER.sub(_remainder, text)
    return _declared(_BARE.sub("ptr addrspace(4)", text).replace(_HELD, "ptr"))


def _behind_layout(text: str, more: str) -> str:
    head, _, rest = text.partition("target triple")
    line, _, body = rest.partition("\n")
    return f"{head}target triple{line}\n{more}{body}"


def _argument_cast() -> str:
    return f"  %args = addrspacecast {_HELD} %args.f to ptr\n"


def _slots(text: str) -> str:
    """Stack slots first, then generic pointers to them."""
    found = _SLOT.findall(text)
    slots = "".join(f"  {name}.a = alloca {what}\n" for name, what in found)
    return slots + "".join(f"  {name} = addrspacecast {_HELD} {name}.a to ptr\n" for name, _ in found)


def _from_word(match: re.Match[str]) -> str:
    name, word = match.groups()
    return (
        f"  {name}.g = inttoptr i64 {word} to ptr addrspace(1)\n"
        f"  {name} = addrspacecast ptr addrspace(1) {name}.g to ptr"
    )


def _remainder(match: re.Match[str]) -> str:
    kind, left, right = match.groups()
    return f"= call {kind} @{builtin('fmod', kind)}({kind} {left}, {kind} {right})"


def _declared(text: str) -> str:
    """With declarations of the built-in functions that this module replaced operations by."""
    for kind in ("float", "double"):
        symbol = builtin("fmod", kind)
        if f"@{symbol}(" in text and f"declare {kind} @{symbol}(" not in text:
            text += f"declare {kind} @{symbol}({kind}, {kind}) nounwind memory(none)\n"
    return text


_CAST = r"(?:addrspacecast|ptrtoint|ptrtoaddr|inttoptr|bitcast|trunc)"
_INSIDE = r"(?:[^()]|addrspace\(\d+\))*"
_CONSTANT = re.compile(
    rf"(?P<cast>{_CAST}) \((?P<what>{_INSIDE})\)|(?P<place>getelementptr(?: [a-z]+)*) \((?P<path>{_INSIDE})\)"
    r"|(?P<op>(?:add|sub|xor)(?: [a-z]+)*) \((?P<type>i\d+) (?P<left>[^(),]+), i\d+ (?P<right>[^(),]+)\)"
)
_FUNCTION = re.compile(r"^define [^\n]*\{\n(?:[^\n]*:[^\n]*\n)?(.*?)^\}$", re.MULTILINE | re.DOTALL)


_SHARED = re.compile(r"^(@[\w.$]+) = [^\n]*?addrspace\(3\) global ", re.MULTILINE)
_SAME = (
    "define internal ptr addrspace(3) @sterna.same(ptr addrspace(3) %x, i64 %zero) noinline nounwind {\n"
    "  %same = getelementptr inbounds i8, ptr addrspace(3) %x, i64 %zero\n  ret ptr addrspace(3) %same\n}\n"
)


def unfold(text: str) -> str:
    """Constant expressions as instructions at the top of each function: the back end cannot select the former.

    Addresses of shared memory go through a function that gives them back: of constants, it counts offsets in bytes as
    offsets in elements.
    """
    shared = set(_SHARED.findall(text))
    found = _FUNCTION.sub(lambda match: _unfold_function(match, shared), text)
    return found + _SAME if shared else found


def _unfold_function(match: re.Match[str], shared: set[str]) -> str:
    body: str = match[1]
    names = [name for name in sorted(shared) if re.search(rf"{re.escape(name)}\b", body)]
    for number, name in enumerate(names):
        body = re.sub(rf"{re.escape(name)}\b", f"%shared.{number}", body)
    made: dict[str, str] = {}

    def name_of(found: re.Match[str]) -> str:
        instruction = _instruction(found)
        return made.setdefault(instruction, f"%constant.{len(made)}")

    while True:
        changed = _CONSTANT.sub(name_of, body)
        if changed == body:
            break
        body = changed
    lines = "".join(
        f"  %shared.{number} = call ptr addrspace(3) @sterna.same(ptr addrspace(3) {name}, i64 0)\n"
        for number, name in enumerate(names)
    )
    lines += "".join(f"  {name} = {instruction}\n" for instruction, name in made.items())
    start, end = match.start(1) - match.start(), match.end(1) - match.start()
    return match[0][:start] + lines + body + match[0][end:]


def _instruction(found: re.Match[str]) -> str:
    if found["cast"]:
        return f"{found['cast']} {found['what']}"
    if found["place"]:
        return f"{found['place']} {found['path']}"
    return f"{found['op']} {found['type']} {found['left']}, {found['right']}"


_ASSEMBLY = re.compile(r"call [^\n@]*\basm ")
_INTRINSIC = re.compile(r"call [^\n]*@llvm\.([\w.]+)")


def _is_known(name: str) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:count]) in KNOWN for count in range(1, len(parts) + 1))


def check(text: str) -> None:
    """Refuse what the back end cannot select, in the text of an optimised module.

    Raises
    ------
    UnsupportedError
        Naming it.
    """
    unknown = sorted({name for name in _INTRINSIC.findall(text) if not _is_known(name)})
    if unknown:
        raise UnsupportedError(f"LLVM's operation {unknown[0]} on opencl")
    if _ASSEMBLY.search(text):
        raise UnsupportedError("inline assembly on opencl")
    odd = sorted({int(width) for width in _WIDTH.findall(text)} - _WIDTHS)
    if odd:
        raise UnsupportedError(f"an integer of {odd[0]} bits on opencl", hint="try another optimisation level: opt=1")
    if _ATOMIC_FLOAT.search(text):
        raise UnsupportedError("an atomic operation that OpenCL has no instruction for")
