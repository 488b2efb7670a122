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

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    from http_service import Running

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
