"""Intrinsics of LLVM that its SPIR-V back end cannot select, as functions of their own.

The optimiser makes some of them anew wherever it sees their pattern, so they are replaced behind it.  Which ones the
back end knows was found by trying each (`KNOWN`); any other is refused before it can end the process.
"""

from __future__ import annotations

import re

from sterna.targets.opencl.mathematics import mangled

__all__ = ["KNOWN", "expand", "settle"]

_NAMES = (
    "smax smin umax umin sadd.sat ssub.sat uadd.sat usub.sat uadd.with.overflow usub.with.overflow "
    "fshl fshr ctpop bswap ctlz cttz abs scmp ucmp sqrt fabs floor ceil trunc rint nearbyint round roundeven sin cos "
    "tan asin acos atan sinh cosh tanh exp exp2 log log2 log10 pow copysign minnum maxnum minimum maximum atan2 fma "
    "fmuladd powi is.fpclass frexp modf fptosi.sat fptoui.sat assume expect lifetime.start lifetime.end memcpy memmove "
    "memset experimental.noalias.scope.decl"
)
KNOWN = frozenset(_NAMES.split())
"""Intrinsics that the back end selects, without the types that end their names."""

_WANTED = re.compile(
    r"@llvm\.(?:(?P<arith>sadd|ssub|smul|umul)\.with\.overflow\.i(?P<bits>\d+)|bitreverse\.i(?P<reverse>\d+)"
    r"|(?P<math>exp10|minimumnum|maximumnum)\.(?P<real>f32|f64)|ldexp\.(?P<scaled>f32|f64)\.i32)(?=\()"
)
_DECLARED = re.compile(r"^declare [^\n]*@sterna\.x\.[^\n]*\n", re.MULTILINE)
_REALS = {"f32": "float", "f64": "double"}
_BUILTINS = {"exp10": "exp10", "minimumnum": "fmin", "maximumnum": "fmax"}


_ATOMIC = re.compile(
    r"^(?P<head>  [^\n]*?\b(?:atomicrmw|cmpxchg|load atomic|store atomic) [^\n]*?)"
    r"ptr (?P<space>addrspace\(\d\) )?(?P<place>%[\w.]+)(?P<rest>[^\n]*)$",
    re.MULTILINE,
)
_NEGATION = re.compile(
    r"^  (?P<name>%[\w.]+) = (?:fneg (?P<flags>(?:[a-z]+ )*)(?P<type>float|double) (?P<value>%[\w.]+)"
    r"|f(?:mul|div) (?:[a-z]+ )*(?P<type1>float|double) (?P<value1>%[\w.]+), -1\.0+(?:e\+00)?"
    r"|fsub (?:[a-z]+ )*(?P<type2>float|double) -0\.0+(?:e\+00)?, (?P<value2>%[\w.]+))(?=$|,)",
    re.MULTILINE,
)
_BARRIER = re.compile(r"call [^\n]*@_Z7barrierj\(")
_SIGNED_BOOL = re.compile(r"= sitofp i1 (%[\w.]+) to (float|double)")


def settle(text: str) -> str:
    """The text of an optimised module, with what the back end selects wrongly in a form that it selects right.

    It gives the place of an atomic operation the operation's type, and with it an address computed in bytes, whose
    offset then counts elements: such a place becomes a number and an address again.  It also takes a bool for 1 where
    -1 is meant.

    Intel's driver for processors (2026.2, also from OpenCL C) keeps a negated float across a barrier once for all
    threads of a vector, so where there are barriers a sign is changed by ``copysign``, of which it makes no negation.
    """
    count = iter(range(1 << 30))

    def place(found: re.Match[str]) -> str:
        space, number = found["space"] or "", next(count)
        return (
            f"  %place.{number} = ptrtoint ptr {space}{found['place']} to i64\n"
            f"  %at.{number} = inttoptr i64 %place.{number} to ptr {space}\n"
            f"{found['head']}ptr {space}%at.{number}{found['rest']}"
        )

    if _BARRIER.search(text):
        text = _with_signs_copied(text)
    text = _SIGNED_BOOL.sub(r"= select i1 \1, \2 -1.000000e+00, \2 0.000000e+00", text)
    return _ATOMIC.sub(place, text)


