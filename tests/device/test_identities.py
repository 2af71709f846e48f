"""Objects as arguments: they travel as words, and ``is`` compares what they are, never what they equal."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import numpy as np

import sterna
from helpers.launching import Place


class Box:
    """Equal to every other box."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box)

    def __hash__(self) -> int:
        return 1


@dataclass(frozen=True)
class Pair:
    first: Any
    second: Any


KEPT = Box(1)


@sterna.kernel
def compare(out, box, other):
    out[0] = 1 if box is KEPT else 0
    out[1] = 1 if other is KEPT else 0
    out[2] = 1 if box is other else 0
    out[3] = 1 if box is not other else 0
    out[4] = 1 if type(box) is Box else 0
    out[5] = 1 if type(other) is Box else 0


def test_one_object_passed_and_captured_is_itself(place: Place):
    out = np.zeros(6, np.int64)
    place.launch(compare, 1, 1, out, KEPT, KEPT)
    assert out.tolist() == [1, 1, 1, 0, 1, 1]


def test_equal_objects_are_not_one(place: Place):
    assert Box(1) == KEPT
    out = np.zeros(6, np.int64)
    place.launch(compare, 1, 1, out, Box(1), KEPT)
    assert out.tolist() == [0, 1, 0, 1, 1, 1]
    place.launch(compare, 1, 1, out, Box(1), Box(1))
    assert out.tolist() == [0, 0, 0, 1, 1, 1]


@sterna.kernel
def compare_parts(out, pair, items):
    out[0] = 1 if pair.first is KEPT else 0
    out[1] = 1 if pair.second is KEPT else 0
    out[2] = 1 if items[0] is pair.first else 0
    out[3] = 1 if items[1] is pair.first else 0


def test_objects_inside_tuples_and_dataclasses(place: Place):
    out = np.zeros(4, np.int64)
    place.launch(compare_parts, 1, 1, out, Pair(KEPT, Box(1)), (KEPT, Box(1)))
    assert out.tolist() == [1, 0, 1, 0]


@sterna.kernel
def store_words(out, box):
    out[0] = box
    out[1] = KEPT


def test_words_of_arguments_that_nobody_else_holds(place: Place):
    """Launch after launch, each with an object of its own: none can take over the identity of one still on its way."""
    if place.is_interpreter:
        return
    with sterna.on(place.name):
        outs = [sterna.zeros(2, np.uint64) for _ in range(50)]
        words = []
        for out in outs:
            box = Box(0)
            words.append(id(box))
            store_words[1, 1](out, box)
            del box
        found = [out.copy_to_host().tolist() for out in outs]
    gc.collect()
    assert found == [[word, id(KEPT)] for word in words]
