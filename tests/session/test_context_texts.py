"""What the model was told at a turn can be read word for word afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from compacted import configure, talk

from hermes.conversations.context import REPLACED_PROMPT
from hermes.session.context import section_texts
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran


def told(hermes: Callable[..., Ran], session_id: str) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = hermes("sessions", "show", session_id, "--context", "--text", "--json").json["turns"]
    return shown


def prompt_of(turn: dict[str, Any]) -> str:
    return "\n\n".join(section["text"] for section in turn["prompt"]["sections"])


@pytest.mark.proves("record.texts")
def test_prompt_and_additions_are_those_that_were_sent(home: Path, hermes: Callable[..., Ran]) -> None:
    hermes("memory", "add", "The host runs Debian.")
    with MemorySession.open(home, "cli") as session:
        session.prepare_turn("Hello.")
        session.finish_turn("Hello.")
        hermes("memory", "add", "The host has 64 GB.")
        sent = session.prepare_turn("And the host?", recalled="Host notes.", overlay="It is late.")
        session.finish_turn("64 GB.")
        first, second = told(hermes, session.id)
    assert prompt_of(first) == prompt_of(second) == sent.system
    assert first["added"] == []
    texts = {each["source"]: each["text"] for each in second["added"]}
    assert "\n\n".join(["And the host?", *texts.values()]) == sent.messages[-1]["content"]
    assert texts["recalled"].startswith("<memory-context")
    assert "Host notes." in texts["recalled"]
    assert texts["announcement"].endswith("- memory, new: The host has 64 GB.")
    assert texts["overlay"] == "It is late."


@pytest.mark.proves("record.texts")
def test_a_person_reads_them_below_each_size_and_the_same_prompt_once(home: Path, hermes: Callable[..., Ran]) -> None:
    hermes("memory", "add", "The host runs Debian.")
    with MemorySession.open(home, "cli") as session:
        for overlay in ("It is late.", "My password: hunter2!x"):
            session.prepare_turn("Hello.", overlay=overlay)
            session.finish_turn("Hello.")
        everything = hermes("sessions", "show", session.id, "--context", "--text").out
        second = hermes("sessions", "show", session.id, "--context", "2", "--text").out
        sizes_only = hermes("sessions", "show", session.id, "--context").out
        alone = hermes("sessions", "show", session.id, "--text")
    assert everything.count("The host runs Debian.") == 1
    assert "    [memory]\n" in second
    assert "The host runs Debian." in second
    assert "    It is late.\n" in everything
    assert "It is late." not in second
    assert "hunter2" not in everything
    assert "My password: [password …]" in everything
    assert "The host runs Debian." not in sizes_only
    assert alone.code == 2
    assert f"`hermes sessions show {session.id} --context 1 --text`" in alone.err


@pytest.mark.proves("record.texts")
def test_notes_of_a_folder_are_shown_below_the_result_they_came_with(
    home: Path, tmp_path: Path, hermes: Callable[..., Ran]
) -> None:
    inner = tmp_path / "project" / "inner"
    inner.mkdir(parents=True)
    (inner / "AGENTS.md").write_text("Use tabs here.", encoding="utf-8")
    with MemorySession.open(home, "cli", cwd=str(tmp_path / "project")) as session:
        session.prepare_turn("Look.")
        call = {"id": "c", "type": "function", "function": {"name": "cat", "arguments": "{}"}}
        session.record({"role": "assistant", "content": None, "tool_calls": [call]})
        session.record_result("c", "def main", {"path": str(inner / "main.py")})
        session.finish_turn("Done.")
        (turn,) = told(hermes, session.id)
        shown = hermes("sessions", "show", session.id, "--context", "--text").out
    (notes,) = turn["results"][0]["added"]
    assert notes["text"].strip().startswith("[Notes for agents, from ")
    assert notes["text"].endswith("Use tabs here.")
    assert "    Use tabs here.\n" in shown


@pytest.mark.proves("record.texts")
@pytest.mark.parametrize("in_place", [True, False])
def test_after_compactions_each_turn_has_the_prompt_and_the_summary_of_its_time(
    home: Path, hermes: Callable[..., Ran], in_place: bool
) -> None:
    configure(home, in_place=in_place)
    prompts = []
    with MemorySession.open(home, "cli") as session:
        for part in range(3):
            prompts.append(session.system_prompt)
            talk(session, 12, start=12 * part)
            hermes("memory", "add", f"The host has {part} GB.")
            assert session.compact() is not None
        talk(session, 1, start=36)
        sent = session.request()
        turns = told(hermes, session.id)
    assert [prompt_of(turns[12 * part]) for part in range(3)] == prompts
    assert prompt_of(turns[36]) == sent.system
    (summary,) = turns[36]["summaries"]
    messages = [message["content"] for message in sent.messages if message["content"]]
    assert [text for text in messages if text in summary["text"]]
    assert summary["characters"] <= len(summary["text"])


@pytest.mark.proves("record.texts")
def test_a_prompt_that_was_not_kept_is_not_made_up(home: Path, tmp_path: Path, hermes: Callable[..., Ran]) -> None:
    """As of a session that an earlier version compacted: it kept the new prompt and the sizes of the old one."""
    configure(home)
    with MemorySession.open(home, "cli") as session:
        talk(session, 12)
        assert session.compact() is not None
        talk(session, 1, start=12)
    exported = hermes("sessions", "export", session.id).out
    assert REPLACED_PROMPT in exported
    older = tmp_path / "older.jsonl"
    older.write_text(exported.replace(REPLACED_PROMPT, "unknown_then"), encoding="utf-8")
    hermes("sessions", "delete", session.id, "--yes")
    assert hermes("sessions", "import", str(older)).code == 0
    before, *_, after = told(hermes, session.id)
    assert {section["text"] for section in before["prompt"]["sections"]} == {None}
    assert prompt_of(after) == session.system_prompt
    shown = hermes("sessions", "show", session.id, "--context", "1", "--text").out
    assert "(this text was not kept; only its size is known)" in shown


@pytest.mark.internal("a prompt that is not the one that was measured, as damage could leave it")
def test_sections_are_cut_only_from_the_prompt_they_were_measured_in() -> None:
    sizes = [{"name": "identity", "characters": 4}, {"name": "date", "characters": 3}]
    assert section_texts(sizes, "soul\n\nmay") == ["soul", "may"]
    assert section_texts(sizes, "soul\n\nMarch") == [None, None]
