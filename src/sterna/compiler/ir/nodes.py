"""Kernel IR: a typed, structured tree between Python and a target's code.

Expressions carry their type; operands of arithmetic are already converted to the operation's type
by explicit `Cast`.  Statements are structured (no gotos).  Nodes are frozen; passes build new trees
(`sterna.compiler.ir.rewrite`).  `sterna.compiler.ir.verify` states which nodes are legal at which stage:

* ``typed``: what the frontend makes: everything here except the nodes marked *lowered*;
* ``lowered``: no `HostRef` (replaced by `SlotWord`, `TableWord` or constants).

Statements carry `line`, counted from the ``def`` line, for debug information only.
Local variables are named, function-wide and mutable (`Local`, `Assign`); a parameter is a local.
"""

from __future__ import annotations

from typing import Any

from sterna.frozen import frozen
from sterna.relocation.record import Manifest, RefKind
from sterna.types import BOOL, PYINT, ArrayType, RecordRefType, Scalar, StructType, TupleType, Type

__all__ = [
    "ArrayOf", "Assign", "Atomic", "Binary", "Break", "Call", "Cast", "Compare", "Const", "Continue",
    "Element", "ErrorSite", "Expr", "ExprStatement", "Extent", "FieldRef", "ForRange", "Function",
    "GetItem", "HostRef", "If", "IfExp", "Intrinsic", "LocalArray", "Local", "MakeTuple", "Module",
    "NewAxis", "Print", "Raise", "RefWord", "Return", "SharedArray", "SiteRef", "SliceAxis", "SlotWord",
    "Stmt", "Store", "StoreField", "Stride", "TableWord", "TypeOf", "Unary", "View", "While",
]  # fmt: skip


@frozen
class SiteRef:
    """A statement of the user's source: function ordinal, statement ordinal in its normalised body, line.

    The ordinals survive comment and formatting edits; `line` (relative to the ``def`` line) is only for
    debug information and a fallback when the source is gone.
    """

    function: int
    statement: int
    line: int


# ---- expressions -------------------------------------------------------------------------------


@frozen
class Const:
    """A number, boolean or None known at compile time."""

    value: Any
    type: Type


@frozen
class Local:
    """The value of a local variable."""

    name: str
    type: Type


@frozen
class Unary:
    """``neg``, ``invert`` (integers, bools), ``not`` (bool operand)."""

    op: str
    operand: Expr
    type: Type


@frozen
class Binary:
    """Both operands of type `type`.

    `op`: ``add sub mul truediv floordiv mod pow and or xor shl shr min max``.  Integer ``floordiv`` and
    ``mod`` floor; a strong integer division by zero gives 0 (NumPy); for a weak type the frontend has
    put a ZeroDivisionError check before it.  Shifts by the width or more give 0 (or -1 for a negative left side).
    """

    op: str
    left: Expr
    right: Expr
    type: Type


@frozen
class Compare:
    """``eq ne lt le gt ge`` on operands of one type (scalars), or ``is``/``is not`` on words; gives BOOL.

    Mixed int64/uint64 operands may have different types: they compare by value.
    """

    op: str
    left: Expr
    right: Expr
    type: Type = BOOL


@frozen
class IfExp:
    """`then` if `test` (BOOL) else `orelse`, evaluating only the chosen one (also Python's and/or)."""

    test: Expr
    then: Expr
    orelse: Expr
    type: Type


@frozen
class Cast:
    """Conversion between scalars as NumPy's ``astype`` does it (float to int out of range: see codegen)."""

    operand: Expr
    type: Scalar


@frozen
class Call:
    """Call of another IR function of the module by its name; may raise if that function does."""

    function: str
    args: tuple[Expr, ...]
    type: Type


@frozen
class Intrinsic:
    """An operation of the language or a math function, by its table name (`sterna.language.names`).

    ``thread_idx.x``, ``block_idx.y``, ``block_dim.z``, ``grid_dim.x``, ``grid_index.0`` (k-th component of
    ``grid(ndim)``; ``attrs=(ndim,)``), ``grid_size.0``, ``syncthreads``, ``math.sin``… ``attrs`` holds
    compile-time parameters.
    """

    name: str
    args: tuple[Expr, ...]
    type: Type
    attrs: tuple[Any, ...] = ()


