"""Which waiting threads of a block go on together, and what each is told.

Rules, in the order tried when no thread of the block can go on by itself:

1. *warp operations*: lanes at the same call with the same mask go on once every lane in the mask that
   has not returned has come;
2. ``activemask``: the lanes that stand at it are the active ones;
3. *barriers*: all threads of the block that have not returned stand at the same call.

Anything else is a deadlock on a GPU, and an error here that names the lines.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sterna.interpreter.schedule import Request, Task

__all__ = ["BARRIERS", "WARP_SIZE", "Deadlock", "resolve"]

WARP_SIZE = 32
BARRIERS = ("syncthreads", "syncthreads_and", "syncthreads_count", "syncthreads_or")


class Deadlock(RuntimeError):
    """Threads of a block wait for each other at different places."""


def resolve(waiting: Sequence[Task]) -> dict[Task, Any]:
    """Results of the threads that may go on.

    Parameters
    ----------
    waiting : sequence of Task
        All threads of the block that have not returned; each has a request.

    Raises
    ------
    Deadlock
        When no rule lets any thread go on.
    """
    results: list[tuple[Task, Any]] = []
    for lanes in _warps(waiting):
        results += _match_warp(lanes)
    if not results:
        results = _match_active(waiting)
    if not results:
        results = _match_barrier(waiting)
    if not results:
        raise Deadlock(_describe(waiting))
    return dict(results)


def _request(task: Task) -> Request:
    assert task.request is not None
    return task.request


def _warps(tasks: Sequence[Task]) -> list[dict[int, Task]]:
    warps: dict[int, dict[int, Task]] = {}
    for task in tasks:
        warps.setdefault(task.index // WARP_SIZE, {})[task.index % WARP_SIZE] = task
    return [warps[number] for number in sorted(warps)]


def _match_warp(lanes: dict[int, Task]) -> list[tuple[Task, Any]]:
    """Complete groups among the waiting lanes of one warp."""
    groups: dict[tuple[Any, ...], dict[int, Task]] = {}
    for lane, task in lanes.items():
        request = _request(task)
        if request.operation not in BARRIERS and request.operation != "activemask":
            groups.setdefault((request.operation, request.place, request.mask), {})[lane] = task
    matched: list[tuple[Task, Any]] = []
    for (name, _, mask), members in groups.items():
        needed = {lane for lane in lanes if mask >> lane & 1}
        if needed <= members.keys():
            values = {lane: _request(task).value for lane, task in members.items()}
            matched += [(task, _OPERATIONS[name](lane, values, _request(task).extra)) for lane, task in members.items()]
    return matched


def _match_active(waiting: Sequence[Task]) -> list[tuple[Task, Any]]:
    for lanes in _warps(waiting):
        asking = {lane: task for lane, task in lanes.items() if _request(task).operation == "activemask"}
        if asking:
            place = _request(asking[min(asking)]).place
            together = {lane: task for lane, task in asking.items() if _request(task).place == place}
            mask = np.uint32(sum(1 << lane for lane in together))
            return [(task, mask) for task in together.values()]
    return []


def _match_barrier(waiting: Sequence[Task]) -> list[tuple[Task, Any]]:
    requests = [_request(task) for task in waiting]
    first = requests[0]
    if first.operation not in BARRIERS or any(request.place != first.place for request in requests):
        return []
    votes = [bool(request.value) for request in requests]
    result = {
        "syncthreads": None,
        "syncthreads_count": sum(votes),
        "syncthreads_and": int(all(votes)),
        "syncthreads_or": int(any(votes)),
    }[first.operation]
    return [(task, result) for task in waiting]


def _describe(waiting: Sequence[Task]) -> str:
    places: dict[str, list[int]] = {}
    for task in waiting:
        request = _request(task)
        places.setdefault(f"{request.operation}() at {request.shown}", []).append(task.index)
    parts = []
    for place, indices in places.items():
        some = ", ".join(map(str, indices[:8])) + (", …" if len(indices) > 8 else "")
        parts.append(f"  {place}: {len(indices)} thread(s) of the block: {some}")
    return (
        "deadlock: threads of one block wait at different places, or for lanes that never come\n"
        + "\n".join(parts)
        + "\n  Try: let all threads of the block (or all lanes in the mask) reach the same call."
    )


# ---- what each warp operation gives -------------------------------------------------------------

Values = dict[int, Any]


def _shfl(source: Callable[[int, int], int]) -> Callable[[int, Values, Any], Any]:
    def give(lane: int, values: Values, extra: Any) -> Any:
        return values.get(source(lane, int(extra)), values[lane])

    return give


def _mask_of(lanes: Any) -> Any:
    return np.uint32(sum(1 << lane for lane in lanes))


def _ballot(lane: int, values: Values, extra: Any) -> Any:
    return _mask_of(k for k, value in values.items() if value)


def _any(lane: int, values: Values, extra: Any) -> Any:
    return np.bool_(any(map(bool, values.values())))


def _all(lane: int, values: Values, extra: Any) -> Any:
    return np.bool_(all(map(bool, values.values())))


def _eq(lane: int, values: Values, extra: Any) -> Any:
    return np.bool_(len(set(map(bool, values.values()))) == 1)


def _bits(value: Any) -> bytes:
    return np.asarray(value).tobytes()


def _match_any(lane: int, values: Values, extra: Any) -> Any:
    return _mask_of(k for k, value in values.items() if _bits(value) == _bits(values[lane]))


def _match_all(lane: int, values: Values, extra: Any) -> Any:
    same = len(set(map(_bits, values.values()))) == 1
    return (_mask_of(values) if same else np.uint32(0)), np.bool_(same)


def _reduce(function: Callable[[Any, Any], Any]) -> Callable[[int, Values, Any], Any]:
    def give(lane: int, values: Values, extra: Any) -> Any:
        with np.errstate(all="ignore"):
            return functools.reduce(function, (values[k] for k in sorted(values)))

    return give


def _nothing(lane: int, values: Values, extra: Any) -> None:
    return None


def _below(lane: int, delta: int) -> int:
    return lane - delta


def _above(lane: int, delta: int) -> int:
    return lane + delta


def _at(lane: int, source: int) -> int:
    return source % WARP_SIZE


_OPERATIONS: dict[str, Callable[[int, Values, Any], Any]] = {
    "syncwarp": _nothing,
    "shfl_sync": _shfl(_at), "shfl_up_sync": _shfl(_below), "shfl_down_sync": _shfl(_above),
    "shfl_xor_sync": _shfl(operator.xor),
    "ballot_sync": _ballot, "any_sync": _any, "all_sync": _all, "eq_sync": _eq,
    "match_any_sync": _match_any, "match_all_sync": _match_all,
    "reduce_add_sync": _reduce(operator.add), "reduce_min_sync": _reduce(min), "reduce_max_sync": _reduce(max),
    "reduce_and_sync": _reduce(operator.and_), "reduce_or_sync": _reduce(operator.or_),
    "reduce_xor_sync": _reduce(operator.xor),
}  # fmt: skip
