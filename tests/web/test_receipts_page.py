"""Receipts on the web page: what an answer was made from, and acting on an item."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from http_service import running
from web_page import Visitor

from hermes import MemorySession
from hermes.memory.store import MemoryStore
from hermes.settings.home import find_home
from hermes.settings.people import People

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def ann(home: Path) -> Iterator[Visitor]:
    with running(home) as up:
        visitor = Visitor(up.url)
        visitor.sign_in(up.keys["ann"])
        yield visitor


def _answer(home: Path, person: str) -> str:
    """An answer made with one entry of memory; the id of its receipt."""
    own = People(find_home(home)).home_of(person)
    MemoryStore.open(own).add("user", f"{person} drinks green tea.")
    with MemorySession.open(own, source="cli", title=f"Tea with {person}") as session:
        session.prepare_turn("What shall I order?")
        session.finish_turn("Green tea.")
    return f"{session.id}.1"


@pytest.mark.proves("web.receipts")
def test_a_receipt_shows_the_entry_behind_an_answer_and_corrects_it(ann: Visitor, home: Path) -> None:
    _answer(home, "ann")
    listed = ann.get("/ui/receipts")
    assert "What shall I order?" in listed.text
    path = listed.text.split('href="/ui/receipts/')[1].split('"')[0]
    shown = ann.get(f"/ui/receipts/{path}")
    assert "ann drinks green tea." in shown.text
    assert "sealed, intact" in shown.text
    number = shown.text.split(f"/ui/receipts/{path}/")[1].split("/")[0]
    ann.post(f"/ui/receipts/{path}/{number}/correct", text="ann drinks black tea.")
    store = MemoryStore.open(People(find_home(home)).home_of("ann"))
    assert store.entries("user") == ("ann drinks black tea.",)
    assert ann.post(f"/ui/receipts/{path}/999/forget").status_code in (200, 404)


@pytest.mark.proves("web.session")
def test_somebody_elses_receipt_is_not_there(ann: Visitor, home: Path) -> None:
    receipt = _answer(home, "bob")
    ann.get("/ui/receipts")
    assert ann.get(f"/ui/receipts/{receipt}").status_code == 404
    assert ann.get(f"/ui/receipts?conversation={receipt.rpartition('.')[0]}").status_code == 404
    assert ann.post(f"/ui/receipts/{receipt}/1/forget").status_code == 404
