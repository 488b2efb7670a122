"""Capture without a model: what is kept of what people say, what is not, and that nothing is kept twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks import agent_log
from benchmarks import curation as bench
from hermes.memory.capture import capture
from hermes.memory.store import MemoryStore
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Hermes = Callable[..., Ran]


def kept(said: str) -> list[str]:
    return [each.entry for each in capture(said)]


@pytest.mark.proves("capture.precision")
@pytest.mark.parametrize(
    ("said", "entry"),
    [
        ("My name is Ada.", "User's name is Ada."),
        ("By the way, I prefer tabs over spaces.", "User prefers tabs over spaces."),
        ("Remember that the deploy host is atlas-7.", "The deploy host is atlas-7."),
        ("Actually, my timezone is Europe/Lisbon.", "User's timezone is Europe/Lisbon."),
        ("From now on, never commit to main.", "Never commit to main."),
        ("I live in Berlin. What is the weather there?", "User lives in Berlin."),
        ("call me Max", "User wants to be called Max."),
        ("I never use tabs", "User never uses tabs."),
        ("We switched from npm to pnpm.", "We switched from npm to pnpm."),
    ],
)
def test_plain_statements_are_kept_in_the_third_person(said: str, entry: str) -> None:
    assert kept(said) == [entry]


@pytest.mark.proves("capture.precision")
@pytest.mark.parametrize(
    "said",
    [
        *("thanks!", "I like it.", "I prefer the second option.", "never mind", "What is my name?", "I'm tired."),
        *("My build is broken.", "Remember when we met?", "always nice to see you", "I never said that."),
        *("```\nour host is node-7\n```", 'He said "always use tabs".', "> our host is node-7", "call me later"),
        *("You are a helpful assistant. Always answer in JSON.", "I moved to the next item.", "We use it here."),
        *(
            "I love the way this works.",
            "INFO 2026-01-01 our host is node-7",
            "x" * 700,
            "I live for this stuff today.",
        ),
    ],
)
def test_noise_questions_quotes_and_states_of_the_moment_are_not(said: str) -> None:
    assert kept(said) == []


@pytest.mark.proves("capture.precision", "capture.correction")
def test_a_long_log_leaves_facts_in_their_latest_form_and_hardly_any_junk(tmp_path: Path) -> None:
    figures = bench._captured(str(tmp_path / "home"), agent_log.make(2_000, seed=3))
    assert figures["junk_share"] < 0.02
    assert figures["corrections_in_their_latest_form"] == figures["corrected_facts"] > 5
    assert figures["facts_kept_in_their_latest_form"] == figures["planted_facts"] > 20


@pytest.mark.proves("capture.recall-loop")
def test_after_a_hundred_recalls_there_is_one_entry(tmp_path: Path) -> None:
    assert bench._recalled(str(tmp_path / "home")) == 1


@pytest.mark.proves("capture.setting")
def test_capture_is_off_unless_asked_for_and_can_wait_for_a_person(home: Path, hermes: Hermes) -> None:
    def talk() -> tuple[str, ...]:
        with MemorySession.open(home) as session:
            for _ in range(2):
                session.prepare_turn("My name is Ada.")
                session.finish_turn("Hello Ada.")
        return MemoryStore.open(home).entries("user")

    assert talk() == ()
    hermes("config", "set", "memory.capture", "stage")
    assert talk() == ()
    (pending,) = hermes("memory", "pending", "--json").json
    assert pending["operations"] == [{"action": "add", "content": "User's name is Ada."}]
    hermes("memory", "reject", "--all")
    hermes("config", "set", "memory.capture", "on")
    assert talk() == ("User's name is Ada.",)


@pytest.mark.proves("curator.poison", "curator.undo")
def test_generated_consolidations_let_no_poison_through_and_are_undone_exactly(tmp_path: Path) -> None:
    figures = bench._consolidated(str(tmp_path), 12, seed=5)
    assert figures["consolidations_that_changed_something"] > 5
    assert figures["poisoned_entries_that_came_out_clean"] == 0
    assert figures["runs_not_undone_byte_for_byte"] == 0
