"""Finding messages again: by question, by keyword, by part of a word, in any script."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import query_fuzz
from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def db(engine: dict[str, Any]) -> Iterator[SessionDB]:
    with SessionDB.open(**engine, durability="turn") as opened:
        yield opened


def said(db: SessionDB, *texts: str, **session: object) -> list[int]:
    created = db.create_session(**session)  # type: ignore[arg-type] # keyword extras are free
    return [db.append(created, {"role": "user", "content": text}) for text in texts]


def found(db: SessionDB, query: str, **filters: object) -> list[int]:
    return [hit.message_id for hit in db.search(query, **filters)]  # type: ignore[arg-type] # as above


@pytest.mark.proves("search.any_query")
@pytest.mark.parametrize("seed", [1, 2])
def test_no_generated_query_fails_and_each_finds_the_word_it_holds(seed: int, tmp_path: Path) -> None:
    result = query_fuzz.run(seed=seed, queries=600, folder=str(tmp_path))
    assert result["failures"] == []
    assert result["held_a_stored_word"] == 300


@pytest.mark.proves("search.question")
def test_a_question_with_punctuation_finds_the_turn_that_answers_it(db: SessionDB) -> None:
    wanted = said(db, "We decided to use JWT for the auth service.", "The cat sat on the mat.")[0]
    said(db, "Lunch is at noon.", "Nothing was decided about lunch.")
    hits = db.search("What did we decide about auth?!")
    assert hits[0].message_id == wanted
    assert hits[0].role == "user"
    assert hits[0].session_id == db.session_of(wanted).id  # type: ignore[union-attr] # it was just stored


@pytest.mark.proves("search.question")
def test_irregular_forms_meet(db: SessionDB) -> None:
    wanted = said(db, "I went to the museum with the children.", "Nothing else happened at all.")[0]
    assert found(db, "Where did the child go?")[0] == wanted


@pytest.mark.proves("search.question")
def test_a_named_speaker_is_preferred_to_somebody_who_greets_them(db: SessionDB) -> None:
    session = db.create_session()
    db.append(session, {"role": "user", "name": "Ann", "content": "Hi Bob, how was the race?"})
    answer = db.append(session, {"role": "assistant", "name": "Bob", "content": "The race was long and muddy."})
    assert found(db, "What did Bob think of the race?")[0] == answer


@pytest.mark.proves("search.scripts")
@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我们决定使用桂林的服务器", "桂"),
        ("我们决定使用桂林的服务器", "桂林"),
        ("我们决定使用桂林的服务器", "使用桂林"),
        ("我们决定使用桂林的服务器", "桂林在哪里\uff1f"),
        ("東京タワーに行きました", "タワー"),
        ("안녕하세요 서울입니다", "서울"),
        ("ภาษาไทยง่ายมาก", "ไทย"),
        ("ພາສາລາວ", "ລາວ"),
        ("ភាសាខ្មែរ", "ខ្មែរ"),
        ("မြန်မာစာ", "မာစာ"),
        ("Ein Straßenfest im Café", "cafe"),
        ("\uff26\uff35\uff2c\uff2cwidth", "fullwidth"),
    ],
)
def test_any_script_is_found_inside_words(db: SessionDB, text: str, query: str) -> None:
    wanted = said(db, text, "something else entirely")[0]
    assert found(db, query)[0] == wanted


@pytest.mark.proves("search.identifiers")
@pytest.mark.parametrize(
    "query", ["auth_ref", "auth_refactor_v2", "refactor", "kubern", "kubernets", "UserName", "username", "parser.py"]
)
def test_part_of_an_identifier_or_a_slip_of_the_pen_finds_it(db: SessionDB, query: str) -> None:
    wanted = said(db, "auth_refactor_v2 breaks getUserName in parser.py on kubernetes", "an unrelated line")[0]
    assert found(db, query)[0] == wanted


@pytest.mark.proves("search.tools")
def test_tool_names_arguments_and_output_are_found_unescaped(db: SessionDB) -> None:
    session = db.create_session()
    arguments = json.dumps({"city": "北京", "note": 'say "hello"\nworld'})
    call = {"id": "c1", "type": "function", "function": {"name": "weather_lookup", "arguments": arguments}}
    asked = db.append(session, {"role": "assistant", "content": None, "tool_calls": [call]})
    answered = db.append(session, {"role": "tool", "tool_call_id": "c1", "content": "ERROR: quota_exceeded"})
    assert found(db, "weather_lookup")[0] == asked
    assert found(db, "北京")[0] == asked
    assert found(db, "world")[0] == asked
    assert found(db, "quota_exceeded") == [answered]
    assert found(db, "quota_exceeded", roles=["user", "assistant"]) == []


@pytest.mark.proves("search.tools")
def test_text_inside_parts_is_found_and_addresses_are_not(db: SessionDB) -> None:
    session = db.create_session()
    parts = [{"type": "text", "text": "the 桂林 picture"}, {"type": "image_url", "image_url": {"url": "data:qqqq"}}]
    wanted = db.append(session, {"role": "user", "content": parts})
    assert found(db, "桂林") == [wanted]
    assert found(db, "qqqq") == []


@pytest.mark.proves("search.syntax")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("alpha AND beta", {0}),
        ("alpha OR gamma", {0, 1, 2}),
        ("alpha NOT beta", {1}),
        ("(alpha OR gamma) NOT beta", {1, 2}),
        ('"beta alpha"', set()),
        ('"alpha beta"', {0}),
        ('alpha NOT "alpha beta"', {1}),
        ("gamm*", {2}),
        ("decidi*", {3}),
        ('"桂林山"', {4}),
    ],
)
def test_explicit_syntax_is_followed(db: SessionDB, query: str, expected: set[int]) -> None:
    ids = said(db, "alpha beta", "alpha solo", "gamma ray", "deciding soon", "桂林山水")
    hits = db.search(query)
    exact = {ids.index(hit.message_id) for hit in hits} if hits.note is None else set()
    assert exact == expected


@pytest.mark.proves("search.says_so")
@pytest.mark.parametrize("query", ["alpha AND", "OR alpha", "alpha AND (beta", "alpha AND NOT", "alpha AND qqzzx"])
def test_syntax_that_does_not_work_is_searched_as_words_and_the_result_says_so(db: SessionDB, query: str) -> None:
    wanted = said(db, "alpha beta")[0]
    hits = db.search(query)
    assert [hit.message_id for hit in hits] == [wanted]
    assert "plain words" in (hits.note or "")


@pytest.mark.proves("search.says_so")
def test_signs_that_are_no_words_are_looked_for_as_they_stand(db: SessionDB) -> None:
    wanted = said(db, "done 🎉", "not yet")[0]
    hits = db.search("🎉")
    assert [hit.message_id for hit in hits] == [wanted]
    assert hits.note is not None


@pytest.mark.proves("search.filters")
def test_filters_narrow_and_sorts_order(db: SessionDB) -> None:
    old = said(db, "budget one", source="cli", project="a", started_at=1_000_000_000.0)[0]
    new = said(db, "budget two", source="telegram", project="b")[0]
    assert found(db, "budget", sources=["cli"]) == [old]
    assert found(db, "budget", exclude_sources=["cli"]) == [new]
    assert found(db, "budget", project="b") == [new]
    assert found(db, "budget", roles=["assistant"]) == []
    assert found(db, "budget", until=1_100_000_000.0) == [old]
    assert found(db, "budget", sort="newest") == [new, old]
    assert found(db, "budget", sort="oldest") == [old, new]
    assert found(db, "budget", prefer_project="a")[0] == old


@pytest.mark.proves("search.filters")
def test_side_sessions_stand_behind_conversations(db: SessionDB) -> None:
    talk = said(db, "the backup failed tonight", source="cli")[0]
    job = said(db, "the backup failed tonight", source="cron")[0]
    assert found(db, "why did the backup fail?") == [talk, job]


@pytest.mark.proves("search.dates")
@pytest.mark.parametrize(
    ("question", "day"),
    [
        ("what did we discuss last Friday?", 0),
        ("what did we discuss on 3 May 2024?", 1),
        ("what did we discuss in March 2023?", 2),
        ("what did we discuss on 2024-05-03?", 1),
        ("what did we discuss three days ago?", 0),
    ],
)
def test_a_time_in_the_question_prefers_what_was_said_then(db: SessionDB, question: str, day: int) -> None:
    now = 1_794_700_800.0  # Sunday 15 November 2026
    friday, may, march = now - 2 * 86_400, 1_714_730_000.0, 1_678_000_000.0
    ids = []
    for moment in (friday, may, march):
        session = db.create_session(started_at=moment)
        ids.append(db.append(session, {"role": "user", "content": "we discuss plans", "timestamp": moment}))
    assert found(db, question, now=now)[0] == ids[day]


@pytest.mark.proves("search.dates")
def test_what_was_said_at_a_time_is_found_without_a_word_of_the_question(db: SessionDB) -> None:
    wanted: dict[int, list[int]] = {}
    for day in (3, 9, 17):
        started = datetime(2024, 5, day, 12, tzinfo=UTC).timestamp()
        session = db.create_session(started_at=started)
        wanted[day] = db.append_many(session, [{"role": "user", "content": "The kittens arrived. Cute!"}])
    now = datetime(2024, 5, 18, tzinfo=UTC).timestamp()
    assert found(db, "What did we do last Friday?", now=now)[0] == wanted[17][0]
    assert found(db, "What were we up to on 9 May 2024?", now=now)[0] == wanted[9][0]
    assert not found(db, "What were we up to on 9 May 2022?", now=now)


@pytest.mark.proves("search.neighbours")
def test_the_answer_beside_the_asked_words_is_found(db: SessionDB) -> None:
    ids = said(db, "What is your favourite pizza topping these days?", "Olives, I would say.", "Nice.")
    said(db, "Rain all day.", "Indeed.")
    assert ids[1] in found(db, "Which pizza topping is the favourite?")[:2]


@pytest.mark.proves("search.neighbours")
def test_a_title_that_holds_the_query_brings_its_session(db: SessionDB) -> None:
    first = said(db, "let us begin", "and so on", title="Quarterly tax review")[0]
    assert found(db, "quarterly tax") == [first]


@pytest.mark.proves("search.sees_everything")
def test_a_search_sees_what_another_handle_has_just_appended(db: SessionDB, engine: dict[str, Any]) -> None:
    session = db.create_session()
    assert found(db, "zanzibar") == []
    with SessionDB.open(**engine) as other:
        wanted = other.append(session, {"role": "user", "content": "off to Zanzibar"})
        assert found(db, "zanzibar") == [wanted]


@pytest.mark.proves("search.explains")
def test_a_hit_shows_where_it_matched_and_why(db: SessionDB) -> None:
    said(db, "x " * 400 + "the needle is here " + "y " * 400)
    hit = db.search("needle", explain=True)[0]
    assert ">>>needle<<<" in hit.snippet
    assert len(hit.snippet) < 300
    assert hit.explanation["turn"] > 0
    assert db.search("needle")[0].explanation == {}


@pytest.mark.proves("search.question")
def test_a_word_that_stands_only_in_a_title_finds_its_session(db: SessionDB) -> None:
    said(db, "We decided to paint the fence green.", "The author of the book decided to move.", title="garden")
    wanted = said(db, "Tokens it is, then.", "They expire after an hour.", title="auth")[0]
    assert wanted in found(db, "what did we decide about auth?")
    assert found(db, "auth")[0] == wanted
    only = said(db, "Nothing of the kind.", title="zeppelin rides")[0]
    assert only in found(db, "when was the last of the zeppelin rides?")


@pytest.mark.proves("search.syntax")
def test_a_rare_word_brings_the_message_that_holds_the_common_ones_too(db: SessionDB) -> None:
    said(db, *[f"deploy the server, note {number}" for number in range(120)])
    for month in ("May", "June", "July"):
        said(db, f"zanzibar is warm in {month}")
    wanted = said(db, "deploy the zanzibar server")[0]
    said(db, *[f"deploy the server again, note {number}" for number in range(120)])

    assert found(db, "deploy zanzibar server")[0] == wanted
    assert found(db, '"deploy the zanzibar"') == [wanted]
    assert found(db, '"zanzibar the deploy"')[0] == wanted  # no such phrase: as plain words, and the note says so
    assert "plain words" in str(db.search('"zanzibar the deploy"').note)


@pytest.mark.proves("search.filters")
def test_a_search_by_time_gives_as_many_as_asked_for_newest_first(db: SessionDB) -> None:
    ids = said(db, *[f"standup number {number}" for number in range(100)])

    assert found(db, "standup", sort="newest", limit=30) == ids[:-31:-1]
    assert found(db, "standup", sort="oldest", limit=30) == ids[:30]


@pytest.mark.proves("search.question")
def test_what_another_program_takes_back_or_deletes_is_gone_although_it_was_read_before(engine: dict[str, Any]) -> None:
    with SessionDB.open(**engine) as db, SessionDB.open(**engine) as other:
        kept, taken_back = said(db, "The heron nests by the mill.", "The heron left in June.")
        deleted = said(db, "A heron stood in the harbour.")[0]
        assert set(found(db, "Where did the heron go?")) == {kept, taken_back, deleted}
        other.rewind(db.session_of(kept).id, kept)  # type: ignore[union-attr] # it was just stored
        other.delete(db.session_of(deleted).id)  # type: ignore[union-attr] # as above
        assert found(db, "Where did the heron go?") == [kept]
