"""Conversations on the web page: found, read, unfolded, renamed, branched, exported and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from compacted import configure, talk
from http_service import running
from web_page import Visitor, own_page
from web_payloads import PAYLOADS, harmless

from hermes import MemorySession
from hermes.base.text import in_words
from hermes.conversations.database import SessionDB
from hermes.memory.store import MemoryStore
from hermes.settings.home import find_home
from hermes.settings.people import People

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from web_page import Browser

    from hermes.settings.home import Home

COMPACTED = "a long repair"


@pytest.fixture
def home_with_history(home: Path) -> Path:
    """One conversation that was compacted, and one about dinner."""
    configure(home)
    MemoryStore.open(home).add("memory", "The deploy key is on the blue stick.")
    MemoryStore.open(home).add("memory", "Tests run on port 8080.")
    with MemorySession.open(home, source="cli", title=COMPACTED) as session:
        talk(session, 14)
        session.compact()
        talk(session, 2, start=14)
    with MemorySession.open(home, source="cli", title="Dinner") as session:
        session.prepare_turn("Where shall we **eat** on Friday?")
        session.finish_turn("At *Bistro Verde*:\n\n| dish | price |\n|---|---|\n| soup | 7 |")
    return home


@pytest.fixture
def ann(home: Path) -> Iterator[Visitor]:
    with running(home) as up:
        visitor = Visitor(up.url)
        visitor.sign_in(up.keys["ann"])
        yield visitor


@pytest.fixture
def ann_home(home: Path, ann: Visitor) -> Home:
    assert ann.get("/ui/conversations").status_code == 200
    return People(find_home(home)).home_of("ann")


@pytest.fixture
def page(home_with_history: Path, chromium: Browser) -> Iterator[Browser]:
    with own_page(home_with_history) as (url, link):
        seen = chromium.at(url)
        seen.size(1280)
        seen.enter(link())
        seen.open("/ui/conversations")
        yield seen


@pytest.mark.proves("web.conversations")
def test_a_question_finds_the_conversation_and_opens_it_at_the_answer(page: Browser) -> None:
    page.find("#q").send_keys("where do we eat on friday?\n")
    page.wait(lambda: page.find("mark"))
    page.button("Dinner").click()
    page.wait(lambda: "Bistro Verde" in page.find(".message.here").text)
    assert [cell.text for cell in page.all(".prose td")] == ["soup", "7"]


@pytest.mark.proves("web.conversations")
def test_a_compaction_unfolds_to_the_originals(page: Browser) -> None:
    page.button(COMPACTED).click()
    page.wait(lambda: page.find("details.compacted"))
    first = page.find("details.compacted .prose p")
    assert not first.is_displayed()
    page.find("details.compacted > summary").click()
    page.wait(first.is_displayed)
    assert "module_0" in first.text


@pytest.mark.proves("web.context")
def test_the_context_bar_shows_every_part_and_its_text(page: Browser) -> None:
    page.button(COMPACTED).click()
    page.button("What the model saw").click()
    page.wait(lambda: page.find("svg.bar rect"))
    kinds = {each.get_attribute("class").split()[1] for each in page.all("svg.bar rect")}
    assert {"prompt", "tools", "history", "summary", "said"} <= kinds
    widths = [float(each.get_attribute("width")) for each in page.all("svg.bar rect")]
    assert sum(widths) == pytest.approx(1000, abs=1)
    assert "Notes: Tests run on port 8080." in [each.text for each in page.all(".parts .label")]
    page.find(".parts summary").click()
    page.wait(lambda: "You are Hermes" in page.find(".parts pre").text)


@pytest.mark.proves("web.conversations")
def test_renaming_branching_exporting_and_deleting(ann: Visitor, ann_home: Home) -> None:
    with MemorySession.open(ann_home, source="cli", title="Old name") as session:
        session.prepare_turn("Remember the milk. password=Tr0ub4dor&3xyz")
        session.finish_turn("Yes.")
    at = f"/ui/conversations/{session.id}"
    assert at in ann.get("/ui/conversations").text
    assert "New name" in ann.post(f"{at}/rename", title="New name").text
    assert "New name (branch)" in ann.post(f"{at}/branch").text
    for kind, beginning in (("markdown", "# New name"), ("html", "<!doctype html>"), ("jsonl", "{")):
        exported = ann.get(f"{at}/export?format={kind}")
        assert exported.text.lower().startswith(beginning.lower())
        assert exported.headers["content-disposition"].startswith("attachment;")
        assert "Tr0ub4dor" not in exported.text
    ann.get(at)
    assert "Deleted" in ann.post(f"{at}/delete").text
    assert ann.get(at).status_code == 404


@pytest.mark.proves("web.conversations")
def test_a_search_shows_when_the_conversations_took_place(ann: Visitor, ann_home: Home) -> None:
    days = (1_750_000_000.0, 1_750_000_000.0 + 3 * 86_400)
    with SessionDB.open(ann_home.join("state.db")) as db:
        for at in days:
            session = db.create_session(source="cli", title=None, started_at=at)
            db.append(session, {"role": "user", "content": "The boat needs paint.", "timestamp": at})
    shown = ann.get("/ui/conversations?q=boat").text
    assert all(in_words(at, '<th scope="row">%Y-%m-%d</th>') in shown for at in days)
    with SessionDB.open(ann_home.join("state.db")) as db:
        later = days[0] + 90 * 86_400
        session = db.create_session(source="cli", title=None, started_at=later)
        db.append(session, {"role": "user", "content": "The boat is dry.", "timestamp": later})
    shown = ann.get("/ui/conversations?q=boat").text
    assert all(in_words(at, '<th scope="row">%Y-%m</th>') in shown for at in (*days, later))


@pytest.mark.proves("web.session")
def test_somebody_elses_conversation_is_not_there(ann: Visitor, home: Path) -> None:
    with MemorySession.open(People(find_home(home)).home_of("bob"), source="cli", title="Bob's plans") as bobs:
        bobs.prepare_turn("The secret garden.")
        bobs.finish_turn("Behind the wall.")
    at = f"/ui/conversations/{bobs.id}"
    ann.get("/ui/conversations")
    for path in (at, f"{at}/context", f"{at}/export?format=jsonl"):
        assert ann.get(path).status_code == 404
    for act in ("rename", "branch", "delete"):
        assert ann.post(f"{at}/{act}", title="mine").status_code == 404
    assert "Nothing found" in ann.get("/ui/conversations?q=secret+garden").text


@pytest.mark.proves("web.escaped")
@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_that_was_said_runs_in_the_browser(payload: str, ann: Visitor, ann_home: Home) -> None:
    with MemorySession.open(ann_home, source="cli", title=payload[:90]) as session:
        session.prepare_turn(f"word {payload}")
        function = {"name": "lookup", "arguments": f'{{"q": "{len(payload)}"}}'}
        session.record(
            {
                "role": "assistant",
                "content": payload,
                "tool_calls": [{"id": "c", "type": "function", "function": function}],
            }
        )
        session.record_result("c", payload)
        session.finish_turn(f"# {payload}\n\n> {payload}\n\n`{payload}`")
    at = f"/ui/conversations/{session.id}"
    for path in ("/ui/conversations", "/ui/conversations?q=word", at, f"{at}/context"):
        answer = ann.get(path)
        assert (answer.status_code, harmless(answer.text)) == (200, True), path
