"""`hermes bench self`: a person's own questions with memory, without, and with memory that is too old."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Hermes = Callable[..., Ran]

JANUARY, DAY = 1_768_200_000.0, 86_400.0
PLACES = ("harbour", "kitchen", "garden", "station", "museum", "library", "bakery", "theatre", "market", "bridge")
THINGS = ("lantern", "violin", "kettle", "compass", "blanket", "ladder", "mirror", "basket", "hammer", "candle")


@pytest.fixture
def talked(home: Path) -> Path:
    """A home in which a fact was stated, corrected, and asked for later, among a hundred other messages."""
    home.mkdir(exist_ok=True)
    with SessionDB.open(home / "state.db") as db:

        def say(name: str, day: int, *texts: str) -> None:
            at = JANUARY + day * DAY
            session = db.create_session(source="cli", session_id=name, started_at=at)
            roles = ("user", "assistant")
            said = [{"role": roles[n % 2], "content": text, "timestamp": at + n} for n, text in enumerate(texts)]
            db.append_many(session, said)

        say("first", 0, "The wifi network is called heron.", "Noted.")
        for n, (place, thing) in enumerate(zip(PLACES * 6, THINGS * 5 + PLACES, strict=True), start=1):
            say(f"other {n}", n, f"I left a {thing} at the {place} number {n}.", f"Shall I write {thing} {n} down?")
        say("second", 70, "I renamed the wifi network, it is called osprey now.", "Done.")
        say("third", 80, "What is our wifi network called?", "It is called osprey.")
    return home


def stored(home: Path) -> list[Any]:
    with SessionDB.open(home / "state.db") as db:
        return [(each, db.messages(each.id)) for each in db.list_sessions(limit=200)]


@pytest.mark.proves("bench.self")
def test_memory_answers_my_questions_and_stale_memory_misleads(talked: Path, hermes: Hermes, tmp_path: Path) -> None:
    before = stored(talked)
    figures = hermes("bench", "self", "--chart", str(tmp_path / "help.svg"), "--json").json
    assert figures["found_questions"] == 1
    assert {arm: figures[arm]["hits"] for arm in ("without", "memory", "stale", "elsewhere")} == {
        "without": 0,
        "memory": 1,
        "stale": 0,
        "elsewhere": 0,
    }
    assert (figures["memory"]["misled"], figures["stale"]["misled"], figures["harm"]) == (0, 1, 0)
    assert figures["memory"]["tokens"] > 0
    assert set(figures["how"]) >= {"hits", "misled", "tokens", "cost_usd", "harm", *("memory", "stale", "elsewhere")}
    assert stored(talked) == before
    drawn = ["".join(each.itertext()) for each in ET.parse(tmp_path / "help.svg").iter() if each.tag.endswith("text")]
    assert {"hits_percent (%)", "misled_percent (%)", "memory", "stale"} <= set(drawn)
    shown = hermes("bench", "self").out
    assert "memory     ██████" in shown
    assert "harm" in shown


@pytest.mark.proves("bench.self")
def test_a_model_is_asked_only_when_told_to_and_judged_by_the_answer(
    talked: Path, hermes: Hermes, tmp_path: Path
) -> None:
    script = tmp_path / "answers.json"
    script.write_text(json.dumps(["I do not know.", "It is osprey.", "It is heron.", *["I do not know."] * 10]))
    hermes("config", "set", "model.default", f"scripted:{script}")
    figures = hermes("bench", "self", "--model", "--json").json
    assert [figures[arm]["hits"] for arm in ("without", "memory", "stale")] == [0, 1, 0]
    assert "scripted (answers.json)" in figures["how"]["hits"]
    assert figures["memory"]["cost_usd"] is None, "nobody knows the price of a script"


@pytest.mark.proves("bench.self")
def test_without_conversations_or_questions_it_says_what_is_missing(home: Path, hermes: Hermes) -> None:
    assert "no conversations yet" in hermes("bench", "self").err
    home.mkdir(exist_ok=True)
    with SessionDB.open(home / "state.db") as db:
        db.append_many(db.create_session(source="cli"), [{"role": "user", "content": "Good morning."}])
    ran = hermes("bench", "self")
    assert ran.code != 0
    assert "no question of yours" in ran.err
