"""The model names by id what it no longer needs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from compacted import configure, talk, texts
from histories import openai_faults

from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from pathlib import Path


def put_away(session: MemorySession, **wanted: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(session.call_tool("context_compact", wanted))
    return result


@pytest.mark.proves("compaction.range")
def test_a_range_of_ids_is_put_away_with_whole_groups(home: Path) -> None:
    configure(home, window=200_000)
    with MemorySession.open(home) as session:
        talk(session, 30)
        session.prepare_turn("now the release notes")
        calls = [at for at, each in enumerate(session.context.messages) if each.get("tool_calls")]
        first, last = session.context.ids[calls[1] + 1], session.context.ids[calls[-2]]  # a result, and a call
        answer = put_away(session, ids=f"{first}-{last}")
        assert answer["success"], answer
        assert openai_faults(session.request().messages) == []
        assert "ABC-0029" in texts(session.request().messages)
        session.finish_turn("done")


@pytest.mark.proves("compaction.range")
def test_ids_of_elsewhere_and_a_conversation_that_only_begins_are_refused(home: Path) -> None:
    configure(home)
    with MemorySession.open(home) as session:
        session.prepare_turn("hello")
        assert "nothing before the current turn" in put_away(session)["error"]
        session.finish_turn("hello")
        session.prepare_turn("again")
        assert "is in your context before the current turn" in put_away(session, ids="999999-1000000")["error"]
        session.finish_turn("done")
