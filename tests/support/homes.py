"""Homes with every kind of content, generated from a seed."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import apsw
from engines import database_of

from hermes.conversations.database import SessionDB
from hermes.memory.entries import Cause
from hermes.memory.store import MemoryStore
from hermes.storage.local.schema import add_summaries

if TYPE_CHECKING:
    from pathlib import Path

_PLAIN = ("deploy", "桂林", "naïve", "río", "auth_v2", "§inline", "it's", "100%", "ничего", "الطقس", "x")
_ODD = (*_PLAIN, "\U0001f600", "```code```", "\u202e", "\ufeff", "\x1b[2J")


def furnish(path: Path, seed: int = 0, *, small: bool = False) -> Path:
    """Memory with history, conversations in every state, skills, settings, provider files, people and projects."""
    dice = random.Random(seed)
    _one_home(path, dice)
    (path / "config.yaml").write_text("# mine\nmemory:\n  memory_char_limit: 1000\n", encoding="utf-8")
    (path / ".env").write_text("OPENAI_API_KEY=sk-test-1234\n", encoding="utf-8")
    (path / "SOUL.md").write_text("I am Hermes.\n", encoding="utf-8")
    if not small:
        _one_home(path / "users" / "ada", dice)
        _one_home(path / "profiles" / "office", dice)
        store = MemoryStore.open(path, project="shop")
        store.add("project", f"The shop sells {_said(dice)}.", cause=Cause(origin="user"))
    connection = apsw.Connection(str(path / "memory_store.db"))
    connection.execute("CREATE TABLE facts (id INTEGER PRIMARY KEY, text); INSERT INTO facts VALUES (1, 'kept')")
    connection.close()
    for rubbish in ("cache/settings.json", "logs/agent.log", "models/small.gguf", "image_cache/x.png"):
        (path / rubbish).parent.mkdir(parents=True, exist_ok=True)
        (path / rubbish).write_bytes(b"left out")
    return path


def _one_home(path: Path, dice: random.Random) -> None:
    path.mkdir(parents=True, mode=0o700, exist_ok=True)
    store = MemoryStore.open(path)
    for number in range(dice.randint(2, 6)):
        store.add("memory", f"Fact {number}: {_said(dice)}", cause=Cause(origin="user"))
    store.add("user", f"Likes {_said(dice)}.", cause=Cause(origin="agent", session="s1"))
    store.replace("memory", "Fact 1", f"Fact one is {_said(dice)}", cause=Cause(origin="user"))
    store.remove("memory", "Fact 0", cause=Cause(origin="user", note="no longer true"))
    _skills(path / "skills" / "ops" / "deploy", dice)
    (path / "pending" / "memory").mkdir(parents=True, exist_ok=True)
    with SessionDB.open(path / "state.db") as db:
        _conversations(db, dice)
    with SessionDB.open(path / "state.db", owner="telegram:7") as db:
        other = db.create_session(source="telegram", title="Other owner")
        db.append(other, {"role": "user", "content": _said(dice)})


def _skills(folder: Path, dice: random.Random) -> None:
    (folder / "scripts").mkdir(parents=True, exist_ok=True)
    text = f"---\nname: deploy\ndescription: ships it\n---\n\n# Deploy\n\n{_said(dice)}\n"
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    script = folder / "scripts" / "go.sh"
    script.write_text("#!/bin/sh\necho gone\n", encoding="utf-8")
    script.chmod(0o700)
    (folder / "empty.txt").write_bytes(b"")
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / "kept.txt").write_text("part of the skill", encoding="utf-8")


def _conversations(db: SessionDB, dice: random.Random) -> None:
    root = db.create_session(title="Release", model="m", project="shop", system_prompt="Be kind.", more={"a": [1]})
    ids = db.append_many(root, [_message(dice) for _ in range(dice.randint(3, 80))])
    db.set_compacted(root, ids[:2])
    db.rewind(root, ids[-2])
    db.update_session(root, input_tokens=7, actual_cost_usd=0.25)
    db.end_session(root, "compression")
    tip = db.create_session(parent_session_id=root, title="Release", started_at=1_700_000_000.5)
    db.append_many(tip, [_message(dice) for _ in range(3)])
    aside = db.create_session(parent_session_id=root, kind="branch", source="telegram")
    db.append(aside, {"role": "user", "content": "lone \ud800 half", "timestamp": 1_714_738_200.5})
    gone = db.create_session(title="To be deleted")
    db.append(gone, {"role": "user", "content": "deleted words"})
    db.delete(gone)
    add_summaries(database_of(db))
    key = db.get_session(tip).key
    with database_of(db).writing() as connection:
        connection.execute(
            "INSERT INTO summaries (session, depth, ids, messages, text, made_by, made_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (key, 0, "1-2", 2, _said(dice), "extract", 1.5),
        )
    empty = db.create_session(title="Empty", archived=1)
    db.set_meta("note", "kept")
    db.set_meta("bytes", b"\x00\xff")
    assert empty


def _message(dice: random.Random) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.txt"}'}}
    return dice.choice(
        [
            {"role": "user", "content": _said(dice, _ODD)},
            {
                "role": "user",
                "content": [{"type": "text", "text": _said(dice, _ODD)}, {"type": "image_url", "url": "x"}],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [call],
                "reasoning": "because",
                "x_odd": {"deep": [1]},
            },
            {"role": "tool", "tool_call_id": "c1", "name": "read", "content": f"日本 \0 {_said(dice, _ODD)}"},
            {"role": "assistant", "content": _said(dice, _ODD), "token_count": 12, "timestamp": 1_700_000_001.25},
        ]
    )


def _said(dice: random.Random, words: tuple[str, ...] = _PLAIN) -> str:
    return " ".join(dice.choice(words) for _ in range(dice.randint(1, 9)))


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes, without locks and caches."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            inside = os.path.relpath(path, folder)
            if not name.endswith((".lock", ".lock.queue", "-wal", "-shm")) and not inside.startswith("cache"):
                with open(path, "rb") as file:
                    found[inside] = file.read()
    return found
