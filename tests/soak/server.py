"""`bin/soak server`: one hostile key may at most double the 95th percentile of what everybody else waits.

Honest people read and write their memory over HTTP, first alone, then while one person with a valid key sends bodies
that are made to be slow: as large as the limit, with as many values as the limit, deeply nested, or never finished.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
from http_service import ALWAYS, prepare

from soak.common import Outcome, Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from soak.common import Options

SUMMARY = "one hostile key: how long everybody else waits"
DESCRIPTION = __doc__ or ""
PEOPLE = tuple(f"person{number}" for number in range(8))
MOST = 2.0  # times what they wait without it
SETTINGS = "server:\n  requests_per_minute: 6000\n"
_START_SECONDS = 60.0
_PAUSE = 0.02  # seconds between two requests of one honest person
_SIZE = 9 << 20  # bytes, below the limit of ten million
_VALUES = 290_000  # commas and brackets, below their limit
_MEMORY, _CHAT = "/api/v1/memory/memory", "/v1/chat/completions"


def hostile_bodies() -> list[tuple[str, bytes]]:
    """Where they go, and what is sent: each passes the door and is refused, or is answered, later."""
    half = _VALUES // 2
    return [
        (_MEMORY, b'{"operations": [' + b"[]," * half + b"[]]}"),
        (_MEMORY, b'{"operations": [' + b"[]," * (1 << 21) + b"[]]}"),  # the request that stalled everybody once
        (_MEMORY, b'{"content": "' + b"password " * (_SIZE // 9) + b'"}'),
        (_MEMORY, b"{" + b",".join(b'"f%d": 1' % number for number in range(_VALUES)) + b"}"),
        (_MEMORY, b"[" * (1 << 20)),
        (_CHAT, b'{"messages": [' + b"{}," * half + b"{}]}"),
        (_CHAT, b'{"messages": [{"role": "user", "content": [' + b'{"type": "text"},' * half + b"{}]}]}"),
        (_CHAT, json.dumps({"messages": [{"role": "user", "content": "a\u00e9 " * (_SIZE // 9)}], "n": 2}).encode()),
        ("/mcp", b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [' + b"0," * _VALUES + b"0]}"),
    ]


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--requests", type=int, default=4000, metavar="N", help="of honest people (default: 4000)")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    outcome = trial(given.requests, options)
    if outcome.figures["ratio"] > MOST:
        outcome.fail(f"others wait {outcome.figures['ratio']} times as long; at most {MOST} times is allowed")
    yield outcome


def trial(requests: int, options: Options) -> Outcome:
    outcome = Outcome(name="server")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        home = Path(folder) / "home"
        keys = prepare(home, ALWAYS, SETTINGS, people=(*PEOPLE, "mallory"))
        with _serving(home) as url:
            _honest(url, keys, len(PEOPLE) * 4, outcome, options)  # everybody's first request opens their home
            before = _honest(url, keys, requests // 2, outcome, options)
            with _hostile(url, keys["mallory"], options.seed, outcome):
                during = _honest(url, keys, requests // 2, outcome, options)
    outcome.figures |= {
        "p95 alone (ms)": round(before, 1),
        "p95 beside a hostile key (ms)": round(during, 1),
        "ratio": round(during / before, 2),
    }
    return outcome


@contextmanager
def _serving(home: Path) -> Iterator[str]:
    """`hermes serve` in a process of its own: what clients do must not slow it down."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "hermes", "--home", str(home), "serve", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            try:
                httpx.get(f"http://127.0.0.1:{port}/health")
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def _honest(url: str, keys: dict[str, str], requests: int, outcome: Outcome, options: Options) -> float:
    """Milliseconds within which 95 of 100 requests of honest people are answered."""
    waited: list[float] = []
    progress = Progress("server", requests, options)

    def person(name: str) -> None:
        with httpx.Client(base_url=url, headers={"authorization": f"Bearer {keys[name]}"}, timeout=60) as http:
            for number in range(requests // len(PEOPLE)):
                began = time.perf_counter()
                if number % 8:
                    answer = http.get(_MEMORY)
                else:
                    answer = http.post(_MEMORY, json={"action": "add", "content": f"{name} likes number {number}."})
                waited.append((time.perf_counter() - began) * 1000)
                outcome.count("honest requests")
                if answer.status_code not in (200, 409):  # 409: memory is full
                    outcome.fail(f"{name} got {answer.status_code}: {answer.text[:100]}")
                if not progress.goes_on(len(waited), outcome):
                    return
                time.sleep(_PAUSE)

    threads = [threading.Thread(target=person, args=(name,)) for name in PEOPLE]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statistics.quantiles(waited, n=20)[-1]


@contextmanager
def _hostile(url: str, key: str, seed: int, outcome: Outcome) -> Iterator[None]:
    """Sends hostile bodies over four connections, from another process, and never finishes a hundred more."""
    address = (urlsplit(url).hostname or "", urlsplit(url).port or 0)
    head = f"POST {_CHAT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Length: 9999\r\n\r\n{{"
    unfinished = [socket.create_connection(address, timeout=60) for _ in range(100)]
    for client in unfinished:
        client.sendall(head.encode())
    fork = multiprocessing.get_context("fork")
    stop, statuses = fork.Event(), fork.SimpleQueue()
    sender = fork.Process(target=_send, args=(address, key, seed, stop, statuses))
    sender.start()
    try:
        yield
    finally:
        stop.set()
        for status, count in statuses.get().items():
            outcome.count(f"hostile requests answered with {status}" if status else "hostile requests cut off", count)
            if status >= 500:
                outcome.fail(f"{count} hostile requests were answered with {status}")
        sender.join()
        for client in unfinished:
            client.close()


def _send(address: tuple[str, int], key: str, seed: int, stop: Any, statuses: Any) -> None:
    """The statuses of all answers, counted; 0 where the server shut the door while the rest was on its way."""
    counted: Counter[int] = Counter()
    bodies = [
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
        for path, body in hostile_bodies()
    ]

    def send(number: int) -> None:
        chance = random.Random(f"{seed}/{number}")
        while not stop.is_set():
            try:
                with socket.create_connection(address, timeout=60) as client:
                    client.sendall(chance.choice(bodies))
                    answer = client.recv(64)
            except OSError:
                answer = b""
            counted[int(answer.split(b" ")[1]) if answer else 0] += 1

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses.put(counted)
