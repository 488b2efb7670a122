"""A hermes-agent home as its users have it, with a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_agent_layouts import build
from openclaw_home import skill

if TYPE_CHECKING:
    from pathlib import Path

OURS = "_config_version: 33\nmemory:\n  memory_char_limit: 3000 # mine\n"
CONFIG = f"{OURS}  flush_min_turns: 6\nterminal:\n  backend: local\n"


def furnish(place: Path, layout: str = "inline index") -> Path:
    (place / "memories").mkdir(parents=True)
    (place / "memories" / "MEMORY.md").write_text("Runs Debian.\n§\n- keeps\n- its list", encoding="utf-8")
    (place / "memories" / "USER.md").write_text("Likes tea.\n", encoding="utf-8")
    (place / "config.yaml").write_text(CONFIG, encoding="utf-8")
    (place / ".env").write_text("OPENROUTER_API_KEY=sk-or-1\n", encoding="utf-8")
    (place / "SOUL.md").write_text("I am Hermes.\n", encoding="utf-8")
    (place / "honcho.json").write_text("{}", encoding="utf-8")
    (place / "cron").mkdir()
    skill(place / "skills" / "ops" / "deploy", "ships it")
    build(place / "state.db", layout)
    (place / "profiles" / "office" / "memories").mkdir(parents=True)
    (place / "profiles" / "office" / "memories" / "MEMORY.md").write_text("Office note.", encoding="utf-8")
    build(place / "profiles" / "office" / "state.db", layout)
    return place
