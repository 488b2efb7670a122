"""Transcripts as other programs write them, built from the public descriptions of their formats."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "0b6f2f9e-1111-4222-8333-444455556666"
AT = "2026-03-04T10:00:0{}.000Z"


def lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def claude_code_line(kind: str, content: Any, at: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "sessionId": SESSION,
        "cwd": "/srv/shop",
        "gitBranch": "main",
        "uuid": f"u{at}{kind}",
        "timestamp": AT.format(at),
        "isSidechain": False,
        "message": {"role": kind, "content": content, "model": "claude-sonnet"},
        **more,
    }


def claude_code(folder: Path) -> Path:
    """A conversation with thinking, a tool, a sub-agent aside and a title at the end."""
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls 桂林"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "auth_v2.py"}]}
    return lines(
        folder / "projects" / "-srv-shop" / f"{SESSION}.jsonl",
        [
            {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
            claude_code_line("user", "Caveat: generated", 0, isMeta=True),
            claude_code_line("user", "where is the auth refactor?", 1),
            claude_code_line("assistant", [{"type": "thinking", "thinking": "look first"}], 2),
            claude_code_line("assistant", [{"type": "text", "text": "Looking."}, call], 2),
            claude_code_line("user", [result], 3, toolUseResult={"stdout": "auth_v2.py"}),
            claude_code_line("user", "search the docs", 4, isSidechain=True, agentId="a7"),
            claude_code_line(
                "assistant", [{"type": "text", "text": "found nothing"}], 5, isSidechain=True, agentId="a7"
            ),
            claude_code_line("assistant", [{"type": "text", "text": "It is in auth_v2.py."}], 6),
            {"type": "summary", "summary": "Auth refactor", "leafUuid": "u6assistant"},
        ],
    )


def codex(folder: Path) -> Path:
    def item(payload: dict[str, Any], at: int) -> dict[str, Any]:
        return {"timestamp": AT.format(at), "type": "response_item", "payload": payload}

    about = {"id": SESSION, "timestamp": AT.format(0), "cwd": "/srv/api", "git": {"branch": "dev"}}
    output = json.dumps({"output": "3 passed", "metadata": {"exit_code": 0}})
    return lines(
        folder / "sessions" / "2026" / "03" / "04" / f"rollout-2026-03-04T10-00-00-{SESSION}.jsonl",
        [
            {"timestamp": AT.format(0), "type": "session_meta", "payload": about},
            {"timestamp": AT.format(0), "type": "turn_context", "payload": {"cwd": "/srv/api", "model": "gpt-5-codex"}},
            item(
                {
                    "type": "message",
                    "role": "user",
                    "content": [_input("<environment_context>x")],
                },
                0,
            ),
            item({"type": "message", "role": "user", "content": [_input("run the tests")]}, 1),
            {"timestamp": AT.format(1), "type": "event_msg", "payload": {"type": "user_message", "message": "run"}},
            item({"type": "reasoning", "summary": [{"type": "summary_text", "text": "pytest it is"}]}, 2),
            item({"type": "function_call", "name": "shell", "arguments": '{"command":["pytest"]}', "call_id": "c1"}, 2),
            item({"type": "function_call_output", "call_id": "c1", "output": output}, 3),
            item(
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "All pass."}]}, 4
            ),
        ],
    )


def codex_bare(folder: Path) -> Path:
    return lines(
        folder / "sessions" / f"rollout-2025-05-01-{SESSION}.jsonl",
        [
            {"id": SESSION, "timestamp": "2025-05-01T08:00:00Z", "instructions": None, "git": {"branch": "old"}},
            {"type": "message", "role": "user", "content": [_input("an old question")]},
            {"record_type": "state"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "an old answer"}]},
        ],
    )


def _input(text: str) -> dict[str, str]:
    return {"type": "input_text", "text": text}


def _output(text: str) -> dict[str, str]:
    return {"type": "output_text", "text": text}


def agents_sdk(path: Path) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript("""
        CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
            updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
        CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
            message_data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
        INSERT INTO agent_sessions VALUES ('user_123', '2026-01-02 03:04:05', '2026-01-02 03:04:05');
    """)
    for item in (
        {"role": "user", "content": "what is the capital of Peru?"},
        {"type": "function_call", "name": "lookup", "arguments": "{}", "call_id": "c9", "id": "fc"},
        {"type": "function_call_output", "call_id": "c9", "output": "Lima"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Lima."}]},
    ):
        values = ("user_123", json.dumps(item), "2026-01-02 03:04:05")
        connection.execute("INSERT INTO agent_messages (session_id, message_data, created_at) VALUES (?, ?, ?)", values)
    connection.commit()
    connection.close()
    return path


def chatgpt_conversation(name: str = "chat-1", title: str = "Trip to 桂林") -> dict[str, Any]:
    """Root, a question asked twice (edited), and the answer to the second wording as the current node."""

    def node(key: str, parent: str | None, children: list[str], role: str = "", *parts: Any) -> dict[str, Any]:
        content = {"content_type": "text", "parts": list(parts)}
        message = {"id": key, "author": {"role": role}, "create_time": 1_770_000_000.5, "content": content}
        return {"id": key, "message": message if role else None, "parent": parent, "children": children}

    nodes = [
        node("root", None, ["q1", "q2"]),
        node("q1", "root", ["a1"], "user", "hotels in Guilin?"),
        node("a1", "q1", [], "assistant", "Which month?"),
        node("q2", "root", ["a2"], "user", "hotels in Guilin in May?", {"asset_pointer": "file-9"}),
        node("a2", "q2", [], "assistant", "The Lakeside has rooms."),
    ]
    return {
        "title": title,
        "create_time": 1_770_000_000.0,
        "conversation_id": name,
        "current_node": "a2",
        "mapping": {each["id"]: each for each in nodes},
    }


def claude_conversation() -> dict[str, Any]:
    def said(sender: str, text: str, **more: Any) -> dict[str, Any]:
        return {"uuid": text, "sender": sender, "text": text, "created_at": AT.format(1), **more}

    attachment = {"file_name": "notes.txt", "extracted_content": "the fence is green"}
    return {
        "uuid": "conv-9",
        "name": "Fence",
        "created_at": AT.format(0),
        "chat_messages": [
            said("human", "what colour is the fence?", attachments=[attachment]),
            said("assistant", "Green.", content=[{"type": "text", "text": "Green."}]),
        ],
    }


def zipped(path: Path, document: Any, name: str = "conversations.json") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("user.json", "{}")
        archive.writestr(name, json.dumps(document))
    return path


def letta(path: Path, *, first_generation: bool) -> Path:
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "You are Letta."}]},
        {"role": "user", "content": [{"type": "text", "text": "remember the boat"}], "created_at": AT.format(1)},
        {"role": "assistant", "content": [{"type": "text", "text": "The boat is noted."}], "created_at": AT.format(2)},
    ]
    block = {"id": "b1", "label": "human", "value": "Sails a dinghy called Moth."}
    agent = {"name": "Skipper", "agent_type": "memgpt_agent", "messages": messages}
    document = (
        {**agent, "core_memory": [block]}
        if first_generation
        else {"agents": [{**agent, "id": "agent-0"}], "blocks": [block]}
    )
    path.write_text(json.dumps(document, indent=2), encoding="utf-8")
    return path
