"""Launches of the interpreter: blocks in order, the threads of each by `BlockScheduler`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from itertools import product
from types import FunctionType, TracebackType
from typing import Any

import numpy as np

from sterna.errors import LaunchError, SignatureError, SourceError
from sterna.interpreter.collective import resolve
from sterna.interpreter.namespace import Translation
from sterna.interpreter.operations import Block, DeviceThread, LaunchState
from sterna.interpreter.schedule import BlockScheduler, Task
from sterna.language.context import running
from sterna.language.random import start_generator
from sterna.runtime.config import LaunchConfig, Triple, make_config, over_shape
from sterna.source.captures import scan
from sterna.targets.base import Limits

__all__ = ["Interpreted", "interpret"]

_OVER_THREADS = 64


def interpret(kernel: Any) -> Interpreted:
    """Run a kernel in plain CPython, thread by thread, for debugging and as a reference.

    Breakpoints, ``print`` and pdb work, and an exception shows the kernel's own frames with the block
    and thread in a note.  Threads run one at a time, in order; where they meet at a barrier or a warp
    operation they take turns, and threads that wait for each other in vain are reported with their lines.

    Parameters
    ----------
    kernel : kernel or function
        What ``@sterna.kernel`` made, or the plain function.

    Returns
    -------
    Interpreted
        Launched as the kernel is: ``interpret(k)[blocks, threads](...)`` or ``interpret(k).over(shape)(...)``.

    Examples
    --------
    >>> import numpy as np, sterna
    >>> @sterna.kernel
    ... def double(x):
    ...     i = sterna.grid(1)
    ...     x[i] = x[i] * 2
    >>> x = np.arange(4, dtype=np.float32)
    >>> sterna.interpret(double).over(4)(x)
    >>> x.tolist()
    [0.0, 2.0, 4.0, 6.0]
    """
    function = getattr(kernel, "__sterna_kernel__", kernel)
    if not isinstance(function, FunctionType):
        raise TypeError(f"interpret takes a kernel or a Python function, not {type(kernel).__name__}")
    return Interpreted(function)


class Interpreted:
    """A kernel to be run by the interpreter.

    Parameters
    ----------
    function : function
        The kernel's Python function.
    """

    def __init__(self, function: FunctionType) -> None:
        self.__wrapped__ = self.__sterna_kernel__ = function

    def __repr__(self) -> str:
        return f"sterna.interpret({self.__wrapped__.__qualname__})"

    def __getitem__(self, config: Any) -> Callable[..., None]:
        """``[blocks, threads]`` or ``[blocks, threads, stream, shared_bytes]``; the stream is ignored."""
        if not isinstance(config, tuple) or not 2 <= len(config) <= 4:
            raise LaunchError(f"{self!r}: give [blocks, threads], then stream and shared_bytes; given {config!r}")
        blocks, threads, *rest = config
        checked = make_config(Limits(), blocks, threads, rest[1] if len(rest) > 1 else 0, self.__wrapped__.__name__)

        def launch(*args: Any, **kwargs: Any) -> None:
            _run(self.__wrapped__, args, kwargs, checked)

        return launch

    def over(self, shape: Any, stream: Any = None, shared_bytes: int = 0) -> Callable[..., None]:
        """One thread for every index of `shape` (an int or up to three ints), the last axis fastest."""
        over = over_shape(shape, self.__wrapped__.__name__)
        x, y, z = (*reversed(over), 1, 1)[:3]
        threads = max(min(x, _OVER_THREADS), 1)
        config = LaunchConfig((-(-x // threads), y, z), (threads, 1, 1), over, shared_bytes)

        def launch(*args: Any, **kwargs: Any) -> None:
            _run(self.__wrapped__, args, kwargs, config)

        return launch


def _positions(extents: Triple) -> Iterator[Triple]:
    """All positions, x fastest."""
    for z, y, x in product(*(range(n) for n in reversed(extents))):
        yield x, y, z


def _run(function: FunctionType, args: Any, kwargs: Any, config: LaunchConfig) -> None:
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise SignatureError(f"kernel {function.__name__}: {error}") from None
    translation = Translation()
    body = translation.function(function)
    values = [translation.argument(value) for value in bound.args]
    keywords = {name: translation.argument(value) for name, value in bound.kwargs.items()}
    launch = LaunchState()
    for index in _positions((0, 0, 0) if config.is_empty else config.blocks):
        block = Block(index, config.threads, config.blocks, config.over or None, bytearray(config.shared_bytes), launch)
        _run_block(function.__name__, lambda: body(*values, **keywords), block)
    if launch.is_fresh and _draws(function):
        launch.take_seed()  # as every launch of such a kernel does, whether or not a thread drew
    for finish in translation.finish:
        finish()


def _draws(function: FunctionType) -> bool:
    """Whether the kernel reaches code that draws random numbers."""
    try:
        return any(capture.value is start_generator for capture in scan(function).captures)
    except SourceError:
        return False


def _run_block(name: str, body: Callable[[], Any], block: Block) -> None:
    bodies: list[Callable[[BlockScheduler, Task], None]] = []
    for thread in _positions(block.threads):
        bodies.append(_thread_body(name, body, block, thread) if _is_inside(block, thread) else _nothing)
    try:
        BlockScheduler(bodies, resolve).run()
    except BaseException as error:
        error.__traceback__ = _user_part(error.__traceback__)
        raise


def _is_inside(block: Block, thread: Triple) -> bool:
    """Whether the thread enters the body: always, or below every extent of an ``over`` launch."""
    if block.over is None:
        return True
    position = (block.threads[k] * block.index[k] + thread[k] for k in range(len(block.over)))
    return all(p < extent for p, extent in zip(position, reversed(block.over), strict=True))


def _nothing(scheduler: BlockScheduler, task: Task) -> None:
    return None


def _thread_body(
    name: str, body: Callable[[], Any], block: Block, thread: Triple
) -> Callable[[BlockScheduler, Task], None]:
    def run(scheduler: BlockScheduler, task: Task) -> None:
        with running(DeviceThread(block, thread, scheduler, task)), np.errstate(all="ignore"):
            try:
                body()
            except Exception as error:
                _annotate(error, name, block.index, thread)
                raise

    return run


def _annotate(error: Exception, name: str, block: Triple, thread: Triple) -> None:
    """Say where on the device it happened, as errors of compiled kernels do."""
    error.add_note(f"in kernel {name}, block {block}, thread {thread}")
    frames = _user_part(error.__traceback__)
    line = 0
    while frames is not None:
        line, frames = frames.tb_lineno, frames.tb_next
    for attribute, value in (("kernel", name), ("line", line), ("block", block), ("thread", thread)):
        if not hasattr(error, attribute):
            setattr(error, attribute, value)


def _user_part(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from the kernel's own first frame on."""
    found = traceback
    while found is not None and found.tb_frame.f_globals.get("__name__", "").startswith("sterna.interpreter"):
        found = found.tb_next
    return found or traceback
