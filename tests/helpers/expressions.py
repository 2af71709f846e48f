"""Random kernel expressions with known types, as source text.

Every expression has a type: a dtype name (strong), ``int`` or ``float`` (Python's, weak), and weak ints have
bounds, so that what is generated has one meaning: NumPy's (NEP 50).  Left out on purpose is only what Python and a
device cannot agree on by design: weak integers past 64 bits, a Python int out of range for the strong type it
meets, and, where NumPy is not that of x86-64, float to integer out of range.  Only correctly rounded operations
are used, so results are compared exactly.

*Narrow* expressions are for devices without float64, which compute Python's floats in float32: nothing in them has that
type, and Python's floats are only converted.
"""

from __future__ import annotations

import itertools
import operator
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from helpers.values import COMPLEX, FLOATS, INTEGERS, REAL

__all__ = ["NUMERIC", "Draw", "Expr", "Expressions", "Scope"]

Draw = Callable[[st.SearchStrategy[Any]], Any]
NUMERIC = (*INTEGERS, *FLOATS)
_LIMIT = 2**40
_X86 = platform.machine() in ("x86_64", "AMD64")
_FLOAT_LITERALS = (0.0, 0.5, 1.0, -1.5, 3.1, 0.1, 1e-3, 1e10, -7.25)


@dataclass(frozen=True)
class Expr:
    """Source text, type, and for a weak int the range of its values."""

    text: str
    type: str
    low: int = 0
    high: int = 0


@dataclass
class Scope:
    """What an expression may mention."""

    names: list[Expr] = field(default_factory=list)

    def of_type(self, wanted: str) -> list[Expr]:
        """Names of one type."""
        return [e for e in self.names if e.type == wanted]


def _promotions() -> dict[str, list[tuple[str, str]]]:
    """Result type → pairs of strong types that give it."""
    found: dict[str, list[tuple[str, str]]] = {}
    for a, b in itertools.product(REAL, REAL):
        if a != b and a != "bool" and b != "bool":
            found.setdefault(str(np.result_type(a, b)), []).append((a, b))
    return found


_PROMOTIONS = _promotions()


