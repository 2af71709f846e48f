"""Exchange between the lanes of a warp, without memory.

A warp is `warpsize` neighbouring threads of a block in the order x, y, z.  `mask` names the lanes that take part
(bit `k`: lane `k`); all of them must make the same call.  Lanes that do not exist or have returned do not take
part.  Masks given back are uint32.
"""

from __future__ import annotations

from typing import Any

from sterna.language.context import intrinsic

__all__ = [
    "activemask", "all_sync", "any_sync", "ballot_sync", "eq_sync", "lanemask_lt", "match_all_sync", "match_any_sync",
    "reduce_add_sync", "reduce_and_sync", "reduce_max_sync", "reduce_min_sync", "reduce_or_sync", "reduce_xor_sync",
    "shfl_down_sync", "shfl_sync", "shfl_up_sync", "shfl_xor_sync",
]  # fmt: skip


@intrinsic("shfl_sync", "same")
def shfl_sync(mask: Any, value: Any, lane: Any) -> Any:
    """The `value` of lane ``lane % warpsize``; this thread's own if that lane does not take part."""


@intrinsic("shfl_up_sync", "same")
def shfl_up_sync(mask: Any, value: Any, delta: Any) -> Any:
    """The `value` of the lane `delta` below; this thread's own if there is none."""


@intrinsic("shfl_down_sync", "same")
def shfl_down_sync(mask: Any, value: Any, delta: Any) -> Any:
    """The `value` of the lane `delta` above; this thread's own if there is none."""


@intrinsic("shfl_xor_sync", "same")
def shfl_xor_sync(mask: Any, value: Any, lane_mask: Any) -> Any:
    """The `value` of lane ``laneid ^ lane_mask``; this thread's own if there is none."""


@intrinsic("ballot_sync", "uint32")
def ballot_sync(mask: Any, predicate: Any) -> Any:
    """A mask of the lanes in which `predicate` is true."""


@intrinsic("any_sync", "bool")
def any_sync(mask: Any, predicate: Any) -> Any:
    """Whether `predicate` is true in any lane taking part."""


@intrinsic("all_sync", "bool")
def all_sync(mask: Any, predicate: Any) -> Any:
    """Whether `predicate` is true in all lanes taking part."""


@intrinsic("eq_sync", "bool")
def eq_sync(mask: Any, predicate: Any) -> Any:
    """Whether `predicate` has the same truth value in all lanes taking part."""


@intrinsic("match_any_sync", "uint32")
def match_any_sync(mask: Any, value: Any) -> Any:
    """A mask of the lanes whose `value` equals this lane's, bit for bit."""


@intrinsic("match_all_sync", "special")
def match_all_sync(mask: Any, value: Any) -> Any:
    """``(lanes, True)`` if all lanes taking part have the same `value`, else ``(0, False)``.

    Returns
    -------
    tuple of (uint32, bool)
    """


@intrinsic("activemask", "uint32")
def activemask() -> Any:
    """A mask of the lanes of this warp that have not returned."""


@intrinsic("lanemask_lt", "uint32")
def lanemask_lt() -> Any:
    """A mask of the lanes below this one: ``(1 << laneid) - 1``."""


@intrinsic("reduce_add_sync", "same")
def reduce_add_sync(mask: Any, value: Any) -> Any:
    """Sum of `value` (an integer; wraps) over the lanes taking part."""


@intrinsic("reduce_min_sync", "same")
def reduce_min_sync(mask: Any, value: Any) -> Any:
    """Least `value` (an integer) over the lanes taking part."""


@intrinsic("reduce_max_sync", "same")
def reduce_max_sync(mask: Any, value: Any) -> Any:
    """Greatest `value` (an integer) over the lanes taking part."""


@intrinsic("reduce_and_sync", "same")
def reduce_and_sync(mask: Any, value: Any) -> Any:
    """Bitwise and of `value` (an integer) over the lanes taking part."""


@intrinsic("reduce_or_sync", "same")
def reduce_or_sync(mask: Any, value: Any) -> Any:
    """Bitwise or of `value` (an integer) over the lanes taking part."""


@intrinsic("reduce_xor_sync", "same")
def reduce_xor_sync(mask: Any, value: Any) -> Any:
    """Bitwise exclusive or of `value` (an integer) over the lanes taking part."""
