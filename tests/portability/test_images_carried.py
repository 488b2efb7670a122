"""Images go where their conversations go: exports, imports, merges, backups, and transcripts of other agents."""

from __future__ import annotations

import json
import os
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from pictures import as_claude, as_openai, png, text

from hermes import MemorySession, SessionDB
from hermes.portability.home import Selection, export_home

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

PICTURE, OTHER = png(), png(shade=200)


def talk(home: Path, title: str, data: bytes, **more: Any) -> list[dict[str, Any]]:
    with MemorySession.open(home, title=title, **more) as session:
        session.prepare_turn([text(f"About {title}"), as_openai(data)])
        session.finish_turn("Seen.")
        return session.request().messages


def replayed(home: Path, title: str) -> list[dict[str, Any]]:
    with MemorySession.open(home, resume=title) as session:
        return session.request().messages


def names(home: Path) -> int:
    return len(os.listdir(home / "images"))


@pytest.mark.proves("images.carried")
def test_a_file_of_conversations_carries_their_images_and_can_be_imported_twice(
    home: Path, tmp_path: Path, hermes: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = talk(home, "charts", PICTURE)
    file = tmp_path / "all.jsonl"
    assert hermes("sessions", "export", "--all", "--out", str(file)).code == 0
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "new"))
    for came in (2, 0):
        assert hermes("sessions", "import", str(file), "--json").json["messages"] == came
    assert hermes("sessions", "export", "--all", "--out", str(tmp_path / "again.jsonl")).code == 0
    assert (tmp_path / "again.jsonl").read_bytes() == file.read_bytes()
    assert replayed(tmp_path / "new", "charts") == said


@pytest.mark.proves("images.carried")
def test_an_export_and_a_merge_carry_images(home: Path, tmp_path: Path, hermes: Callable[..., Ran]) -> None:
    said = talk(home, "charts", PICTURE)
    archive = str(tmp_path / "home.zip")
    assert hermes("export", archive).code == 0
    other = tmp_path / "other"
    talk(other, "mine", OTHER)
    assert hermes("--home", str(other), "import", archive, "--merge", "--yes").code == 0
    assert replayed(other, "charts") == said
    assert names(other) == 2
    empty = tmp_path / "empty"
    assert hermes("--home", str(empty), "import", archive, "--yes").code == 0
    assert replayed(empty, "charts") == said


@pytest.mark.proves("images.carried")
def test_an_export_of_some_conversations_has_their_images_only(home: Path, tmp_path: Path) -> None:
    talk(home, "charts", PICTURE, project="one")
    talk(home, "maps", OTHER, project="two")
    export_home(str(home), str(tmp_path / "out.zip"), Selection(project="one"))
    with zipfile.ZipFile(tmp_path / "out.zip") as made:
        images = [made.read(name) for name in made.namelist() if name.startswith("home/images/")]
    assert images == [PICTURE]


@pytest.mark.proves("images.carried")
def test_a_backup_brings_images_back(home: Path, hermes: Callable[..., Ran]) -> None:
    said = talk(home, "charts", PICTURE)
    made = hermes("backup", "create", "--json")
    assert made.code == 0, made.err
    assert hermes("sessions", "delete", "charts", "--yes").code == 0
    assert names(home) == 0
    restored = hermes("backup", "restore", made.json["path"], "--yes")
    assert restored.code == 0, restored.err
    assert replayed(home, "charts") == said


@pytest.mark.proves("images.carried", "images.stored")
def test_images_in_transcripts_of_claude_code_become_files(
    home: Path, tmp_path: Path, hermes: Callable[..., Ran]
) -> None:
    record = {
        "type": "user",
        "uuid": "1",
        "sessionId": "s",
        "timestamp": "2026-01-01T00:00:00Z",
        "message": {"role": "user", "content": [text("What is this?"), as_claude(PICTURE)]},
    }
    folder = tmp_path / "projects" / "p"
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_text(json.dumps(record) + "\n")
    for _ in range(2):
        assert hermes("sessions", "import", str(tmp_path / "projects"), "--format", "claude-code").code == 0
    with SessionDB.open(home / "state.db") as db:
        (session,) = db.list_sessions()
        (message,) = db.messages(session.id)
        assert message.text == "What is this?\n[image: PNG, 30×20, 688 bytes]"  # noqa: RUF001
        assert db.images.read(message.message["images"][0]) == PICTURE


@pytest.mark.proves("images.removed")
def test_forgetting_a_person_removes_their_images(home: Path, hermes: Callable[..., Ran]) -> None:
    assert hermes("users", "add", "ann").code == 0
    talk(home / "users" / "ann", "charts", PICTURE)
    assert hermes("users", "forget", "ann", "--yes").code == 0
    assert [name for _, _, files in os.walk(home) for name in files if name.endswith(".png")] == []
