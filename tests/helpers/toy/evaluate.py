"""The toy target's processor: evaluates encoded IR for one thread.

Arrays in memory are of float64; numbers of other types live in locals and local arrays, as NumPy's scalars.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from typing import Any

import numpy as np

_OPERATORS: dict[str, Any] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "eq": operator.eq, "ne": operator.ne,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "is": operator.eq,
    "is not": operator.ne, "and": operator.and_, "or": operator.or_, "xor": operator.xor, "shl": operator.lshift,
    "shr": operator.rshift, "mod": operator.mod, "truediv": operator.truediv,
}  # fmt: skip
_INTRINSICS: dict[str, Any] = {
    "grid_index.0": lambda thread: thread.index,
    "state.seed": lambda thread: np.uint64(thread.module.seed),
    "math.sqrt": lambda thread, x: np.sqrt(x),
    "clz": lambda thread, x: 8 * x.itemsize - int(x).bit_length(),
    "mul_hi": lambda thread, x, y: type(x)(int(x) * int(y) >> 8 * x.itemsize),
}


def _scalar(value: Any, type_text: str) -> Any:
    """A number of a device type: NumPy's, or Python's of a weak one."""
    weak = {"float": float, "int": int, "bool": bool}.get(type_text)
    return np.asarray(value).astype(type_text)[()] if weak is None else weak(value)


class Jump(Exception):
    """``break`` or ``continue`` on its way to the innermost loop."""

    def __init__(self, is_break: bool) -> None:
        self.is_break = is_break


class Leave(Exception):
    """A thread failed: error index and details."""

    def __init__(self, error: int, details: tuple[int, int, int]) -> None:
        self.error, self.details = error, details


class Thread:
    """One thread of a launch."""

    def __init__(self, module: Any, args: bytes, index: int) -> None:
        self.module, self.index = module, index
        values = list(struct.unpack(module.layout.format, args))
        self.locals: dict[str, Any] = {}
        self.arrays: dict[str, np.ndarray] = {}
        for name, text in zip(module.tree["params"], _types(module), strict=True):
            count = 1 + int(text.rsplit(", ", 2)[1]) if text.startswith("array(") else 2 if text == "object" else 1
            taken, values = values[:count], values[count:]
            self.locals[name] = tuple(taken) if count > 1 else taken[0]

    def run(self) -> None:
        """Run the kernel's body."""
        with np.errstate(all="ignore"):
            self._block(self.module.tree["body"])

    def _block(self, statements: list[dict[str, Any]]) -> None:
        for statement in statements:
            getattr(self, f"do_{statement['node']}")(statement)

    def value(self, node: dict[str, Any]) -> Any:
        """The value of an expression."""
        return getattr(self, f"get_{node['node']}")(node)

    # ---- statements ------------------------------------------------------------------------------

    def do_Assign(self, node: dict[str, Any]) -> None:
        self.locals[node["target"]] = self.value(node["value"])

    def do_If(self, node: dict[str, Any]) -> None:
        self._block(node["then"] if self.value(node["test"]) else node["orelse"])

    def do_While(self, node: dict[str, Any]) -> None:
        while self.value(node["test"]) and self._turn(node):
            pass

    def do_ForRange(self, node: dict[str, Any]) -> None:
        for index in range(*(int(self.value(node[bound])) for bound in ("start", "stop", "step"))):
            self.locals[node["target"]] = index
            if not self._turn(node):
                break

    def _turn(self, node: dict[str, Any]) -> bool:
        """One turn of a loop; whether it goes on."""
        try:
            self._block(node["body"])
        except Jump as jump:
            return not jump.is_break
        return True

    def do_Break(self, node: dict[str, Any]) -> None:
        raise Jump(True)

    def do_Continue(self, node: dict[str, Any]) -> None:
        raise Jump(False)

    def do_Store(self, node: dict[str, Any]) -> None:
        value, array = self.value(node["value"]), self.value(node["array"])
        if isinstance(array, np.ndarray):
            array[tuple(self.value(item) for item in node["indices"])] = value
        else:
            self._element(node, array).value = value

    def do_Raise(self, node: dict[str, Any]) -> None:
        details = [self.value(detail) for detail in node["details"]]
        raise Leave(node["error"], tuple([*details, 0, 0, 0][:3]))  # type: ignore[arg-type]

    # ---- expressions -----------------------------------------------------------------------------

    def get_Const(self, node: dict[str, Any]) -> Any:
        return node["value"] if node["value"] is None else _scalar(node["value"], node["type"])

    def get_Local(self, node: dict[str, Any]) -> Any:
        return self.locals[node["name"]]

    def get_Binary(self, node: dict[str, Any]) -> Any:
        return _OPERATORS[node["op"]](self.value(node["left"]), self.value(node["right"]))

    def get_Compare(self, node: dict[str, Any]) -> Any:
        left, right = self.value(node["left"]), self.value(node["right"])
        if node["op"] in ("is", "is not"):
            left, right = left[0], right[0]
        return _OPERATORS[node["op"]](left, right)

    def get_Cast(self, node: dict[str, Any]) -> Any:
        return _scalar(self.value(node["operand"]), node["type"])

    def get_Intrinsic(self, node: dict[str, Any]) -> Any:
        if node["name"] not in _INTRINSICS:
            raise NotImplementedError(node["name"])
        return _INTRINSICS[node["name"]](self, *(self.value(arg) for arg in node["args"]))

    def get_MakeTuple(self, node: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.value(item) for item in node["items"])

    def get_GetItem(self, node: dict[str, Any]) -> Any:
        return self.value(node["value"])[node["index"]]

    def get_LocalArray(self, node: dict[str, Any]) -> np.ndarray:
        dtype = node["type"].removeprefix("array(").partition(",")[0]
        return self.arrays.setdefault(node["name"], np.zeros(node["shape"], dtype))

    def get_SlotWord(self, node: dict[str, Any]) -> int:
        return self.module.slots[node["slot"]][node["index"]]

    def get_TableWord(self, node: dict[str, Any]) -> int:
        return self.module.table[node["index"]]

    def get_RefWord(self, node: dict[str, Any]) -> Any:
        words = [self.value(word) for word in node["words"]]
        if node["type"] == "object":
            return tuple(words)
        return struct.unpack("=d", struct.pack("=Q", words[0]))[0] if node["type"] == "float64" else words[0]

    def get_ArrayOf(self, node: dict[str, Any]) -> tuple[int, ...]:
        return (self.value(node["address"]), *(self.value(extent) for extent in node["shape"]))

    def get_Element(self, node: dict[str, Any]) -> Any:
        array = self.value(node["array"])
        if isinstance(array, np.ndarray):
            return array[tuple(self.value(item) for item in node["indices"])]
        return self._element(node, array).value

    def _element(self, node: dict[str, Any], array: tuple[int, int]) -> ctypes.c_double:
        """One element of a one-dimensional float64 array, checked."""
        address, extent = array
        (index,) = (self.value(item) for item in node["indices"])
        place = index + extent if index < 0 else index
        if not 0 <= place < extent and node["check"] is not None:
            raise Leave(node["check"], (index, 0, extent))
        return ctypes.c_double.from_address(address + 8 * place)


def _types(module: Any) -> list[str]:
    """Texts of the argument types, from the image's signature."""
    parts, depth, start, text = [], 0, 0, module.image.signature
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]
