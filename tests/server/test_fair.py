"""One person who asks for much does not keep another one waiting."""

from __future__ import annotations

import fcntl
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import openai
import pytest
from http_service import running

from hermes.settings.home import find_home, person_home
from hermes.settings.trust import SAID, HostReports
from soak import server
from soak.common import Options

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    from http_service import Running

MANY_VALUES = b'{"operations": [' + b"[]," * 200_000 + b"[]]}"
MANY = 45  # more than there are threads for API or MCP calls


def say(client: openai.OpenAI, text: str, **more: Any) -> Any:
    said: Any = {"role": "user", "content": text}
    return client.chat.completions.create(model="hermes", messages=[said], **more)


def client(up: Running, person: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{up.url}/v1", api_key=up.keys[person], max_retries=0)


@pytest.mark.proves("http.fair")
def test_one_person_cannot_take_every_worker(home: Path) -> None:
    steps = [{"when": "count", "text": "one two three four five six", "pause": 0.5}, {"when": "", "text": "Here."}]
    limits = "server:\n  workers: 2\n  turns_per_person: 1\n"
    with running(home, steps, limits) as up, client(up, "ann") as ann, client(up, "bob") as bob:
        with say(ann, "count", stream=True) as stream:
            next(iter(stream))
            with pytest.raises(openai.RateLimitError, match="still being answered") as refused:
                say(ann, "hello")
            assert refused.value.response.headers["retry-after"] == "1"
            assert say(bob, "hello").choices
            list(stream)
        assert say(ann, "hello").choices


def remember_by_api(http: httpx.Client, content: str) -> httpx.Response:
    return http.post("/api/v1/memory/memory", json={"operations": [{"action": "add", "content": content}]})


def remember_by_mcp(http: httpx.Client, content: str) -> httpx.Response:
    arguments = {"action": "add", "target": "memory", "content": content}
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "memory", "arguments": arguments},
    }
    return http.post("/mcp", json=call, headers={"accept": "application/json, text/event-stream"})


@pytest.mark.proves("http.fair")
@pytest.mark.parametrize("remember", [remember_by_api, remember_by_mcp])
def test_calls_that_wait_do_not_keep_another_person_waiting(home: Path, remember: Any) -> None:
    with (
        running(home, settings="memory:\n  lock_timeout: 60\n") as up,
        up.client("ann") as ann,
        up.client("bob") as bob,
    ):
        for name, http in (("ann", ann), ("bob", bob)):
            http.get("/api/v1/memory")
            # A host that reports what its person types may write without asking them.
            HostReports(person_home(find_home(home), name)).add("server", "c1", SAID, "", "hello")
        assert "Number 0." in remember(ann, "Number 0.").text
        holder = os.open(home / "users" / "ann" / "memories" / "MEMORY.md.lock", os.O_RDWR)
        fcntl.flock(holder, fcntl.LOCK_EX)
        with ThreadPoolExecutor(MANY) as calls:
            written = [calls.submit(remember, ann, f"Number {1 + number}.") for number in range(MANY)]
            try:
                while up.service.metrics.in_flight < MANY:
                    time.sleep(0.01)
                assert "Number 0." in remember(bob, "Number 0.").text
                assert not any(each.done() for each in written)
            finally:
                os.close(holder)
        assert {each.result().status_code for each in written} == {200}
        assert len(ann.get("/api/v1/memory/memory").json()["entries"]) == 1 + MANY


@pytest.mark.proves("http.fair")
@pytest.mark.parametrize(
    ("path", "most"), [("/api/v1/memory/memory", 300_000), ("/v1/chat/completions", 300_000), ("/mcp", 20_000)]
)
def test_a_body_with_too_many_values_is_refused_before_it_is_parsed(home: Path, path: str, most: int) -> None:
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    with running(home) as up, up.client("ann", headers=headers) as ann:
        refused = ann.post(path, content=MANY_VALUES)
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "body")
        assert f"{most:,} commas and brackets" in refused.json()["error"]["message"]


@pytest.mark.proves("http.fair")
def test_who_sends_large_bodies_one_after_the_other_waits_alone(home: Path) -> None:
    with running(home) as up, up.client("ann") as ann, up.client("bob") as bob:
        bodies = [ann.post("/api/v1/memory/memory", content=MANY_VALUES) for _ in range(4)]
        assert (bodies[0].status_code, bodies[-1].status_code) == (413, 429)
        assert int(bodies[-1].headers["retry-after"]) >= 1
        assert bodies[-1].json()["error"] | {"message": ""} == {
            "message": "",
            "type": "rate_limit_error",
            "param": None,
            "code": "reading",
        }
        assert remember_by_api(bob, "Likes tea.").status_code == 200
        assert ann.get("/api/v1/memory/memory").status_code == 200


@pytest.mark.proves("http.fair")
def test_a_list_that_is_too_long_is_refused_without_a_look_at_its_items(home: Path) -> None:
    with running(home) as up, up.client("ann") as ann:
        refused = ann.post("/api/v1/memory/memory", json={"operations": [[]] * 101})
        assert refused.status_code == 400
        assert refused.json()["error"]["message"] == "body.operations has 101 items; at most 100 are possible"
        named = ann.post("/api/v1/memory/memory", json={f"field{number}": 1 for number in range(1000)})
        assert named.json()["error"]["message"].count("is not a field") == 10


@pytest.mark.proves("http.fair")
@pytest.mark.timeout(180)
def test_a_hostile_key_gets_refusals_and_everybody_else_answers(tmp_path: Path) -> None:
    """`bin/soak server` does this for longer, and compares how long people wait."""
    outcome = server.trial(160, Options(folder=str(tmp_path), quiet=True))
    assert outcome.failures == []
    assert outcome.figures["honest requests"] >= 160
    assert outcome.figures["hostile requests answered with 429"] > 0
