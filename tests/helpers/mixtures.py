"""Random expressions of anything: any operator on any operands, most of which some rule of Python forbids or bends.

A compiler may refuse them, but not give another result, or fail where Python does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from helpers.expressions import Draw

__all__ = ["ARRAYS", "mixtures", "source"]

ARRAYS: dict[str, np.ndarray] = {
    "i8": np.array([-128, 3], np.int8), "u8": np.array([255, 2], np.uint8), "i16": np.array([-7, 0], np.int16),
    "u16": np.array([65535, 1], np.uint16), "i32": np.array([2**31 - 1, -3], np.int32),
    "u32": np.array([2**32 - 1, 0], np.uint32), "i64": np.array([-(2**62), 5], np.int64),
    "u64": np.array([2**62, 1], np.uint64), "h": np.array([0.1, -2.5], np.float16),
    "f": np.array([np.nan, 1.5], np.float32), "d": np.array([-0.0, 3.25]), "b": np.array([True, False]),
}  # fmt: skip
_BINARY = ("+", "-", "*", "//", "%", "/", "&", "|", "^", "<<", ">>", "<", "<=", "==", "!=", ">", "**")
_CALLS = (
    "abs", "int", "float", "bool", "round", "np.sign", "np.square", "np.isfinite", "math.floor", "math.sqrt",
    "np.float32", "np.uint64", "np.int8", "np.sqrt", "np.negative", "sterna.popc",
)  # fmt: skip
_LEAVES = (*(f"{name}[{k}]" for name in ARRAYS for k in (0, 1)), "n", "m", "r", "2", "0", "0.5", "True", "-1", "7")


def _expression(draw: Draw, depth: int) -> str:
    if depth == 0:
        return draw(st.sampled_from(_LEAVES))
    kind = draw(st.sampled_from(("binary", "binary", "binary", "unary", "call")))
    inner = _expression(draw, depth - 1)
    if kind == "binary":
        return f"({inner} {draw(st.sampled_from(_BINARY))} {_expression(draw, draw(st.integers(0, depth - 1)))})"
    if kind == "unary":
        return f"({draw(st.sampled_from(('-', '~', '+', 'not ')))}{inner})"
    return f"{draw(st.sampled_from(_CALLS))}({inner})"


@st.composite
def mixtures(draw: Draw) -> tuple[str, dict[str, Any]]:
    """An expression, and the Python numbers ``n``, ``m`` and ``r`` that it may read."""
    text = _expression(draw, draw(st.integers(1, 3)))
    choices = {"n": (5, 0, -3, 100), "m": (2, -1), "r": (0.5, -2.0)}
    return text, {name: draw(st.sampled_from(values)) for name, values in choices.items()}


def source(text: str) -> str:
    """A module whose kernel ``k(o, n, m, r, …arrays)`` stores the expression."""
    head = "import math\nimport numpy as np\nimport sterna\n\n\n@sterna.kernel\n"
    return f"{head}def k(o, n, m, r, {', '.join(ARRAYS)}):\n    o[0] = {text}\n"
