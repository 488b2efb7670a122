"""Searching by meaning, with a tiny embedding that knows a few groups of words, and with the real one where it is."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from engines import database_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import recall
from hermes.base.errors import ExtraMissing, SettingsError
from hermes.conversations.database import SessionDB
from hermes.conversations.search import semantic as vectors_module
from hermes.conversations.search.semantic import ONLY_NEAR, PACKAGE, Embedding, static_vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Ran

np = pytest.importorskip("numpy")

GROUPS = (
    "dog puppy pet animal kitten cat",
    "car vehicle garage engine motor truck",
    "doctor clinic illness hospital nurse",
    "bread oven bake flour cake",
)
LONG = " and so on it went for quite some time with nothing else of note" * 6


def toy(texts: list[str]) -> list[list[float]]:
    """One dimension per group of words, and one for everything else."""
    rows = []
    for text in texts:
        words = re.findall(r"\w+", text.lower())
        rows.append([float(sum(word in group.split() for word in words)) for group in GROUPS] + [0.1 * bool(words)])
    return rows


TOY = Embedding(name="toy", dimensions=5, embed=toy, related=0.5)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., SessionDB]]:
    """Opens the test's store, searched by meaning with the toy embedding unless another is given."""
    handles = []

    def open_again(embedding: Embedding | None = TOY, owner: str = "local") -> SessionDB:
        path = tmp_path / "state.db"
        handles.append(SessionDB.open(path, owner=owner, durability="turn", semantic=lambda: embedding))
        return handles[-1]

    yield open_again
    for handle in handles:
        handle.close()


def said(db: SessionDB, *texts: str, **session: Any) -> list[int]:
    return db.append_many(db.create_session(**session), [{"role": "user", "content": text} for text in texts])


def found(db: SessionDB, query: str, **filters: Any) -> list[int]:
    return [hit.message_id for hit in db.search(query, **filters)]


def vectors(db: SessionDB) -> int:
    return int(database_of(db).row("SELECT count(*) FROM vectors")[0])


@pytest.mark.proves("semantic.paraphrase")
def test_every_storage_engine_searches_by_meaning_too(engine: dict[str, Any]) -> None:
    with SessionDB.open(**engine, semantic=lambda: TOY) as db:
        wanted, _ = said(db, f"the puppy is called Rex{LONG}", f"the garage was closed{LONG}")
        assert found(db, "What is the name of my dog?")[0] == wanted
        for query in ("What is the name of my dog?", "dog"):
            hits = db.search(query)
            assert (hits[0].message_id, hits.note) == (wanted, ONLY_NEAR)


@pytest.mark.proves("semantic.paraphrase")
def test_a_question_finds_what_shares_no_word_with_it_and_the_result_says_so(
    opened: Callable[..., SessionDB],
) -> None:
    puppy = said(opened(), "My puppy chews every shoe.", "The engine needs oil.", "Fresh bread smells great.")[0]
    hits = opened().search("Which animal lives here?")
    assert [hit.message_id for hit in hits] == [puppy]
    assert hits.note == ONLY_NEAR
    assert opened(None).search("Which animal lives here?") == []


@pytest.mark.proves("semantic.paraphrase")
def test_nearness_decides_between_turns_that_hold_the_same_words(opened: Callable[..., SessionDB]) -> None:
    db = opened()
    garage = said(db, f"The appointment on Monday is at the garage.{LONG}")[0]
    doctor = said(db, f"The appointment on Monday is with the nurse.{LONG}")[0]
    assert found(db, "When is my hospital appointment on Monday?")[0] == doctor
    assert found(db, "When is my vehicle appointment on Monday?")[0] == garage
    parts = db.search("When is my vehicle appointment on Monday?", explain=True)[0].explanation
    assert parts["meaning"] > 0


@pytest.mark.proves("semantic.words_lead")
def test_the_words_of_a_question_lead(opened: Callable[..., SessionDB]) -> None:
    db = opened()
    near = said(db, f"The kitten sleeps all day.{LONG}")[0]
    exact = said(db, f"We called our dog Biscuit after the brand.{LONG}")[0]
    hits = found(db, "Why did we call the dog Biscuit?")
    assert hits[0] == exact
    assert near in hits


@pytest.mark.proves("semantic.words_lead")
def test_keywords_that_somebody_wrote_and_explicit_syntax_go_by_words_alone(opened: Callable[..., SessionDB]) -> None:
    db = opened()
    puppy, dog = said(db, "A puppy.", "A dog."), said(db, "The dog barks.")
    assert set(found(db, "dog")) == {puppy[1], dog[0]}
    assert found(db, "dog AND barks") == dog
    assert set(found(db, "animal")) == {*puppy, *dog}  # nobody wrote it


