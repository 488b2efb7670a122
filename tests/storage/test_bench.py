"""The benchmarks themselves: small files in the three formats, and a small store."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from benchmarks.corpus import Corpus

from benchmarks import recall, search
from hermes.base.errors import SettingsError
from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran


@pytest.mark.proves("bench.recall")
def test_a_locomo_file_is_scored_by_turn_and_session(tmp_path: Path) -> None:
    turns = [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "I adopted a puppy.", "blip_caption": "a brown dog"},
        {"speaker": "Bob", "dia_id": "D1:2", "text": "How nice!"},
    ]
    conversation = {"speaker_a": "Ann", "session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}
    asked = [
        {"question": "What did Ann adopt?", "evidence": ["D1:1"]},
        {"question": "Nobody knows?", "evidence": []},
    ]
    (tmp_path / "x.json").write_text(json.dumps([{"conversation": conversation, "qa": asked}]))
    figures = recall.run(tmp_path / "x.json")["locomo"]
    assert (figures["questions"], figures["empty"]) == (1, 0)
    assert figures["turn"]["hit@1"] == figures["session"]["hit@1"] == 100.0


@pytest.mark.proves("bench.recall")
def test_a_beam_file_is_scored_by_ability_with_what_a_model_is_shown(tmp_path: Path) -> None:
    texts = ("I planted tomatoes.", "Water them daily.", "The tomatoes are ripe.", "Time to harvest.")
    messages = [{"id": n, "role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    messages[0]["time"] = "2024-03-01T09:00:00"
    messages[2]["time"] = "2024-07-01T09:00:00"
    asked = {"ability": "event_ordering", "question": "In what order did I mention tomatoes?", "gold": [0, 2]}
    other = {
        "chat": "b",
        "messages": messages[:2],
        "questions": [{**asked, "question": "Which kernel panicked?", "gold": [0]}],
    }
    (tmp_path / "b.json").write_text(json.dumps([{"chat": "a", "messages": messages, "questions": [asked]}, other]))
    figures = recall.run(tmp_path / "b.json", limit=1)
    assert figures["beam event_ordering"]["turn"]["recall@20"] >= 50.0
    assert figures["beam"]["session_search"]["tokens"] < 2_000
    assert figures["beam"]["called_weak"]["from_elsewhere"] == 50.0
    pooled = recall.run(tmp_path / "b.json", pooled=60)
    assert pooled["beam, 6 messages"]["questions"] == 2


@pytest.mark.proves("bench.recall")
def test_a_longmemeval_file_and_a_passage_file_are_scored(tmp_path: Path) -> None:
    entry = {
        "question": "Which city did I move to?",
        "answer_session_ids": ["s2"],
        "haystack_session_ids": ["s1", "s2"],
        "haystack_dates": ["2023/04/29 (Sat) 09:25", "2023/04/30 (Sun) 12:31"],
        "haystack_sessions": [
            [{"role": "user", "content": "I like tea."}],
            [{"role": "user", "content": "I moved to the city of Ghent.", "has_answer": True}],
        ],
    }
    with gzip.open(tmp_path / "l.json.gz", "wt") as file:
        json.dump([entry], file)
    document, asked = {"id": "a", "text": "桂林山水"}, {"question": "桂林在哪", "gold": "a"}
    passages = {"zh": {"documents": [document], "questions": [asked]}}
    (tmp_path / "c.json").write_text(json.dumps(passages))
    assert recall.run(tmp_path / "l.json.gz")["longmemeval"]["turn"]["hit@1"] == 100.0
    assert recall.run(tmp_path / "c.json")["zh"]["session"]["hit@1"] == 100.0
    (tmp_path / "n.json").write_text("[]")
    with pytest.raises(SettingsError, match="none of the known formats"):
        recall.run(tmp_path / "n.json")


@pytest.mark.proves("bench.search")
def test_the_corpus_is_the_same_every_time_and_has_its_shape() -> None:
    first, second = (list(Corpus(seed=3).sessions(1500)) for _ in range(2))
    assert first == second
    messages = [message for planned in first for message in planned.messages]
    assert len(messages) == 1500
    assert {message["role"] for message in messages} == {"user", "assistant", "tool"}
    assert any(planned.parent for planned in first)
    chinese = sum(not (message["content"] or "").isascii() for message in messages) / 1500
    assert 0.1 < chinese < 0.2


@pytest.mark.proves("bench.search")
def test_every_class_of_query_is_measured_beside_raw_fts5(tmp_path: Path) -> None:
    figures = search.run(messages=3000, queries=2, appends=200, folder=str(tmp_path))
    assert list(figures["search"]) == [
        "rare", "mid", "common", "multi", "multi_common", "or4", "phrase", "prefix", "zh4", "zh2", "zh1", "question",
    ]  # fmt: skip
    assert all({"hermes", "raw_fts5"} <= set(row) for row in figures["search"].values())
    assert figures["write"]["disk_per_content_byte"] < 2.6
    assert list(tmp_path.iterdir()) == []


@pytest.mark.proves("bench.live-appends")
def test_live_appends_are_measured_with_each_durability_and_by_many_writers(hermes: Callable[..., Ran]) -> None:
    figures = hermes("bench", "search", "--only-writing", "--messages", "2000", "--appends", "300", "--json").json
    assert set(figures) == {"messages", "write", "live"}
    assert list(figures["live"]) == ["bare_write_and_sync", "synced_by_message", "synced_by_turn", "8_writers"]
    _, by_message, by_turn, together = figures["live"].values()
    assert 0 < by_message["p50_ms"] <= by_message["p99_ms"] <= by_message["longest_ms"]
    assert by_message["handed_over_per_content_byte"] == pytest.approx(by_turn["handed_over_per_content_byte"], rel=0.2)
    assert 5 < by_turn["handed_over_per_content_byte"] < 40
    assert together["longest_ms"] > 0


@pytest.mark.proves("bench.own-history")
def test_questions_are_made_from_ones_own_history_and_find_it_again(home: Path, hermes: Callable[..., Ran]) -> None:
    assert "hermes sessions import" in hermes("bench", "recall").err
    with SessionDB.open(home / "state.db") as db:
        for said in (
            "Please describe the lighthouse keeper's evening ritual",
            "Which orchard supplies cider for the harvest festival",
            "Our observatory records meteors through a copper telescope",
            "Ferries leave the harbour before sunrise on Saturdays",
            "That vineyard bottles riesling behind limestone cellars",
        ):
            db.append(db.create_session(), {"role": "user", "content": said})
        db.append(db.create_session(), {"role": "user", "content": "我们决定使用服务器会话"})

    figures = hermes("bench", "recall", "--json").json["own_history"]

    assert (figures["questions"], figures["empty"]) == (6, 0)
    assert figures["session"]["hit@5"] == 100.0
    assert "hit@5 is the percentage of questions" in hermes("bench", "recall").out


@pytest.mark.proves("storage.contract")
def test_both_engines_give_the_same_answers_to_the_questions_of_a_set(tmp_path: Path, postgres: str) -> None:
    from benchmarks.engines import compare  # loads an optional library

    texts = [" ".join(Corpus(1).draw(12)) for _ in range(40)]
    messages = [{"id": n, "role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    asked = [{"ability": "any", "question": " ".join(text.split()[:4]), "gold": [0]} for text in texts[:10]]
    (tmp_path / "b.json").write_text(json.dumps([{"chat": "a", "messages": messages, "questions": asked}]))
    figures = compare(postgres, str(tmp_path), str(tmp_path / "b.json"))
    assert (figures["questions"], figures["same_answers"], figures["different"]) == (10, 10, [])


@pytest.mark.proves("storage.contract")
def test_people_are_copied_until_a_database_is_large_and_each_finds_their_own(on_postgres: str) -> None:
    from benchmarks.scale import charted, grow  # loads an optional library

    figures = grow(on_postgres, [2, 6], messages=4, models=2)
    assert [each["messages"] for each in figures] == [8, 24]
    with SessionDB.open(on_postgres, owner="scale-0") as first, SessionDB.open(on_postgres, owner="scale-4") as copy:
        word = first.messages(first.list_sessions(limit=1)[0].id)[0].text.split()[0]
        assert len(copy.search(word)) > 0
        assert copy.counts()["messages"] >= 4
    assert set(charted(figures)) == {"search", "durable append", "bytes per message", "vacuum"}