@frozen
class HostRef:
    """A host reference, symbolic (*typed* stage only).

    `type` says what the code sees: ArrayType (buffer), RecordRefType (buffer), Scalar (global), OPAQUE (object: codegen
    sees identity and class words, lowered from an OBJECT and a TYPE record), TYPE_TAG (type, symbol).
    """

    kind: RefKind
    path: str
    type: Type
    addend: int = 0
    extent: int = 0


@frozen
class SlotWord:
    """*Lowered*, ``patch``: word `index` of the writable global `slot`, as an int64; invariant in a launch."""

    slot: str
    index: int
    type: Type = PYINT


@frozen
class TableWord:
    """*Lowered*, ``table``: word `index` of the relocation table in the kernel state; invariant in a launch."""

    index: int
    type: Type = PYINT


@frozen
class RefWord:
    """*Lowered*: reinterpret words as a value: a Scalar from its bits, OPAQUE from two words, TYPE_TAG from one."""

    words: tuple[Expr, ...]
    type: Type


@frozen
class ArrayOf:
    """An array (or, with no shape, a RecordRefType) from an address word, extents and byte strides.

    `strides` is empty for layout ``C``.
    """

    address: Expr
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    type: ArrayType | RecordRefType


@frozen
class Element:
    """``array[i, j]`` with one integer (PYINT) index per axis.

    `check`: index into `Module.errors` of the IndexError to raise when out of range (details: index, axis,
    extent), or None for an unchecked access; a negative index counts from the end in either case, unless
    `nonnegative` says the frontend proved it cannot be negative.  For a structured dtype the type is
    a RecordRefType (no load).
    """

    array: Expr
    indices: tuple[Expr, ...]
    type: Type
    check: int | None
    nonnegative: bool = False


@frozen
class FieldRef:
    """Field `name` of a record reference (loads a scalar; a sub-record or sub-array is again a reference)
    or of a struct value."""

    value: Expr
    name: str
    type: Type


@frozen
class SliceAxis:
    """``start:stop:step`` on one axis, any part None; Python's clamping rules; step is a non-zero integer."""

    start: Expr | None
    stop: Expr | None
    step: Expr | None


@frozen
class NewAxis:
    """``None`` in an index: an axis of extent 1."""


@frozen
class View:
    """Basic indexing that gives an array: per axis an integer (drops the axis, checked), slice or new axis.

    `transpose` gives a permutation of axes to apply first (``a.T``: reversed), with `items` then empty.
    `reshape` likewise gives new extents of a C-ordered array.
    """

    array: Expr
    items: tuple[Expr | SliceAxis | NewAxis, ...]
    type: ArrayType
    check: int | None
    transpose: tuple[int, ...] | None = None
    field: str | None = None
    """A field of a structured array: a view on that field (``a['x']``)."""


@frozen
class Extent:
    """``array.shape[axis]`` as PYINT."""

    array: Expr
    axis: int
    type: Type = PYINT


@frozen
class Stride:
    """``array.strides[axis]`` in bytes, as PYINT."""

    array: Expr
    axis: int
    type: Type = PYINT


@frozen
class MakeTuple:
    """A tuple or struct by value (`type` is TupleType or StructType)."""

    items: tuple[Expr, ...]
    type: TupleType | StructType


@frozen
class GetItem:
    """Item `index` (constant, non-negative) of a tuple or struct value."""

    value: Expr
    index: int
    type: Type


@frozen
class TypeOf:
    """``type(x)`` of an OPAQUE value: its class word."""

    value: Expr
    type: Type


@frozen
class SharedArray:
    """``shared.array(shape, dtype)``: one per block.  `name` is unique in the module; shape static, C-ordered.

    An empty `shape` with `type.ndim == 1` is the dynamic shared memory of the launch.
    """

    name: str
    shape: tuple[int, ...]
    type: ArrayType


@frozen
class LocalArray:
    """``local.array(shape, dtype)``: one per thread, not initialised."""

    name: str
    shape: tuple[int, ...]
    type: ArrayType


