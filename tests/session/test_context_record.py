"""What was in the context at a turn, and why, can be read back afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from compacted import configure, talk

from hermes.providers.base import MemoryProvider
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran


class Diary(MemoryProvider):
    name = "diary"

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        pass

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return []

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        del query, session_id
        return "They moved to Lisbon in May."


def context(hermes: Callable[..., Ran], session_id: str, *more: str) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = hermes("sessions", "show", session_id, "--context", *more, "--json").json["turns"]
    return turns


@pytest.mark.proves("record.additions")
def test_each_turn_says_what_was_added_to_it_and_by_whom(home: Path, hermes: Callable[..., Ran]) -> None:
    hermes("config", "set", "memory.recall_timeout", "60")
    hermes("memory", "add", "The host runs Debian.")
    with MemorySession.open(home, "cli", providers=[Diary()]) as session:
        session.prepare_turn("Where do I live?", overlay="It is late.")
        session.finish_turn("In Lisbon.", usage={"input_tokens": 900, "cache_read_tokens": 0})
        hermes("memory", "add", "The host has 64 GB.")
        session.prepare_turn("And the host?", recalled="Host notes.")
        session.call_tool("memory", {"action": "add", "target": "user", "content": "Lives in Lisbon."})
        session.finish_turn("64 GB.")
        first, second = context(hermes, session.id)
    assert first["prompt"]["sections"][0]["name"] == "identity"
    assert first["prompt"]["memory_up_to"] == {"memory": "m1"}
    assert first["prompt"]["characters"] == sum(each["characters"] for each in first["prompt"]["sections"])
    assert first["added"] == [
        {"source": "recalled", "characters": 28, "from": ["diary"]},
        {"source": "overlay", "characters": 11},
    ]
    assert first["answer"]["input_tokens"] == 900
    assert [each["source"] for each in second["added"]] == ["recalled", "announcement"]
    assert second["added"][0]["from"] == ["host", "diary"]
    assert second["announced"] == {"memory": "m2"}
    assert second["history"]["messages"] == 2
    assert [each["tool"] for each in second["results"]] == ["memory"]


@pytest.mark.proves("record.additions")
def test_a_person_reads_one_turn_as_a_few_lines(home: Path, hermes: Callable[..., Ran]) -> None:
    hermes("memory", "add", "The host runs Debian.")
    with MemorySession.open(home, "cli") as session:
        session.prepare_turn("Hello.", overlay="It is late.")
        session.finish_turn("Hello.", usage={"input_tokens": 900, "cache_read_tokens": 450})
        session.prepare_turn("Bye.")
        session.finish_turn("Bye.")
        shown = hermes("sessions", "show", session.id, "--context", "1").out
        missing = hermes("sessions", "show", session.id, "--context", "7")
        everything = hermes("sessions", "show", session.id, "--context").out
    assert "memory " in shown
    assert "(up to m1)" in shown
    assert "overlay      11 characters" in shown
    assert "900 prompt tokens, 50% from the cache" in shown
    assert "turn 2" not in shown
    assert "turn 2" in everything
    assert missing.code == 1
    assert "there is no turn 7" in missing.err


@pytest.mark.proves("record.additions")
def test_notes_that_came_with_a_folder_are_told_apart_from_the_result(
    home: Path, tmp_path: Path, hermes: Callable[..., Ran]
) -> None:
    inner = tmp_path / "project" / "inner"
    inner.mkdir(parents=True)
    (inner / "AGENTS.md").write_text("Use tabs here.", encoding="utf-8")
    with MemorySession.open(home, "cli", cwd=str(tmp_path / "project")) as session:
        session.prepare_turn("Look.")
        session.record(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "cat", "arguments": "{}"}}],
            }
        )
        session.record_result("c", "def main", {"path": str(inner / "main.py")})
        session.finish_turn("Done.")
        (turn,) = context(hermes, session.id)
        shown = hermes("sessions", "show", session.id, "--context").out
    (result,) = turn["results"]
    assert [each["source"] for each in result["added"]] == ["folder_notes"]
    assert f"notes {result['added'][0]['characters']}" in shown


@pytest.mark.proves("record.summaries")
@pytest.mark.parametrize("in_place", [True, False])
def test_a_summary_says_what_it_stands_for_from_its_turn_on(
    home: Path,
    hermes: Callable[..., Ran],
    in_place: bool,
) -> None:
    configure(home, in_place=in_place)
    with MemorySession.open(home, "cli", title="repairs") as session:
        talk(session, 12)
        hermes("memory", "add", "The host has 64 GB.")
        done = session.compact()
        assert done is not None
        talk(session, 1, start=12)
        turns = context(hermes, session.id)
    assert [each["turn"] for each in turns] == list(range(1, 14))
    assert turns[11]["summaries"] == []
    (summary,) = turns[12]["summaries"]
    assert (summary["messages"], summary["why"], summary["by"]) == (done.messages, "asked", done.how)
    assert turns[12]["history"]["messages"] < turns[11]["history"]["messages"]
    assert not turns[11]["prompt"]["rebuilt"]
    assert turns[12]["prompt"]["rebuilt"]
    assert turns[12]["prompt"]["memory_up_to"] == {"memory": "m1"}


@pytest.mark.proves("record.memory")
def test_the_log_of_memory_says_how_a_conversation_learnt_of_each_change(
    home: Path, hermes: Callable[..., Ran]
) -> None:
    hermes("memory", "add", "The host runs Debian.")
    hermes("memory", "add", "--target", "user", "Likes tea.")
    hermes("memory", "undo", "u1")
    with MemorySession.open(home, "cli", title="hosts") as session:
        session.prepare_turn("Hello.")
        session.finish_turn("Hello.")
        hermes("memory", "add", "The host has 64 GB.")
        session.prepare_turn("Again.")
        session.call_tool("memory", {"action": "add", "target": "memory", "content": "Backups run at night."})
        session.finish_turn("Saved.")
    hermes("memory", "add", "Later and elsewhere.")
    told = {each["id"]: each["told"] for each in hermes("memory", "log", "--session", "hosts", "--json").json}
    assert told["m1"] == "in the prompt from turn 1"
    assert told["m2"] == "announced in turn 2"
    assert told["m3"].startswith("written in this conversation")
    assert set(told) == {"m1", "m2", "m3"}  # neither what came later nor what had been taken back before
    only = hermes("memory", "log", "--session", "hosts", "--grep", "Debian", "--json").json
    assert [each["id"] for each in only] == ["m1"]
    assert "announced in turn 2" in hermes("memory", "log", "--session", "hosts").out


@pytest.mark.proves("record.memory")
def test_an_entry_that_is_taken_back_during_a_conversation_is_told_as_gone(
    home: Path, hermes: Callable[..., Ran]
) -> None:
    hermes("memory", "add", "The host runs Debian.")
    with MemorySession.open(home, "cli", title="hosts") as session:
        session.prepare_turn("Hello.")
        session.finish_turn("Hello.")
        hermes("memory", "add", "Only for a moment.")
        hermes("memory", "undo")
        hermes("memory", "remove", "Debian")
        session.prepare_turn("Again.")
        session.finish_turn("Hello again.")
    told = {each["id"]: each["told"] for each in hermes("memory", "log", "--session", "hosts", "--json").json}
    assert told == {"m4": "announced in turn 2", "m3": "announced in turn 2", "m1": "in the prompt from turn 1"}
