"""The plain HTTP API, its description, MCP over HTTP, and the door in front of all of it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import schemathesis
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from http_service import listening, prepare, running
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from hermes.http_server import BodyLimits
from hermes.server.app import build
from hermes.server.auth import AuthMiddleware, Buckets, Metrics
from hermes.server.conversations import Conversations
from hermes.settings.home import find_home
from hermes.settings.people import People

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from http_service import Running

    from conftest import Ran

    Command = Callable[..., Ran]


@pytest.fixture
def up(home: Path) -> Iterator[Running]:
    with running(home) as service:
        yield service


def add(http: httpx.Client, content: str, target: str = "memory") -> httpx.Response:
    return http.post(f"/api/v1/memory/{target}", json={"operations": [{"action": "add", "content": content}]})


@pytest.mark.proves("http.api")
@pytest.mark.usefixtures("both_engines")
def test_memory_is_read_changed_looked_back_on_and_undone(up: Running) -> None:
    with up.client() as http:
        assert add(http, "Grows orchids.").status_code == 200
        changed = add(http, "Speaks Danish.", "user").json()
        assert changed["entries"] == ["Speaks Danish."]
        everything = http.get("/api/v1/memory").json()
        assert (everything["memory"]["entries"], everything["user"]["entries"]) == (
            ["Grows orchids."],
            ["Speaks Danish."],
        )
        [change] = http.get("/api/v1/memory/user/log").json()["changes"]
        assert (change["id"], change["origin"], change["added"]) == (changed["change"], "user", ["Speaks Danish."])
        assert http.post("/api/v1/memory-undo", json={"change": change["id"]}).json()["entries"] == []
        missing = http.post("/api/v1/memory/memory", json={"operations": [{"action": "remove", "old_text": "tulips"}]})
        assert missing.status_code == 422
        assert http.get("/api/v1/memory/nothing").status_code == 404


@pytest.mark.proves("http.api")
@pytest.mark.usefixtures("both_engines")
def test_conversations_are_stored_found_read_renamed_and_deleted(up: Running) -> None:
    said = [{"role": "user", "content": "Where is the zeppelin?"}, {"role": "assistant", "content": "In Hangar 9."}]
    with up.client() as http:
        stored = http.post("/api/v1/sessions", json={"conversation": "c", "messages": said})
        assert (stored.status_code, stored.json()["added"]) == (201, 2)
        name = stored.json()["session_id"]
        [found] = http.get("/api/v1/search", params={"q": "where is the zeppelin?", "since": "yesterday"}).json()[
            "results"
        ]
        assert found["session_id"] == name
        messages = http.get(f"/api/v1/sessions/{name}/messages", params={"limit": 1}).json()["messages"]
        assert [each["content"] for each in messages] == ["In Hangar 9."]
        earlier = http.get(f"/api/v1/sessions/{name}/messages", params={"before": messages[0]["id"]}).json()["messages"]
        assert [each["content"] for each in earlier] == ["Where is the zeppelin?"]
        assert http.patch(f"/api/v1/sessions/{name}", json={"title": "Airship"}).json()["title"] == "Airship"
        assert http.get("/api/v1/sessions/Airship").json()["session_id"] == name
        status = http.get("/api/v1/status").json()
        assert (status["person"], status["conversations"]["messages"]) == ("ann", 2)
        assert http.delete(f"/api/v1/sessions/{name}").status_code == 200
        assert http.get("/api/v1/sessions").json()["sessions"] == []


@pytest.mark.proves("http.api")
@pytest.mark.parametrize(
    ("method", "path", "more"),
    [
        ("GET", "/api/v1/search", {}),
        ("GET", "/api/v1/search?q=x&limit=0", {}),
        ("GET", "/api/v1/search?q=x&limit=many", {}),
        ("GET", "/api/v1/search?q=x&since=the+day+pigs+fly", {}),
        ("GET", "/api/v1/search?q=x&colour=red", {}),
        ("POST", "/api/v1/memory/memory", {"content": b"{"}),
        ("POST", "/api/v1/memory/memory", {"json": {"operations": []}}),
        ("POST", "/api/v1/memory/memory", {"json": {"operations": [{"action": "dance"}]}}),
        ("POST", "/api/v1/memory/memory", {"json": {"operations": [{"action": "add", "content": None}]}}),
        ("PATCH", "/api/v1/sessions/x", {"json": {"title": "t" * 201}}),
        ("POST", "/v1/chat/completions", {"content": b"[" * 100_000}),
    ],
)
def test_what_does_not_fit_the_description_is_refused_with_the_reason(
    up: Running, method: str, path: str, more: dict[str, Any]
) -> None:
    with up.client() as http:
        answer = http.request(method, path, **more)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


@pytest.mark.proves("people.same-answer")
def test_what_is_absent_and_what_is_somebody_elses_are_the_same_bytes(up: Running) -> None:
    with up.client("ann") as ann, up.client("bob") as bob:
        said = [{"role": "user", "content": "secret of ann"}]
        name = ann.post("/api/v1/sessions", json={"conversation": "c", "title": "Mine", "messages": said}).json()[
            "session_id"
        ]
        for place in (name, "Mine"):
            for path in (f"/api/v1/sessions/{place}", f"/api/v1/sessions/{place}/messages"):
                theirs, nobodys = bob.get(path), bob.get(path.replace(place, "nothing"))
                assert (
                    (theirs.status_code, theirs.content)
                    == (nobodys.status_code, nobodys.content)
                    == (404, theirs.content)
                )
            assert bob.delete(f"/api/v1/sessions/{place}").status_code == 404
        assert bob.get("/api/v1/search", params={"q": "secret of ann"}).json()["results"] == []
        assert ann.get(f"/api/v1/sessions/{name}").status_code == 200


# What a browser needs before anybody is signed in, and what only ends a session or changes colours.
OPEN = {f"/ui/{each}" for each in ("static/{name}", "sign-in", "enter", "sign-out", "theme")}


@pytest.mark.proves("http.key")
def test_no_route_answers_without_a_key(up: Running) -> None:
    routes = up.service.routes
    assert len(routes) > 15
    tried = 0
    with httpx.Client(base_url=up.url) as http:
        for route in routes:
            for method in route.methods or {"GET", "POST", "DELETE"}:
                path = route.path.replace("{target}", "memory").replace("{session_id}", "x")
                assert http.request(method, path).status_code == 401, route.path
                tried += 1
            if tried > 18:  # wrong keys are limited as well; another address would go on
                break
    service = build(find_home(up.home), with_mcp=False)
    for route in (each for each in service.routes if each.path not in OPEN):
        for method in route.methods or {"GET"}:
            assert asyncio.run(status_of(service.app, route.path, method)) == 401


async def status_of(app: Any, path: str, method: str, headers: dict[str, str] | None = None, body: Any = None) -> int:
    """Asks the application itself, each time from another address."""
    sent: list[dict[str, Any]] = []
    address = f"10.0.{time.monotonic_ns() % 255}.{time.monotonic_ns() // 255 % 255}"
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "client": (address, 1),
        "server": ("127.0.0.1", 80),
        "root_path": "",
        "headers": [(name.encode(), text.encode()) for name, text in {"host": "localhost", **(headers or {})}.items()],
    }

    async def receive() -> Any:
        return await body() if body is not None else {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return int(sent[0]["status"])


@pytest.mark.proves("http.key")
def test_without_any_key_the_server_does_not_start(home: Path, hermes: Command) -> None:
    ran = hermes("serve", "--port", "1")
    assert ran.code == 2
    assert "hermes users key owner" in ran.err
    hermes("users", "add", "ann", "--no-key")
    assert hermes("mcp", "--http", "--port", "1").code == 2


@pytest.mark.proves("http.key", "people.forget")
def test_a_revoked_key_and_a_forgotten_person_are_out_at_once(up: Running) -> None:
    people = People(find_home(up.home))
    with up.client("ann") as ann, up.client("bob") as bob:
        assert [ann.get("/health").status_code, bob.get("/health").status_code] == [200, 200]
        people.revoke("ann", people.get("ann").keys[0].id)
        people.remove("bob")
        assert [ann.get("/health").status_code, bob.get("/health").status_code] == [401, 401]


@pytest.mark.proves("http.limits")
def test_other_hosts_and_other_pages_are_refused(home: Path) -> None:
    with running(home, settings="server:\n  hosts: [memory.example]\n  origins: ['https://chat.example']\n") as up:
        with up.client() as http:
            asked = {
                "evil.example": 421,
                "memory.example": 200,
                "MEMORY.example:8484": 200,
                "": 421,
                "127.0.0.1.evil.example": 421,
            }
            for host, status in asked.items():
                assert http.get("/health", headers={"host": host}).status_code == status, host
            pages = {"https://evil.example": 403, "https://chat.example": 200, up.url: 200, "null": 403}
            pages["http://127.0.0.1:3000"] = 403  # the page of another program on this machine
            for page, status in pages.items():
                assert http.get("/health", headers={"origin": page}).status_code == status, page
        with httpx.Client(base_url=up.url, auth=("anything", up.keys["ann"])) as browser:
            assert browser.get("/docs").status_code == 200
        assert "Basic" in httpx.get(f"{up.url}/docs").headers["www-authenticate"]


@pytest.mark.proves("http.limits")
def test_too_much_and_too_often_are_refused(home: Path) -> None:
    with running(home, settings="server:\n  requests_per_minute: 30\n  max_body_mb: 1\n") as up:
        with up.client("bob") as http:
            assert http.post("/v1/chat/completions", content=b"x" * (2 << 20)).status_code == 413

            def pieces() -> Iterator[bytes]:
                for _ in range(40):
                    yield b"x" * 65536

            assert http.post("/v1/chat/completions", content=pieces()).status_code == 413
        with up.client("ann") as http:
            statuses = [http.get("/health").status_code for _ in range(8)]
            refused = http.get("/health")
        assert statuses.count(200) == 5
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1


@pytest.mark.proves("http.limits")
def test_a_bucket_fills_again_and_guessing_keys_is_slowed_down() -> None:
    now = [0.0]
    buckets = Buckets(60, lambda: now[0])
    assert [buckets.take("a") for _ in range(10)] == [0.0] * 10
    assert 0 < buckets.take("a") <= 1
    assert buckets.take("b") == 0
    now[0] += 1.1
    assert buckets.take("a") == 0


@pytest.mark.proves("http.limits")
def test_a_body_that_does_not_arrive_is_not_waited_for() -> None:
    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        await receive()

    auth = AuthMiddleware(app, who=lambda _key: ("ann", False), metrics=Metrics(), body=BodyLimits(seconds=0.01))

    async def never() -> Any:
        await asyncio.Event().wait()

    assert asyncio.run(status_of(auth, "/", "POST", body=never)) == 408


@pytest.mark.proves("http.limits")
def test_a_body_that_trickles_in_has_one_deadline() -> None:
    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        while (await receive())["more_body"]:
            continue

    auth = AuthMiddleware(app, who=lambda _key: ("ann", False), metrics=Metrics(), body=BodyLimits(seconds=0.2))

    async def trickle() -> Any:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"x", "more_body": True}

    assert asyncio.run(status_of(auth, "/", "POST", body=trickle)) == 408


CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
FEW = settings(
    max_examples=6, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None
)


@pytest.mark.proves("http.described")
@pytest.mark.timeout(300)
def test_whatever_is_sent_the_server_has_an_answer_that_fits_its_description(home: Path) -> None:
    with running(home, settings="server:\n  requests_per_minute: 1000000\n") as up:
        headers = {"authorization": f"Bearer {up.keys['ann']}"}
        document = httpx.get(f"{up.url}/openapi.json", headers=headers).json()
        schema = schemathesis.openapi.from_dict(document)
        schema.config.base_url = up.url
        tried: list[str] = []

        def send(case: Any) -> None:
            answer = case.call(headers=headers)
            case.validate_response(answer, checks=CHECKS)
            tried.append(case.operation.label)

        found: list[Any] = list(schema.get_all_operations())
        operations = [outcome.ok() for outcome in found]
        for operation in operations:
            FEW(given(case=operation.as_strategy())(send))()
        assert len(set(tried)) == len(operations) > 12


@pytest.mark.proves("http.described")
def test_the_page_with_the_docs_needs_nothing_from_anywhere_else(up: Running) -> None:
    with up.client() as http:
        page = http.get("/docs")
        assert "default-src 'self'" in page.headers["content-security-policy"]
        assert "http://" not in page.text
        assert "https://" not in page.text
        paths = http.get("/openapi.json").json()["paths"]
    described = {path for path in paths if path.startswith("/api")}
    assert described == {route.path for route in up.service.routes if route.path.startswith("/api")}


@pytest.mark.proves("http.observed")
def test_metrics_are_the_operators_and_hold_no_word_of_anybody(up: Running) -> None:
    with up.client("ann") as ann:
        add(ann, "Grows orchids.")
        ann.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "orchids"}]})
        refused = ann.get("/metrics")
        assert (refused.status_code, refused.content) == (404, ann.get("/nothing").content)
    with up.client("owner") as owner:
        text = owner.get("/metrics").text
    assert 'hermes_http_requests_total{method="POST",route="/v1/chat/completions",status="200"} 1' in text
    assert 'hermes_turns_total{outcome="stop"} 1' in text
    assert "hermes_conversations_open 1" in text
    assert 'hermes_http_request_seconds_bucket{le="+Inf"}' in text
    assert not [word for word in ("ann", "orchids", "Understood") if word in text]


@pytest.mark.proves("http.drain")
def test_a_server_that_is_stopped_finishes_what_is_running(home: Path) -> None:
    steps = [{"when": "", "text": "one two three four five six", "pause": 0.05}]
    keys = prepare(home, steps)
    texts: list[str] = []
    begun = threading.Event()
    with listening(home, keys) as up:

        def ask() -> None:
            body = {"messages": [{"role": "user", "content": "count"}], "stream": True}
            with up.client() as http, http.stream("POST", "/v1/chat/completions", json=body) as answer:
                for line in answer.iter_lines():
                    texts.append(line)
                    begun.set()

        asking = threading.Thread(target=ask)
        asking.start()
        assert begun.wait(20)
        up.server.stop()
        asking.join(20)
    assert texts[-2] == "data: [DONE]" or "data: [DONE]" in texts
    said = "".join(
        json.loads(line[6:])["choices"][0]["delta"].get("content", "") for line in texts if line.startswith("data: {")
    )
    assert said == "one two three four five six"


@pytest.mark.proves("mcp.http", "people.apart")
def test_mcp_over_http_serves_the_person_whose_key_it_is(up: Running) -> None:
    with up.client("ann") as http:
        add(http, "Grows orchids.")

    async def script(person: str) -> tuple[str, str]:
        headers = {"authorization": f"Bearer {up.keys[person]}"}
        async with Client(StreamableHttpTransport(f"{up.url}/mcp", headers=headers)) as client:
            result = await client.call_tool("memory", {"action": "list"})
            block: Any = result.content[0]
            return client.instructions or "", block.text

    greeting, listed = asyncio.run(script("ann"))
    assert "Grows orchids." in greeting
    assert "Grows orchids." in listed
    assert not [text for text in asyncio.run(script("bob")) if "orchids" in text]
    assert httpx.post(f"{up.url}/mcp", json={}).status_code == 401


@pytest.mark.proves("http.limits")
def test_what_is_kept_open_for_people_is_bounded(home: Path) -> None:
    names = tuple(f"p{number}" for number in range(6))
    prepare(home, [], people=names)
    now = [0.0]
    conversations = Conversations(People(find_home(home)).home_of, most_people=2, clock=lambda: now[0])
    for name in names:
        now[0] += 61
        assert conversations.workspace(name).status()["person"] == name
    assert conversations.people() == set(names[-2:])
    assert conversations.workspace(names[0]).status()["person"] == names[0]
    conversations.close()
    assert conversations.people() == set()