@frozen
class Atomic:
    """Atomic read-modify-write on one element; gives the old value.

    `op`: ``add sub max min and or xor inc dec exch cas`` (cas: `values` = expected, new).
    """

    op: str
    array: Expr
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    type: Scalar
    check: int | None
    field: str | None = None


Expr = (
    Const | Local | Unary | Binary | Compare | IfExp | Cast | Call | Intrinsic | HostRef | SlotWord
    | TableWord | RefWord | ArrayOf | Element | FieldRef | View | Extent | Stride | MakeTuple | GetItem
    | TypeOf | SharedArray | LocalArray | Atomic
)  # fmt: skip


# ---- statements --------------------------------------------------------------------------------


@frozen
class Assign:
    """``target = value``; the local has exactly the value's type."""

    target: str
    value: Expr
    line: int = 0


@frozen
class Store:
    """``array[indices] = value`` (value has the element type)."""

    array: Expr
    indices: tuple[Expr, ...]
    value: Expr
    check: int | None
    nonnegative: bool = False
    line: int = 0


@frozen
class StoreField:
    """``record.name = value`` through a record reference."""

    record: Expr
    name: str
    value: Expr
    line: int = 0


@frozen
class ExprStatement:
    """An expression for its effect: a call, a barrier, an atomic."""

    value: Expr
    line: int = 0


@frozen
class If:
    """Structured choice; `test` is BOOL."""

    test: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()
    line: int = 0


@frozen
class While:
    """Loop; `test` is evaluated before each turn.  ``continue`` goes to the next test."""

    test: Expr
    body: tuple[Stmt, ...]
    line: int = 0


@frozen
class ForRange:
    """``for target in range(start, stop, step)``.

    Bounds are evaluated once, as int64; the body may assign `target` without effect on the count.  After the
    loop the local keeps its last value.  A zero step has been refused or checked by the frontend.
    """

    target: str
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[Stmt, ...]
    line: int = 0


@frozen
class Break:
    """Leave the innermost loop."""


@frozen
class Continue:
    """Next turn of the innermost loop."""


@frozen
class Return:
    """Leave the function; `value` is None in a kernel or a function that returns nothing."""

    value: Expr | None = None
    line: int = 0


@frozen
class Raise:
    """Record the error site `error` (index into `Module.errors`) and leave the kernel for this thread.

    `details` are up to three int64 values for the message (index, axis, extent…).
    """

    error: int
    details: tuple[Expr, ...] = ()
    line: int = 0


@frozen
class Print:
    """``print(...)``: parts are strings and scalar expressions, one line."""

    parts: tuple[str | Expr, ...]
    end: str = "\n"
    line: int = 0


Stmt = Assign | Store | StoreField | ExprStatement | If | While | ForRange | Break | Continue | Return | Raise | Print


# ---- functions and modules ---------------------------------------------------------------------


@frozen
class ErrorSite:
    """One way device code can fail, as the image stores it.

    `exception` is a built-in class name (``IndexError``) or the path of a captured class
    (``globals:MyError``); `message` may hold ``{0}`` … ``{2}`` for the recorded details.
    """

    exception: str
    message: str
    site: SiteRef


@frozen
class Function:
    """One specialised function.

    `name` is unique in the module and the same in every process (qualified name plus ordinal).  `locals` types
    all locals including parameters.  `may_raise` says a call needs a status check.  `ordinal` is the
    position in `Module.sources` of the Python function it came from.
    """

    name: str
    params: tuple[tuple[str, Type], ...]
    locals: dict[str, Type]
    returns: Type = BOOL
    body: tuple[Stmt, ...] = ()
    may_raise: bool = False
    ordinal: int = 0


@frozen
class Module:
    """A kernel with all device code it reaches; `functions[entry]` returns nothing.

    `sources` lists, by ordinal, (path of the function from the kernel, qualified name): ordinal 0 is the
    kernel with an empty path.  `places` has, by ordinal too, the file of each by its module's name and the line of
    its ``def``, for line tables.  `runtime` has what generated code calls on its own account, by name
    (`sterna.compiler.runtime_library`).
    """

    entry: str
    functions: dict[str, Function]
    errors: tuple[ErrorSite, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    manifest: Manifest | None = None
    places: tuple[tuple[str, int], ...] = ()
    runtime: tuple[tuple[str, Module], ...] = ()
