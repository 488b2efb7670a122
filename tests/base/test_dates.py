"""Bounds of time ranges in words and numbers."""

from __future__ import annotations

import contextlib
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.dates import since, until
from hermes.base.errors import SettingsError

pytestmark = pytest.mark.proves("search.moments")
NOW = datetime(2024, 5, 15, 12, 30).astimezone()  # a Wednesday


@pytest.mark.parametrize(
    ("words", "first", "last"),
    [
        ("2024-05-03", "2024-05-03", "2024-05-03"),
        ("2024-02", "2024-02-01", "2024-02-29"),
        ("2023", "2023-01-01", "2023-12-31"),
        ("May 3, 2023", "2023-05-03", "2023-05-03"),
        ("3rd of May 2023", "2023-05-03", "2023-05-03"),
        ("February 2023", "2023-02-01", "2023-02-28"),
        ("december", "2023-12-01", "2023-12-31"),
        ("may", "2024-05-01", "2024-05-31"),
        ("Today", "2024-05-15", "2024-05-15"),
        ("yesterday", "2024-05-14", "2024-05-14"),
        ("last Friday", "2024-05-10", "2024-05-10"),
        ("last wednesday", "2024-05-08", "2024-05-08"),
        ("monday", "2024-05-13", "2024-05-13"),
        ("last week", "2024-05-06", "2024-05-12"),
        ("this week", "2024-05-13", "2024-05-19"),
        ("last weekend", "2024-05-11", "2024-05-12"),
        ("last month", "2024-04-01", "2024-04-30"),
        ("this year", "2024-01-01", "2024-12-31"),
        ("3 days ago", "2024-05-12", "2024-05-12"),
        ("two weeks ago", "2024-05-01", "2024-05-01"),
        ("a month ago", "2024-04-15", "2024-04-15"),
        ("7d", "2024-05-08", "2024-05-08"),
        ("the last 3 days", "2024-05-12", "2024-05-15"),
    ],
)
def test_an_expression_is_one_span_of_the_calendar(words: str, first: str, last: str) -> None:
    start, end = since(words, NOW.timestamp()), until(words, NOW.timestamp())
    assert datetime.fromtimestamp(start).astimezone().replace(tzinfo=None).isoformat() == f"{first}T00:00:00"
    assert datetime.fromtimestamp(end).astimezone().date().isoformat() == last


def test_exact_times_hours_and_zones_are_kept() -> None:
    assert since("2024-05-03T14:00:00Z", NOW.timestamp()) == 1714744800
    assert since("2024-05-03 16:00+02:00", NOW.timestamp()) == 1714744800
    assert since("12h", NOW.timestamp()) == NOW.timestamp() - 12 * 3600


@pytest.mark.parametrize("words", ["", "soon", "31 February 2024", "2024-13-01", "0000", "tomorrowish", "99999d"])
def test_anything_else_is_refused(words: str) -> None:
    with pytest.raises(SettingsError, match="write it like one of these"):
        since(words, NOW.timestamp())


@given(st.text(max_size=30))
def test_any_text_is_understood_or_refused(words: str) -> None:
    with contextlib.suppress(SettingsError):
        assert since(words, NOW.timestamp()) <= until(words, NOW.timestamp()) + 1
