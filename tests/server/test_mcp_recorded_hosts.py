"""Claude Code 2.1.197, Codex 0.166.0 and Gemini CLI 0.61.0 as they were recorded; `bin/live hosts` runs the real ones.

`ADDED` is what their own `… mcp add` writes for a server, `LISTED` what their `… mcp list` prints of ours, and `TOLD`
what their hooks send after a question and its answer.
"""

from __future__ import annotations

import io
import json
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from hermes.server.hosts import Launch, carry_out, configured, list_tools, plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]

PROGRAM = "/opt/hermes/bin/hermes"
FILES = {"claude-code": ".claude.json", "codex": ".codex/config.toml", "gemini": ".gemini/settings.json"}
ADDED = {
    "claude-code": '{"mcpServers": {"hermes": {"type": "stdio", "command": "/opt/hermes/bin/hermes", "args": ["mcp", '
    '"serve", "--source", "claude-code", "--recorded"], "env": {}}}}',
    "codex": '[mcp_servers.hermes]\ncommand = "/opt/hermes/bin/hermes"\n'
    'args = ["mcp", "serve", "--source", "codex", "--recorded"]\n',
    "gemini": '{"mcpServers": {"hermes": {"command": "/opt/hermes/bin/hermes", "args": ["mcp", "serve", "--source", '
    '"gemini", "--recorded"]}}}',
}
LISTED = {
    "claude-code": "hermes: /opt/hermes/bin/hermes mcp serve --source claude-code --recorded - ✔ Connected",
    "codex": "hermes  /opt/hermes/bin/hermes  mcp serve --source codex --recorded  -    -    enabled  Unsupported",
    "gemini": "✓ hermes: /opt/hermes/bin/hermes mcp serve --source gemini --recorded (stdio) - Connected",
}
SESSION = "84641d47-b45f-4279-aedd-0b0ed6eafd4b"
TRANSCRIPT = f"""\
{{"type":"queue-operation","operation":"enqueue","timestamp":"2026-11-16T11:53:30.011Z","sessionId":"{SESSION}",\
"content":"Where does the walrus sleep?"}}
{{"type":"queue-operation","operation":"dequeue","timestamp":"2026-11-16T11:53:30.011Z","sessionId":"{SESSION}"}}
{{"parentUuid":null,"isSidechain":false,"promptId":"33bfee54","type":"user","message":{{"role":"user","content":\
"Where does the walrus sleep?"}},"uuid":"cde942fd","timestamp":"2026-11-16T11:53:30.154Z","permissionMode":"default",\
"promptSource":"sdk","userType":"external","entrypoint":"sdk-cli","cwd":"/src","sessionId":"{SESSION}","version":"2.1.197"}}
{{"parentUuid":"cde942fd","isSidechain":false,"attachment":{{"type":"agent_listing_delta","addedTypes":["Plan"]}},\
"type":"attachment","uuid":"8e77eaa9","timestamp":"2026-11-16T11:53:30.155Z","sessionId":"{SESSION}"}}
{{"parentUuid":"8e77eaa9","isSidechain":false,"message":{{"id":"msg_1","type":"message","role":"assistant","model":"stub",\
"content":[{{"type":"text","text":"On the ice shelf."}}],"stop_reason":"end_turn","stop_sequence":null,\
"usage":{{"input_tokens":10,"output_tokens":5}}}},"type":"assistant","uuid":"91952b52",\
"timestamp":"2026-11-16T11:53:30.361Z","userType":"external","cwd":"/src","sessionId":"{SESSION}","version":"2.1.197"}}
{{"type":"last-prompt","lastPrompt":"Where does the walrus sleep?","leafUuid":"91952b52","sessionId":"{SESSION}"}}
"""
TOLD: dict[str, dict[str, Any]] = {
    "claude-code": {
        "session_id": SESSION,
        "transcript_path": "",
        "cwd": "/src",
        "prompt_id": "33bfee54-610d-41d0-84f8-1c0960546773",
        "permission_mode": "default",
        "effort": {"level": "high"},
        "hook_event_name": "Stop",
        "stop_hook_active": False,
        "last_assistant_message": "On the ice shelf.",
        "background_tasks": [],
        "session_crons": [],
    },
    "codex": {
        "type": "agent-turn-complete",
        "thread-id": "01a1e434-8a2e-7422-b561-d155b04e132f",
        "turn-id": "01a1e434-8a46-71c3-8202-5ddecc4fec56",
        "cwd": "/src",
        "client": "codex_exec",
        "input-messages": ["Where does the walrus sleep?"],
        "last-assistant-message": "On the ice shelf.",
    },
    "gemini": {
        "session_id": "01d8e0df-af5d-4ec8-a8b0-78e63d51b562",
        "transcript_path": "",
        "cwd": "/src",
        "hook_event_name": "AfterAgent",
        "timestamp": "2026-11-16T11:55:09.463Z",
        "prompt": "Where does the walrus sleep?",
        "prompt_response": "On the ice shelf.",
        "stop_hook_active": False,
    },
}


