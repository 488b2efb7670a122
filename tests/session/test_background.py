"""Work in the background has a budget per day: what is spent is shown, and what waits is not lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from compacted import configure, talk
from curation_home import FILLER, curator, store_with
from reviewed import TEA, chat, outcome, settings

from hermes import Agent, MemorySession, MemoryStore, SessionDB
from hermes.base.events import Usage
from hermes.llm.scripted import Reply, Scripted
from hermes.session.models import Background
from hermes.session.review import Reviews
from hermes.settings.config import load_settings
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

DEAR = Reply(text="Nothing to save.", usage=Usage(input_tokens=19_990, output_tokens=10))


def tomorrow() -> float:
    return time.time() + 86_400


def spend(home: Path) -> None:
    """A review that takes all of a budget of 20,000 tokens."""
    agent, _ = chat(home, ["Noted.", DEAR], "I have a cat")
    assert outcome(agent)["tokens"] == 20_000
    agent.close()


@pytest.mark.proves("background.budget", "background.waits")
def test_a_review_without_budget_waits_survives_a_restart_and_runs_the_next_day(
    both_engines: str, home: Path, hermes: Callable[..., Ran]
) -> None:
    del both_engines
    settings(home, background__tokens_per_day=20_000)
    spend(home)
    agent, model = chat(home, ["Noted."])
    assert (outcome(agent)["status"], len(model.requests)) == ("waiting", 1)
    waited = agent.session.id
    agent.close()
    told = hermes("status", "--json").json["background"]
    assert (told["tokens"], told["tokens_per_day"]) == (20_000, 20_000)
    assert told["by_task"]["background_review"]["calls"] == 1
    assert [each["session"] for each in told["waiting"]] == [waited]
    assert "20,000 of 20,000 tokens of background work today" in (shown := hermes("status").out)
    assert "1 review waiting for a new day" in shown
    with MemorySession.open(home) as session:
        saves = Scripted([Reply(calls=[("memory", TEA)]), "Saved."])
        assert not Reviews(session).tidy_if_due(saves)
        reviews = Reviews(session, now=tomorrow)
        assert reviews.tidy_if_due(saves)
        assert reviews.wait(20)
        assert "I like tea" in str(saves.requests[0].messages)
        assert Background(session.database, session.settings).waiting() == []
    store = MemoryStore.open(home)
    assert store.entries("user") == (TEA["content"],)
    assert store.history("user")[0][-1].cause.session == waited


@pytest.mark.proves("background.killed")
def test_a_review_whose_process_was_killed_is_made_by_the_next_one(both_engines: str, home: Path) -> None:
    del both_engines
    settings(home)
    agent, _ = chat(home, ["Noted."])
    Background(agent.session.database, agent.session.settings).begin(agent.session.id, ["memory"])  # and then killed
    agent.close()
    with MemorySession.open(home) as session:
        saves = Scripted([Reply(calls=[("memory", TEA)]), "Saved."])
        assert not Reviews(session).tidy_if_due(saves)  # somebody may still be at it
        reviews = Reviews(session, now=tomorrow)
        assert reviews.tidy_if_due(saves)
        assert reviews.wait(20)
        assert Background(session.database, session.settings, tomorrow).waiting() == []
    assert MemoryStore.open(home).entries("user") == (TEA["content"],)


@pytest.mark.proves("background.killed")
def test_a_review_that_kills_its_process_every_time_is_given_up(home: Path) -> None:
    settings(home)
    with MemorySession.open(home) as session:
        background = Background(session.database, session.settings, tomorrow)
        assert [background.begin(session.id, ["memory"]) for _ in range(4)] == [True, True, True, False]
        assert Background(session.database, session.settings, tomorrow).waiting() == []


@pytest.mark.proves("background.waits")
def test_a_conversation_that_goes_on_is_reviewed_then_and_not_once_more(home: Path) -> None:
    settings(home, background__tokens_per_day=20_000)
    spend(home)
    agent, _ = chat(home, ["Noted."])
    waited = agent.session.id
    agent.close()
    settings(home, background__tokens_per_day=0)  # as on a day that has a budget
    agent, model = chat(home, ["Again.", Reply(calls=[("memory", TEA)]), "Saved."], "tea, please", resume=waited)
    assert (outcome(agent)["status"], len(model.requests)) == ("done", 3)
    assert Background(agent.session.database, agent.session.settings).waiting() == []
    agent.close()


@pytest.mark.proves("background.waits")
def test_curation_with_a_helper_stays_due_while_the_budget_is_spent(home: Path) -> None:
    store_with(home, *FILLER)
    helper = {"model": "scripted:helper.json"}
    settings(home, background__tokens_per_day=20_000, curator__consolidate=True, auxiliary__curator=helper)
    (home / "helper.json").write_text('["{}", "{}"]')
    curator(home, hours=-1000).log.set(first_seen=1.0)
    with MemorySession.open(home) as session:
        Background(session.database, session.settings).count("curator", Usage(input_tokens=20_001), "m")
        assert not Reviews(session).tidy_if_due()
        reviews = Reviews(session, now=tomorrow)
        assert reviews.tidy_if_due()
        assert reviews.wait(20)
    assert curator(home).log.last() is not None


@pytest.mark.proves("background.budget")
def test_a_digest_that_may_not_be_paid_leaves_the_messages(home: Path) -> None:
    settings(home)
    with MemorySession.open(home) as session:
        session.prepare_turn("The walrus lives in the harbour.")
        session.finish_turn("Noted.")
    (home / "helper.json").write_text('["A walrus.", "A walrus."]')

    def searched(limit: int) -> str:
        helper = {"model": "scripted:helper.json"}
        settings(home, background__tokens_per_day=limit, auxiliary__session_search=helper)
        with MemorySession.open(home) as session:
            return session.call_tool("session_search", {"query": "walrus"})

    assert "walrus lives" in (plain := searched(1))
    assert "A walrus." not in plain
    assert "A walrus." in searched(0)
    with SessionDB.open(home / "state.db") as db:
        spent = Background(db, load_settings(find_home(home))).spent()
    assert spent["session_search"]["calls"] == 1


@pytest.mark.proves("background.budget")
def test_a_budget_in_dollars_counts_by_the_prices_of_the_models(engine: dict[str, Any], home: Path) -> None:
    settings(home, background__cost_per_day=0.01)
    with SessionDB.open(**engine) as db:
        budget = Background(db, load_settings(find_home(home)))
        budget.count("curator", Usage(input_tokens=1000, output_tokens=100), "claude-sonnet-4-5")
        assert budget.why_not() == ""
        budget.count("curator", Usage(input_tokens=2000, output_tokens=200), "claude-sonnet-4-5")
        assert "background.cost_per_day is $0.01" in budget.why_not()
        assert budget.spent()["curator"]["calls"] == 2
        assert Background(db, load_settings(find_home(home)), tomorrow).why_not() == ""


@pytest.mark.proves("background.alarm")
def test_reviews_that_spend_and_change_nothing_raise_an_alarm(home: Path, hermes: Callable[..., Ran]) -> None:
    settings(home, background__alarm_after=3)
    idle = Reply(text="Nothing.", usage=Usage(input_tokens=1000, output_tokens=10))
    for _ in range(3):
        assert "changed nothing" not in hermes("status").out
        agent, _ = chat(home, ["Noted.", idle])
        agent.close()
    assert "the last 3 runs of the review changed nothing and took 3,030 tokens" in hermes("status").out
    assert "the last 3 runs of the review changed nothing" in hermes("doctor", "--offline").out
    agent, _ = chat(home, ["Noted.", Reply(calls=[("memory", TEA)]), "Saved."])
    agent.close()
    assert hermes("status", "--json").json["background"]["alarms"] == []


@pytest.mark.proves("background.budget")
def test_titles_are_paid_from_the_budget(home: Path) -> None:
    settings(home, background__tokens_per_day=1, auxiliary__title_generation={"model": "scripted:helper.json"})
    (home / "helper.json").write_text('["A better name"]')
    with Agent.open(home, model=Scripted(["Noted."])) as agent:
        list(agent.turn("which editor do we use"))
    with SessionDB.open(home / "state.db") as db:
        assert db.get_session(agent.session.id).title == "Which editor do we use"


@pytest.mark.proves("background.budget")
def test_summaries_of_long_conversations_are_counted_and_never_wait(home: Path, hermes: Callable[..., Ran]) -> None:
    limit = "background: {tokens_per_day: 1}\n"
    configure(home, f"auxiliary: {{compression: {{model: 'scripted:helper.json'}}}}\n{limit}")
    (home / "helper.json").write_text('["Repaired some modules.", "Repaired some modules."]')
    with MemorySession.open(home) as session:
        talk(session, 20)
        assert session.compact() is not None
    told = hermes("status", "--json").json["background"]
    assert told["compaction"]["calls"] >= 1
    assert (told["tokens"], told["spent"]) == (0, "")
    assert "tokens for summaries of long conversations, not limited" in hermes("status").out
