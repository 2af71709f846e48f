"""Emits the expressions of one function; `statements` and `intrinsics` build on it.

Operands are texts.  What only computes stays one expression as long as it is short; whatever reads memory, may fail or
has an effect becomes a statement whose result has a name, so the order of evaluation is Python's.  Locals do not change
within an expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sterna.compiler.codegen.msl import memory
from sterna.compiler.codegen.msl.code import Code, bare, call
from sterna.compiler.codegen.msl.layout import (
    Value,
    components,
    item_slice,
    literal,
    long_literal,
    native,
    pointer_type,
    register_type,
)
from sterna.compiler.codegen.msl.scalars import binary, cast, compare, unary
from sterna.compiler.codegen.values import make_tuple, type_of
from sterna.compiler.ir import nodes as ir
from sterna.types import UINT64, ArrayType, RecordRefType, Scalar, Type, itemsize

if TYPE_CHECKING:
    from sterna.compiler.codegen.msl.module import ModuleContext

__all__ = ["FunctionEmitter"]


class FunctionEmitter:
    """State of emitting one function.

    Parameters
    ----------
    context : ModuleContext
        What functions of the module share.
    function : Function
        What is emitted.
    names : mapping of str to str
        Local → its name in the text.

    Attributes
    ----------
    code : Code
        Lines so far.
    line : int
        Of the statement being emitted, counted from the ``def``.
    takes_part : str
        Whether the thread counts at a barrier that it comes to.
    counters : dict of str to str
        Local of a loop → variable that counts its turns.
    """

    def __init__(self, context: ModuleContext, function: ir.Function, names: Mapping[str, str]) -> None:
        self.context, self.function_node, self.names = context, function, names
        self.takes_part = "true"
        self.code = Code()
        self.line = 0
        self.local_arrays: dict[str, str] = {}
        self.counters: dict[str, str] = {}

    # ---- what texts are made of --------------------------------------------------------------

    def helper(self, name: str, *args: str) -> str:
        """A call of a function of the prelude."""
        self.context.need(name)
        return call(name, *args)

    def function(self, name: str) -> str:
        """A function of Metal's library on floats, in the precision asked for."""
        return f"{'fast' if self.context.options.fastmath else 'precise'}::{name}"

    def local(self, name: str) -> Value:
        """The components of a local, as names."""
        t, text = self.function_node.locals[name], self.names[name]
        return component_names(text, t)

    def write(self, name: str, value: Value) -> None:
        """Assign a local."""
        places = self.local(name)
        kinds = components(self.function_node.locals[name])
        if len(places) > 1:  # all are read before one is written
            reads = re.compile(rf"\b(?:{'|'.join(places)})\b")
            value = tuple(
                self.code.temp(k, v) if reads.search(v) and v != p else v
                for k, v, p in zip(kinds, value, places, strict=True)
            )
        for place, part in zip(places, value, strict=True):
            if place != part:
                self.code.emit(f"{place} = {bare(part)};")

    # ---- expressions -------------------------------------------------------------------------

    def value(self, node: ir.Expr) -> Value:
        """Emit an expression."""
        return _EMIT[type(node)](self, node)

    def one(self, node: ir.Expr) -> str:
        """Emit an expression of one component; short enough to stand in another."""
        (part,) = _EMIT[type(node)](self, node)
        return self.code.short(components(node.type)[0], part)

    def atom(self, node: ir.Expr) -> str:
        """Emit an expression of one component as something that can be written twice."""
        return self.code.atom(components(node.type)[0], self.one(node))

    def parts(self, node: ir.Expr) -> memory.ArrayParts:
        """Emit an array expression and take it apart."""
        t = node.type
        assert isinstance(t, ArrayType)
        value = self.value(node)
        address = self.code.short(pointer_type(t), value[0])
        return memory.parts_of(t, (address, *(self.code.atom("long", v) for v in value[1:])))

    # ---- failures ----------------------------------------------------------------------------

    def fail(self, error: int, details: tuple[str, ...]) -> None:
        """Record a failure and leave."""
        self.context.raises = True
        places = ", ".join(map(bare, (*details, "0L", "0L", "0L")[:3]))
        self.code.emit(f"fail(f, {error}, {places});")
        self.leave()

    def leave(self) -> None:
        """The thread that has failed leaves the function."""
        raise NotImplementedError

    def left_loop(self, body: tuple[ir.Stmt, ...]) -> None:
        """Behind a loop: what a thread does that has left from inside it."""

    def finish(self, value: Value) -> None:
        """A ``return``: each kind of function has its own."""
        raise NotImplementedError


def component_names(text: str, t: Type) -> Value:
    """Names of the components of a variable of type `t`: address ``x_p``, extents ``x_n0``, strides ``x_s0``."""
    count = len(components(t))
    if isinstance(t, ArrayType):
        strides = () if t.layout == "C" else tuple(f"{text}s{k}" for k in range(t.ndim))
        return (f"{text}p", *(f"{text}n{k}" for k in range(t.ndim)), *strides)
    return (text,) if count == 1 else tuple(f"{text}{k}" for k in range(count))


