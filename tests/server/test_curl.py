"""The requests on the pages, typed into a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from http_service import running

from hermes.conversations.search.semantic import Embedding
from hermes.memory.file import pending_writes
from hermes.memory.reminders import Reminders, Wanted
from hermes.memory.rules import RuleBook
from hermes.server.api import description
from hermes.settings.home import find_home
from hermes.settings.people import People
from hermes.storage.documents import Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx
    from http_service import Running

DOCS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs")
CONVERSATION = {
    "conversation": "support-4711",
    "title": "Sign-in",
    "messages": [{"role": "user", "content": "Which tokens do we use?"}],
}
SETUP = re.compile(r'^(HERMES=http://127\.0\.0\.1:8484|AUTH="Authorization: Bearer hk-…")\n', re.MULTILINE)
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="the requests on the pages are for curl")


def stage(home: Path) -> None:
    """A write that waits for ann under the id that stands on the pages."""
    record = {
        "origin": "web",
        "created_at": 1.0,
        "payload": {"action": "add", "target": "user", "content": "Has a boat."},
    }
    Waiting(pending_writes(People(find_home(home)).home_of("ann"))).put("3ec0c026", record)


@pytest.fixture
def up(home: Path) -> Iterator[Running]:
    made = Embedding(name="letters", dimensions=2, embed=lambda texts: [[1.0, 2.0] for _ in texts])
    unlimited = "server:\n  requests_per_minute: 100000\n"  # many requests in a moment, on a fast machine
    with running(home, settings=unlimited, find_embedding=lambda _setting: made) as service:
        yield service


def requests_of(page: str) -> list[str]:
    with open(os.path.join(DOCS, page), encoding="utf-8") as file:
        blocks = re.findall(r"```sh\n(.*?)```", file.read(), re.DOTALL)
    return [SETUP.sub("", block) for block in blocks if "curl " in block]


def typed(up: Running, script: str) -> subprocess.CompletedProcess[str]:
    """Runs it as typed, except that the first request that fails ends it."""
    environment = {**os.environ, "HERMES": up.url, "AUTH": f"Authorization: Bearer {up.keys['ann']}"}
    strict = f'set -e\ncurl() {{ command curl --silent --show-error --fail-with-body "$@"; }}\n{script}'
    return subprocess.run(["sh", "-c", strict], env=environment, capture_output=True, text=True, check=False)


@needs_curl
@pytest.mark.proves("docs.examples")
def test_the_requests_of_the_guide_work_one_after_the_other(up: Running, home: Path) -> None:
    stage(home)
    (script,) = requests_of("guides/http-server.md")
    done = typed(up, script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Understood." in done.stdout
    with up.client() as http:
        known = http.get("/api/v1/memory").json()
        assert known["user"]["entries"] == ["Prefers short answers with sources.", "Has a boat."]
        assert known["memory"]["entries"] == []
        assert http.get("/api/v1/sessions/Sign-in").json()["message_count"] > 2


def receipt(http: httpx.Client, entry: str) -> dict[str, str]:
    """The receipt and the item on the page, and those of a new answer that the entry was in front of."""
    said = {"messages": [{"role": "user", "content": f"What does ann do? {entry}"}]}
    name = http.post("/v1/chat/completions", json=said).headers["hermes-receipt"]
    items = http.get(f"/api/v1/receipts/{name}").json()["items"]
    number = next(each["number"] for each in items if each["text"] == entry)
    return {"20260503_141002_1f3a9c02.5d21e07b": name, "/items/5/": f"/items/{number}/"}


@needs_curl
@pytest.mark.proves("docs.examples")
def test_the_request_of_every_route_in_the_reference_works(up: Running, home: Path) -> None:
    stage(home)
    ann = People(find_home(home)).home_of("ann")
    kept = {
        "r3f2a": RuleBook(ann).add("Never push on a Friday.").id,
        "m81c0": Reminders(ann).add(Wanted(text="Water the plants.", words=("plants",))).id,
    }
    scripts = requests_of("reference/http.md")
    assert len(scripts) == sum(len(methods) for methods in description()["paths"].values())
    with up.client() as http:
        for number, script in enumerate(scripts):
            for old in http.get("/api/v1/sessions").json()["sessions"]:
                http.delete(f"/api/v1/sessions/{old['session_id']}")
            http.post("/api/v1/sessions", json=CONVERSATION)
            http.post("/api/v1/memory/user", json={"content": f"Reads page {number}."})
            for shown, real in {**kept, **receipt(http, f"Reads page {number}.")}.items():
                script = script.replace(shown, real)  # noqa: PLW2901 - the page has an example in its place
            done = typed(up, script)
            assert done.returncode == 0, script + done.stdout + done.stderr


@pytest.mark.proves("http.described")
def test_every_body_that_is_needed_comes_with_an_example_to_begin_with() -> None:
    bodies = [
        each["requestBody"]
        for path in description()["paths"].values()
        for each in path.values()
        if "requestBody" in each
    ]
    assert [
        body for body in bodies if body["required"] and not body["content"]["application/json"].get("example")
    ] == []
    # Undoing needs none, nor does acting on a receipt's item; of a rule or a reminder any field may be left out.
    assert [body["required"] for body in bodies].count(False) == 4
