"""The migrations that `bin/soak migration` kills: for each a home with content, a source, and the command."""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import agent_home
import foreign_transcripts
import homes
import openclaw_home

from hermes.cli.app import run as run_command
from hermes.memory.entries import Cause
from hermes.memory.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_LINES = 3000  # more than one transaction takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """`furnish` fills the folder in which `home` stands; `words` is the command. `keeps` is one that may be resumed."""

    name: str
    furnish: Callable[[Path], None]
    words: tuple[str, ...]
    keeps: bool = False


def _claw(place: Path) -> None:
    _home(place)
    openclaw_home.build(place / ".openclaw")
    openclaw_home.skill(place / "home" / "skills" / "openclaw-imports" / "weather", "another one")


def _agent(place: Path) -> None:
    _home(place)
    agent_home.furnish(place / "agent")


def _agent_in_place(place: Path) -> None:
    agent_home.furnish(place / "home", "external index" if place.name.endswith("1") else "inline index")


def _export(place: Path) -> None:
    homes.furnish(place / "other", 7, small=True)
    _command(place, "other", "export", str(place / "x.zip"))
    _home(place)


def _backup(place: Path) -> None:
    _home(place)
    _command(place, "home", "backup", "create", "--out", str(place / "b.zip"))
    _command(place, "home", "backup", "create")
    MemoryStore.open(place / "home").add("memory", "Newer than the backup.", cause=Cause(origin="user"))


def _notes(place: Path) -> None:
    _home(place)
    (place / "notes.json").write_text(json.dumps({"results": [{"id": "1", "memory": "Likes tea."}]}), encoding="utf-8")


def _transcripts(place: Path) -> None:
    _home(place)
    made = foreign_transcripts
    made.codex(place / "past" / "codex")
    for number in range(3):
        records = [made.claude_code_line("user", f"line {n}", 1, sessionId=f"s{number}") for n in range(_LINES)]
        made.lines(place / "past" / f"{number}.jsonl", records)


def _home(place: Path) -> None:
    homes.furnish(place / "home", 3, small=True)


def _command(place: Path, home: str, *words: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        assert run_command([*words, "--json", "--home", str(place / home)]) == 0


SCENES = (
    Scene(
        name="claw migrate",
        furnish=_claw,
        words=(
            *("claw", "migrate", "--yes", "--overwrite", "--migrate-secrets", "--source", ".openclaw"),
            *("--skill-conflict", "overwrite"),
        ),
    ),
    Scene(
        name="import hermes-agent",
        furnish=_agent,
        words=("import", "hermes-agent", "agent", "--yes", "--overwrite", "--migrate-secrets"),
    ),
    Scene(
        name="import hermes-agent in place",
        furnish=_agent_in_place,
        words=("import", "hermes-agent", "home", "--yes"),
    ),
    Scene(name="import", furnish=_export, words=("import", "x.zip", "--replace")),
    Scene(name="import --merge", furnish=_export, words=("import", "x.zip", "--merge", "--yes", "--overwrite")),
    Scene(name="backup restore", furnish=_backup, words=("backup", "restore", "b.zip", "--yes")),
    Scene(name="memory import", furnish=_notes, words=("memory", "import", "notes.json", "--yes")),
    Scene(name="sessions import", furnish=_transcripts, words=("sessions", "import", "past"), keeps=True),
)


def build(scene: Scene, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    random.seed(0)
    scene.furnish(place)
