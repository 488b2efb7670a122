"""Searches that are seldom asked: common words only, odd syntax, dates in words, and stores with gaps."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from hermes.base.dates import spans
from hermes.conversations.database import SessionDB
from hermes.conversations.search.query import MOST_WORDS
from hermes.storage.ports import SAID

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
def db(engine: dict[str, Any]) -> Iterator[SessionDB]:
    with SessionDB.open(**engine, durability="turn") as opened:
        yield opened


def said(db: SessionDB, *texts: str, **session: Any) -> list[int]:
    return db.append_many(db.create_session(**session), [{"role": "user", "content": text} for text in texts])


def found(db: SessionDB, query: str, **filters: Any) -> list[int]:
    return [hit.message_id for hit in db.search(query, **filters)]


@pytest.mark.proves("search.question")
def test_common_words_count_in_a_large_store(db: SessionDB) -> None:
    (wanted,) = said(db, "the red kite flew over a green hill")
    for _ in range(5):  # each of these words is in thousands of newer messages, and no message has two of them
        said(db, *(f"{word} in line {n}" for n in range(500) for word in ("red", "green", "hill", "fly", "kite")))
    for _ in range(2):  # the second time with the frequencies counted in the first
        assert found(db, "Where did the red kite fly over the green hill?")[0] == wanted
        assert found(db, "red kite green hill")[0] == wanted
    assert len(found(db, "Which line was it?")) == 10


@pytest.mark.proves("search.question")
def test_a_rare_word_counts_beside_one_that_thousands_of_newer_messages_hold(db: SessionDB) -> None:
    both, rare = said(db, "the albatross flew over the hill", "an albatross on a mast")
    for _ in range(2):
        said(db, *(f"hill number {n}" for n in range(2_100)))
    hits = found(db, "Which hill did the albatross fly over?", limit=20)
    assert hits[0] == both
    assert rare in hits
    assert found(db, "Which hill did the albatross fly over?", sources=("web",)) == []


@pytest.mark.proves("search.syntax")
def test_a_phrase_of_a_long_word_that_many_hold_and_a_short_one_that_few_hold_is_found(db: SessionDB) -> None:
    wanted = said(db, "an extraordinary kite")
    said(db, *(f"an extraordinary day, number {n}" for n in range(100)), "no kite was extraordinary")
    assert found(db, '"extraordinary kite"', sort="oldest") == wanted


@pytest.mark.proves("search.says_so")
@pytest.mark.parametrize(
    "query",
    [
        '"red kite")',
        "red AND AND kite",
        "red OR",
        "NOT red",
        f"{'(' * (MOST_WORDS + 1)}red{')' * (MOST_WORDS + 1)} AND kite",
        f'"{"red " * 80}"',
        '"!!!"',
        "(red AND (kite)",
        '"red" AND ()',
        'red AND "…"',
        "red OR )",
    ],
)
def test_syntax_that_cannot_be_followed_is_searched_as_words(db: SessionDB, query: str) -> None:
    (wanted,) = said(db, "the red kite flew away")
    result = db.search(query)
    assert [hit.message_id for hit in result] in ([wanted], [])
    assert result or result.note


@pytest.mark.proves("search.filters")
def test_a_limit_of_none_finds_nothing_and_a_negative_one_is_refused(db: SessionDB) -> None:
    said(db, "a red kite")
    assert list(db.search("red", limit=0)) == []
    with pytest.raises(ValueError, match="limit is -1"):
        db.search("red", limit=-1)


@pytest.mark.proves("search.question")
def test_the_title_of_a_conversation_without_messages_leads_nowhere(db: SessionDB) -> None:
    db.create_session(title="Kite flying")
    said(db, "something else")
    assert found(db, "kite flying") == []


@pytest.mark.proves("search.dates")
@pytest.mark.parametrize(
    ("text", "moment", "fits"),
    [
        ("what happened on 3 May?", datetime(2024, 5, 3, 12, tzinfo=UTC), True),
        ("what happened on 3 May?", datetime(2024, 9, 3, 12, tzinfo=UTC), False),
        ("in the summer of 2024", datetime(2024, 7, 10, tzinfo=UTC), True),
        ("31 February 2024", datetime(2024, 2, 10, tzinfo=UTC), True),  # no day, but a month
        ("this week", datetime(2026, 11, 14, tzinfo=UTC), True),
        ("last month", datetime(2026, 10, 20, tzinfo=UTC), True),
        ("yesterday", datetime(2026, 11, 14, 10, tzinfo=UTC), True),
        ("the day before yesterday", datetime(2026, 11, 13, 10, tzinfo=UTC), True),
        ("on Monday", datetime(2026, 11, 9, 10, tzinfo=UTC), True),
        ("two weeks ago", datetime(2026, 11, 1, 10, tzinfo=UTC), True),
    ],
)
def test_days_and_times_in_words_are_understood(text: str, moment: datetime | None, fits: bool) -> None:
    understood = [span for _, span in spans(text, NOW.timestamp())]
    if moment is None:
        assert understood == []
    else:
        assert (max((span.fit(moment.timestamp()) for span in understood), default=0.0) > 0) is fits


@pytest.mark.internal("counting every message with a common word made a search as slow as the store is large")
def test_a_word_of_very_many_messages_is_counted_among_the_newest_and_the_rest_is_taken_to_be_alike(
    tmp_path: Path,
) -> None:
    with SessionDB.open(tmp_path / "state.db") as db:
        with db.bulk():
            for first in range(0, 30_000, 3_000):
                said(db, *(f"hill {'mast' if n % 2 else ''}" for n in range(first, first + 3_000)))
        db.index()
        common, half = db.store.index.frequencies(SAID, ['"hill"', '"mast"'])
    assert 29_000 <= common <= 31_000
    assert half == 15_000


@pytest.mark.proves("search.question")
@pytest.mark.parametrize("between", [" ", "\n"])
def test_a_long_file_that_a_tool_wrote_is_a_long_message(db: SessionDB, between: str) -> None:
    said(db, *(f"we talked for a long while about day {n} of the trip to the sea" for n in range(400)))
    (wanted,) = said(db, "Zelda said that the quarterly budget of the harbour project is 48,000 euros.")
    filler = between.join(f"line{n}" for n in range(900))
    text = between.join([filler, "budget", filler, "harbour", filler, "quarterly", filler, "project", filler])
    call = {"id": "c1", "function": {"name": "write_file", "arguments": json.dumps({"content": text})}}
    db.append(db.create_session(), {"role": "assistant", "content": None, "tool_calls": [call]})
    assert found(db, "What is the quarterly budget of the harbour project?")[0] == wanted


@pytest.mark.proves("search.question")
def test_a_list_with_a_word_on_each_line_is_a_long_message(db: SessionDB) -> None:
    said(db, *(f"we talked for a long while about day {n} of the trip to the sea" for n in range(400)))
    (wanted,) = said(db, "Zelda said that the quarterly budget of the harbour project is 48,000 euros.")
    lines = [f"line{n}" for n in range(900)]
    said(db, "\n".join([*lines, "budget", *lines, "harbour", *lines, "quarterly", *lines, "project"]))
    assert found(db, "What is the quarterly budget of the harbour project?")[0] == wanted


@pytest.mark.proves("search.coverage")
def test_a_topic_of_long_messages_is_covered_within_a_bound(tmp_path: Path) -> None:
    with SessionDB.open(tmp_path / "state.db", durability="turn") as db:
        for _ in range(4):
            said(db, *(f"the harbour project, step {n}: {'more of it ' * 700}" for n in range(120)))
        tracemalloc.start()
        hits = db.search("Summarize everything about the harbour project in order", limit=10)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (hits.mode, len(hits)) == ("coverage", 10)
    assert most < 40_000_000