class Expressions:
    """Draws expressions of a wanted type.

    Parameters
    ----------
    draw : callable
        Hypothesis' draw function.
    narrow : bool
        Without float64, complex128, and arithmetic of Python's floats.

    Attributes
    ----------
    numeric, real, complex : tuple of str
        The dtypes to choose from.
    """

    def __init__(self, draw: Draw, narrow: bool = False) -> None:
        self.draw, self.narrow = draw, narrow
        wide = ("float64", "complex128") if narrow else ()
        self.numeric, self.real, self.complex = (
            tuple(t for t in pool if t not in wide) for pool in (NUMERIC, REAL, COMPLEX)
        )

    def choose(self, *items: Any) -> Any:
        """One of `items`; shrinks towards the first."""
        return self.draw(st.sampled_from(items))

    def integer(self, low: int, high: int) -> int:
        """An int in a range."""
        return self.draw(st.integers(low, high))

    def strong(self, wanted: str, scope: Scope, depth: int) -> Expr:
        """An expression of a strong type (``bool`` included)."""
        if wanted == "bool":
            return Expr(self.condition(scope, depth, strong=True), "bool")
        known = scope.of_type(wanted)
        if wanted in COMPLEX:
            return self._complex(wanted, scope, depth)
        if depth <= 0 or (known and self.integer(0, 3) == 0):
            return self.choose(*known) if known else Expr(f"np.{wanted}({self._literal(wanted)})", wanted)
        rules = [
            self._arithmetic, self._mixed, self._with_weak, self._unary, self._select, self._extreme, self._converted,
            self._function,
        ]  # fmt: skip
        rules.append(self._bits if wanted in INTEGERS else self._rounded)
        text = self.choose(*rules)(wanted, scope, depth - 1)
        return Expr(f"({text})", wanted)

    def weak_int(self, scope: Scope, depth: int) -> Expr:
        """A Python int with known bounds."""
        known = scope.of_type("int")
        if depth <= 0 or self.integer(0, 2) == 0:
            if known and self.integer(0, 2):
                return self.choose(*known)
            value = self.integer(0, 100)
            return Expr(str(value), "int", value, value)
        if self.integer(0, 3) == 0:
            return self._whole(scope, depth - 1)
        a, b = self.weak_int(scope, depth - 1), self.weak_int(scope, depth - 1)
        op = self.choose("+", "-", "*", "//", "%", "&", "|", "^")
        if op in "//%":
            value = self.integer(1, 9)
            low, high = (a.low // value, a.high // value) if op == "//" else (0, value - 1)
            return Expr(f"({a.text} {op} {value})", "int", low, high)
        if op in "&|^":
            if min(a.low, b.low) < 0:
                op = "+"
            else:
                return Expr(f"({a.text} {op} {b.text})", "int", 0, 2 ** max(a.high, b.high).bit_length() - 1)
        combine = {"*": operator.mul, "+": operator.add, "-": operator.sub}[op]
        corners = [combine(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        if max(map(abs, corners)) > _LIMIT:
            return a
        return Expr(f"({a.text} {op} {b.text})", "int", min(corners), max(corners))

    def _whole(self, scope: Scope, depth: int) -> Expr:
        """A Python int made of something else."""
        narrow = self.choose("int8", "uint8", "int16", "uint16")
        a, b = self.weak_int(scope, depth), self.weak_int(scope, depth)
        limits, low = np.iinfo(narrow), min(a.low, b.low)
        value, high = self.integer(1, 9), max(a.high, b.high)
        reach = max(-low, high)
        return self.choose(
            Expr(f"int({self.strong(narrow, scope, depth).text})", "int", int(limits.min), int(limits.max)),
            Expr(f"{self.choose('min', 'max')}({a.text}, {b.text})", "int", low, high),
            Expr(f"abs({a.text})", "int", 0, max(abs(a.low), abs(a.high))),
            Expr(f"divmod({a.text}, {value})[0]", "int", a.low // value, a.high // value),
            Expr(f"math.gcd({a.text}, {b.text})", "int", 0, reach),
            Expr(f"int({self.condition(scope, depth)})", "int", 0, 1),
        )

    def weak_float(self, scope: Scope, depth: int) -> Expr:
        """A Python float."""
        known = scope.of_type("float")
        if depth <= 0 or self.narrow or self.integer(0, 2) == 0:
            literal = Expr(repr(self.choose(*_FLOAT_LITERALS)), "float")
            return self.choose(*known) if known and self.integer(0, 1) else literal
        a = self.weak_float(scope, depth - 1)
        if self.integer(0, 2) == 0:
            return Expr(f"({self.weak_int(scope, depth - 1).text} / {self.integer(1, 9)})", "float")
        b = self.weak_float(scope, depth - 1)
        return Expr(f"({a.text} {self.choose('+', '-', '*')} {b.text})", "float")

    def condition(self, scope: Scope, depth: int, strong: bool = False) -> str:
        """A truth value; `strong`: a NumPy bool, fit for bitwise operators and storing."""
        known = scope.of_type("bool")
        if known and self.integer(0, 3) == 0:
            return self.choose(*known).text
        if depth > 0 and self.integer(0, 2) == 0:
            a, b = self.condition(scope, depth - 1, strong), self.condition(scope, depth - 1, strong)
            joined = self.choose("&", "|", "^") if strong else self.choose("and", "or")
            return f"({a} {joined} {b})"
        if depth > 0 and not strong and self.integer(0, 4) == 0:
            kind = self.choose(*INTEGERS)  # Python finds a NaN that is the very object
            item, *others = (self.strong(kind, scope, depth - 1).text for _ in range(3))
            return f"({item} {self.choose('in', 'not in')} ({', '.join(others)}))"
        if depth > 0 and not strong and self.integer(0, 4) == 0:
            return f"(not {self.condition(scope, depth - 1)})"
        op = self.choose("<", "<=", "==", "!=", ">", ">=")
        if not strong and self.integer(0, 2) == 0:
            return f"({self.weak_int(scope, depth - 1).text} {op} {self.weak_int(scope, depth - 1).text})"
        a, b = self._comparable()
        return f"({self.strong(a, scope, depth - 1).text} {op} {self.strong(b, scope, depth - 1).text})"

    def _comparable(self) -> tuple[str, str]:
        """Two types to compare."""
        a = self.choose(*self.numeric)
        fit = [b for b in self.numeric if not self.narrow or str(np.result_type(a, b)) != "float64"]
        return a, self.choose(*fit)

    def _complex(self, wanted: str, scope: Scope, depth: int) -> Expr:
        """A complex number, by exactly rounded operations."""
        known = scope.of_type(wanted)
        if depth <= 0 or (known and self.integer(0, 2) == 0):
            literal = Expr(
                f"np.{wanted}({self.choose(*_FLOAT_LITERALS)!r} + {self.choose(*_FLOAT_LITERALS)!r}j)", wanted
            )
            return self.choose(*known) if known else literal
        a, op = self.strong(wanted, scope, depth - 1).text, self.choose("+", "-", "*")
        part = "float32" if wanted == "complex64" else "float64"
        other = self.choose(
            self.strong(wanted, scope, depth - 1), self.strong(part, scope, depth - 1), self.weak_float(scope, 1),
        )  # fmt: skip
        text = self.choose(f"{a} {op} {other.text}", f"-{a}", f"{a} if {self.condition(scope, 1)} else {a}")
        return Expr(f"({text})", wanted)

    # ---- rules: text of an expression of a strong type, with operands one level less deep ------------

    def _literal(self, wanted: str) -> str:
        if wanted in FLOATS:
            return repr(self.choose(*_FLOAT_LITERALS))
        return str(self.integer(0 if wanted.startswith("u") else -100, 100))

    def _arithmetic(self, wanted: str, scope: Scope, depth: int) -> str:
        a, b = self.strong(wanted, scope, depth), self.strong(wanted, scope, depth)
        return f"{a.text} {self.choose('+', '-', '*', '//', '%', *(['/'] if wanted in FLOATS else []))} {b.text}"

    def _mixed(self, wanted: str, scope: Scope, depth: int) -> str:
        pairs = _PROMOTIONS.get(wanted)
        if not pairs:
            return self._arithmetic(wanted, scope, depth)
        left, right = self.choose(*pairs)
        a, b = self.strong(left, scope, depth), self.strong(right, scope, depth)
        return f"{a.text} {self.choose('+', '-', '*')} {b.text}"

    def _with_weak(self, wanted: str, scope: Scope, depth: int) -> str:
        a = self.strong(wanted, scope, depth)
        if wanted in FLOATS and self.integer(0, 1):
            b = self.weak_float(scope, min(depth, 1))
        else:
            b = self.weak_int(scope, min(depth, 1))
            if not 0 <= b.low <= b.high <= 100:
                b = Expr(str(self.integer(0, 100)), "int")
        op = self.choose("+", "-", "*")
        return f"{a.text} {op} {b.text}" if self.integer(0, 1) else f"{b.text} {op} {a.text}"

    def _unary(self, wanted: str, scope: Scope, depth: int) -> str:
        a = self.strong(wanted, scope, depth).text
        if wanted in INTEGERS and self.integer(0, 1):
            return f"~{a}"
        return self.choose(f"-{a}", f"abs({a})", f"+{a}")

    def _converted(self, wanted: str, scope: Scope, depth: int) -> str:
        source = self.choose(*(self.numeric if wanted in FLOATS or _X86 else INTEGERS))
        return f"np.{wanted}({self.strong(source, scope, depth).text})"

    def _select(self, wanted: str, scope: Scope, depth: int) -> str:
        a, b = self.strong(wanted, scope, depth), self.strong(wanted, scope, depth)
        return f"{a.text} if {self.condition(scope, depth)} else {b.text}"

    def _extreme(self, wanted: str, scope: Scope, depth: int) -> str:
        a, b = self.strong(wanted, scope, depth), self.strong(wanted, scope, depth)
        return f"{self.choose('min', 'max')}({a.text}, {b.text})"

    def _function(self, wanted: str, scope: Scope, depth: int) -> str:
        """A function of NumPy's or Python's that rounds at most once."""
        a, b = self.strong(wanted, scope, depth).text, self.strong(wanted, scope, depth).text
        test = self.condition(scope, 1, strong=True)
        texts = [
            f"np.where({test}, {a}, {b})",
            f"np.fmod({a}, {b})",
            f"divmod({a}, {b})[{self.integer(0, 1)}]",
            f"np.square({a})",
        ]
        if wanted in INTEGERS:
            texts += [
                f"np.gcd({a}, {b})", f"np.{wanted}(np.bitwise_count({a}))", f"np.minimum({a}, {b})",
                f"np.maximum({a}, {b})", f"({a}) ** {self.integer(0, 5)}",
                f"np.clip({a}, {self.integer(0, 9)}, {self.integer(10, 99)})",
            ]  # fmt: skip
        else:
            texts += [
                f"np.heaviside({a}, {b})", f"np.nextafter({a}, {b})", f"math.modf({a})[1]", f"np.round({a})",
                f"math.ldexp({a}, {self.integer(-9, 9)})", f"np.frexp({a})[0]", f"math.fabs(np.spacing({a}))",
            ]  # fmt: skip
        return self.choose(*texts)

    def _bits(self, wanted: str, scope: Scope, depth: int) -> str:
        a = self.strong(wanted, scope, depth).text
        if self.integer(0, 2) == 0:
            return f"{a} {self.choose('<<', '>>')} {self.integer(0, 70)}"
        return f"{a} {self.choose('&', '|', '^', '<<', '>>')} {self.strong(wanted, scope, depth).text}"

    def _rounded(self, wanted: str, scope: Scope, depth: int) -> str:
        a = self.strong(wanted, scope, depth).text
        if self.integer(0, 2) == 0:
            sign = self.strong(wanted, scope, depth).text  # the sign of a computed NaN is nobody's promise
            return f"math.copysign({a}, min({self.choose('0.0', '-0.0', '1.5')}, {sign}))"
        return f"{self.choose('math.sqrt', 'math.fabs', 'np.floor', 'np.ceil', 'np.trunc', 'np.rint')}({a})"
