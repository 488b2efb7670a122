"""What is seldom in transcripts: tools, thinking and files of exports, hosted tools, refusals; each can go on here."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import foreign_transcripts as made
import pytest
from agent_home import furnish
from histories import openai_faults

from hermes.conversations.database import SessionDB
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]


def came_in(home: Path, hermes: Command, file: Path, session: str) -> list[dict[str, Any]]:
    """What an import brought of a session, after trying that any model would accept it as the past of a new turn."""
    ran = hermes("sessions", "import", str(file))
    with SessionDB.open(home / "state.db") as db:
        messages = [dict(each.message) for each in db.messages(session)]
    with MemorySession.open(home, resume=session) as again:
        assert openai_faults(again.prepare_turn("and now?").messages) == [], ran.err
    return messages


@pytest.mark.proves("migration.claude-export", "migration.goes-on")
def test_tools_thinking_and_files_of_a_claude_export_come_in(home: Path, hermes: Command, tmp_path: Path) -> None:
    conversation = made.claude_conversation()
    answer = conversation["chat_messages"][1]
    answer["content"] = [
        {"type": "thinking", "thinking": "I should look."},
        {"type": "tool_use", "id": "t1", "name": "web_search", "input": {"query": "fence"}},
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "green, says the shop"}]},
        {"type": "tool_result", "name": "nobody_called", "content": "left over"},
        {"type": "text", "text": "Green."},
    ]
    answer["files"] = [{"file_name": "fence.png"}, {"file_name": ""}]
    conversation["chat_messages"][0]["attachments"] = ["odd", {"extracted_content": "no name"}]
    conversation["chat_messages"].append({"sender": "assistant", "text": "", "content": []})
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([conversation]), encoding="utf-8")
    asked, called, result, left_over = came_in(home, hermes, file, "claude_conv-9")
    assert asked["content"] == "what colour is the fence?\n\n[attachment]\nno name"
    assert (called["content"], called["reasoning"]) == ("Green.\n\n[fence.png]", "I should look.")
    assert called["tool_calls"][0]["function"] == {"name": "web_search", "arguments": '{"query": "fence"}'}
    assert (result["name"], result["content"]) == ("web_search", "green, says the shop")
    assert left_over["content"] == "left over"


@pytest.mark.proves("migration.letta", "migration.goes-on")
def test_tools_of_a_letta_agent_come_in(home: Path, hermes: Command, tmp_path: Path) -> None:
    file = made.letta(tmp_path / "skipper.af", first_generation=True)
    document = json.loads(file.read_text(encoding="utf-8"))
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    document["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "look", "tool_returns": [{"text": "a boat"}]},
        {"role": "assistant", "content": None},
    ]
    file.write_text(json.dumps(document), encoding="utf-8")
    *_, called, result = came_in(home, hermes, file, "letta_Skipper")
    assert called["tool_calls"] == [call]
    assert (result["tool_call_id"], result["name"], result["content"]) == ("c1", "look", "a boat")


def stored(path: Path, *items: str) -> Path:
    made.agents_sdk(path)
    connection = sqlite3.connect(path)
    connection.executemany("INSERT INTO agent_messages (session_id, message_data) VALUES ('other', ?)", zip(items))
    connection.commit()
    connection.close()
    return path


@pytest.mark.proves("migration.agents-sdk", "migration.damaged-transcripts", "migration.goes-on")
def test_hosted_tools_refusals_and_odd_results_of_the_agents_sdk_come_in(
    home: Path, hermes: Command, tmp_path: Path
) -> None:
    items: list[dict[str, Any]] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "read it"}]},
        {"type": "web_search_call", "id": "w1", "status": "completed", "action": {"query": "it"}},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"output": 7}'},
        {"type": "function_call", "call_id": "c2", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c2", "output": '{"output"'},
        {"type": "function_call", "call_id": "c3", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c3", "output": {"rows": 3}},
        {"type": "something_new"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I would rather not."}]},
    ]
    file = stored(tmp_path / "items.db", "{half", "[]", *(json.dumps(each) for each in items))
    messages = came_in(home, hermes, file, "openai-agents_other")
    assert [message["content"] for message in messages if message["role"] == "tool"] == [
        '{"output": 7}',
        '{"output"',
        '{"rows": 3}',
    ]
    assert messages[2]["tool_calls"][0]["function"] == {
        "name": "web_search_call",
        "arguments": '{"action": {"query": "it"}}',
    }
    assert (messages[0]["role"], messages[-1]["content"]) == ("system", "I would rather not.")
    assert "session 'other': an item is not JSON" in hermes("sessions", "import", str(file)).err


@pytest.mark.proves("migration.damaged-transcripts")
def test_a_store_of_the_agents_sdk_that_is_no_database_any_more_is_refused(hermes: Command, tmp_path: Path) -> None:
    file = made.agents_sdk(tmp_path / "items.db")
    file.write_bytes(file.read_bytes()[:20] + b"\0" * 4000)
    ran = hermes("sessions", "import", str(file), "--format", "openai-agents")
    assert (ran.code, "Traceback" in ran.err) == (1, False)
    assert "cannot be read as a database; copy it anew" in ran.err


@pytest.mark.proves("migration.recognised", "migration.incremental", "migration.goes-on")
def test_a_folder_with_transcripts_of_every_kind_comes_in_at_once_and_once(
    home: Path, hermes: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "everything"
    made.claude_code(folder / "claude")
    furnish(folder / "old hermes")
    made.agents_sdk(folder / "items.db")
    lines = [{"role": "user", "content": "which bus?"}, {"role": "assistant", "content": "The 9."}]
    with open(made.lines(folder / "bus.jsonl", lines), "a", encoding="utf-8") as file:
        file.write("[1]\n")
    (folder / "recipe.json").write_text('{"eggs": 2}', encoding="utf-8")
    ran = hermes("sessions", "import", str(folder), "--json")
    assert (ran.code, ran.json["bad"], "bus.jsonl: line 3" in ran.err) == (1, 1, True)
    again = hermes("sessions", "import", str(folder), "--json").json
    assert (again["sessions"], again["messages"]) == (0, 0)
    with SessionDB.open(home / "state.db") as db:
        every = {session.source: session.id for session in db.list_sessions(limit=100)}
    assert {"claude-code", "openai-agents", "telegram", "import"} <= set(every)
    for session_id in every.values():
        with MemorySession.open(home, resume=session_id) as session:
            assert openai_faults(session.prepare_turn("and now?").messages) == []
