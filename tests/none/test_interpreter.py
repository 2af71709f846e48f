"""The interpreter beyond what kernels compute: frames, notes, deadlocks, debugging, host state left alone."""

from __future__ import annotations

import io
import math
import pdb
import sys
import threading
import traceback

import numpy as np
import pytest

import sterna
from sterna.interpreter.collective import Deadlock

TABLE = np.arange(3.0)


def line_of(function, offset):
    return function.__code__.co_firstlineno + offset


def waits_in_two_places(x):
    if sterna.threadIdx.x < 3:
        sterna.syncthreads()
    else:
        sterna.syncthreads()


def test_a_deadlock_names_both_lines():
    with pytest.raises(Deadlock) as caught:
        sterna.interpret(waits_in_two_places)[1, 8](np.zeros(1))
    message = str(caught.value)
    for offset, threads in ((2, "3 thread(s) of the block: 0, 1, 2"), (4, "5 thread(s) of the block: 3, 4, 5, 6, 7")):
        assert f"syncthreads() at {__file__}:{line_of(waits_in_two_places, offset)}: {threads}" in message


def lanes_that_never_come(x):
    if sterna.laneid < 4:
        x[sterna.grid(1)] = sterna.shfl_sync(0xFF, x[0], 0)
    sterna.syncthreads()


def test_a_warp_deadlock_is_reported():
    with pytest.raises(Deadlock, match=r"shfl_sync\(\) at .*: 4 thread"):
        sterna.interpret(lanes_that_never_come)[1, 8](np.zeros(8))


def wrong_mask(x):
    x[0] = sterna.shfl_sync(0x2, x[0], 0)


def test_a_mask_without_the_caller_is_refused():
    with pytest.raises(ValueError, match="lane 0 calls it with a mask"):
        sterna.interpret(wrong_mask)[1, 2](np.zeros(1))


def fails(x):
    i = sterna.grid(1)
    inner(x, i)


def inner(x, i):
    sterna.syncthreads()
    if i == 5:
        x[99] = 1


def test_an_exception_shows_the_users_frames_and_the_thread():
    with pytest.raises(IndexError) as caught:
        sterna.interpret(fails)[2, 4](np.zeros(8))
    error = caught.value
    assert error.__notes__ == ["in kernel fails, block (1, 0, 0), thread (1, 0, 0)"]
    assert (error.kernel, error.block, error.thread) == ("fails", (1, 0, 0), (1, 0, 0))
    assert error.line == line_of(inner, 3)
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert frames[-2:] == ["fails", "inner"]


def test_no_thread_is_left_behind():
    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(IndexError):
            sterna.interpret(fails)[2, 4](np.zeros(8))
    assert threading.active_count() == before


def plain(x):
    i = sterna.grid(1)
    y = x[i] * 2
    x[i] = y


def test_breakpoints_work():
    commands = io.StringIO("c\n" + "p int(i), float(y)\nc\n" * 2)
    shown = io.StringIO()
    debugger = pdb.Pdb(stdin=commands, stdout=shown, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    debugger.set_break(__file__, line_of(plain, 3))
    tracing = sys.gettrace()
    try:
        debugger.runcall(sterna.interpret(plain)[1, 2], np.array([3.0, 4.0]))
    finally:
        sys.settrace(tracing)
        debugger.clear_all_breaks()
    assert "(0, 6.0)" in shown.getvalue()
    assert "(1, 8.0)" in shown.getvalue()


def captures_math(x):
    x[0] = math.sin(x[1])
    x[2] = helper(x[1])


def helper(v):
    return math.sqrt(v) + TABLE[1]


def test_the_users_namespaces_are_left_alone():
    x = np.array([0, 2, 0], np.float32)
    sterna.interpret(captures_math)[1, 1](x)
    assert x[0] == np.sin(np.float32(2))
    assert x[2] == np.float32(np.sqrt(np.float32(2)) + 1.0)
    assert math.sin(1) == math.sin.__call__(1)
    assert helper.__globals__["math"] is math
    assert TABLE.flags.writeable


def test_wrong_arguments():
    with pytest.raises(sterna.errors.SignatureError, match="plain"):
        sterna.interpret(plain)[1, 1]()
    with pytest.raises(TypeError, match="takes a kernel or a Python function"):
        sterna.interpret(3)
    with pytest.raises(sterna.errors.LaunchError):
        sterna.interpret(plain)[1]


def outside_of_a_launch():
    return sterna.grid(1)


def test_intrinsics_raise_again_after_a_launch():
    sterna.interpret(plain)[1, 1](np.zeros(1))
    with pytest.raises(sterna.errors.DeviceOnlyError):
        outside_of_a_launch()


def order(log):
    t = sterna.threadIdx.x
    log.append(("before", t))
    sterna.syncthreads()
    log.append(("after", t))


def test_threads_take_turns_in_order():
    for _ in range(3):
        log = []
        sterna.interpret(order)[1, 5](log)
        assert log == [(word, t) for word in ("before", "after") for t in range(5)]
