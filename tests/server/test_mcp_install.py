"""`hermes mcp install` and the hooks it puts in place."""

from __future__ import annotations

import io
import json
import os
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from hermes.server.mcp_hosts import HOSTS, Launch, carry_out, plan
from hermes.vocabulary.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]


@pytest.fixture
def user_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    (tmp_path / "person").mkdir()
    return tmp_path / "person"


def files(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if "before-hermes" not in name}


@pytest.mark.proves("mcp.install")
def test_nothing_is_written_before_somebody_agreed(home: Path, user_home: Path, hermes: Command) -> None:
    for words in ((), ("--dry-run",), ("--yes", "--dry-run"), ("--json",)):
        ran = hermes("mcp", "install", "claude-code", *words)
        assert ".claude.json" in ran.out
        assert ran.code == (0 if "--dry-run" in words else 1)
        assert files(user_home) == {}


@pytest.mark.proves("mcp.install", "mcp.hooks")
@pytest.mark.parametrize("host", sorted(HOSTS))
def test_installing_keeps_what_others_put_there_and_removing_takes_out_only_ours(
    home: Path, user_home: Path, hermes: Command, host: str
) -> None:
    launch = Launch(program="/bin/hermes", home=("--home", "/h"))
    empty = plan(host, launch, str(user_home))
    for change in empty:
        os.makedirs(os.path.dirname(change.path), exist_ok=True)
        other = {"mcpServers": {"x": {"command": "x"}}, "hooks": {"Stop": [{"hooks": [{"command": "beep"}]}]}, "a": "é"}
        mine = b'model = "m"\n\n[mcp_servers.x]\ncommand = "x"\n'
        with open(change.path, "wb") as file:
            file.write(mine if change.path.endswith(".toml") else json.dumps(other, indent=4).encode())
    before = files(user_home)
    done = hermes("mcp", "install", host, "--yes", "--json").json
    assert done["done"] is True
    assert len(done["backups"]) == len(empty)
    after = b"".join(files(user_home).values())
    assert b"mcp" in after
    assert b'"x"' in after
    assert str(home).encode() in after
    assert hermes("mcp", "install", host, "--yes").out.endswith("nothing to change\n")
    hermes("mcp", "install", host, "--remove", "--yes")
    left = files(user_home)
    for name, data in before.items():
        if name.endswith(".toml"):
            assert tomllib.loads(left[name].decode()) == tomllib.loads(data.decode())
        else:
            kept = {key: value for key, value in json.loads(left[name]).items() if value not in ({}, 1)}
            assert kept == json.loads(data)
    assert hermes("mcp", "install", host, "--remove", "--yes").out.endswith("nothing to change\n")


@pytest.mark.proves("mcp.install")
def test_a_server_that_could_not_start_is_not_put_into_a_host(
    home: Path, user_home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    hermes("mcp", "install", "claude-code", "--yes")
    before = files(user_home)
    monkeypatch.delitem(sys.modules, "hermes.server.mcp", raising=False)
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    ran = hermes("mcp", "install", "cursor", "--yes")
    assert ran.code == 1
    assert "mcp_types is not installed" in ran.err
    assert "install mcp starlette uvicorn" in ran.err
    assert files(user_home) == before
    assert hermes("mcp", "install", "claude-code", "--remove", "--yes").code == 0


@pytest.mark.proves("mcp.install")
def test_a_host_that_is_not_known_is_told_what_any_other_needs(user_home: Path, home: Path, hermes: Command) -> None:
    ran = hermes("mcp", "install", "emacs")
    assert (ran.code, ran.out, files(user_home)) == (1, "", {})
    told, _, block = ran.err.partition("\n")
    assert told.startswith("hermes: there is no host 'emacs'; the hosts are claude-code, codex, ")
    server = json.loads(block)["mcpServers"]["hermes"]
    assert server["args"] == ["--home", str(home), "mcp"]
    assert os.path.isabs(server["command"])
    assert "windsurf" in hermes("completion", "bash").out


@pytest.mark.proves("mcp.install")
def test_a_file_that_cannot_be_understood_is_left_alone(user_home: Path, home: Path, hermes: Command) -> None:
    (user_home / ".cursor").mkdir()
    (user_home / ".cursor" / "mcp.json").write_text("{ // a comment\n}")
    ran = hermes("mcp", "install", "cursor", "--yes")
    assert ran.code == 2
    assert "by hand" in ran.err
    (user_home / ".codex").mkdir()
    for text in ("= nonsense", "[mcp_servers.hermes]\ncommand = 'mine'\n"):
        (user_home / ".codex" / "config.toml").write_text(text)
        assert hermes("mcp", "install", "codex", "--yes").code == 2
        assert (user_home / ".codex" / "config.toml").read_text() == text


@pytest.mark.proves("mcp.install")
def test_the_mode_of_a_file_and_a_link_to_it_are_kept(user_home: Path, home: Path, hermes: Command) -> None:
    real = user_home / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o644)
    (user_home / ".claude.json").symlink_to(real)
    assert hermes("mcp", "install", "claude-code", "--yes").code == 0
    assert (user_home / ".claude.json").is_symlink()
    assert "hermes" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o644


