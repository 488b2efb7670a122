"""`hermes prompt`, `hermes skills` and `hermes status`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from hermes.base.events import Usage
from hermes.compaction.compressor import Breaker
from hermes.memory.store import MemoryStore
from hermes.session.compaction import BREAKER
from hermes.session.lifecycle import what_broke_the_cache
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]

SKILL = "---\nname: deploy\ndescription: How to deploy the service.\n---\n\n# Steps\n1. Run make deploy.\n"


def write_skill(home: Path) -> None:
    folder = home / "skills" / "ops" / "deploy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)


@pytest.mark.proves("prompt.command")
def test_prompt_prints_the_whole_prompt_and_the_size_of_each_section(
    home: Path, tmp_path: Path, hermes: Command
) -> None:
    MemoryStore.open(home).add("user", "Likes tea.")
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    ran = hermes("prompt", "--cwd", str(tmp_path))
    assert "Likes tea." in ran.out
    assert "Use tabs." in ran.out
    assert "characters  about" in ran.out
    document = hermes("prompt", "--cwd", str(tmp_path), "--json").json
    names = [section["name"] for section in document["sections"]]
    assert names[0] == "identity"
    assert {"guidance.memory", "user", "context_files", "date"} <= set(names)
    assert names.index("user") < names.index("context_files") < names.index("date")
    assert document["total"]["characters"] == len(document["prompt"])
    assert "Likes tea." not in hermes("prompt", "--sizes").out


@pytest.mark.proves("prompt.diff", "session.frozen-prompt")
def test_prompt_diff_shows_what_a_new_session_would_see_differently(
    home: Path, tmp_path: Path, hermes: Command
) -> None:
    with MemorySession.open(home, title="first", cwd=str(tmp_path)) as session:
        session.prepare_turn("hello")
        session.finish_turn("hi")
    same = hermes("prompt", "--diff", "first", "--cwd", str(tmp_path))
    assert same.out == "the prompt of that session is the one a new session would get\n"
    MemoryStore.open(home).add("user", "Likes tea.")
    assert "+Likes tea." in hermes("prompt", "--diff", "first", "--cwd", str(tmp_path)).out
    assert hermes("prompt", "--diff", "nothing").code == 1


@pytest.mark.proves("skills.command")
def test_skills_are_listed_and_shown_to_a_person(home: Path, hermes: Command) -> None:
    assert hermes("skills", "list").out == "there are no skills yet\n"
    write_skill(home)
    assert hermes("skills", "list").out == "ops/deploy  How to deploy the service.\n"
    assert hermes("skills", "list", "--json").json[0]["name"] == "deploy"
    assert "Run make deploy." in hermes("skills", "show", "deploy").out
    assert hermes("skills", "path", "deploy").out == f"{home / 'skills' / 'ops' / 'deploy'}\n"
    assert hermes("skills", "path", "--json").json == {"path": str(home / "skills")}
    missing = hermes("skills", "show", "deplo")
    assert (missing.code, "deploy" in missing.err) == (1, True)


@pytest.mark.proves("skills.in-session", "session.prefix")
def test_a_session_has_the_skill_tools_and_an_edit_moves_nothing(home: Path) -> None:
    write_skill(home)
    with MemorySession.open(home) as session:
        assert "deploy: How to deploy the service." in session.system_prompt
        session.prepare_turn("how do we deploy?")
        assert "Run make deploy." in session.call_tool("skill_view", {"name": "deploy"})
        patched = {"action": "patch", "name": "deploy", "old_string": "make deploy", "new_string": "make ship"}
        assert '"success": true' in session.call_tool("skill_manage", patched)
        session.request()
        session.finish_turn("With make.")
    assert "make ship" in (home / "skills" / "ops" / "deploy" / "SKILL.md").read_text()


@pytest.mark.proves("status.command")
def test_status_shows_everything_in_one_screen(home: Path, hermes: Command) -> None:
    empty = hermes("status", "--json").json
    assert empty["sessions"]["conversations"] == 0
    with MemorySession.open(home) as session:
        for number in (1, 2):
            session.prepare_turn(f"turn {number}")
            used = {"input_tokens": 100, "cache_read_tokens": 0 if number == 1 else 90}
            session.finish_turn("ok", usage=used)
    state = hermes("status", "--json").json
    assert state["sessions"]["cached_share"] == 0.45
    assert state["sessions"]["messages"] == 4
    assert "first turn" in state["sessions"]["last_cache_miss"]
    printed = hermes("status").out
    assert "memory    0% — 0/2,200 chars" in printed
    assert "45% of the prompt tokens of recent sessions came from it; Anthropic keeps it for 5m" in printed
    assert "last miss: the first turn" in printed
    shown = hermes("sessions", "show", session.id).out
    assert "(0% of 100 prompt tokens from the cache: the first turn of a session fills the cache)" in shown
    assert "(90% of 100 prompt tokens from the cache)" in shown
    with MemorySession.open(home) as session:
        session.prepare_turn("a server that counts no tokens")
        session.finish_turn("ok", usage={"input_tokens": 0})
    assert "from the cache" not in hermes("sessions", "show", session.id).out


@pytest.mark.proves("session.cache-miss")
@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ({"first": True}, "first turn"),
        ({"same_model": False}, "the model changed"),
        ({"idle_seconds": 400.0}, "longer than the cache lives (5m)"),
        ({}, "the provider did not keep it"),
    ],
)
def test_a_miss_is_explained(case: dict[str, bool], reason: str) -> None:
    normal = {"first": False, "idle_seconds": 10.0, "ttl": "5m", "same_model": True}
    little, plenty = Usage(input_tokens=100), Usage(input_tokens=100, cache_read_tokens=95)
    assert reason in what_broke_the_cache(little, **(normal | case))  # type: ignore[arg-type]
    assert what_broke_the_cache(plenty, **(normal | case)) == ""  # type: ignore[arg-type]


@pytest.mark.proves("status.command")
def test_status_shows_growth_and_what_holds_compaction_back(home: Path, hermes: Command) -> None:
    with MemorySession.open(home, "cli") as session:
        session.prepare_turn("Hello.")
        session.finish_turn("Hello.")
        state = hermes("status", "--json").json
        assert state["engine"]["breaker"] == "closed"
        assert state["engine"]["name"] == "compressor"
        assert state["sessions"]["by_month"][0]["messages"] == 2
        stuck = Breaker().could_not_compact(9_000).could_not_compact(9_000)
        session.database.set_meta(f"{BREAKER}:{session.id}", json.dumps(stuck.as_dict()))
        shown = hermes("status").out
        assert "held back in 1 conversation" in shown
        assert "2 compactions in a row did not help" in shown
        tired = Breaker().failed("helper", "overloaded", time.time(), transient=True)
        session.database.set_meta(f"{BREAKER}:{session.id}", json.dumps(tired.as_dict()))
        assert "after it failed: overloaded" in hermes("status").out
