"""One turn and the review after it, for the tests of reviews."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hermes import Agent, MemorySession
from hermes.base.events import TurnFinished
from hermes.llm.scripted import Scripted
from hermes.session.review import last_review

if TYPE_CHECKING:
    from pathlib import Path

TEA = {"action": "add", "target": "user", "content": "Drinks green tea in the morning."}
SKILL = "---\nname: brew\ndescription: How to brew tea.\n---\n# Steps\n1. Boil water.\n"
BREW = {"action": "create", "name": "brew", "content": SKILL}


def settings(home: Path, **more: object) -> None:
    """A review after every turn, and what a test wants besides."""
    home.mkdir(parents=True, exist_ok=True)
    blocks: dict[str, dict[str, object]] = {"memory": {"nudge_interval": 1}, "skills": {"creation_nudge_interval": 0}}
    for name, value in more.items():
        block, _, key = name.partition("__")
        blocks.setdefault(block, {})[key] = value
    (home / "config.yaml").write_text(json.dumps(blocks))


def chat(home: Path, steps: list[Any], said: str = "I like tea", **open_with: Any) -> tuple[Agent, Scripted]:
    """One turn and the review after it."""
    model = Scripted(steps)
    agent = Agent(MemorySession.open(home, **open_with), model)
    assert isinstance(list(agent.turn(said))[-1], TurnFinished)
    assert agent.reviews.wait(20)
    return agent, model


def outcome(agent: Agent) -> dict[str, Any]:
    found = last_review(agent.session.database)
    assert found is not None
    return found