@pytest.mark.proves("mcp.install")
def test_a_file_that_changes_between_preview_and_writing_is_not_overwritten(user_home: Path) -> None:
    path = user_home / ".claude.json"
    path.write_text("{}")
    changes = plan("claude-code", Launch(program="/bin/hermes"), str(user_home))
    path.write_text('{"new": 1}')
    with pytest.raises(SettingsError, match="meanwhile"):
        carry_out(changes)
    assert path.read_text() == '{"new": 1}'


@pytest.mark.proves("mcp.install")
def test_a_notify_program_of_somebody_else_is_kept(user_home: Path, home: Path, hermes: Command) -> None:
    (user_home / ".codex").mkdir()
    config = user_home / ".codex" / "config.toml"
    config.write_text('notify = ["beep"]\n')
    hermes("mcp", "install", "codex", "--yes")
    assert tomllib.loads(config.read_text())["notify"] == ["beep"]
    config.write_text("")
    hermes("mcp", "install", "codex", "--yes")
    assert tomllib.loads(config.read_text())["notify"][-3:] == ["mcp", "record", "codex"]


@pytest.mark.proves("mcp.install", "people.home")
def test_a_host_can_be_given_the_memory_of_one_person(user_home: Path, home: Path, hermes: Command) -> None:
    hermes("users", "add", "ann")
    hermes("--user", "ann", "mcp", "install", "cursor", "--yes")
    words = json.loads((user_home / ".cursor" / "mcp.json").read_text())["mcpServers"]["hermes"]["args"]
    assert words[:4] == ["--home", str(home), "--user", "ann"]


def tell(monkeypatch: pytest.MonkeyPatch, payload: Any) -> None:
    text = payload if isinstance(payload, str) else json.dumps(payload)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.proves("mcp.hooks")
def test_the_hook_of_claude_code_brings_in_the_transcript(
    home: Path, user_home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript = user_home / "7f3c.jsonl"
    common = {"sessionId": "7f3c", "cwd": "/src", "version": "2", "isSidechain": False, "userType": "external"}
    lines = [
        {"type": "user", "uuid": "u1", "parentUuid": None, "timestamp": "2026-01-02T03:04:05Z", **common},
        {"type": "assistant", "uuid": "a1", "parentUuid": "u1", "timestamp": "2026-01-02T03:04:09Z", **common},
    ]
    lines[0]["message"] = {"role": "user", "content": "Where is the flux capacitor?"}
    lines[1]["message"] = {"role": "assistant", "content": [{"type": "text", "text": "In the trunk."}]}
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for expected in (2, 0):
        tell(monkeypatch, {"session_id": "7f3c", "transcript_path": str(transcript), "hook_event_name": "Stop"})
        assert hermes("mcp", "record", "claude-code", "--json").json["added"] == expected
    found = hermes("sessions", "search", "flux capacitor", "--json").json["results"][0]["session_id"]
    assert "In the trunk." in hermes("sessions", "show", found).out


@pytest.mark.proves("mcp.hooks")
def test_hooks_that_tell_one_turn_at_a_time_are_stored_as_one_conversation(
    home: Path, user_home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [
        ("cursor", {"conversation_id": "c", "hook_event_name": "beforeSubmitPrompt", "prompt": "Find the walrus."}),
        ("cursor", {"conversation_id": "c", "hook_event_name": "afterAgentResponse", "text": "On the ice."}),
        ("cursor", {"conversation_id": "c", "hook_event_name": "stop"}),
        ("gemini", {"session_id": "g", "prompt": "Find the otter.", "prompt_response": "In the river."}),
    ]
    for host, payload in told:
        tell(monkeypatch, payload)
        assert hermes("mcp", "record", host).code == 0
    done = {"type": "agent-turn-complete", "thread-id": "t", "input-messages": ["Find the lynx."]}
    assert hermes("mcp", "record", "codex", json.dumps({**done, "last-assistant-message": "In the wood."})).code == 0
    assert hermes("mcp", "record", "codex", '{"type": "other"}').code == 0
    assert {each["source"] for each in hermes("sessions", "list", "--json").json} == {"cursor", "gemini", "codex"}
    found = hermes("sessions", "search", "walrus", "--json").json["results"][0]["session_id"]
    assert "On the ice." in hermes("sessions", "show", found).out


@pytest.mark.proves("mcp.hooks")
def test_what_no_hook_would_tell_is_refused(home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for host, payload in (
        ("claude-code", {}),
        ("claude-code", {"transcript_path": "/nowhere/x.jsonl"}),
        ("cursor", {"hook_event_name": "beforeSubmitPrompt", "prompt": 3}),
        ("emacs", {}),
        ("gemini", "no json"),
        ("gemini", "[]"),
    ):
        tell(monkeypatch, payload)
        ran = hermes("mcp", "record", host)
        assert ran.code in (1, 2)
        assert ran.out == ""
