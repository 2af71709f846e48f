"""What each operation of the language does for one interpreted device thread."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

from sterna.errors import CompileError, UnsupportedError
from sterna.interpreter.arrays import device_view, empty
from sterna.interpreter.collective import WARP_SIZE
from sterna.interpreter.mathematics import floating
from sterna.interpreter.schedule import BlockScheduler, Request, Task
from sterna.language.names import OPERATIONS
from sterna.language.random import STATE_WORDS
from sterna.runtime.config import Triple
from sterna.runtime.seeds import next_seed

__all__ = ["Block", "DeviceThread", "LaunchState"]

_OWN = ("sterna.language", "sterna.interpreter")


class LaunchState:
    """What all threads of a launch share: the seed, taken when the first of them asks for it."""

    def __init__(self) -> None:
        self._seed: int | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether no thread has asked for the seed."""
        return self._seed is None

    def take_seed(self) -> int:
        """The launch's seed (`sterna.seed`)."""
        if self._seed is None:
            self._seed = next_seed()
        return self._seed


@dataclass(slots=True)
class Block:
    """One block in flight: its place in the launch and the memory its threads share."""

    index: Triple
    threads: Triple
    grid: Triple
    over: tuple[int, ...] | None
    dynamic: bytearray
    launch: LaunchState
    shared: dict[tuple[CodeType, int], np.ndarray] = field(default_factory=dict)


class DeviceThread(Mapping[str, Callable[..., Any]]):
    """One device thread as the table of operations that its calls of the language go to.

    Parameters
    ----------
    block : Block
        Where it belongs.
    thread : tuple of int
        Its position in the block.
    scheduler : BlockScheduler
        Whom to ask when it has to wait for others.
    task : Task
        Itself, as the scheduler knows it.
    """

    __slots__ = ("block", "generator", "scheduler", "task", "thread")

    def __init__(self, block: Block, thread: Triple, scheduler: BlockScheduler, task: Task) -> None:
        self.block, self.thread, self.scheduler, self.task = block, thread, scheduler, task
        self.generator: Any = None

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return partial(_TABLE[name], self)

    def __iter__(self) -> Iterator[str]:
        return iter(_TABLE)

    def __len__(self) -> int:
        return len(_TABLE)

    @property
    def position(self) -> Triple:
        """Position in the whole grid: x, y, z."""
        size, index, thread = self.block.threads, self.block.index, self.thread
        return tuple(size[k] * index[k] + thread[k] for k in range(3))  # type: ignore[return-value]


