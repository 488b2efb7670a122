"""What is read after each turn: it changes what a compaction costs, never what it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from hermes.compression.compressor import ContextCompressor
from hermes.compression.facts import findings
from histories import histories, working_session

if TYPE_CHECKING:
    from histories import Message

SUMMARY = "## Goal\nLook at the modules.\n\n## Progress\n### Done\n- Some were looked at."
KEY = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


def compacted(messages: list[Message], *, ahead: int | None, prompts: list[str] | None = None) -> Any:
    """What a compaction makes of the messages, when the first `ahead` of them and then the rest were read before."""
    asked = prompts if prompts is not None else []

    def helper(prompt: str, _most: int) -> str:
        asked.append(prompt)
        return SUMMARY

    compressor = ContextCompressor(8_000, protect_last_n=2, summarise=helper if prompts is not None else None)
    ids = list(range(500, 500 + len(messages)))
    if ahead is not None:
        compressor.read_ahead(messages[:ahead], ids[:ahead])
        compressor.read_ahead(messages, ids)
    return compressor.compact(messages, ids=ids, force=True)


@pytest.mark.proves("compression.ahead")
@settings(max_examples=60, deadline=None)
@given(histories())
def test_reading_ahead_changes_nothing_that_a_compaction_makes(messages: list[Message]) -> None:
    assert compacted(messages, ahead=len(messages) // 2) == compacted(messages, ahead=None)
    early: list[str] = []
    late: list[str] = []
    assert compacted(messages, ahead=0, prompts=early) == compacted(messages, ahead=None, prompts=late)
    assert early == late


@pytest.mark.proves("compression.ahead")
def test_each_message_is_read_once_and_forgotten_when_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Message] = []

    def counted(message: Message) -> list[tuple[str, str, str]]:
        read.append(message)
        return findings(message)

    monkeypatch.setattr("hermes.compression.ahead.findings", counted)
    messages = working_session(40)
    ids = list(range(len(messages)))
    compressor = ContextCompressor(8_000, protect_last_n=2)
    for end in range(len(messages) + 1):
        compressor.read_ahead(messages[:end], ids[:end])
    assert len(read) == len(messages)
    done = compressor.compact(messages, ids=ids, force=True)
    stayed = {number for number in done.ids if number is not None}
    assert done.changed
    assert set(compressor.ahead.findings) == stayed


@pytest.mark.proves("compression.masked")
@pytest.mark.parametrize("ahead", [None, 0])
def test_a_helper_of_its_own_learns_no_credentials(ahead: int | None) -> None:
    messages = working_session(40)
    messages[8]["content"] = f"the deploy key is {KEY}"
    before: list[str] = []
    assert compacted(messages, ahead=ahead, prompts=before).how == "helper"
    assert "the deploy key is" in before[0]
    assert KEY not in before[0]


@pytest.mark.proves("compression.masked")
def test_nor_from_the_notes_the_focus_and_what_providers_said() -> None:
    prompts: list[str] = []

    def helper(prompt: str, _most: int) -> str:
        prompts.append(prompt)
        return f"{SUMMARY}\n- The key is {KEY} everywhere."

    compressor = ContextCompressor(8_000, protect_last_n=2, summarise=helper)
    messages = working_session(40)
    once = compressor.compact(messages, force=True)
    more = [*once.messages, *messages[3:]]
    again = compressor.compact(more, force=True, focus=f"the key {KEY}", memory_context=f"token: {KEY}")
    assert again.how == "helper"
    assert "The key is" in prompts[-1]
    assert KEY not in prompts[-1]


@pytest.mark.proves("compression.masked")
def test_the_model_of_the_conversation_is_shown_what_it_has_seen() -> None:
    messages = working_session(40)
    messages[8]["content"] = f"the deploy key is {KEY}"
    prompts: list[str] = []

    def main(prompt: str, _most: int) -> str:
        prompts.append(prompt)
        return SUMMARY

    compressor = ContextCompressor(8_000, protect_last_n=2, main_summarise=main)
    compressor.read_ahead(messages, list(range(len(messages))))
    assert compressor.compact(messages, force=True).how == "main"
    assert KEY in prompts[0]
