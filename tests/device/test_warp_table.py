"""Every warp operation on every type it takes, with full, partial and split masks; expected values lane by lane."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.compare import assert_same
from helpers.launching import Place
from helpers.values import COMPLEX, FLOATS, edges

HEAD = "import numpy as np\nimport sterna\n\n\n@sterna.kernel\ndef k(x, masks, out, found, same):\n"
BODY = """
i = sterna.grid(1)
m = masks[i]
v = x[i]
out[0, i] = sterna.shfl_sync(m, v, i * 5)
out[1, i] = sterna.shfl_up_sync(m, v, 3)
out[2, i] = sterna.shfl_down_sync(m, v, 7)
out[3, i] = sterna.shfl_xor_sync(m, v, 9)
found[0, i] = sterna.match_any_sync(m, v)
lanes, all_same = sterna.match_all_sync(m, v)
found[1, i] = lanes
found[2, i] = sterna.ballot_sync(m, v == v)
same[0, i] = all_same
same[1, i] = sterna.any_sync(m, v != v)
same[2, i] = sterna.all_sync(m, v == v)
same[3, i] = sterna.eq_sync(m, v == v)
"""
REDUCTIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
MASKS = {
    "full": [0xFFFFFFFF] * 64,
    "split": [0xFFFF if i % 32 < 16 else 0xFFFF0000 for i in range(64)],
    "odd": [0x55555555 << (i % 2) for i in range(64)],
}
EXCHANGED = ("bool", "int8", "uint16", "int32", "uint64", *FLOATS, *COMPLEX)


def source(body: str, parameters: str = "x, masks, out, found, same") -> str:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return HEAD.replace("x, masks, out, found, same", parameters) + lines


def lanes_of(mask: int, warp: int) -> list[int]:
    return [32 * warp + lane for lane in range(32) if mask >> lane & 1]


def shuffled(x, masks, source_of):
    """Values of the lanes that `source_of` names; one's own where that lane is no other of the mask's."""
    result = x.copy()
    for i in range(x.size):
        lane = source_of(i % 32, i)
        if 0 <= lane < 32 and masks[i] >> lane & 1:
            result[i] = x[i - i % 32 + lane]
    return result


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", EXCHANGED)
def test_exchanges(place: Place, make_module, dtype, mask):
    pool = edges(dtype)
    x = pool[np.random.default_rng(9).integers(0, min(pool.size, 9), 64)]
    x[32:] = pool[3 % pool.size]
    masks = np.array(MASKS[mask], np.uint32)
    out, found, same = np.zeros((4, 64), dtype), np.zeros((3, 64), np.uint32), np.zeros((4, 64), bool)
    place.launch(make_module(source(BODY)).k, 1, 64, x, masks, out, found, same)
    m = [int(v) for v in masks]
    expected = [
        shuffled(x, m, lambda lane, i: i * 5 % 32), shuffled(x, m, lambda lane, i: lane - 3),
        shuffled(x, m, lambda lane, i: lane + 7), shuffled(x, m, lambda lane, i: lane ^ 9),
    ]  # fmt: skip
    for row, right in zip(out, expected, strict=True):
        assert_same(row, right)
    for i in range(64):
        group = lanes_of(m[i], i // 32)
        alike = [j for j in group if x[j].tobytes() == x[i].tobytes()]
        assert found[0, i] == sum(1 << j % 32 for j in alike)
        assert found[1, i] == (m[i] if len(alike) == len(group) else 0)
        assert same[0, i] == (len(alike) == len(group))
        true = [bool(x[j] == x[j]) for j in group]
        assert found[2, i] == sum(1 << j % 32 for j, t in zip(group, true, strict=True) if t)
        assert same[1:, i].tolist() == [not all(true), all(true), len(set(true)) == 1]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_reductions(place: Place, make_module, dtype, mask):
    body = "i = sterna.grid(1)\n" + "\n".join(
        f"out[{k}, i] = sterna.reduce_{op}_sync(masks[i], x[i])" for k, op in enumerate(REDUCTIONS)
    )
    x = np.resize(np.random.default_rng(10).permutation(edges(dtype)), 64)
    masks = np.array(MASKS[mask], np.uint32)
    out = np.zeros((len(REDUCTIONS), 64), dtype)
    place.launch(make_module(source(body, "x, masks, out")).k, 1, 64, x, masks, out)
    for row, reduce in zip(out, REDUCTIONS.values(), strict=True):
        right = [reduce.reduce(x[lanes_of(int(masks[i]), i // 32)], dtype=dtype) for i in range(64)]
        assert_same(row, np.array(right, dtype))
