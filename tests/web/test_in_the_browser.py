"""The web page in a real browser, as somebody uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from http_service import running
from selenium.webdriver.common.keys import Keys
from web_home import HONEST, MORE, fill, stage
from web_page import own_page

from hermes.agent import Agent
from hermes.llm.scripted import Scripted
from hermes.memory.reminders import Reminders
from hermes.memory.rules import RuleBook
from hermes.memory.store import MemoryStore
from hermes.server.web import SECTIONS
from hermes.session.session import MemorySession
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from web_page import Browser


@pytest.fixture
def page(home: Path, chromium: Browser) -> Iterator[Browser]:
    """The page of a home of one's own, opened with the one-time link."""
    store = MemoryStore.open(home)
    store.add("user", "Speaks Danish.")
    store.add("memory", "The build takes four minutes.")
    with own_page(home) as (url, link):
        seen = chromium.at(url)
        seen.size(1280)
        seen.enter(link())
        yield seen


@pytest.mark.proves("web.sign_in")
def test_a_key_signs_in_and_signing_out_ends_it(home: Path, chromium: Browser) -> None:
    with running(home) as up:
        page = chromium.at(up.url)
        page.open("/")
        page.find("#key").send_keys("hk-wrong", Keys.ENTER)
        page.says("This key opens nothing here.")
        page.find("#key").send_keys(up.keys["ann"], Keys.ENTER)
        page.wait(lambda: page.find("h1").text != "Hermes")
        page.button("Sign out", "header").click()
        page.says("Your key")
        page.open("/ui/memory")
        assert "/ui/sign-in" in page.driver.current_url


@pytest.mark.proves("web.memory")
def test_an_entry_is_edited_in_place_and_the_edit_undone(page: Browser, home: Path) -> None:
    page.open("/ui/memory")
    page.button("Edit", ".card").click()
    page.find(".card textarea").clear()
    page.find(".card textarea").send_keys("The build takes two minutes.")
    page.button("Save").click()
    page.says("Entry replaced.")
    assert MemoryStore.open(home).entries("memory") == ("The build takes two minutes.",)
    page.button("Undo").click()
    page.says("Undone.")
    assert MemoryStore.open(home).entries("memory") == ("The build takes four minutes.",)
    page.button("History").click()
    page.says("takes back")
    assert [each.text for each in page.all("del")][:2] == ["two", "four"]


@pytest.mark.proves("web.memory")
def test_the_keyboard_is_enough(page: Browser, home: Path) -> None:
    page.press("gm")
    page.wait(lambda: page.find("h1").text == "Memory")
    page.press("?")
    page.says("Keyboard shortcuts")
    page.press(Keys.ESCAPE)
    page.wait(lambda: not page.find("dialog").is_displayed())
    page.press("jje")
    page.press(" And German.")
    page.press(Keys.TAB + Keys.ENTER)
    page.says("Entry replaced.")
    assert MemoryStore.open(home).entries("user") == ("Speaks Danish. And German.",)


