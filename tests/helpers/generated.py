"""Random kernels as source text, with inputs: what differential tests feed to two places.

`straight_kernels` covers arithmetic, control flow, views, tuples, structs, calls and captures, one thread per
element; `view_kernels` covers arrays of two axes in every layout, slices, records and loops over rows;
`block_kernels` covers shared memory, barriers, warp operations and early leavers;
`atomic_kernels` covers atomic operations whose result does not depend on the order of threads.

Each has a *narrow* form, for devices without float64 and without atomic operations of 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from helpers.compare import assert_same
from helpers.expressions import Draw, Expr, Expressions, Scope
from helpers.launching import Place
from helpers.modules import write_module
from helpers.values import COMPLEX, INTEGERS, edges

__all__ = ["Program", "agree", "atomic_kernels", "block_kernels", "straight_kernels", "view_kernels"]

_LAYOUTS = ("C", "F", "strided", "reversed")
_HEAD = "import math\nfrom typing import NamedTuple\n\nimport numpy as np\n\nimport sterna\n"
_N = 12
_EXCHANGE = """

def exchange(tile, t, value, shift, active):
    tile[t] = value
    sterna.syncthreads()
    other = tile[(t + shift) % active]
    sterna.syncthreads()
    if other > value:
        return other
    return value
"""


@dataclass
class Program:
    """A module with a kernel ``k``, its arguments, and how to launch it.

    Attributes
    ----------
    source : str
        Text of the module.
    arguments : list
        Launch arguments; arrays in `outputs` are what to compare afterwards.
    outputs : list of int
        Positions of the output arrays.
    launch : tuple
        ``("over", n)`` or ``("grid", blocks, threads)``.
    layouts : dict
        Position of an array argument → its layout in memory, if not C.
    """

    source: str
    arguments: list[Any]
    outputs: list[int]
    launch: tuple[Any, ...]
    layouts: dict[int, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = [a.tolist() if isinstance(a, np.ndarray) else a for a in self.arguments]
        return f"Program(launch={self.launch}, layouts={self.layouts}, arguments={shown}, source=\n{self.source})"

    def run(self, place: Place, folder: Path) -> list[np.ndarray]:
        """Results of the kernel at one place, from fresh copies of the arguments."""
        kernel = write_module(folder, self.source).k
        arguments = [
            _laid_out(a.copy(), self.layouts.get(k, "C")) if isinstance(a, np.ndarray) else a
            for k, a in enumerate(self.arguments)
        ]
        if self.launch[0] == "over":
            place.over(kernel, self.launch[1], *arguments)
        else:
            place.launch(kernel, *self.launch[1:], *arguments)
        return [arguments[k] for k in self.outputs]


def agree(program: Program, one: Place, other: Place, folder: Path) -> None:
    """Raise unless two places give the same results: exactly, NaN equal to NaN.

    Signed zeros count; which NaN it is does not.
    """
    for k, (a, b) in enumerate(zip(program.run(one, folder), program.run(other, folder), strict=True)):
        assert_same(a, b, label=f"output {k}, {one.name} against {other.name}")


def _values(draw: Draw, dtype: str, n: int) -> np.ndarray:
    """Edge values and ordinary ones."""
    pool = edges(dtype)
    picks = draw(st.lists(st.integers(0, pool.size - 1), min_size=n, max_size=n))
    return pool[picks].copy()


def _laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    """The same values in another layout of memory."""
    if layout == "F":
        return np.asfortranarray(array)
    if layout == "strided":
        wide = np.zeros([2 * n for n in array.shape], array.dtype)
        wide[tuple(slice(None, None, 2) for _ in array.shape)] = array
        return wide[tuple(slice(None, None, 2) for _ in array.shape)]
    if layout == "reversed":
        return np.ascontiguousarray(array[::-1])[::-1]
    return array


@dataclass
class _Body:
    """Statements of a kernel under construction."""

    make: Expressions
    scope: Scope
    lines: list[str] = field(default_factory=list)
    counter: int = 0

    def fresh(self) -> str:
        self.counter += 1
        return f"v{self.counter}"

    def add(self, line: str, indent: int) -> None:
        self.lines.append("    " * indent + line)

    def variable(self, wanted: str, indent: int) -> Expr:
        """A new variable of a strong type."""
        name = self.fresh()
        self.add(f"{name} = {self.make.strong(wanted, self.scope, 3).text}", indent)
        made = Expr(name, wanted)
        self.scope.names.append(made)
        return made

    def statements(self, count: int, indent: int, depth: int, mutable: list[Expr], in_loop: bool = False) -> None:
        """Some statements that change `mutable` variables."""
        for _ in range(count):
            kind = self.make.choose("assign", "augment", "if", "for", "while", "leave")
            if depth == 0 or (kind == "leave" and not in_loop):
                kind = "assign"
            target = self.make.choose(*mutable)
            if kind == "assign":
                self.add(f"{target.text} = {self.make.strong(target.type, self.scope, 3).text}", indent)
            elif kind == "augment":
                op = self.make.choose("+=", "-=", "*=")
                self.add(f"{target.text} {op} {self.make.strong(target.type, self.scope, 2).text}", indent)
            elif kind == "if":
                self._if(indent, depth, mutable, in_loop)
            elif kind == "leave":
                self.add(f"if {self.make.condition(self.scope, 1)}:", indent)
                self.add(self.make.choose("break", "continue"), indent + 1)
            else:
                self._loop(kind, indent, depth, mutable)

    def _if(self, indent: int, depth: int, mutable: list[Expr], in_loop: bool) -> None:
        self.add(f"if {self.make.condition(self.scope, 2)}:", indent)
        self.statements(self.make.integer(1, 2), indent + 1, depth - 1, mutable, in_loop)
        if self.make.integer(0, 1):
            self.add(f"elif {self.make.condition(self.scope, 1)}:", indent)
            self.statements(1, indent + 1, depth - 1, mutable, in_loop)
        if self.make.integer(0, 1):
            self.add("else:", indent)
            self.statements(1, indent + 1, depth - 1, mutable, in_loop)

    def _loop(self, kind: str, indent: int, depth: int, mutable: list[Expr]) -> None:
        name = self.fresh()
        turns = self.make.integer(0, 5)
        if kind == "for":
            step = self.make.choose(1, 2, -1)
            bounds = f"{turns}, -1, -1" if step < 0 else f"0, {turns}, {step}"
            self.add(f"for {name} in range({bounds}):", indent)
        else:
            self.add(f"{name} = 0", indent)
            self.add(f"while {name} < {turns}:", indent)
            self.add(f"{name} += 1", indent + 1)
        self.scope.names.append(Expr(name, "int", 0, 6))
        self.statements(self.make.integer(1, 2), indent + 1, depth - 1, mutable, in_loop=True)
        self.scope.names.pop()


def _captures(make: Expressions, scope: Scope) -> str:
    """Module-level names a kernel reads: constants and a table."""
    dtype = make.choose(*make.numeric)
    value, real = make.integer(0, 50), make.choose(0.25, 1.75, 1e6)
    table = ", ".join(str(make.integer(0, 100)) for _ in range(5))
    scope.names += [
        Expr("WHOLE", "int", value, value), Expr("REAL", "float"), Expr("SCALAR", dtype), Expr("TABLE[i % 5]", dtype),
        Expr("TABLE[-1]", dtype),
    ]  # fmt: skip
    return (
        f"\nWHOLE = {value}\nREAL = {real!r}\nSCALAR = np.{dtype}({make.integer(0, 100)})\n"
        f"TABLE = np.array([{table}], np.{dtype})\n"
    )


def _function(make: Expressions, scope: Scope) -> str:
    """A device function of two strong arguments; puts calls of it in scope."""
    a, b, result = (make.choose(*make.numeric) for _ in range(3))
    inner = Scope([Expr("x", a), Expr("y", b), Expr("x", a)])
    test, then = make.condition(inner, 1), make.strong(result, inner, 2).text
    otherwise = make.strong(result, inner, 2).text
    text = f"\n\ndef helper(x, y):\n    if {test}:\n        return {then}\n    return {otherwise}\n"
    first, second = make.strong(a, scope, 1).text, make.strong(b, scope, 1).text
    scope.names.append(Expr(f"helper({first}, {second})", result))
    return text


def _kernel(parameters: str, lines: list[str]) -> str:
    return f"\n\n@sterna.kernel\ndef k({parameters}):\n" + "\n".join(lines) + "\n"


@st.composite
def straight_kernels(draw: Draw, narrow: bool = False) -> Program:
    """One thread per element: arithmetic, control flow, views, tuples, structs, calls, captures."""
    make = Expressions(draw, narrow)
    dtypes = [make.choose(*make.real, *make.complex) for _ in range(make.integer(1, 3))]
    whole, real = make.integer(0, 20), make.choose(0.5, -2.0, 1e3)
    scope = Scope([Expr("i", "int", 0, _N - 1), Expr("n", "int", whole, whole), Expr("f", "float")])
    for k, dtype in enumerate(dtypes):
        index = make.choose("i", "-1 - i", f"(i * 5 + 3) % {_N}")
        scope.names.append(Expr(f"a{k}[{index}]", dtype))
        if dtype in COMPLEX:
            part = make.choose("real", "imag")
            scope.names.append(Expr(f"a{k}[{index}].{part}", "float32" if dtype == "complex64" else "float64"))
    captures = _captures(make, scope)
    function = _function(make, scope)
    body = _Body(make, scope)
    body.add("i = sterna.grid(1)", 1)
    start, step = make.integer(-_N - 2, _N + 2), make.choose(1, 2, 3, -1, -2)
    body.add(f"view = a0[{start}::{step}]", 1)
    mutable = [body.variable(make.choose(*make.numeric), 1) for _ in range(make.integer(1, 3))]
    body.add("if view.shape[0] > 0:", 1)
    target = body.fresh()
    body.add(f"{target} = view[i % view.shape[0]]", 2)
    body.add("else:", 1)
    body.add(f"{target} = np.{'bool_' if dtypes[0] == 'bool' else dtypes[0]}(1)", 2)
    scope.names.append(Expr(target, dtypes[0]))
    first, second = make.choose(*mutable), make.choose(*mutable)
    body.add(f"pair = ({first.text}, Two({second.text}, {first.text}))", 1)
    scope.names += [Expr("pair[0]", first.type), Expr("pair[1].low", second.type), Expr("pair[1][1]", first.type)]
    body.statements(make.integer(1, 4), 1, 2, mutable)
    mutable_complex = [dtype for dtype in dtypes if dtype in COMPLEX][:1]
    mutable += [body.variable(dtype, 1) for dtype in mutable_complex]
    results = [*mutable, make.strong("bool", scope, 2), make.strong(make.choose(*make.numeric), scope, 3)]
    for k, result in enumerate(results):
        body.add(f"o{k}[i] = {result.text}", 1)
    inputs = [f"a{k}" for k in range(len(dtypes))]
    outputs = [f"o{k}" for k in range(len(results))]
    signature = ", ".join([*inputs, "n", "f", *outputs])
    struct = "\n\nclass Two(NamedTuple):\n    low: float\n    high: float\n"
    source = f"{_HEAD}{captures}{struct}{function}" + _kernel(signature, body.lines)
    arguments = [*(_values(draw, dtype, _N) for dtype in dtypes), whole, real]
    arguments += [np.zeros(_N, result.type) for result in results]
    first_output = len(dtypes) + 2
    layouts = {k: make.choose(*_LAYOUTS) for k in range(len(dtypes))}
    return Program(source, arguments, list(range(first_output, len(arguments))), ("over", _N), layouts)


def _slice(make: Expressions, extent: int) -> str:
    """One axis of an index that keeps the axis."""
    bounds = [make.choose("", str(make.integer(-extent - 2, extent + 2))) for _ in range(2)]
    return f"{bounds[0]}:{bounds[1]}:{make.choose('', '1', '2', '-1', '-2', '3')}"


def _loop_over(body: _Body, view: str, dtype: str, mutable: list[Expr]) -> None:
    """A loop over a 1-D view, by its items or by indices from either end."""
    make, scope = body.make, body.scope
    item, index = body.fresh(), body.fresh()
    form = make.choose("items", "enumerate", "forward", "backward")
    if form == "items":
        body.add(f"for {item} in {view}:", 1)
    elif form == "enumerate":
        body.add(f"for {index}, {item} in enumerate({view}):", 1)
    else:
        body.add(f"for {index} in range({view}.shape[0]):", 1)
        body.add(f"{item} = {view}[{index if form == 'forward' else f'-1 - {index}'}]", 2)
    scope.names.append(Expr(item, dtype))
    if form != "items":
        scope.names.append(Expr(index, "int", 0, 8))
    body.statements(make.integer(1, 2), 2, 1, mutable, in_loop=True)
    del scope.names[-1 if form == "items" else -2 :]


@st.composite
def view_kernels(draw: Draw, narrow: bool = False) -> Program:
    """Arrays of two axes in any layout, views of views, records read and written through views."""
    make = Expressions(draw, narrow)
    dtype, x, y = (make.choose(*make.numeric) for _ in range(3))
    rows, columns, count = make.integer(1, 4), make.integer(1, 5), make.integer(1, 6)
    scope = Scope([Expr("i", "int", 0, _N - 1)])
    body = _Body(make, scope)
    body.add("i = sterna.grid(1)", 1)
    scope.names += [
        Expr(f"m[i % {rows}, -1 - i % {columns}]", dtype), Expr(f"m.T[(i * 3) % {columns}, -1]", dtype),
        Expr(f"p[i % {count}].x", x), Expr(f"p[-1 - i % {count}]['y']", y), Expr(f"p['x'][i % {count}]", x),
    ]  # fmt: skip
    mutable = [body.variable(make.choose(dtype, x, y, *make.numeric), 1) for _ in range(make.integer(1, 2))]
    row, part = body.fresh(), body.fresh()
    choice = make.choose(
        f"m[i % {rows}]", f"m[:, i % {columns}]", f"m.T[i % {columns}]", f"m[::-1, 0][{_slice(make, 4)}]"
    )
    body.add(f"{row} = {choice}", 1)
    _loop_over(body, row, dtype, mutable)
    body.add(f"{part} = m[{_slice(make, rows)}, {_slice(make, columns)}]", 1)
    body.add(f"s[i, 0] = {part}.shape[0] * 100 + {part}.shape[1]", 1)
    body.add(f"if {part}.size > 0:", 1)
    body.add(f"{mutable[0].text} = {make.strong(mutable[0].type, scope, 1).text}", 2)
    body.add(f"s[i, 1] = {part}[-1, 0] != {part}[0, {part}.shape[1] - 1]", 2)
    body.add(f"if i < {count}:", 1)
    reference = body.fresh()
    body.add(f"{reference} = q[{make.choose('i', '-1 - i', f'({count} - 1) - i')}]", 2)
    body.add(f"{reference}.x = {make.strong(x, scope, 2).text}", 2)
    body.add(f"{reference}['y'] {make.choose('=', '+=', '-=')} {make.strong(y, scope, 2).text}", 2)
    for k, variable in enumerate(mutable):
        body.add(f"o{k}[i] = {variable.text}", 1)
    outputs = [f"o{k}" for k in range(len(mutable))]
    source = _HEAD + _kernel(", ".join(["m", "p", "q", "s", *outputs]), body.lines)
    record = np.dtype([("pad", np.int8), ("x", x), ("y", y)], align=draw(st.booleans()))
    p, q = np.zeros(count, record), np.zeros(count, record)
    p["x"], p["y"], q["y"] = _values(draw, x, count), _values(draw, y, count), _values(draw, y, count)
    m = _values(draw, dtype, rows * columns).reshape(rows, columns)
    arguments = [m, p, q, np.zeros((_N, 2), np.int64), *(np.zeros(_N, v.type) for v in mutable)]
    layouts = {0: make.choose(*_LAYOUTS), 1: make.choose("C", "strided", "reversed"), 2: make.choose("C", "strided")}
    return Program(source, arguments, list(range(2, len(arguments))), ("over", _N), layouts)


@st.composite
def block_kernels(draw: Draw, narrow: bool = False) -> Program:
    """Blocks of threads that exchange values through shared memory and warp operations."""
    make = Expressions(draw, narrow)
    threads = make.choose(8, 32, 40, 64)
    leavers = make.choose(0, 0, 3, threads // 2)
    dtype = make.choose(*INTEGERS[2:4], *INTEGERS[6:], "float32", *(() if narrow else ("float64",)))
    scope = Scope([Expr("t", "int", 0, threads - 1), Expr("x[i]", dtype), Expr("v", dtype)])
    body = _Body(make, scope)
    body.add(f"tile = sterna.shared.array({threads}, np.{dtype})", 1)
    for line in ("t = sterna.threadIdx.x", "i = sterna.grid(1)", "v = x[i]", "tile[t] = v", "sterna.syncthreads()"):
        body.add(line, 1)
    if leavers:
        body.add(f"if t >= {threads - leavers}:", 1)
        body.add("o[i] = x[i]", 2)
        body.add("return", 2)
    _phases(body, dtype, threads - leavers, make.integer(1, 3), 1)
    if make.integer(0, 1):
        body.add(f"for r in range({make.integer(1, 3)}):", 1)
        scope.names.append(Expr("r", "int", 0, 2))
        _phases(body, dtype, threads - leavers, make.integer(1, 2), 2)
        scope.names.pop()
    if make.integer(0, 1):
        body.add("if flag:", 1)
        _phases(body, dtype, threads - leavers, 1, 2)
    body.add("o[i] = v", 1)
    source = _HEAD + _EXCHANGE + _kernel("x, flag, o", body.lines)
    x = _values(draw, dtype, 2 * threads)
    return Program(source, [x, draw(st.booleans()), np.zeros(2 * threads, dtype)], [2], ("grid", 2, threads))


def _phases(body: _Body, dtype: str, active: int, count: int, indent: int) -> None:
    """Steps between barriers: write own place, wait, read another's; or exchange in the warp."""
    make, scope = body.make, body.scope
    for _ in range(count):
        kind = make.choose("tile", "shuffle", "vote", "count", "compute", "masked", "leave", "call")
        if kind == "tile":
            shift = make.integer(0, active - 1)
            body.add(f"tile[t] = {make.strong(dtype, scope, 2).text}", indent)
            body.add("sterna.syncthreads()", indent)
            body.add(f"v = {make.choose('v + ', 'v - ', '')}tile[(t + {shift}) % {active}]", indent)
            body.add("sterna.syncthreads()", indent)
        elif kind == "shuffle":
            name = make.choose("shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync")
            argument = make.integer(0, 31)
            value = make.strong(dtype, scope, 1).text
            body.add(f"v = v + sterna.{name}(0xFFFFFFFF, {value}, {argument})", indent)
        elif kind == "masked":
            body.add(f"p = {make.condition(scope, 1, strong=True)}", indent)
            body.add("mask = sterna.ballot_sync(0xFFFFFFFF, p)", indent)
            body.add("if p:", indent)
            name = make.choose("shfl_sync", "shfl_down_sync", "shfl_xor_sync")
            exchange = f"sterna.{name}({make.choose('mask', 'sterna.activemask()')}, v, {make.integer(0, 31)})"
            if dtype in INTEGERS and make.integer(0, 1):
                exchange = f"sterna.reduce_{make.choose('add', 'min', 'max', 'xor')}_sync(mask, v)"
            body.add(f"v = {exchange}", indent + 1)
        elif kind == "call":
            call = f"exchange(tile, t, {make.strong(dtype, scope, 1).text}, {make.integer(0, active - 1)}, {active})"
            body.add(f"v = {make.choose(call, f'v + {call}', f'{call} - v')}", indent)
        elif kind == "leave":
            body.add(f"if (t + {make.integer(0, 9)}) % 7 == 0 and {make.condition(scope, 1)}:", indent)
            body.add("o[i] = v", indent + 1)
            body.add("return", indent + 1)
        elif kind == "vote":
            test = make.condition(scope, 1, strong=True)
            body.add(f"if sterna.{make.choose('any_sync', 'all_sync', 'eq_sync')}(0xFFFFFFFF, {test}):", indent)
            body.add(f"v = {make.strong(dtype, scope, 2).text}", indent + 1)
        elif kind == "count":
            test = make.condition(scope, 1, strong=True)
            body.add(f"c = sterna.syncthreads_count({test})", indent)
            body.add(f"v = v + np.{dtype}(1) if c > {active // 2} else v", indent)
        else:
            body.add(f"if {make.condition(scope, 1)}:", indent)
            body.add(f"v = {make.strong(dtype, scope, 2).text}", indent + 1)


@st.composite
def atomic_kernels(draw: Draw, narrow: bool = False) -> Program:
    """Atomic operations of many threads on few places; the order of threads does not show."""
    make = Expressions(draw, narrow)
    dtype = make.choose("int32", "uint32", *(() if narrow else ("int64", "uint64")))
    places = make.integer(1, 5)
    op = make.choose("add", "sub", "max", "min", "and_", "or_", "xor")
    scope = Scope([Expr("i", "int", 0, 199), Expr("x[i]", dtype)])
    where = make.choose(f"i % {places}", f"-1 - i % {places}", f"(i * 7) % {places}")
    lines = ["i = sterna.grid(1)", f"if {make.condition(scope, 1)}:"]
    lines.append(f"    sterna.atomic.{op}(o, {where}, {make.strong(dtype, scope, 2).text})")
    source = _HEAD + _kernel("x, o", ["    " + line for line in lines])
    pool = _values(draw, dtype, 10)
    return Program(source, [np.resize(pool, 200), _values(draw, dtype, places)], [1], ("over", 200))