# ---- one function a node -----------------------------------------------------------------------


def _const(e: FunctionEmitter, node: ir.Const) -> Value:
    t = node.type
    if not isinstance(t, Scalar):
        return tuple(long_literal(int(node.value)) for _ in components(t))
    return (literal(node.value, t),)


def _local(e: FunctionEmitter, node: ir.Local) -> Value:
    components(node.type)  # refuses what Metal does not have, where it is read
    return e.local(node.name)


def _unary(e: FunctionEmitter, node: ir.Unary) -> Value:
    assert isinstance(node.operand.type, Scalar)
    return (unary(e, node.op, node.operand.type, e.one(node.operand)),)


def _binary(e: FunctionEmitter, node: ir.Binary) -> Value:
    spine = [node]
    while isinstance(spine[-1].left, ir.Binary):
        spine.append(spine[-1].left)
    left = e.one(spine[-1].left)
    for item in reversed(spine):
        assert isinstance(item.type, Scalar)
        left = binary(e, item.op, item.type, left, e.one(item.right))
        left = e.code.short(register_type(item.type), left)
    return (left,)


def _compare(e: FunctionEmitter, node: ir.Compare) -> Value:
    left, right = node.left.type, node.right.type
    if not isinstance(left, Scalar):
        x, y = e.value(node.left), e.value(node.right)
        same = node.op in ("is", "eq")
        if not x or not y:
            return ("true" if same else "false",)
        return (f"({x[0]} {'==' if same else '!='} {y[0]})",)
    assert isinstance(right, Scalar)
    op = {"is": "eq", "is not": "ne"}.get(node.op, node.op)
    x_text, y_text = e.one(node.left), e.one(node.right)
    return (compare(e, op, left, right, x_text, y_text),)


def _if_expression(e: FunctionEmitter, node: ir.IfExp) -> Value:
    kinds, code = components(node.type), e.code
    test = e.one(node.test)
    code.depth += 1
    with code.aside() as first:
        then = e.value(node.then)
    with code.aside() as second:
        orelse = e.value(node.orelse)
    code.depth -= 1
    if not first and not second:
        test = test if len(kinds) < 2 else code.atom("bool", test)
        test = test if " ? " in test else bare(test)
        return tuple(f"({test} ? {x} : {y})" for x, y in zip(then, orelse, strict=True))
    names = tuple(code.fresh() for _ in kinds)
    for kind, name in zip(kinds, names, strict=True):
        code.emit(f"{kind} {name};" if "*" not in kind else f"{kind}{name};")
    with code.block(f"if ({bare(test)})", "} else {"):
        _settle(code, first, names, then)
    code.depth += 1
    _settle(code, second, names, orelse)
    code.depth -= 1
    code.emit("}")
    return names


def _settle(code: Code, lines: list[str], names: tuple[str, ...], value: Value) -> None:
    code.lines += lines
    for name, part in zip(names, value, strict=True):
        code.emit(f"{name} = {bare(part)};")


def _cast(e: FunctionEmitter, node: ir.Cast) -> Value:
    source = node.operand.type
    if not isinstance(source, Scalar):  # an identity word as an integer
        return (cast(e, UINT64, node.type, f"ulong({e.value(node.operand)[0]})"),)
    return (cast(e, source, node.type, e.one(node.operand)),)


def _call(e: FunctionEmitter, node: ir.Call) -> Value:
    args: list[str] = []
    for arg in node.args:
        args += map(bare, e.value(arg))
    info = e.context.infos[node.function]
    code, kinds = e.code, components(node.type)
    if info.hidden:
        args.insert(0, "f")
    if info.returns_value:
        return (code.temp(kinds[0], f"{info.symbol}({', '.join(args)})"),)
    names = tuple(code.fresh() for _ in kinds)
    for kind, name in zip(kinds, names, strict=True):
        code.emit(f"{kind} {name};" if "*" not in kind else f"{kind}{name};")
    text = f"{info.symbol}({', '.join([*args, *names])})"
    if not info.may_raise:
        code.emit(f"{text};")
        return names
    with code.block(f"if ({text})"):
        e.leave()
    return names


def _intrinsic(e: FunctionEmitter, node: ir.Intrinsic) -> Value:
    args = tuple(tuple(e.code.short(k, p) for k, p in zip(components(a.type), e.value(a), strict=True))
                 for a in node.args)  # fmt: skip
    return e.context.intrinsic(e, node, args)


def _slot_word(e: FunctionEmitter, node: ir.SlotWord) -> Value:
    """A word that the host may change (``bake`` keeps those of a Global): in the table, too."""
    return (f"f.table[{e.context.slots[node.slot] + node.index}]",)