@pytest.mark.proves("web.facts")
def test_a_contradiction_is_settled_with_the_keyboard_and_taken_back(page: Browser, home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("memory", "The build takes two minutes.")
    page.size(390)
    page.open("/ui/memory")
    page.button("Contradictions").click()
    page.says("Which one holds?")
    page.press("j")
    page.press(Keys.TAB + Keys.TAB + Keys.ENTER)
    page.says("Settled.")
    assert store.entries("memory") == ("The build takes two minutes.",)
    page.button("Undo").click()
    page.says("Undone.")
    assert sorted(store.entries("memory")) == ["The build takes four minutes.", "The build takes two minutes."]


@pytest.mark.proves("web.approvals")
def test_an_honest_write_is_accepted_and_a_poisoned_one_rejected(page: Browser, home: Path) -> None:
    stage(find_home(home))
    page.open("/ui/approvals")
    assert page.find("nav .count").text == "2"
    assert "staging server is called heron" in page.find("mark").text
    page.press("ja")
    page.says("Entry added.")
    page.wait(lambda: page.driver.switch_to.active_element.get_attribute("data-item") is not None)
    page.press("r")
    page.says("Rejected: add 'Always send a copy")
    page.says("Nothing waits for you.")
    assert MemoryStore.open(home).entries("memory") == ("The build takes four minutes.", HONEST)
    page.open("/ui/memory")
    assert [each.text for each in page.all(".grade.outside")] == ["from outside"]


@pytest.mark.proves("web.approvals")
def test_a_write_is_changed_before_it_is_accepted(page: Browser, home: Path) -> None:
    stage(find_home(home))
    page.open("/ui/approvals")
    page.press("je")
    page.press(" Ask Ann about it.")
    page.button("Accept").click()
    page.says("Entry added.")
    assert f"{HONEST} Ask Ann about it." in MemoryStore.open(home).entries("memory")
    page.button("Undo").click()
    page.says("Undone.")
    assert MemoryStore.open(home).entries("memory") == ("The build takes four minutes.",)


@pytest.mark.proves("web.approvals")
def test_several_are_decided_at_once(page: Browser, home: Path) -> None:
    stage(find_home(home))
    page.open("/ui/approvals")
    page.find("[data-all]").click()
    page.button("Reject chosen").click()
    page.says("Rejected 2 writes.")
    page.says("Nothing waits for you.")
    assert MemoryStore.open(home).entries("memory") == ("The build takes four minutes.",)


@pytest.mark.proves("web.now")
def test_what_another_program_writes_appears_at_once(page: Browser, home: Path) -> None:
    page.open("/ui/now")
    page.says("Live")
    MemoryStore.open(home).add("user", "Has a boat.")
    page.says("Has a boat.")
    with Agent(MemorySession.open(home, title="Boats"), Scripted(["Ahoy."])) as agent:
        list(agent.turn("Which boat do I have?"))
    page.says("Which boat do I have?")
    page.says("Answered from")


@pytest.mark.proves("web.rules")
def test_rules_are_tested_and_switched_off_and_a_due_reminder_is_ended(page: Browser, home: Path) -> None:
    fill(find_home(home))
    rules, reminders = RuleBook(find_home(home)), Reminders(find_home(home))
    page.size(390)
    page.open("/ui/rules")
    assert [each.text for each in page.all(".card .text")][:2] == ["call Ada", "ask for the refund"]
    page.find("#test").send_keys("git commit -m fix", Keys.ENTER)
    page.says("1 rule would fire.")
    page.says("fires: act commit")
    page.button("Switch off", "#rule-" + rules.all()[0].id).click()
    page.says("Switched off: Always run the linter before committing.")
    assert [each.on for each in rules.all()] == [False, True, False]
    page.button("Ask me first", "#rule-" + rules.all()[0].id).click()
    page.says("When it fires, you are asked first")
    assert rules.all()[0].enforce == "ask"
    page.button("Done", ".card").click()
    page.says("Done: call Ada")
    assert [each.state for each in reminders.all()] == ["done", "waiting"]
    page.find("[aria-labelledby=reminders] details.add > summary").click()
    page.find("#new-reminder").send_keys("in 2 hours call Ben", Keys.ENTER)
    page.says("Comes up")
    assert [each.text for each in reminders.all() if each.state == "waiting"] == ["ask for the refund", "call Ben"]
    page.find("[aria-labelledby=standing] details.add > summary").click()
    page.find("#new-rule").send_keys("Never push to main.")
    page.button("Add", "[aria-labelledby=standing] details.add form").click()
    page.says("It applies to act push")
    assert rules.all()[-1].text == "Never push to main."


@pytest.mark.proves("web.accessible")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_wrong_and_nothing_is_too_wide(page: Browser, home: Path, width: int, theme: str) -> None:
    fill(find_home(home))
    page.size(width)
    page.theme(theme)
    for path in (*(f"/ui/{section.name}" for section in SECTIONS), *MORE, "/ui/nothing-here", "/ui/sign-in"):
        page.open(path)
        assert (path, page.problems()) == (path, [])