@pytest.mark.proves("semantic.current")
def test_messages_appended_and_indexed_by_a_program_without_vectors_are_found(
    opened: Callable[..., SessionDB],
) -> None:
    plain = opened(None)
    session = plain.create_session()
    plain.append(session, {"role": "user", "content": "The motor is broken."})
    db = opened()
    assert len(found(db, "Which vehicle?")) == 1
    later = plain.append_many(session, [{"role": "user", "content": f"Truck number {n}."} for n in range(40)])
    plain.index()
    assert set(found(db, "Which vehicle?", limit=50)) >= set(later)
    assert db.embed() == 0


@pytest.mark.proves("semantic.current")
def test_vectors_are_made_in_steps_until_none_is_missing(opened: Callable[..., SessionDB]) -> None:
    db = opened()
    for _ in range(70):
        said(db, *["One more cake."] * 33)
    made = 0
    while step := db.embed(500):
        made += step
    assert made == 70 * 33
    assert vectors(db) == 140


@pytest.mark.proves("semantic.current")
def test_a_search_in_a_store_that_is_far_behind_makes_few_vectors_and_optimising_the_rest(
    opened: Callable[..., SessionDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_module, "_FAR_BEHIND", 50)
    plain = opened(None)
    with plain.bulk():
        for _ in range(60):
            said(plain, *["One more cake."] * 8)
    db = opened()
    found(db, "Which vehicle?")
    assert 10 <= vectors(db) <= 20  # 8 messages each
    db.embed()
    assert vectors(db) == 60


@pytest.mark.proves("semantic.current")
def test_another_embedding_makes_all_vectors_anew(opened: Callable[..., SessionDB]) -> None:
    wanted = said(opened(), "My puppy chews every shoe.")
    assert opened().embed() == 1
    other = Embedding(name="other", dimensions=6, embed=lambda texts: [[*row, 1e-3] for row in toy(texts)], related=0.5)
    assert found(opened(other), "Which animal?") == wanted
    assert opened(other).embed() == 0


@pytest.mark.proves("semantic.current")
def test_tools_are_not_embedded_and_rewound_messages_are_not_found(opened: Callable[..., SessionDB]) -> None:
    db = opened()
    session = db.create_session()
    first = db.append(session, {"role": "user", "content": "Hello."})
    db.append(session, {"role": "tool", "content": "cat dog puppy", "tool_call_id": "1"})
    db.append(session, {"role": "user", "content": "The kitten is ill."})
    assert len(found(db, "Which animal?")) == 1
    db.rewind(session, first)
    assert found(db, "Which animal?") == []


@pytest.mark.proves("semantic.deleted")
def test_vectors_go_with_their_session_whoever_deletes_it(opened: Callable[..., SessionDB]) -> None:
    db = opened()
    session = db.create_session()
    db.append(session, {"role": "user", "content": "My puppy chews."})
    kept = said(db, "A kitten purrs.")
    assert len(found(db, "Which animal?")) == 2
    opened(None).delete(session)
    assert found(db, "Which animal?") == kept
    assert vectors(db) == 1


@pytest.mark.proves("semantic.owner")
def test_nothing_of_another_owner_is_near(opened: Callable[..., SessionDB]) -> None:
    mine, theirs = opened(), opened(owner="somebody")
    for number in range(80):  # more, and nearer, than are looked at
        said(mine, f"My puppy number {number}.")
    yours = said(theirs, "A kitten purrs on the oven.")
    assert mine.embed() == 80
    assert found(theirs, "Which animal?", limit=50) == yours
    assert not set(found(mine, "Which animal?", limit=50)) & set(yours)


@pytest.mark.proves("semantic.filters")
def test_filters_hold_for_what_is_near(opened: Callable[..., SessionDB]) -> None:
    db = opened()
    for number in range(80):
        said(db, f"A dog, number {number}.", source="cli")
    wanted = said(db, "A dog, and bread, and a truck.", source="mail")
    assert found(db, "Which animal?", sources=["mail"]) == wanted
    assert found(db, "Which animal?", roles=["assistant"]) == []


@pytest.mark.proves("semantic.damage")
@pytest.mark.parametrize("data", [b"\x00" * 5, b"\x01\x02", b""])
def test_damaged_vectors_are_left_out_and_made_again(opened: Callable[..., SessionDB], data: bytes) -> None:
    db = opened()
    wanted = said(db, "My puppy chews every shoe.")
    assert found(db, "Which animal?") == wanted
    with database_of(db).writing() as connection:
        connection.execute("UPDATE vectors SET data = ?", (data,))
    again = opened()
    assert found(again, "Which animal?") in ([], wanted)
    assert found(again, "Which animal?") == wanted


@pytest.mark.proves("semantic.damage")
def test_a_damaged_or_busy_file_is_still_searched_by_words(opened: Callable[..., SessionDB]) -> None:
    wanted = said(opened(None), "My puppy chews every shoe.")
    opened(None).index()
    damaged = opened()
    database_of(damaged).mark_damaged("a page cannot be read")
    assert found(damaged, "What does my puppy chew?") == wanted
    busy, other = opened(), opened(None)
    database_of(busy).connection.set_busy_timeout(0)
    with database_of(other).writing():
        database_of(busy)._write_queue.wait_seconds = 0.0
        hits = busy.search("What does my puppy chew?")
    assert [hit.message_id for hit in hits] == wanted
    assert "by words alone" in (hits.note or "")
    assert busy.search("Which animal?").note == ONLY_NEAR


@pytest.mark.proves("semantic.missing")
def test_a_search_without_the_vectors_goes_by_words_and_says_why(opened: Callable[..., SessionDB]) -> None:
    def refuse(texts: list[str]) -> Any:
        raise ExtraMissing("the vectors are not there")

    db = opened(Embedding(name="gone", dimensions=5, embed=refuse))
    wanted = said(db, "My puppy chews every shoe.")
    for _ in range(2):
        hits = db.search("What does my puppy chew?")
        assert [hit.message_id for hit in hits] == wanted
        assert hits.note == "the vectors are not there"
    assert db.embed() == 0


@pytest.mark.proves("semantic.setting", "semantic.missing")
def test_the_setting_decides_where_the_package_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, opened: Callable[..., SessionDB], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)  # as if it were not there
    static_vectors.__globals__["_loaded"].cache_clear()
    assert static_vectors("off") is None
    assert static_vectors("auto") is None
    db = opened(static_vectors("on"))
    said(db, "My puppy chews every shoe.")
    assert "install wordllama" in (db.search("What does my puppy chew?").note or "")
    with pytest.raises(SettingsError, match=PACKAGE):
        recall.run(tmp_path / "any.json", semantic=True)


