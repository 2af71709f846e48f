"""`frozen` makes what ``@dataclass(frozen=True, slots=True)`` makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import pprint
from typing import ClassVar

import pytest

from sterna.frozen import field, frozen


@frozen
class Point:
    """A point."""

    dimensions: ClassVar[int] = 2
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Sum of the coordinates."""
        return self.x + self.y


@frozen
class Positive:
    """A number that is checked."""

    value: int

    def __post_init__(self) -> None:
        if self.value <= 0:
            raise ValueError(self.value)

    def __bool__(self) -> bool:
        return self.value > 1


@frozen
class Pair:
    """Two hashable things."""

    a: object
    b: object = None


def test_construction_and_defaults():
    assert (Point(1).x, Point(1).y, Point(1).tags, Point(y=5, x=2).total) == (1, 0, [], 7)
    assert Point(1).tags is not Point(1).tags
    assert Point.dimensions == 2
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Point(1, z=2)  # type: ignore[call-arg]


def test_post_init_and_own_methods():
    assert not Positive(1)
    assert Positive(2)
    with pytest.raises(ValueError, match="-1"):
        Positive(-1)


def test_equality_and_hash_go_by_value_and_class():
    assert Pair(1, "b") == Pair(1, "b")
    assert Pair(1, "b") != Pair(1, "c")
    assert Pair(1) != (1, None)
    assert Point(1) != Pair(1)
    assert hash(Pair(1, "b")) == hash(Pair(1, "b"))
    assert len({Pair(1), Pair(1), Pair(2)}) == 2
    with pytest.raises(TypeError):
        hash(Point(1))


def test_nothing_can_be_changed():
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.other = 2  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    assert not hasattr(point, "__dict__")
    assert point == Point(1)


def test_names_and_text():
    assert repr(Point(1, 2, ["a"])) == "Point(x=1, y=2, tags=['a'])"
    assert Point.__qualname__ == "Point"
    assert Point.__module__ == __name__
    assert Point.__doc__ == "A point."
    assert pprint.pformat(Point(1)) == "Point(x=1, y=0, tags=[])"


def test_tools_for_dataclasses_work():
    assert dataclasses.is_dataclass(Point)
    assert [f.name for f in dataclasses.fields(Point)] == ["x", "y", "tags"]
    assert dataclasses.replace(Point(1, 2), x=5) == Point(5, 2)
    assert dataclasses.asdict(Pair(Point(1), 3)) == {"a": {"x": 1, "y": 0, "tags": []}, "b": 3}
    if hasattr(copy, "replace"):  # 3.13
        assert copy.replace(Point(1, 2), x=5) == Point(5, 2)
    match Pair(1, 2):
        case Pair(a, b):
            assert (a, b) == (1, 2)


def test_copies():
    point = Point(1, 2, ["t"])
    assert copy.deepcopy(point) == point
    assert copy.deepcopy(point).tags is not point.tags
    assert pickle.loads(pickle.dumps(point)) == point


def test_other_field_options_are_refused():
    with pytest.raises(TypeError, match="default_factory"):

        @frozen
        class Bad:
            a: int = field(default=1, compare=False)


def test_construction_stays_the_same_when_it_is_compiled():
    for _ in range(40):  # the constructor is compiled on the way
        assert Point(1) == Point(x=1, y=0) == Point(1, tags=[])
        assert Point(1).tags is not Point(1).tags
        for wrong in ((), (1, 2, [], 4)):
            with pytest.raises(TypeError, match="__init__"):
                Point(*wrong)
        with pytest.raises(TypeError, match="multiple values for argument 'x'"):
            Point(1, x=2)  # type: ignore[misc]
        with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
            Point(1, z=2)  # type: ignore[call-arg]
        with pytest.raises(ValueError, match="-1"):
            Positive(-1)
