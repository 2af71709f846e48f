"""The toy target's processor: evaluates encoded IR for one thread, float64 and integers only."""

from __future__ import annotations

import ctypes
import operator
import struct
from typing import Any

_OPERATORS: dict[str, Any] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "eq": operator.eq, "ne": operator.ne,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "is": operator.eq,
    "is not": operator.ne,
}  # fmt: skip


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
        for name, text in zip(module.tree["params"], _types(module), strict=True):
            count = 1 + int(text.rsplit(", ", 2)[1]) if text.startswith("array(") else 2 if text == "object" else 1
            taken, values = values[:count], values[count:]
            self.locals[name] = tuple(taken) if count > 1 else taken[0]

    def run(self) -> None:
        """Run the kernel's body."""
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

    def do_Store(self, node: dict[str, Any]) -> None:
        value = self.value(node["value"])
        self._element(node).value = value

    def do_Raise(self, node: dict[str, Any]) -> None:
        details = [self.value(detail) for detail in node["details"]]
        raise Leave(node["error"], tuple([*details, 0, 0, 0][:3]))  # type: ignore[arg-type]

    # ---- expressions -----------------------------------------------------------------------------

    def get_Const(self, node: dict[str, Any]) -> Any:
        return node["value"]

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
        return (float if node["type"].startswith("float") else int)(self.value(node["operand"]))

    def get_Intrinsic(self, node: dict[str, Any]) -> Any:
        if node["name"] != "grid_index.0":
            raise NotImplementedError(node["name"])
        return self.index

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
        return self._element(node).value

    def _element(self, node: dict[str, Any]) -> ctypes.c_double:
        """One element of a one-dimensional float64 array, checked."""
        address, extent = self.value(node["array"])
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
