"""The name a conversation gets, so that a list of them can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from agents import configure

from hermes import Agent
from hermes.base.events import Notice, TurnFinished
from hermes.llm.scripted import Scripted
from hermes.session.lifecycle import LONGEST, title_from

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran


@pytest.mark.proves("agent.titles")
def test_a_conversation_is_named_after_the_persons_first_words(home: Path, hermes: Callable[..., Ran]) -> None:
    with Agent.open(home, model=Scripted(["Sure.", "Still sure."])) as agent:
        list(agent.turn("hello, how do I back up the deploy host?"))
        list(agent.turn("and something else"))
    with Agent.open(home, model=Scripted(["Sure."]), title="Given") as named:
        list(named.turn("hello"))
    titles = [each["title"] for each in hermes("sessions", "list", "--json").json]
    assert titles == ["Given", "How do I back up the deploy host?"]


@pytest.mark.proves("agent.titles")
def test_a_helper_model_thinks_of_a_better_name_and_its_failure_leaves_the_first(home: Path) -> None:
    configure(home, "auxiliary: {title_generation: {model: 'scripted:title.json'}}\n")
    (home / "title.json").write_text('["\\"Deploy host backups.\\""]')
    with Agent.open(home, model=Scripted(["Sure."])) as agent:
        list(agent.turn("how do I back it up?"))
    with Agent.open(home, model=Scripted(["Sure."]), resume=agent.session.id) as agent:
        assert agent.session.about().title == "Deploy host backups"
    (home / "title.json").write_text('[{"error": "no credit"}]')
    with Agent.open(home, model=Scripted(["Sure."])) as agent:
        list(agent.turn("how do I restore it?"))
    with Agent.open(home, model=Scripted(["Sure."]), resume=agent.session.id) as agent:
        assert agent.session.about().title == "How do I restore it?"


@pytest.mark.proves("agent.titles")
def test_a_helper_model_that_cannot_be_made_costs_neither_answer_nor_name(home: Path) -> None:
    configure(home, "auxiliary: {title_generation: {provider: nobody, model: none}}\n")
    with Agent.open(home, model=Scripted(["Sure."])) as agent:
        *events, last = agent.turn("how do I back it up?")
        assert isinstance(last, TurnFinished)
        told = [each.text for each in events if isinstance(each, Notice)]
        assert [text.partition(";")[0] for text in told] == [
            "no helper model for titles: auxiliary.title_generation.provider is 'nobody'"
        ]
        assert "set auxiliary.title_generation.base_url" in told[0]
    with Agent.open(home, model=Scripted(["Sure."]), resume=agent.session.id) as agent:
        assert agent.session.about().title == "How do I back it up?"


@pytest.mark.proves("agent.titles")
@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("## 1. *Plan* the `trip`\nmore", "Plan the trip"),
        ("\n\n???\n日本語の予定", "日本語の予定"),
        ("hi", "Hi"),
        ("!!!", ""),
        ("word " * 40, "Word word word word word word word word word word word…"),
        ("x" * 200, "X" + "x" * (LONGEST - 2) + "…"),
    ],
)
def test_a_title_is_one_short_line(text: str, title: str) -> None:
    assert title_from(text) == title
