"""What the web page refuses: no session, forged requests, planted sessions, scripts in texts, other people's things."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import pytest
from http_service import running
from web_page import Visitor, own_page
from web_payloads import PAYLOADS, harmless

from hermes.memory.approval import Approvals
from hermes.memory.entries import Cause, key_of, render
from hermes.memory.store import MemoryStore
from hermes.server.web import SECTIONS
from hermes.server.web.site import COOKIE, Sessions
from hermes.session.session import MemorySession
from hermes.settings.home import find_home
from hermes.settings.people import People

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from http_service import Running

    from hermes.server.web.site import View

VIEWS = [(section, view) for section in SECTIONS for view in section.views]


@pytest.fixture
def up(home: Path) -> Iterator[Running]:
    with running(home, settings="server:\n  requests_per_minute: 100000\n") as service:  # every view, in a moment
        yield service


@pytest.fixture
def ann(up: Running) -> Visitor:
    visitor = Visitor(up.url)
    visitor.sign_in(up.keys["ann"])
    return visitor


def _path(section: str, view: View) -> str:
    return f"/ui/{section}" + re.sub(r"\{\w+(:\w+)?\}", "x", view.path)


@pytest.mark.proves("web.session")
def test_no_page_without_a_session(up: Running) -> None:
    visitor = Visitor(up.url)
    for section, view in VIEWS:
        path = _path(section.name, view)
        answer = visitor.http.request(view.method, path, headers={"origin": up.url})
        assert answer.status_code == (303 if view.method == "GET" else 401), path
        assert answer.headers.get("location", "/ui/sign-in").startswith("/ui/sign-in")
        plain = visitor.http.request(view.method, path, headers={"accept": "application/json", "origin": up.url})
        assert (plain.status_code, plain.text) == (401, "sign in first")
        with up.client() as key:  # a key of the API is no session
            assert key.request(view.method, path).status_code == 401


@pytest.mark.proves("web.session")
def test_the_front_page_leads_browsers_to_sign_in_and_programs_nowhere(up: Running) -> None:
    visitor = Visitor(up.url)
    assert visitor.get("/", follow_redirects=True).url.path == "/ui/sign-in"
    assert visitor.http.get("/", headers={"accept": "*/*"}).status_code == 401
    assert visitor.http.post("/ui/none", headers={"origin": up.url}).status_code == 401


@pytest.mark.proves("web.session")
def test_a_session_opens_only_the_web_page(up: Running, ann: Visitor) -> None:
    cookie = f"{COOKIE}={ann.http.cookies[COOKIE]}"
    assert ann.http.get("/api/v1/memory", headers={"cookie": cookie}).status_code == 401


@pytest.mark.proves("web.session")
def test_somebody_elses_entry_is_not_there(up: Running, ann: Visitor, home: Path) -> None:
    bob = MemoryStore.open(People(find_home(home)).home_of("bob"))
    bob.add("user", "Bob's secret garden.")
    key = key_of("Bob's secret garden.")
    page = ann.get("/ui/memory")
    assert "garden" not in page.text
    for act in ("edit", "remove", "pin", "archive", "restore", "move"):
        assert ann.post(f"/ui/memory/user/{key}/{act}", text="x", to="memory").status_code == 404
    assert ann.get("/ui/memory?project=../../bob").status_code == 404
    assert bob.entries("user") == ("Bob's secret garden.",)


@pytest.mark.proves("web.sign_in")
def test_a_session_ends_with_its_key(up: Running, ann: Visitor, home: Path) -> None:
    assert ann.get("/ui/memory").status_code == 200
    people = People(find_home(home))
    people.revoke("ann", people.get("ann").keys[0].id)
    assert ann.get("/ui/memory").status_code == 303


@pytest.mark.proves("web.sign_in")
def test_signing_out_ends_the_session_and_not_only_the_cookie(up: Running, ann: Visitor) -> None:
    kept = ann.http.cookies[COOKIE]
    ann.post("/ui/sign-out")
    ann.http.cookies.set(COOKIE, kept)
    assert ann.get("/ui/memory").status_code == 303


@pytest.mark.proves("web.sign_in")
def test_guessing_keys_is_slowed_down(up: Running) -> None:
    visitor = Visitor(up.url)
    visitor.get("/ui/sign-in")
    answers = [visitor.post("/ui/sign-in", key=f"hk-{number}").status_code for number in range(25)]
    assert (answers[0], answers[-1]) == (401, 429)


@pytest.mark.proves("web.forged")
def test_a_planted_session_is_never_the_one_that_is_signed_in(up: Running) -> None:
    visitor = Visitor(up.url)
    visitor.http.cookies.set(COOKIE, "planted")
    visitor.get("/ui/sign-in")
    visitor.post("/ui/sign-in", key=up.keys["ann"])
    thief = Visitor(up.url)
    thief.http.cookies.set(COOKIE, "planted")
    assert thief.get("/ui/memory").status_code == 303


@pytest.mark.proves("web.forged")
def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites(up: Running) -> None:
    visitor = Visitor(up.url)
    visitor.get("/ui/sign-in")
    form = {"csrf": visitor.csrf, "key": up.keys["ann"]}
    answer = visitor.http.post("/ui/sign-in", data=form, headers={"origin": up.url, "x-forwarded-proto": "https"})
    assert re.fullmatch(
        rf"{COOKIE}=[\w-]{{43}}; Path=/ui; HttpOnly; SameSite=Strict; Secure", answer.headers["set-cookie"]
    )


FORGED: list[tuple[str | None, dict[str, str], int]] = [
    ("", {}, 403),
    ("wrong", {}, 403),
    (None, {"origin": "https://evil.example"}, 403),
    (None, {"origin": "null"}, 403),
    (None, {"origin": ""}, 403),
    (None, {"origin": "", "sec-fetch-site": "cross-site"}, 403),
    (None, {"host": "evil.example"}, 421),
]


@pytest.mark.proves("web.forged")
def test_a_forged_request_changes_nothing(ann: Visitor) -> None:
    ann.get("/ui/memory")
    for token, headers, status in FORGED:
        sent = {"csrf": ann.csrf if token is None else token, "text": "Written from elsewhere."}
        given = {name: value for name, value in {"origin": ann.url, **headers}.items() if value}
        assert ann.http.post("/ui/memory/user", data=sent, headers=given).status_code == status, (token, headers)
    assert "Written from elsewhere." not in ann.get("/ui/memory").text
    assert "Written here." in ann.post("/ui/memory/user", text="Written here.").text


@pytest.mark.proves("web.forged")
def test_the_token_of_somebody_else_is_refused(up: Running, ann: Visitor) -> None:
    bob = Visitor(up.url)
    bob.sign_in(up.keys["bob"])
    bob.get("/ui/memory")
    ann.csrf = bob.csrf
    assert ann.post("/ui/memory/user", text="x").status_code == 403


@pytest.mark.proves("web.forged")
def test_every_answer_forbids_frames_and_foreign_scripts(ann: Visitor) -> None:
    for path in ("/", "/ui/sign-in", "/ui/memory", "/ui/nothing", "/ui/static/hermes.css"):
        headers = ann.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert (headers["x-frame-options"], headers["x-content-type-options"]) == ("DENY", "nosniff")
        assert headers.get_list("referrer-policy") == ["same-origin"]


ELSEWHERE = (
    "https://evil.example/",
    "//evil.example",
    "/\\evil.example",
    "/ui/@evil.example",
    "/ui/evil\r\nset-cookie: a=b",
    "javascript:alert('evil')",
    "/api/v1/evil",
    "/ui/memory#\t//evil",
)


@pytest.mark.proves("web.forged")
def test_signing_in_leads_only_to_our_own_pages(up: Running) -> None:
    for to in ELSEWHERE:
        visitor = Visitor(up.url)
        shown = visitor.get("/ui/sign-in", params={"next": to})
        assert "evil" not in shown.text
        form = {"csrf": visitor.csrf, "key": up.keys["ann"], "next": to}
        answer = visitor.http.post("/ui/sign-in", data=form, headers={"origin": up.url})
        assert answer.headers["location"] == f"/ui/{SECTIONS[0].name}"
        visitor.get("/ui/memory")
        sent = {"origin": up.url, "referer": "http://evil.example//evil.example"}
        back = visitor.http.post("/ui/theme", data={"csrf": visitor.csrf}, headers=sent)
        assert back.headers["location"] == "/ui"
    visitor = Visitor(up.url)
    visitor.get("/ui/memory?project=&q=tea", follow_redirects=True)
    assert (
        'name="next" value="/ui/memory?project=&amp;q=tea"'
        in visitor.get("/ui/sign-in?next=/ui/memory%3Fproject%3D%26q%3Dtea").text
    )


@pytest.mark.proves("web.escaped")
def test_a_script_in_an_entry_is_only_text(ann: Visitor, home: Path) -> None:
    store = MemoryStore.open(People(find_home(home)).home_of("ann"))
    store.add("user", "Likes tea.")
    with open(store.path("user"), "w", encoding="utf-8") as file:  # as another program would: nothing judges it
        file.write(render([f"Likes {payload} tea." for payload in PAYLOADS]))
    for page in [ann.get("/ui/memory"), *(ann.get("/ui/memory", params={"q": payload}) for payload in PAYLOADS)]:
        assert harmless(page.text)
    shown = html.unescape(ann.get("/ui/memory").text)
    assert [payload for payload in PAYLOADS if f"Likes {payload} tea." not in shown] == []


@pytest.mark.proves("web.escaped")
def test_a_script_in_anything_else_that_is_shown_is_only_text(up: Running, home: Path) -> None:
    people, owner = People(find_home(home)), Visitor(up.url)
    owner.sign_in(up.keys["owner"])
    for payload in PAYLOADS:
        sources = [{"origin": payload, "name": payload, "passage": f"A page says {payload}."}]
        added = {"action": "add", "content": f"Waits: {payload}"}
        Approvals(find_home(home)).stage("user", [added], Cause(origin="web"), payload, sources=sources)
        people.make_key("owner", payload)
        with MemorySession.open(home, title=payload, source=payload) as session:
            session.prepare_turn(f"Asked {payload}")
            session.finish_turn(f"Answered {payload}")
    for path in ("/ui/now", "/ui/approvals", "/ui/people"):
        page = owner.get(path).text
        assert PAYLOADS[-1] in html.unescape(page)
        assert harmless(page)
        assert harmless(owner.get(path, params=dict.fromkeys(("q", "agent", "kind", "page"), PAYLOADS[2])).text)


@pytest.mark.proves("web.enter")
def test_a_link_signs_in_once_and_not_for_long(home: Path) -> None:
    with own_page(home) as (url, link):
        token = link().partition("token=")[2]
        first, second = Visitor(url), Visitor(url)
        for visitor in (first, second):
            visitor.get(f"/ui/enter?token={token}")  # looking at the link uses nothing up
        assert first.post("/ui/enter", token=token).status_code == 200
        assert second.post("/ui/enter", token=token).status_code == 401
        assert first.get("/ui/memory").status_code == 200
        assert second.get("/ui/memory").status_code == 303
        assert first.http.get("/ui/memory", headers={"host": "rebound.example"}).status_code == 421
    now = [1000.0]
    sessions = Sessions(clock=lambda: now[0])
    late = sessions.make_link("owner")
    now[0] += 121
    assert sessions.use_link(late) is None
