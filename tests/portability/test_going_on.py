"""Conversations that another program began go on here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import foreign_transcripts as made
import pytest
from compacted import configure, talk
from histories import openai_faults

from hermes.agent import Agent
from hermes.conversations.database import SessionDB
from hermes.llm.scripted import Scripted
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

IMPORTED = f"claude-code_{made.SESSION}"


@pytest.mark.proves("migration.goes-on", "session.resume")
def test_a_conversation_of_claude_code_goes_on_with_our_prompt_and_tools(
    home: Path, hermes: Callable[..., Ran], tmp_path: Path
) -> None:
    made.claude_code(tmp_path / "claude")
    hermes("sessions", "import", str(tmp_path / "claude"))
    hermes("memory", "add", "--target", "user", "Lives in Berlin.")
    model = Scripted(["In auth_v2.py, as I said."])
    with Agent.open(home, model=model, resume="Auth refactor") as agent:
        list(agent.turn("where was it again?"))
        sent = agent.session.request()
    asked = model.requests[0]
    assert "Lives in Berlin." in asked.system
    assert "session_search" in [tool["function"]["name"] for tool in asked.tools]
    assert [message["content"] for message in asked.messages if message["role"] == "user"] == [
        "where is the auth refactor?",
        "where was it again?",
    ]
    assert openai_faults([dict(message) for message in asked.messages]) == []
    hermes("memory", "add", "--target", "user", "Likes tea.")
    with MemorySession.open(home, resume=IMPORTED) as again:
        assert (again.request().system, again.request().tools) == (sent.system, sent.tools)
        assert again.about().model == "claude-sonnet"
    with SessionDB.open(home / "state.db") as db:
        assert db.session_details(IMPORTED)["git_branch"] == "main"


@pytest.mark.proves("migration.goes-on")
def test_a_conversation_from_elsewhere_that_goes_on_is_compacted_like_any(home: Path, tmp_path: Path) -> None:
    configure(home)
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    with SessionDB.open(home / "state.db") as db:
        began = db.create_session("somewhere", title="From elsewhere", system_prompt="You are another program.")
        db.append(began, {"role": "user", "content": "hello"})
        db.append(began, {"role": "assistant", "content": "hello to you"})
    with MemorySession.open(home, resume=began, cwd=str(tmp_path)) as session:
        assert "another program" not in session.system_prompt
        talk(session, 20)
        (tmp_path / "AGENTS.md").write_text("Use spaces.")
        assert session.compact() is not None
        assert "Use spaces." in session.system_prompt


@pytest.mark.proves("migration.goes-on", "session.order")
def test_what_no_model_would_accept_of_an_imported_conversation_is_kept_and_not_sent(
    home: Path, hermes: Callable[..., Ran], tmp_path: Path
) -> None:
    def called(*calls: Any) -> dict[str, Any]:
        return {"role": "assistant", "content": None, "tool_calls": list(calls)}

    good = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    odd = ["just words", {"id": "c2", "name": "flat"}, {"function": {"name": "look"}}, {"id": "c3", "function": "look"}]
    records: list[dict[str, Any]] = [
        {"role": "user", "content": "which bus?"},
        {"role": "narrator", "content": "It is raining."},
        {"role": "user", "content": {"from": "A", "to": ["B", 7]}},
        called(good, *odd),
        {"role": "tool", "tool_call_id": "c2", "content": "lost"},
        {"role": "tool", "tool_call_id": "c1", "content": "The 9."},
        called(*odd),
        {"role": "assistant", "content": "The 9."},
    ]
    made.lines(tmp_path / "bus.jsonl", records)
    assert hermes("sessions", "import", str(tmp_path / "bus.jsonl")).code == 0
    assert "narrator: It is" in hermes("sessions", "search", "raining").out
    with MemorySession.open(home, resume="bus") as session:
        sent = session.prepare_turn("and tomorrow?").messages
    assert openai_faults(sent) == []
    roles = ["user", "user", "assistant", "tool", "assistant", "assistant", "user"]
    assert [message["role"] for message in sent] == roles
    assert (sent[1]["content"], sent[2]["tool_calls"]) == ('{"from": "A", "to": ["B", 7]}', [good])
