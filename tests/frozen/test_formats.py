"""Formats that others rely on, as snapshots: bytes on both model wires, files of a home, the OpenAPI description."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import date
from typing import TYPE_CHECKING

import httpx
import pytest
from http_service import running
from model_server import Answer, ModelServer, chat, claude

from hermes import Agent, MemorySession
from snapshots import assert_same_as_stored

if TYPE_CHECKING:
    from pathlib import Path

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "memory", "arguments": '{"action": "add", "content": "Likes tea."}'},
}
OPENAI = (
    chat({"tool_calls": [{"index": 0, **CALL}]}, reason="tool_calls"),
    chat({"content": "Noted."}),
    chat({"content": "Tea."}),
)
ANTHROPIC = (
    claude(
        (
            {"type": "tool_use", "id": "c1", "name": "memory", "input": {}},
            [{"type": "input_json_delta", "partial_json": CALL["function"]["arguments"]}],  # type: ignore[index]
        ),
        reason="tool_use",
    ),
    claude(({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Noted."}])),
    claude(({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Tea."}])),
)


@pytest.mark.proves("frozen.wire")
@pytest.mark.parametrize(("wire", "answers"), [("openai", OPENAI), ("anthropic", ANTHROPIC)])
def test_requests_keep_their_bytes(wire: str, answers: tuple[bytes, ...], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with ModelServer(*(Answer(pieces=[each]) for each in answers)) as server:
        provider = {"openai": "openai", "anthropic": "anthropic"}[wire]
        (home / "config.yaml").write_text(
            f"model:\n  provider: {provider}\n  default: m-1\n  base_url: {server.url}\n  context_length: 100000\n"
        )
        (home / ".env").write_text("OPENAI_API_KEY=sk-test\nANTHROPIC_API_KEY=sk-ant-test\n")
        (home / ".env").chmod(0o600)
        with Agent.open(home, cwd=str(tmp_path), toolsets=["memory"], today=date(2026, 1, 2)) as agent:
            list(agent.turn("I like tea."))
            list(agent.turn("What do I like?"))
    sent = "\n\n".join(f"{each.path}\n{each.body.decode()}" for each in server.received)
    assert_same_as_stored(f"frozen/{wire}.txt", sent.replace(str(tmp_path), "FOLDER") + "\n")


@pytest.mark.proves("frozen.files")
def test_the_files_of_a_home_keep_their_names_and_formats(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with MemorySession.open(home, source="cli", today=date(2026, 1, 2), cwd=str(tmp_path)) as session:
        session.prepare_turn("I live in Porto.")
        session.call_tool("memory", {"action": "add", "target": "user", "content": "Lives in Porto."})
        skill = "---\nname: release\ndescription: How to cut a release\n---\n\nTag the commit.\n"
        session.call_tool("skill_manage", {"action": "create", "name": "release", "content": skill})
        session.finish_turn("Noted.")
    subprocess.run(
        [sys.executable, "-m", "hermes", "--home", str(home), "memory", "pin", "--target", "user", "Porto"], check=True
    )
    shown = []
    for path in sorted(path for path in home.rglob("*") if path.is_file()):
        name = path.relative_to(home).as_posix()
        binary = name.startswith(("state.db", "cache/")) or path.name == ".judged"
        shown.append(f"== {name}\n{'(not text)' if binary else _timeless(path.read_text(encoding='utf-8'))}")
    assert_same_as_stored("frozen/home.txt", "\n".join(shown) + "\n")


@pytest.mark.proves("frozen.http")
def test_the_openapi_description_stays_what_clients_were_built_on(tmp_path: Path) -> None:
    with running(tmp_path / "home") as up:
        document = httpx.get(f"{up.url}/openapi.json", headers={"authorization": f"Bearer {up.keys['ann']}"}).json()
    assert_same_as_stored(
        "frozen/openapi.json", json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    )


def _timeless(text: str) -> str:
    """Times, ids, file numbers and checksums differ from run to run."""
    text = re.sub(r'"(from|to)":\[[^]]*\]', r'"\1":STATE', text)
    text = re.sub(r"\d{8}_\d{6}_[0-9a-f]{8}", "SESSION", text)
    text = re.sub(r"\b1[0-9]{9}(\.[0-9]+)?\b", "TIME", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.+Z]+", "DATE", text)
    return re.sub(r"\b[0-9a-f]{8,64}\b", "HASH", text)
