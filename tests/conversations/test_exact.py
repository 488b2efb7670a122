"""Phrases, beginnings and refusals: what stands in a message is found however old it is, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hermes.conversations.database import SessionDB
from hermes.conversations.search import candidates as exact
from hermes.conversations.search import candidates as postings

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def db(engine: dict[str, Any]) -> Iterator[SessionDB]:
    with SessionDB.open(**engine, durability="turn") as opened:
        yield opened


def said(db: SessionDB, *texts: Any, role: str = "user", **session: Any) -> list[int]:
    return db.append_many(db.create_session(**session), [{"role": role, "content": text} for text in texts])


def found(db: SessionDB, query: str, **filters: Any) -> list[int]:
    result = db.search(query, **filters)
    return [] if result.note and "plain words" in result.note else [hit.message_id for hit in result]


def little_patience(monkeypatch: pytest.MonkeyPatch, *, enough: int, most: int) -> None:
    monkeypatch.setattr(exact, "ENOUGH_EXACT", enough)
    monkeypatch.setattr(exact, "MOST", most)
    monkeypatch.setattr(postings, "_FEW", 3)


@pytest.mark.proves("search.syntax")
def test_words_that_stand_together_only_in_an_old_message_are_found_behind_many_that_hold_both(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    little_patience(monkeypatch, enough=100, most=30_000)
    wanted = said(db, "the red kite flew away")
    said(db, *(f"the kite was red, number {n}" for n in range(300)))
    assert found(db, '"red kite"') == wanted
    assert found(db, '"red kite" AND flew') == wanted
    assert found(db, "kite NOT number") == wanted
    assert [len(found(db, "red NOT flew", limit=most)) for most in (2, 3)] == [2, 3]
    assert len(found(db, "re* AND kit*", limit=4)) == 4


@pytest.mark.proves("search.says_so")
def test_it_says_how_far_it_looked_and_the_other_end_can_be_asked_for(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    little_patience(monkeypatch, enough=100, most=200)
    wanted = said(db, "the red kite flew away")
    said(db, *(f"the kite was red, number {n}" for n in range(1000)))
    nothing = db.search('"red kite"')
    assert nothing
    assert nothing.note is not None
    assert nothing.note.startswith("none of the newest ")
    assert "sort by oldest" in nothing.note
    assert "so it was searched as plain words" in nothing.note
    assert found(db, '"red kite"', sort="oldest") == wanted
    newest = said(db, "another red kite")
    some = db.search('"red kite"')
    assert [hit.message_id for hit in some] == newest
    assert (
        some.note
        == "only the newest 192 messages that hold its words were looked at; sort by oldest to begin at the other end"
    )
    assert db.search('"red kite"', limit=1).note is None  # as many as asked for
    assert "the oldest 192 messages" in (db.search('"red kite"', sort="oldest").note or "")


@pytest.mark.proves("search.says_so")
def test_all_were_looked_at_when_the_last_chunk_is_smaller_than_the_one_before(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    little_patience(monkeypatch, enough=100, most=30_000)
    wanted = said(db, "the red kite flew away")
    said(db, *(f"the kite was red, number {n}" for n in range(100)))
    result = db.search('"red kite"')
    assert ([hit.message_id for hit in result], result.note) == (wanted, None)


@pytest.mark.proves("search.filters")
def test_newer_ones_that_a_filter_leaves_out_do_not_hide_an_older_one(db: SessionDB) -> None:
    by_tool = said(db, "a red kite", role="tool", source="cli")
    wanted = said(db, "a red kite", source="telegram")
    said(db, *(f"red kite number {n}" for n in range(100)), source="cli")
    assert found(db, '"red kite"', sources=["telegram"]) == wanted
    assert found(db, '"red kite"', roles=["tool"]) == by_tool
    assert found(db, '"red kite"', sources=["cron"]) == []


@pytest.mark.proves("search.syntax")
@pytest.mark.parametrize("text", ["a Red Kite!", "red\nkite", "red, kite", "red_kite", "(red) -- kite"])
def test_between_bare_words_anything_may_stand_that_is_no_letter(db: SessionDB, text: str) -> None:
    wanted = said(db, text)
    said(db, "predred kites", "red old kite", "a red kiteé", "kite red")
    assert found(db, '"red kite"', limit=50) == wanted


@pytest.mark.proves("search.syntax")
@pytest.mark.parametrize("text", ["call foo.bar( now", "foo.bar("])
def test_signs_that_were_typed_must_stand_there(db: SessionDB, text: str) -> None:
    wanted = said(db, text)
    said(db, "foo bar")
    assert found(db, '"foo.bar("') == wanted


@pytest.mark.proves("search.syntax")
@pytest.mark.parametrize(
    ("query", "text"),
    [
        ('"deploy server"', "deployed servers"),
        ('"happy possibility"', "happiness, possible"),
        ('"relate hope"', "relational hoping"),
        ('"naive cafe"', "a naïve Café"),
        ('"naïve café"', "a naive cafe"),
        ('"user name"', "see getUserName there"),
        ('"c new folder"', "c:\\new\\folders"),
        ('"桂林"', "我在桂林山"),
        ('"ガイド本"', "ｶﾞｲﾄﾞ本"),  # half width
    ],
)
def test_what_nobody_wrote_as_typed_is_found_in_other_forms(db: SessionDB, query: str, text: str) -> None:
    wanted = said(db, text)
    said(db, "server was deployed", "possible, not happy", "hope to relate", "café or naive", "name of a user")
    assert found(db, query) == wanted
    assert found(db, f"{query} OR zebra") == wanted


@pytest.mark.proves("search.tools")
@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_phrase_is_found_in_the_arguments_of_a_call(db: SessionDB, *, ascii_only: bool) -> None:
    said(db, "kite, then red", "a café that is old")
    arguments = json.dumps({"text": "Über red\nkites and a café old"}, ensure_ascii=ascii_only)
    call = {"id": "1", "type": "function", "function": {"name": "write_file", "arguments": arguments}}
    wanted = db.append(db.create_session(), {"role": "assistant", "content": None, "tool_calls": [call]})
    for query in ('"red kite"', '"uber red"', '"cafe old"'):
        assert found(db, query) == [wanted]


@pytest.mark.proves("search.syntax")
def test_a_phrase_may_begin_in_one_part_of_a_message_and_end_in_the_next(db: SessionDB) -> None:
    said(db, "kite, then red")
    assert found(db, '"red kite"') == []
    parts = [{"type": "text", "text": "the red"}, {"type": "text", "text": "kite flew"}]
    assert said(db, parts) == found(db, '"red kite"')


@pytest.mark.proves("search.syntax")
def test_common_words_of_a_phrase_are_tested_even_where_looking_them_up_would_cost_more(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "_FEW", 3)
    wanted = said(db, "the zebra crossing")
    said(db, *(f"the zebra, number {n}" for n in range(5)), *(f"the line {n}" for n in range(200)), "a zebra crossing")
    for walked in (0.001, 400):
        monkeypatch.setattr(postings, "_WALKED_WHILE_ONE_IS_READ", walked)
        assert found(db, '"the zebra crossing"') == wanted
        assert found(db, '"the zebra"', limit=2, sort="oldest") == [wanted[0], wanted[0] + 32]


@pytest.mark.proves("search.order")
def test_a_beginning_that_a_stem_has_lost_is_found_in_order_of_time_too(db: SessionDB) -> None:
    wanted = said(db, "happy with it", "the happiest day")
    assert found(db, "happy*", sort="oldest")[0] == wanted[0]
    assert found(db, "happ*", sort="newest") == wanted[::-1]