def _table_word(e: FunctionEmitter, node: ir.TableWord) -> Value:
    return (f"f.table[{node.index}]",)


def _ref_word(e: FunctionEmitter, node: ir.RefWord) -> Value:
    words = tuple(e.one(w) for w in node.words)
    t = node.type
    if not isinstance(t, Scalar):
        return words[: len(components(t))]
    return (from_bits(e, t, f"ulong({bare(words[0])})"),)


def from_bits(e: FunctionEmitter, t: Scalar, word: str) -> str:
    """A number from its bits, an unsigned integer of 64 bits."""
    kind = register_type(t)
    if t.kind == "f" and t.bits == 64:
        return e.helper("double_to_float", word)
    if t.kind == "b":
        return f"(uchar({bare(word)}) != 0)"
    if t.kind == "c":
        return f"as_type<float2>({bare(word)})"
    if t.kind == "f":
        return f"as_type<{kind}>({call('ushort' if t.bits == 16 else 'uint', word)})"
    return call(kind, word)


def _array_of(e: FunctionEmitter, node: ir.ArrayOf) -> Value:
    kind = components(node.address.type)[0]
    address = e.one(node.address)
    if "*" not in kind:
        address = e.code.temp(pointer_type(node.type), f"({pointer_type(node.type)})({bare(address)})")
    if isinstance(node.type, RecordRefType):
        return (address,)
    return (address, *(e.one(s) for s in (*node.shape, *node.strides)))


def _element(e: FunctionEmitter, node: ir.Element) -> Value:
    place = memory.element_place(e, node, node.nonnegative)
    if isinstance(node.type, RecordRefType):
        return (place,)
    assert isinstance(node.array.type, ArrayType)
    assert isinstance(node.type, Scalar)
    return (memory.load(e, node.type, place, node.array.type.space, node.array.type.align),)


def _field_ref(e: FunctionEmitter, node: ir.FieldRef) -> Value:
    t = node.value.type
    value = e.value(node.value)
    if isinstance(t, RecordRefType):
        return memory.field_value(e, node, t, value[0])
    return value[item_slice(t, t.names.index(node.name))]  # type: ignore[union-attr,arg-type]


def _extent(e: FunctionEmitter, node: ir.Extent) -> Value:
    return (e.parts(node.array).shape[node.axis],)


def _stride(e: FunctionEmitter, node: ir.Stride) -> Value:
    return (memory.byte_strides(e.parts(node.array))[node.axis],)


def _get_item(e: FunctionEmitter, node: ir.GetItem) -> Value:
    return e.value(node.value)[item_slice(node.value.type, node.index)]  # type: ignore[arg-type]


def _shared_array(e: FunctionEmitter, node: ir.SharedArray) -> Value:
    start = e.context.shared_start(node)
    address = memory.offset("f.shared", long_literal(start))
    if not node.shape and node.type.ndim == 1:
        return (address, f"(f.dynamic / {long_literal(itemsize(node.type.dtype))})")
    return (address, *map(long_literal, node.shape))


def _local_array(e: FunctionEmitter, node: ir.LocalArray) -> Value:
    name = e.local_arrays.get(node.name)
    if name is None:
        name = f"array{len(e.local_arrays)}"
        count = 1
        for extent in node.shape:
            count *= extent
        dtype = node.type.dtype
        if isinstance(dtype, Scalar) and native(dtype).kind != "c":
            held, count = "uchar" if dtype.kind == "b" else register_type(dtype), max(count, 1)
        else:
            held, count = "float" if isinstance(dtype, Scalar) else "uchar", max(count * itemsize(dtype), 1)
            count = count // 4 if isinstance(dtype, Scalar) else count
        e.local_arrays[node.name] = name
        e.context.declare_array(e, f"alignas(16) {held} {name}[{count}];")
    return (f"((thread uchar *){name})", *map(long_literal, node.shape))


def _atomic(e: FunctionEmitter, node: ir.Atomic) -> Value:
    return e.context.atomic(e, node)


Emit = Callable[[FunctionEmitter, Any], Value]
_EMIT: dict[type, Emit] = {
    ir.Const: _const, ir.Local: _local, ir.Unary: _unary, ir.Binary: _binary, ir.Compare: _compare,
    ir.IfExp: _if_expression, ir.Cast: _cast, ir.Call: _call, ir.Intrinsic: _intrinsic, ir.SlotWord: _slot_word,
    ir.TableWord: _table_word, ir.RefWord: _ref_word, ir.ArrayOf: _array_of, ir.Element: _element,
    ir.FieldRef: _field_ref, ir.View: memory.view, ir.Extent: _extent, ir.Stride: _stride, ir.MakeTuple: make_tuple,
    ir.GetItem: _get_item, ir.TypeOf: type_of, ir.SharedArray: _shared_array, ir.LocalArray: _local_array,
    ir.Atomic: _atomic,
}  # fmt: skip