@pytest.fixture
def user_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "person").mkdir()
    return tmp_path / "person"


def entry(text: str, host: str) -> dict[str, Any]:
    document = tomllib.loads(text)["mcp_servers"] if host == "codex" else json.loads(text)["mcpServers"]
    return {key: value for key, value in document["hermes"].items() if value != {}}


@pytest.mark.proves("mcp.install", "mcp.verified")
@pytest.mark.parametrize("host", ADDED)
def test_the_entry_is_the_one_that_the_host_itself_would_write(user_home: Path, host: str) -> None:
    carry_out(plan(host, Launch(command=(PROGRAM,)), str(user_home)))
    written = (user_home / FILES[host]).read_text()
    assert entry(written, host) == entry(ADDED[host], host)
    found = configured(host, str(user_home))
    assert found is not None
    assert found.hooks
    assert " ".join(found.command) in " ".join(LISTED[host].split())


@pytest.mark.proves("mcp.install", "mcp.verified")
@pytest.mark.parametrize("host", ADDED)
def test_the_written_command_starts_in_a_bare_environment_and_lists_its_tools(
    home: Path, user_home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    assert hermes("mcp", "install", host, "--yes", "--json").json["done"] is True
    found = configured(host, str(user_home))
    monkeypatch.setenv("HERMES_HOME", "/nowhere")  # a host does not pass on what the shell had
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert found is not None
    assert list_tools(found.command)[:5] == ["memory", "session_search", "skills", "record_conversation", "status"]
    assert str(home) in found.command


@pytest.mark.proves("mcp.hooks")
@pytest.mark.parametrize("host", TOLD)
def test_what_the_hook_sends_is_stored_as_a_conversation(
    home: Path, user_home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    transcript = user_home / f"{SESSION}.jsonl"
    payload = {**TOLD[host], **({"transcript_path": str(transcript)} if host != "codex" else {})}

    def hook(told: dict[str, Any]) -> Ran:
        text = json.dumps(told)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return hermes("mcp", "record", host, *([text] if host == "codex" else []))

    if host == "claude-code":  # `claude mcp list` ends a session of which there is no transcript
        ended = hook({**payload, "hook_event_name": "SessionEnd", "reason": "other"})
        assert (ended.code, ended.out, ended.err) == (0, "", "")
    transcript.write_text(TRANSCRIPT)
    for _ in range(2):
        ran = hook(payload)
        assert (ran.code, ran.out, ran.err) == (0, "", "")
    (session,) = hermes("sessions", "list", "--json").json
    assert session["source"] == host
    shown = hermes("sessions", "show", session["session_id"]).out
    said = [line.strip() for line in shown.splitlines() if line.startswith("    ")]
    assert said == ["Where does the walrus sleep?", "On the ice shelf."]
