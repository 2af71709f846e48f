"""Structured arrays, named tuples, dataclasses and tuples in kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import sterna
from helpers.compare import assert_same
from helpers.launching import Place

PACKED = np.dtype([("kind", np.int8), ("mass", np.float64), ("hits", np.int16)])
ALIGNED = np.dtype([("kind", np.int8), ("mass", np.float64), ("hits", np.int16)], align=True)
NESTED = np.dtype([("id", np.int32), ("pos", [("x", np.float32), ("y", np.float32)]), ("w", np.float32, (3,))])


def particles(dtype: np.dtype, n: int = 6) -> np.ndarray:
    a = np.zeros(n, dtype)
    a["kind"] = np.arange(n) % 3
    a["mass"] = np.arange(n) + 0.5
    a["hits"] = np.arange(n) * 10
    return a


@sterna.kernel
def update(p, out):
    i = sterna.grid(1)
    r = p[i]
    r.mass *= 2
    p[i].hits += 1
    p[i]["kind"] = 7
    out[i] = r.mass + r["hits"] + p[i].kind


@pytest.mark.parametrize("dtype", [PACKED, ALIGNED], ids=["packed", "aligned"])
def test_fields_are_read_and_written(place: Place, dtype):
    p = particles(dtype)
    out = np.zeros(6)
    place.over(update, 6, p, out)
    expected = particles(dtype)
    expected["mass"] *= 2
    expected["hits"] += 1
    expected["kind"] = 7
    assert_same(p, expected)
    assert_same(out, expected["mass"] + expected["hits"] + 7.0)


@sterna.kernel
def every_other(p, out):
    v = p[1::2]
    for i in range(v.shape[0]):
        out[i] = v[i].mass * 100 + v[i].hits + v[-1].kind
        v[i].kind = -1


def test_record_views_are_not_contiguous(place: Place):
    p = particles(PACKED, 7)
    before, out = p.copy(), np.zeros(3)
    place.launch(every_other, 1, 1, p, out)
    v = before[1::2]
    kinds = [v["kind"][2], v["kind"][2], v["kind"][2]]
    assert_same(out, v["mass"] * 100 + v["hits"] + np.array(kinds, np.float64))
    assert p["kind"].tolist() == [-1 if k % 2 else before["kind"][k] for k in range(7)]


@sterna.kernel
def field_view(p, out):
    mass = p["mass"]
    for i in range(mass.shape[0]):
        out[i] = mass[i]
        mass[i] = i


def test_a_field_of_the_whole_array_is_a_view(place: Place):
    p = particles(PACKED)
    out = np.zeros(6)
    place.launch(field_view, 1, 1, p, out)
    assert out.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert p["mass"].tolist() == [0, 1, 2, 3, 4, 5]


@sterna.kernel
def nested(p, out):
    i = sterna.grid(1)
    out[i] = p[i].pos.x * 10 + p[i].pos.y
    p[i].pos.y = -1
    for k in range(3):
        p[i].w[k] = k + i


def test_nested_records_and_sub_arrays(place: Place):
    p = np.zeros(4, NESTED)
    p["pos"]["x"], p["pos"]["y"] = np.arange(4), 5
    out = np.zeros(4, np.float32)
    place.over(nested, 4, p, out)
    assert out.tolist() == [5, 15, 25, 35]
    assert (p["pos"]["y"] == -1).all()
    assert_same(p["w"], np.add.outer(np.arange(4), np.arange(3)).astype(np.float32))


class Vec(NamedTuple):
    x: float
    y: float


class Scene(NamedTuple):
    origin: Vec
    scale: np.float32
    size: tuple[int, int]


@dataclass(frozen=True)
class Camera:
    at: Vec
    zoom: float
    enabled: bool = True


@sterna.kernel
def use_named_tuple(scene, out):
    i = sterna.grid(1)
    origin, scale, size = scene
    out[0, i] = scene.origin.x + scene.origin.y * i
    out[1, i] = scale * i
    out[2, i] = scene.size[0] * 10 + size[1]
    out[3, i] = scene[0][1] + origin[0]
    out[4, i] = len(scene)


def test_named_tuples_by_value(place: Place):
    out = np.zeros((5, 3))
    place.over(use_named_tuple, 3, Scene(Vec(1.5, 2.0), np.float32(0.1), (4, 7)), out)
    i = np.arange(3)
    scaled = (np.float32(0.1) * i.astype(np.float32)).astype(np.float64)
    assert_same(out, np.array([1.5 + 2.0 * i, scaled, [47] * 3, [3.5] * 3, [3] * 3], np.float64))


@sterna.kernel
def use_dataclass(camera, out):
    out[0] = camera.at.x
    out[1] = camera.zoom
    if camera.enabled:
        out[2] = 1


@pytest.mark.parametrize("enabled", [True, False])
def test_frozen_dataclasses_by_value(place: Place, enabled):
    out = np.zeros(3)
    place.launch(use_dataclass, 1, 1, Camera(Vec(0.25, 3.0), 8.0, enabled), out)
    assert out.tolist() == [0.25, 8.0, float(enabled)]


@sterna.kernel
def build(out):
    i = sterna.grid(1)
    v = turn(Vec(i, 2.0 * i))
    out[0, i] = v.x
    out[1, i] = v.y
    low, high = ordered(v.x, v.y)
    out[2, i] = low
    out[3, i] = high
    pair = (i, (v, 1.5))
    out[4, i] = pair[1][0].y + pair[1][1]


def turn(v):
    return Vec(-v.y, v.x)


def ordered(a, b):
    if a < b:
        return a, b
    return b, a


def test_structs_and_tuples_made_and_returned(place: Place):
    out = np.zeros((5, 4))
    place.over(build, 4, out)
    i = np.arange(4.0)
    assert_same(out, np.array([-2 * i, i, -2 * i, i, i + 1.5]), signed_zero=False)


@sterna.kernel
def arrays_in_a_tuple(pair, out):
    i = sterna.grid(1)
    a, b = pair
    out[i] = a[i] + b[-1 - i]
    a[i] = 0


def test_arrays_in_a_tuple(place: Place):
    if not place.shares_memory:
        pytest.skip("NumPy arrays inside a tuple live on the host")
    a, b, out = np.arange(4.0), np.arange(4.0) * 10, np.zeros(4)
    place.over(arrays_in_a_tuple, 4, (a, b), out)
    assert out.tolist() == [30, 21, 12, 3]
    assert not a.any()


@sterna.kernel
def struct_in_a_tuple(pair, out):
    out[0] = pair[0].x + pair[0].y
    out[1] = pair[1]
    v, n = pair
    out[2] = v[1] * n


def test_a_named_tuple_inside_a_tuple(place: Place):
    out = np.zeros(3)
    place.launch(struct_in_a_tuple, 1, 1, (Vec(1.5, 2.0), 3), out)
    assert out.tolist() == [3.5, 3, 6]
