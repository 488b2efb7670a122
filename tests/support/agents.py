"""What tests of the agent share: one turn in which a scripted model calls tools, and what they returned."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hermes import Agent
from hermes.base.events import ToolReturned
from hermes.llm.scripted import Reply, Scripted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Call = tuple[str, dict[str, Any] | str]


def configure(home: Path, text: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(text)


def call_tools(
    home: Path, folder: Path, *calls: Call, ask: Callable[[str], bool] | None = None, said: str = "", **given: Any
) -> list[dict[str, Any]]:
    """The JSON results of the calls, made by a model in one turn of an agent that works in `folder`.

    The person names the addresses and commands of all calls, unless `said` is something else.
    """
    known = [each for _, each in calls if isinstance(each, dict)]
    told = [str(each[name]) for each in known for name in ("url", "command") if name in each]
    line = said or " \n".join(["go", *told])
    folder.mkdir(exist_ok=True)
    model = Scripted([*(Reply(calls=[call]) for call in calls), "Done."], context_length=1_000_000)
    with Agent.open(home, model=model, cwd=str(folder), ask=ask, **given) as agent:
        return [first_json(each.result) for each in agent.turn(line) if isinstance(each, ToolReturned)]


def first_json(text: str) -> dict[str, Any]:
    """The result itself; notes for agents may follow it."""
    found: dict[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    return found
