"""The plug-in folder for Claude Code and Codex, the bundle for desktop hosts, and the registry's file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hermes import SessionDB, __version__
from hermes.server.hosts import list_tools

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugin"
NAME = "hermes-memory"
HOSTS = {"claude-code": ".claude-plugin", "codex": ".codex-plugin"}


def read(*names: str) -> Any:
    return json.loads(ROOT.joinpath(*names).read_text())


@pytest.fixture
def installed(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who has the command `hermes-memory`."""
    program = tmp_path / "bin" / NAME
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hermes --home {home} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.mark.proves("mcp.plugin")
def test_every_file_that_names_a_version_names_this_one() -> None:
    manifests = [read("plugin", folder, "plugin.json") for folder in HOSTS.values()]
    manifests += [read("plugin", "bundle", "manifest.json"), read("server.json"), *read("server.json")["packages"]]
    assert {each["version"] for each in manifests} == {__version__}
    assert f"hermes-memory[server]=={__version__}" in json.dumps(read("server.json"))
    markets = [read(".claude-plugin", "marketplace.json"), read(".agents", "plugins", "marketplace.json")]
    assert [market["plugins"][0]["name"] for market in markets] == [NAME, NAME]


@pytest.mark.proves("mcp.plugin")
@pytest.mark.parametrize("host", HOSTS)
def test_the_server_of_the_plugin_starts_and_has_our_tools(host: str, installed: None) -> None:
    manifest = read("plugin", HOSTS[host], "plugin.json")
    server = json.loads((PLUGIN / manifest["mcpServers"]).read_text())["mcpServers"]["hermes"]
    assert {"memory", "session_search"} <= set(list_tools([server["command"], *server["args"]]))


@pytest.mark.proves("mcp.plugin")
@pytest.mark.parametrize("host", HOSTS)
def test_without_the_command_the_server_says_what_to_do_and_hooks_are_silent(host: str) -> None:
    manifest = read("plugin", HOSTS[host], "plugin.json")
    server = json.loads((PLUGIN / manifest["mcpServers"]).read_text())["mcpServers"]["hermes"]
    hook = json.loads((PLUGIN / manifest["hooks"]).read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    told = [
        subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
        for command in ([server["command"], *server["args"]], ["sh", "-c", hook])
    ]
    assert [each.returncode for each in told] == [1, 0]
    assert "install Hermes first" in told[0].stderr
    assert told[1].stdout == told[1].stderr == ""


@pytest.mark.proves("mcp.plugin", "mcp.hooks")
def test_the_hooks_of_the_plugin_record_a_conversation_of_codex(installed: None, home: Path, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"type": "session_meta", "payload": {"id": "c1", "cwd": str(tmp_path), "timestamp": "2026-11-16T10:00:00Z"}}
    ]
    for role, kind, text in (("user", "input_text", "Where is the walrus?"), ("assistant", "output_text", "On ice.")):
        message = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
        lines.append({"type": "response_item", "timestamp": "2026-11-16T10:00:01Z", "payload": message})
    rollout = tmp_path / "rollout-c1.jsonl"
    rollout.write_text("".join(json.dumps(line) + "\n" for line in lines))
    hooks = json.loads((PLUGIN / read("plugin", ".codex-plugin", "plugin.json")["hooks"]).read_text())["hooks"]
    payload = {"hook_event_name": "Stop", "session_id": "c1", "transcript_path": str(rollout), "cwd": str(tmp_path)}
    for _ in range(2):
        command = hooks["Stop"][0]["hooks"][0]["command"]
        subprocess.run(["sh", "-c", command], input=json.dumps(payload), text=True, check=True)
    with SessionDB.open(home / "state.db") as database:
        (session,) = database.list_sessions(limit=5)
        assert (session.source, session.message_count) == ("codex", 2)


@pytest.mark.proves("mcp.plugin")
def test_the_skill_of_the_plugin_has_the_form_that_hosts_require() -> None:
    text = (PLUGIN / "skills" / NAME / "SKILL.md").read_text()
    (front,) = re.findall(r"\A---\n(.*?)\n---\n", text, re.DOTALL)
    fields = dict(line.split(": ", 1) for line in front.splitlines())
    assert fields["name"] == NAME
    assert 0 < len(fields["description"]) <= 1024


@pytest.mark.proves("mcp.plugin")
def test_the_bundle_holds_a_wheel_and_a_server_that_starts_it(tmp_path: Path) -> None:
    bundle = tmp_path / "hermes.mcpb"
    subprocess.run([ROOT / "bin" / "bundle", bundle], check=True, capture_output=True)
    with zipfile.ZipFile(bundle) as packed:
        packed.extractall(tmp_path / "in")
    (wheel,) = (tmp_path / "in").glob("*.whl")
    assert wheel.name in (tmp_path / "in" / "pyproject.toml").read_text()
    tools = list_tools(
        [sys.executable, str(tmp_path / "in" / read("plugin", "bundle", "manifest.json")["server"]["entry_point"])]
    )
    assert "memory" in tools