def _with_signs_copied(text: str) -> str:
    made: set[str] = set()

    def copied(found: re.Match[str]) -> str:
        kind = found["type"] or found["type1"] or found["type2"]
        value = found["value"] or found["value1"] or found["value2"]
        made.add(kind)
        negated = f"%negated.{found['name'][1:]}"
        function = f"@llvm.copysign.{'f32' if kind == 'float' else 'f64'}"
        return (
            f"  {negated} = fneg {kind} {value}\n"
            f"  {found['name']} = call {kind} {function}({kind} {value}, {kind} {negated})"
        )

    text = _NEGATION.sub(copied, text)
    for kind in sorted(made):
        name = f"@llvm.copysign.{'f32' if kind == 'float' else 'f64'}"
        if f"declare {kind} {name}(" not in text:
            text += f"declare {kind} {name}({kind}, {kind})\n"
    return text


def expand(text: str) -> str:
    """The text of an optimised module, with such intrinsics as calls of functions that follow it."""
    made: dict[str, str] = {}

    def name_of(found: re.Match[str]) -> str:
        name = f"@sterna.x.{found[0].removeprefix('@llvm.')}"
        made[name] = _definition(name, found)
        return name

    text = _WANTED.sub(name_of, text)
    return _DECLARED.sub("", text) + "".join(made.values()) if made else text


def _definition(name: str, found: re.Match[str]) -> str:
    if found["arith"]:
        return _overflow(name, found["arith"], int(found["bits"]))
    if found["reverse"]:
        return _reversed_bits(name, int(found["reverse"]))
    if found["scaled"]:
        real = _REALS[found["scaled"]]
        return _calling(name, mangled("ldexp", real, "i32"), real, (real, "i32"))
    real, builtin = _REALS[found["real"]], _BUILTINS[found["math"]]
    kinds = (real,) if builtin == "exp10" else (real, real)
    return _calling(name, mangled(builtin, *kinds), real, kinds)


def _calling(name: str, symbol: str, result: str, kinds: tuple[str, ...]) -> str:
    given = ", ".join(f"{kind} %p{n}" for n, kind in enumerate(kinds))
    return (
        f"define internal {result} {name}({given}) nounwind {{\n  %r = call {result} @{symbol}({given})\n"
        f"  ret {result} %r\n}}\ndeclare {result} @{symbol}({', '.join(kinds)}) nounwind\n"
    )


def _overflow(name: str, arith: str, bits: int) -> str:
    """The wrapped result and whether it wrapped (Warren, "Hacker's Delight", 2-13)."""
    t, pair, op = f"i{bits}", f"{{ i{bits}, i1 }}", arith[1:]
    lines, more = [f"  %r = {op} {t} %x, %y"], ""
    if op == "mul":
        kind = t if arith[0] == "s" else f"u{bits}"
        symbol = mangled("mul_hi", kind, kind)
        more = f"declare {t} @{symbol}({t}, {t}) nounwind\n"
        sign = f"  %none = ashr {t} %r, {bits - 1}" if arith[0] == "s" else f"  %none = add {t} 0, 0"
        lines += [f"  %high = call {t} @{symbol}({t} %x, {t} %y)", sign, f"  %over = icmp ne {t} %high, %none"]
    else:
        other = "%x, %y" if op == "sub" else "%y, %r"
        lines += [
            f"  %a = xor {t} %x, %r", f"  %b = xor {t} {other}", f"  %c = and {t} %a, %b",
            f"  %over = icmp slt {t} %c, 0",
        ]  # fmt: skip
    lines += [
        f"  %first = insertvalue {pair} poison, {t} %r, 0", f"  %both = insertvalue {pair} %first, i1 %over, 1",
        f"  ret {pair} %both",
    ]  # fmt: skip
    return f"define internal {pair} {name}({t} %x, {t} %y) nounwind {{\n" + "\n".join(lines) + f"\n}}\n{more}"


def _reversed_bits(name: str, bits: int) -> str:
    """Swap halves of ever smaller groups (Warren, "Hacker's Delight", 7-1)."""
    t, lines, value, step = f"i{bits}", [], "%x", bits // 2
    while step:
        mask = sum(((1 << step) - 1) << at for at in range(0, bits, 2 * step))
        lines += [
            f"  %h{step} = lshr {t} {value}, {step}", f"  %a{step} = and {t} %h{step}, {mask}",
            f"  %l{step} = and {t} {value}, {mask}", f"  %b{step} = shl {t} %l{step}, {step}",
            f"  %v{step} = or {t} %a{step}, %b{step}",
        ]  # fmt: skip
        value, step = f"%v{step}", step // 2
    return f"define internal {t} {name}({t} %x) nounwind {{\n" + "\n".join(lines) + f"\n  ret {t} {value}\n}}\n"
