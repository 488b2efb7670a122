"""Forgetting on the web page: everything affected is shown first, and a receipt follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from http_service import running
from web_page import Visitor, own_page

from hermes import MemorySession
from hermes.memory.store import MemoryStore
from hermes.settings.home import find_home
from hermes.settings.people import People

if TYPE_CHECKING:
    from pathlib import Path

    from web_page import Browser

    from hermes.settings.home import Home


def _talk(home: Path | Home, title: str, said: str) -> str:
    with MemorySession.open(home, source="cli", title=title) as session:
        session.prepare_turn(said)
        session.finish_turn("I see.")
    return session.id


@pytest.mark.proves("web.forget")
def test_words_are_forgotten_after_a_preview(home: Path, chromium: Browser) -> None:
    _talk(home, "Clinic", "My appointment at the sleep clinic is on Monday.")
    kept = _talk(home, "Garden", "The tomatoes need water.")
    MemoryStore.open(home).add("user", "Goes to the sleep clinic.")
    MemoryStore.open(home).add("user", "Grows tomatoes.")
    with own_page(home) as (url, link):
        page = chromium.at(url)
        page.size(1280)
        page.enter(link())
        page.open("/ui/forget")
        page.find("#what").send_keys("sleep clinic\n")
        page.says("1 memory entry")
        page.says("1 conversation with 2 messages")
        assert "Garden" not in page.find("main").text
        page.button("Forget what is chosen").click()
        page.says("A new search for these words finds nothing.")
    assert MemoryStore.open(home).entries("user") == ("Grows tomatoes.",)
    with MemorySession.open(home, source="cli") as session:
        found = session.call_tool("session_search", {"query": "sleep clinic"})
        assert "appointment" not in str(found)
        assert kept in str(session.call_tool("session_search", {"query": "tomatoes"}))


@pytest.mark.proves("web.forget")
def test_only_the_owner_forgets_a_person(home: Path) -> None:
    with running(home) as up:
        ann = Visitor(up.url)
        ann.sign_in(up.keys["ann"])
        assert "A person" not in ann.get("/ui/forget").text
        assert ann.post("/ui/forget/person", person="bob", sure="bob").status_code == 404
        owner = Visitor(up.url)
        owner.sign_in(up.keys["owner"])
        owner.get("/ui/forget")
        assert "Forget bob?" in owner.post("/ui/forget/person", person="bob").text
        assert "bob" in [each.name for each in People(find_home(home)).all()]
        assert "bob is forgotten" in owner.post("/ui/forget/person", person="bob", sure="bob").text
        assert "bob" not in [each.name for each in People(find_home(home)).all()]


@pytest.mark.proves("web.session")
def test_nothing_of_somebody_else_is_shown_or_forgotten(home: Path) -> None:
    with running(home) as up:
        bob = People(find_home(home)).home_of("bob")
        theirs = _talk(bob, "Bob's plans", "The secret garden.")
        ann = Visitor(up.url)
        ann.sign_in(up.keys["ann"])
        for kind, what in (("words", "secret garden"), ("conversation", theirs), ("source", "cli")):
            assert "Nothing holds that." in ann.get("/ui/forget", params={"kind": kind, "what": what}).text
        assert ann.post("/ui/forget", kind="conversation", what=theirs, conversation=theirs).status_code == 404
        with MemorySession.open(bob, source="cli") as session:
            assert theirs in str(session.call_tool("session_search", {"query": "secret garden"}))