def user_frame() -> Any:
    """The innermost frame of the user's own code."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith(_OWN) and frame.f_back is not None:
        frame = frame.f_back
    return frame


# ---- position -----------------------------------------------------------------------------------


def _component(kind: str, axis: int) -> Callable[[DeviceThread], int]:
    def read(thread: DeviceThread) -> int:
        block = thread.block
        return {
            "thread_idx": thread.thread, "block_idx": block.index, "block_dim": block.threads, "grid_dim": block.grid,
        }[kind][axis]  # fmt: skip

    return read


def _check_ndim(name: str, ndim: int, over: tuple[int, ...] | None) -> None:
    if ndim not in (1, 2, 3):
        raise CompileError(f"{name}({ndim}): the number of axes is 1, 2 or 3")
    if over is not None and ndim != len(over):
        raise CompileError(f"{name}({ndim}) in a launch over {len(over)} axes", hint=f"{name}({len(over)})")


def _grid(thread: DeviceThread, ndim: int) -> Any:
    over = thread.block.over
    _check_ndim("grid", ndim, over)
    found = thread.position[:ndim]
    if over is not None:
        found = found[::-1]
    return found[0] if ndim == 1 else found


def _gridsize(thread: DeviceThread, ndim: int) -> Any:
    over = thread.block.over
    _check_ndim("gridsize", ndim, over)
    sizes = tuple(thread.block.threads[k] * thread.block.grid[k] for k in range(ndim)) if over is None else over
    return sizes[0] if ndim == 1 else sizes


def _laneid(thread: DeviceThread) -> int:
    return thread.task.index % WARP_SIZE


def _lanemask_lt(thread: DeviceThread) -> Any:
    return np.uint32((1 << _laneid(thread)) - 1)


# ---- waiting for others -------------------------------------------------------------------------


def _wait(thread: DeviceThread, operation: str, mask: int = 0, value: Any = None, extra: Any = None) -> Any:
    frame = user_frame()
    shown = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    request = Request(operation, (frame.f_code, frame.f_lasti), shown, mask, value, extra)
    return thread.scheduler.wait(thread.task, request)


def _barrier(operation: str) -> Callable[..., Any]:
    def wait(thread: DeviceThread, predicate: Any = None) -> Any:
        return _wait(thread, operation, value=predicate)

    return wait


def _grid_sync(thread: DeviceThread) -> None:
    """Blocks are interpreted one after another, so only a grid of one block can wait for itself."""
    if thread.block.grid != (1, 1, 1):
        raise UnsupportedError("grid.sync() with more than one block cannot be interpreted")
    _wait(thread, "syncthreads")


def _warp(operation: str) -> Callable[..., Any]:
    def wait(thread: DeviceThread, mask: Any, value: Any = None, extra: Any = None) -> Any:
        lanes = int(mask) & 0xFFFFFFFF
        if not lanes >> _laneid(thread) & 1:
            raise ValueError(
                f"{operation}: lane {_laneid(thread)} calls it with a mask ({lanes:#x}) that leaves it out"
            )
        return _wait(thread, operation, lanes, value, extra)

    return wait


def _syncwarp(thread: DeviceThread, mask: Any = 0xFFFFFFFF) -> Any:
    return _warp("syncwarp")(thread, mask)


def _activemask(thread: DeviceThread) -> Any:
    return _wait(thread, "activemask")


def _nothing(thread: DeviceThread) -> None:
    return None


# ---- memory -------------------------------------------------------------------------------------


def _shared_array(thread: DeviceThread, shape: Any, dtype: Any) -> Any:
    block = thread.block
    if shape == 0 or shape == (0,):
        whole = np.dtype(dtype)
        return device_view(np.frombuffer(block.dynamic, whole, count=len(block.dynamic) // whole.itemsize))
    frame = user_frame()
    key = (frame.f_code, frame.f_lasti)
    found = block.shared.get(key)
    if found is None:
        found = block.shared[key] = empty(shape, dtype)
    return found


def _local_array(thread: DeviceThread, shape: Any, dtype: Any) -> Any:
    return empty(shape, dtype)


_ATOMIC_TYPES = ("int32", "int64", "uint32", "uint64", "float32", "float64")


def _atomic(name: str, combine: Callable[..., Any], integers_only: bool = False) -> Callable[..., Any]:
    def perform(thread: DeviceThread, array: Any, index: Any, *values: Any) -> Any:
        dtype = array.dtype
        if dtype.name not in _ATOMIC_TYPES or (integers_only and dtype.kind == "f"):
            raise TypeError(f"atomic.{name} on an array of {dtype}")
        old = array[index]
        if not isinstance(old, np.generic):
            raise TypeError(f"atomic.{name}: index {index!r} does not name one element of {array.ndim} axes")
        with np.errstate(all="ignore"):
            array[index] = combine(old, *(np.asarray(value).astype(dtype)[()] for value in values))
        return old

    return perform


def _increment(old: Any, limit: Any) -> Any:
    """Signed integers count as unsigned, as on every device."""
    return old.dtype.type(0) if _unsigned(old)[0] >= _unsigned(limit)[0] else old + old.dtype.type(1)


def _decrement(old: Any, limit: Any) -> Any:
    return limit if old == 0 or _unsigned(old)[0] > _unsigned(limit)[0] else old - old.dtype.type(1)


def _exchange(old: Any, new: Any) -> Any:
    return new


def _compare_and_swap(old: Any, expected: Any, new: Any) -> Any:
    return new if old.tobytes() == expected.tobytes() else old


# ---- bits and numbers ---------------------------------------------------------------------------


def _unsigned(x: Any) -> tuple[int, int]:
    """The bits of an integer and its width."""
    bits = np.asarray(x).dtype.itemsize * 8 if isinstance(x, np.generic) else 64
    return int(x) & ((1 << bits) - 1), bits


def _popc(thread: DeviceThread, x: Any) -> int:
    return _unsigned(x)[0].bit_count()


def _clz(thread: DeviceThread, x: Any) -> int:
    value, bits = _unsigned(x)
    return bits - value.bit_length()


def _ffs(thread: DeviceThread, x: Any) -> int:
    value, _ = _unsigned(x)
    return (value & -value).bit_length()


def _as_type_of(value: int, dtype: Any) -> Any:
    """An integer wrapped to a NumPy type, or to a 64-bit Python int for None."""
    if dtype is not None:
        return np.array(value & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(dtype)[()]
    value &= 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >> 63 else value


def _brev(thread: DeviceThread, x: Any) -> Any:
    value, bits = _unsigned(x)
    return _as_type_of(int(f"{value:0{bits}b}"[::-1], 2), x.dtype if isinstance(x, np.generic) else None)


def _mul_hi(thread: DeviceThread, a: Any, b: Any) -> Any:
    strong = [x for x in (a, b) if isinstance(x, np.generic)]
    dtype = np.result_type(*strong) if strong else None
    bits = dtype.itemsize * 8 if dtype is not None else 64
    return _as_type_of((int(a) * int(b)) >> bits, dtype)


def _fma(thread: DeviceThread, a: Any, b: Any, c: Any) -> Any:
    (x, y, z), finish = floating(a, b, c)
    with np.errstate(all="ignore"):
        rounded_twice = x * y + z
        if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
            return finish(rounded_twice)
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        if exact == 0:
            return finish(rounded_twice)
        return finish(_round_to_odd(exact)) if x.dtype != np.float64 else finish(_to_float(exact))


def _to_float(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def _round_to_odd(exact: Fraction) -> float:
    """A float64 that rounds to any narrower format as `exact` itself would."""
    near = _to_float(exact)
    if Fraction(near) == exact or np.float64(near).view(np.uint64) & np.uint64(1):
        return near
    return float(np.nextafter(near, np.inf if exact > Fraction(near) else -np.inf))


def _rsqrt(thread: DeviceThread, x: Any) -> Any:
    (value,), finish = floating(x)
    with np.errstate(all="ignore"):
        return finish(value.dtype.type(1) / np.sqrt(value))


def _cbrt(thread: DeviceThread, x: Any) -> Any:
    (value,), finish = floating(x)
    return finish(np.cbrt(value))


def _selp(thread: DeviceThread, condition: Any, a: Any, b: Any) -> Any:
    chosen = a if condition else b
    strong = [x for x in (a, b) if isinstance(x, np.generic)]
    return np.result_type(a, b).type(chosen) if strong else chosen


# ---- state --------------------------------------------------------------------------------------


def _seed(thread: DeviceThread) -> Any:
    return np.uint64(thread.block.launch.take_seed())


def _number(thread: DeviceThread) -> Any:
    block = thread.block
    sizes = tuple(block.threads[k] * block.grid[k] for k in range(3)) if block.over is None else block.over[::-1]
    number = 0
    for position, size in reversed([*zip(thread.position, sizes, strict=False)]):
        number = number * size + position
    return np.uint64(number)


def _generator(thread: DeviceThread, start: Callable[[Any], None]) -> Any:
    if thread.generator is None:
        thread.generator = empty(STATE_WORDS, np.uint32)
        start(thread.generator)
    return thread.generator


def _refuse(thread: DeviceThread, message: str, given: Any) -> Any:
    shown = f"class {given.__name__}" if isinstance(given, type) else type(given).__name__
    raise CompileError(f"{message}, given {shown}")


def _need_integer(thread: DeviceThread, message: str, value: Any) -> Any:
    if not isinstance(value, int | np.integer | np.bool_):
        _refuse(thread, message, value)


def _inbounds(thread: DeviceThread) -> Any:
    return nullcontext()


def _instruction(thread: DeviceThread, *args: Any, **kwargs: Any) -> Any:
    raise UnsupportedError(
        f"the interpreter runs no instruction of a target ({args[0] if args else ''})",
        hint="give the function that uses it a definition in Python for all devices, and this one for its target",
    )


# ---- the table ----------------------------------------------------------------------------------

_WARP = [name for name in OPERATIONS if name.endswith("_sync")]
_TABLE: dict[str, Callable[..., Any]] = {
    **{
        f"{kind}.{axis}": _component(kind, k)
        for kind in ("thread_idx", "block_idx", "block_dim", "grid_dim")
        for k, axis in enumerate("xyz")
    },
    "grid": _grid, "gridsize": _gridsize, "laneid": _laneid, "lanemask_lt": _lanemask_lt,
    "warpsize": lambda thread: WARP_SIZE,
    **{name: _barrier(name) for name in ("syncthreads", "syncthreads_and", "syncthreads_count", "syncthreads_or")},
    "grid_sync": _grid_sync,
    **dict.fromkeys(("threadfence", "threadfence_block", "threadfence_system"), _nothing),
    **{name: _warp(name) for name in _WARP},
    "syncwarp": _syncwarp, "activemask": _activemask,
    "shared.array": _shared_array, "local.array": _local_array,
    "atomic.add": _atomic("add", np.add), "atomic.sub": _atomic("sub", np.subtract),
    "atomic.max": _atomic("max", np.fmax), "atomic.min": _atomic("min", np.fmin),
    "atomic.and_": _atomic("and_", np.bitwise_and, True), "atomic.or_": _atomic("or_", np.bitwise_or, True),
    "atomic.xor": _atomic("xor", np.bitwise_xor, True), "atomic.exch": _atomic("exch", _exchange),
    "atomic.inc": _atomic("inc", _increment, True), "atomic.dec": _atomic("dec", _decrement, True),
    "atomic.cas": _atomic("cas", _compare_and_swap),
    "popc": _popc, "clz": _clz, "ffs": _ffs, "brev": _brev, "mul_hi": _mul_hi, "fma": _fma, "rsqrt": _rsqrt,
    "cbrt": _cbrt, "selp": _selp, "inbounds": _inbounds, "intrinsic": _instruction, "inline_asm": _instruction,
    "state.seed": _seed, "state.thread": _number, "state.generator": _generator, "state.refuse": _refuse,
    "state.need_integer": _need_integer,
}  # fmt: skip
