"""Frozen records without dataclasses."""

from __future__ import annotations

import pytest

from hermes.base.text import change_texts, day
from hermes.base.values import value

pytestmark = pytest.mark.internal("a tool of our own that every layer uses")


@value
class Point:
    """A place."""

    x: int
    y: int = 0

    def moved(self) -> Point:
        return Point(x=self.x + 1, y=self.y)


def test_a_value_has_defaults_equality_a_hash_and_methods() -> None:
    assert Point(x=1) == Point(x=1, y=0)
    assert Point(x=1) != Point(x=2)
    assert len({Point(x=1), Point(x=1), Point(x=1).moved()}) == 2
    assert repr(Point(x=1, y=2)) == "Point(x=1, y=2)"
    assert Point.__doc__ == "A place."


def test_a_value_cannot_be_changed() -> None:
    point = Point(x=1)
    with pytest.raises(AttributeError, match="x cannot be changed"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del point.x


def test_a_missing_or_unknown_field_is_named() -> None:
    with pytest.raises(TypeError, match="Point needs x="):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Point has no field 'z'"):
        Point(x=1, z=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("moment", [1e20, -1e20, float("nan"), float("inf")])
def test_a_number_that_is_no_moment_is_an_unknown_time(moment: float) -> None:
    assert day(moment) == "unknown time"


def test_every_text_of_a_json_value_is_changed_and_nothing_else() -> None:
    value = {"a": ["x", 1, None, True, {"b": "y", "c": 1.5}], "d": "z"}
    assert change_texts(value, str.upper) == {"a": ["X", 1, None, True, {"b": "Y", "c": 1.5}], "d": "Z"}
