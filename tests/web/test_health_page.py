"""Health on the web page: charts with tables behind them, cache misses, and doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from web_page import own_page

from hermes.base.events import Usage
from hermes.conversations.database import SessionDB
from hermes.session.models import REVIEW, Background
from hermes.settings.config import load_settings
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from web_page import Browser

DAY = 86_400.0
START = 1_750_000_000.0


@pytest.fixture
def page(home: Path, chromium: Browser) -> Iterator[Browser]:
    """A home with conversations on three days, one of them with a cache miss."""
    home.mkdir(exist_ok=True)
    with SessionDB.open(home / "state.db") as db:
        for day, cached in enumerate((800, 900, 100)):
            at = START + day * DAY
            session = db.create_session(source="cli", title=f"Day {day}", started_at=at)
            cache = {"share": cached / 1000, **({"broken_by": "the tools changed"} if cached < 500 else {})}
            answer = {"role": "assistant", "content": "Yes.", "timestamp": at, "cache": cache}
            db.append_many(session, [{"role": "user", "content": "Really?", "timestamp": at}, answer])
            db.update_session(session, input_tokens=1000, output_tokens=50, cache_read_tokens=cached)
    with own_page(home) as (url, link):
        seen = chromium.at(url)
        seen.size(1280)
        seen.enter(link())
        seen.open("/ui/health")
        yield seen


@pytest.mark.proves("web.health")
def test_charts_are_drawn_from_the_tables_behind_them(page: Browser) -> None:
    page.wait(lambda: len(page.all("figure[data-chart] canvas")) == 4)
    table = page.find("figure[data-chart=share] table")
    cells = [each.get_attribute("data-value") for each in page.all("figure[data-chart=share] td[data-value]")]
    assert cells == ["80.0", "90.0", "10.0"]
    assert not table.is_displayed()
    page.find("figure[data-chart=share] summary").click()
    page.wait(table.is_displayed)


@pytest.mark.proves("web.health")
def test_a_cache_miss_names_its_reason_and_leads_to_the_answer(page: Browser) -> None:
    page.says("the tools changed")
    page.button("Day 2").click()
    page.wait(lambda: page.find(".message.here").text.startswith("Assistant"))


@pytest.mark.proves("web.health")
def test_doctor_runs_on_request(page: Browser) -> None:
    page.button("Run doctor").click()
    page.wait(lambda: page.find("#doctor").is_displayed())
    page.says("conversations")


@pytest.mark.proves("web.health", "background.alarm", "background.budget")
def test_the_budget_of_background_work_and_an_idle_review_are_shown(page: Browser, home: Path) -> None:
    (home / "config.yaml").write_text("background:\n  alarm_after: 2\n  tokens_per_day: 5000\n")
    with SessionDB.open(home / "state.db") as db:
        work = Background(db, load_settings(find_home(home)))
        work.count(REVIEW, Usage(input_tokens=1000, output_tokens=10), "model")
        for _ in range(2):
            work.consolidated(REVIEW, changed=False, tokens=1010)
    page.open("/ui/health")
    page.says("the last 2 runs of the review changed nothing and took 2,020 tokens")
    shown = dict(zip((each.text for each in page.all("dt")), (each.text for each in page.all("dd")), strict=True))
    assert shown["Background work today"] == "1,010 of 5,000 tokens, $0.00, 1 call"
    rows = page.all("figure[data-chart=tokens] tbody tr")
    newest = [each.get_attribute("textContent") for each in rows[-1].find_elements("css selector", "td")][1:]
    assert newest == ["0", "0", "1,010"]


@pytest.mark.proves("web.health", "bench.self")
def test_memory_is_measured_by_the_persons_own_questions(page: Browser, home: Path) -> None:
    page.button("Does memory help me?").click()
    page.says("Nothing to measure yet")
    with SessionDB.open(home / "state.db") as db:
        said = (
            ["The wifi network is called heron.", "Noted."],
            ["What is our wifi network called?", "It is called heron."],
        )
        for day, (told, replied) in enumerate(said):
            at = START + (10 + day) * DAY
            session = db.create_session(source="cli", started_at=at)
            told_at = {"role": "user", "content": told, "timestamp": at}
            db.append_many(session, [told_at, {"role": "assistant", "content": replied, "timestamp": at + 1}])
    page.button("Does memory help me?").click()
    page.wait(lambda: page.find("#help").is_displayed())
    rows = [each.text.split("\n") for each in page.all("section[aria-labelledby=help] li")]
    assert [each[:-1] for each in rows] == [
        ["Without memory", "0 of 1 answered"],
        ["With memory", "1 of 1 answered"],
        ["With older memory", "0 of 1 answered"],
        ["About other things", "0 of 10 misled"],
    ]
    assert rows[1][-1].startswith("with what session_search shows of what was said before the question; 0 misled, ")
    page.size(390)
    assert page.problems() == []
