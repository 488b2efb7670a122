"""What a helper model of its own is shown: everything but credentials."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from histories import histories, working_session
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.compaction.compressor import ContextCompressor, Record, Task
from hermes.compaction.messages import characters
from hermes.safety.secrets import mask_secrets

if TYPE_CHECKING:
    from histories import Message

SUMMARY = "## Goal\nLook at the modules.\n\n## Progress\n### Done\n- Some were looked at."
KEY = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


def compacted(messages: list[Message], prompts: list[str]) -> Any:
    def helper(prompt: str, _most: int) -> str:
        prompts.append(prompt)
        return SUMMARY

    compressor = ContextCompressor(8_000, protect_last_n=2, summarise=helper)
    return compressor.compact(messages, ids=list(range(500, 500 + len(messages))), force=True)


def masked_record(messages: list[Message], ids: list[int]) -> Record:
    sizes = [characters(message) for message in messages]
    return Record(Task(messages=messages, ids=ids, sizes=sizes, budget=500), masked=True)


@pytest.mark.proves("compression.masked")
def test_a_helper_of_its_own_learns_no_credentials() -> None:
    messages = working_session(40)
    messages[8]["content"] = f"the deploy key is {KEY}"
    before: list[str] = []
    assert compacted(messages, before).how == "helper"
    assert "the deploy key is" in before[0]
    assert KEY not in before[0]


@pytest.mark.proves("compression.masked")
@settings(max_examples=60, deadline=None)
@given(histories(), st.integers(0, 5), st.sampled_from([6_000, 600, 200]))
def test_what_is_shown_is_each_message_masked_by_itself(messages: list[Message], every: int, cap: int) -> None:
    for message in messages[:: every + 1]:
        if isinstance(message.get("content"), str):
            message["content"] += f" password: hunter{every}xx"
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = json.dumps({"token": KEY, "note": call["function"].get("arguments")})
    ids = list(range(len(messages)))
    record = masked_record(messages, ids)
    some = record.entries(ids[::2], cap)
    alone = [
        masked_record([message], [number]).entries([0], cap)[0] for message, number in zip(messages, ids, strict=True)
    ]
    assert some == alone[::2]
    assert record.entries(ids, cap) == alone
    assert KEY not in "".join(alone)
    assert all(mask_secrets(entry) == entry for entry in alone if "password: [" in entry)


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
    assert compressor.compact(messages, force=True).how == "main"
    assert KEY in prompts[0]