@pytest.mark.proves("semantic.setting")
def test_a_wrong_value_of_the_setting_is_refused_and_a_search_reads_it(
    home: Path, hermes: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    static_vectors.__globals__["_loaded"].cache_clear()
    assert hermes("config", "set", "recall.semantic", "perhaps").code == 2
    assert hermes("config", "set", "recall.semantic", "on").code == 0
    with SessionDB.open(home / "state.db", durability="turn") as db:
        said(db, "My puppy chews every shoe.")
    ran = hermes("sessions", "search", "What does my puppy chew?")
    assert "puppy" in ran.out
    assert PACKAGE in ran.out + ran.err


@pytest.mark.proves("semantic.paraphrase", "semantic.setting")
@pytest.mark.skipif(find_spec(PACKAGE) is None, reason="the extra `semantic` is not installed")
def test_the_real_vectors_know_english_and_keep_silent_about_other_scripts(
    opened: Callable[..., SessionDB], tmp_path: Path
) -> None:
    db = opened(static_vectors())
    texts = ["I adopted a small kitten last spring.", "The invoice was paid in full.", "小猫很可爱。"]
    kitten = said(db, *texts)[0]
    assert found(db, "Which pet does our family own?")[:1] == [kitten]
    assert "meaning" not in db.search("小猫在哪里?", explain=True)[0].explanation
    entry = {
        "question": "Which pet does our family own?",
        "answer_session_ids": ["s"],
        "haystack_session_ids": ["s"],
        "haystack_dates": [""],
        "haystack_sessions": [[{"role": "user", "content": texts[0], "has_answer": True}]],
    }
    (tmp_path / "l.json").write_text(json.dumps([entry]))
    assert recall.run(tmp_path / "l.json", semantic=True)["longmemeval"]["turn"]["hit@1"] == 100.0


@pytest.mark.proves("semantic.paraphrase")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.lists(st.floats(-9, 9, width=32), min_size=7, max_size=7), min_size=2, max_size=6))
def test_stored_vectors_keep_their_directions(
    rows: list[list[float]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = np.array(rows, dtype=np.float32)
    embed = partial(_row_of, table)
    folder = tmp_path_factory.mktemp("store")
    embedding = Embedding(name="rows", dimensions=7, embed=embed)
    with SessionDB.open(folder / "state.db", durability="turn", semantic=lambda: embedding) as db:
        first = said(db, *[str(number) for number in range(1, len(rows))])[0]
        db.embed()
        near = db._meaning._opened().similarities("0")  # type: ignore[union-attr] # it was just embedded
    lengths = np.linalg.norm(table, axis=1)
    if near is None:
        assert lengths[0] == 0 or not lengths[1:].any()
        return
    for message_id, cosine in zip(*near, strict=True):
        number = int(message_id) - first + 1
        assert cosine == pytest.approx(float(table[number] @ table[0] / (lengths[number] * lengths[0])), abs=0.02)


def _row_of(table: Any, texts: list[str]) -> Any:
    return np.stack([table[int(text)] if text else table[0] * 0 for text in texts])
