"""The web page in a real browser, as somebody uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from http_service import running
from selenium.webdriver.common.keys import Keys
from web_page import own_page

from hermes.memory.store import MemoryStore

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
    page.find("body").send_keys("gm")
    page.wait(lambda: page.find("h1").text == "Memory")
    page.press("?")
    page.says("Keyboard shortcuts")
    page.press(Keys.ESCAPE)
    page.press("jj")
    page.press("e")
    page.press(" And German.")
    page.press(Keys.TAB + Keys.ENTER)
    page.says("Entry replaced.")
    assert MemoryStore.open(home).entries("user") == ("Speaks Danish. And German.",)


@pytest.mark.proves("web.accessible")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_wrong_and_nothing_is_too_wide(page: Browser, width: int, theme: str) -> None:
    page.size(width)
    page.theme(theme)
    for path in ("/ui/memory", "/ui/memory/history", "/ui/nothing-here"):
        page.open(path)
        assert (path, page.problems()) == (path, [])
