"""Clients that say nothing, and clients that go away."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from http_service import running

from hermes.http_server import Protocol

if TYPE_CHECKING:
    from pathlib import Path

_SLOW = [{"when": "", "text": "word " * 3_000, "pause": 0.05}]


@pytest.mark.proves("http.limits")
@pytest.mark.parametrize("begun", [b"", b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Never: "])
def test_a_connection_that_never_ends_its_headers_is_shut(
    home: Path, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(Protocol, "header_seconds", 0.2)
    with running(home) as up:
        with socket.create_connection((urlsplit(up.url).hostname, urlsplit(up.url).port), timeout=20) as client:
            client.sendall(begun)
            assert client.recv(1) == b""
        with up.client() as http:
            assert [http.get("/health").status_code for _ in range(3)] == [200] * 3


@pytest.mark.proves("http.limits")
@pytest.mark.parametrize("stream", [True, False])
def test_the_turn_of_a_client_that_went_away_ends(home: Path, stream: bool) -> None:
    with running(home, _SLOW) as up:
        asked = {"messages": [{"role": "user", "content": "tell me a lot"}], "stream": stream}
        address = (urlsplit(up.url).hostname, urlsplit(up.url).port)
        body = json.dumps(asked).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        with socket.create_connection(address, timeout=20) as client:
            client.sendall(f"{head}Authorization: Bearer {up.keys['ann']}\r\n\r\n".encode() + body)
            end = time.monotonic() + 15
            while not up.service.chat.running and time.monotonic() < end:
                threading.Event().wait(0.02)
            assert up.service.chat.running == 1
        end = time.monotonic() + 15  # the whole answer would take a minute
        while up.service.chat.running and time.monotonic() < end:
            threading.Event().wait(0.02)
        assert up.service.chat.running == 0
