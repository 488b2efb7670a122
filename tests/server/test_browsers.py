"""Web pages that call the server from another origin, with the headers that browsers send."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from http_service import running

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "https://chat.example.org"
CHAT = "/v1/chat/completions"
ASKS = {
    "origin": PAGE,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,x-stainless-lang",
}
HI = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.proves("http.browser")
def test_a_listed_page_may_ask_without_a_key_whether_it_may_ask_and_reads_the_answer(home: Path) -> None:
    with running(home, settings=f"server:\n  origins: ['{PAGE}']\n") as up, up.client() as http:
        before = httpx.options(f"{up.url}{CHAT}", headers=ASKS | {"access-control-request-private-network": "true"})
        assert before.status_code == 204
        assert before.headers["access-control-allow-origin"] == PAGE
        assert before.headers["access-control-allow-headers"] == ASKS["access-control-request-headers"]
        assert "POST" in before.headers["access-control-allow-methods"]
        assert before.headers["access-control-allow-private-network"] == "true"
        assert before.headers["vary"] == "origin"
        answer = http.post(CHAT, json=HI, headers={"origin": PAGE})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["access-control-allow-credentials"] == "true"
        assert "x-hermes-session" in answer.headers["access-control-expose-headers"]
        wrong = httpx.post(f"{up.url}{CHAT}", json=HI, headers={"origin": PAGE, "authorization": "Bearer no"})
        assert (wrong.status_code, wrong.headers["access-control-allow-origin"]) == (401, PAGE)
        rebound = httpx.options(f"{up.url}{CHAT}", headers=ASKS | {"host": "evil.example"})
        assert (rebound.status_code, "access-control-allow-methods" in rebound.headers) == (421, False)


@pytest.mark.proves("http.browser")
def test_a_page_that_is_not_listed_is_refused(home: Path) -> None:
    with running(home) as up:
        refused = httpx.options(f"{up.url}{CHAT}", headers=ASKS)
        assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (403, False)


@pytest.mark.proves("http.browser")
def test_any_page_may_ask_but_never_with_what_the_browser_remembers(home: Path) -> None:
    with running(home, settings="server:\n  origins: ['*']\n") as up, up.client() as http:
        answer = http.post(CHAT, json=HI, headers={"origin": PAGE})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")
        assert "access-control-allow-credentials" not in answer.headers
        before = httpx.options(f"{up.url}{CHAT}", headers=ASKS | {"access-control-request-headers": "a\tb"})
        assert before.headers["access-control-allow-headers"] == "authorization, content-type"
