"""The real HTTP server on a loopback port, for tests: a home with people, a scripted model, real sockets."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from hermes.http_server import HttpServer, listen
from hermes.server.app import build
from hermes.settings.home import find_home
from hermes.settings.people import APPROVE, People

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hermes.server.app import Service

ALWAYS = [{"when": "", "text": "Understood."}]


@dataclass(frozen=True, kw_only=True)
class Running:
    home: Path
    url: str
    keys: dict[str, str]
    service: Service
    server: HttpServer

    def client(self, person: str = "ann", **more: Any) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.keys[person]}", **more.pop("headers", {})}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, **more)


def behind(home: Path, provider: str, address: str, settings: str = "", model: str = "m-1") -> dict[str, str]:
    """A home whose model is at that address and speaks the wire of that provider; the keys of its people."""
    keys = prepare(home, [])
    about = f"  provider: {provider}\n  default: {model}\n  base_url: {address}\n  context_length: 100000\n"
    (home / "config.yaml").write_text(f"model:\n{about}{settings}")
    return keys


def prepare(
    home: Path, steps: list[Any], settings: str = "", people: tuple[str, ...] = ("ann", "bob")
) -> dict[str, str]:
    """A home with a scripted model and people; their keys."""
    home.mkdir(exist_ok=True)
    (home / "script.json").write_text(json.dumps(steps))
    (home / "config.yaml").write_text(f"model:\n  provider: scripted\n  default: script.json\n{settings}")
    known = People(find_home(home))
    for name in people:
        known.add(name)
    return {name: known.make_key(name, rights=(APPROVE,))[1] for name in (*people, "owner")}


@contextmanager
def running(home: Path, steps: list[Any] | None = None, settings: str = "", **more: Any) -> Iterator[Running]:
    keys = prepare(home, ALWAYS if steps is None else steps, settings)
    with listening(home, keys, **more) as up:
        yield up


@contextmanager
def listening(home: Path, keys: dict[str, str], **more: Any) -> Iterator[Running]:
    service = build(find_home(home), **more)
    server = HttpServer(service.app, listen("127.0.0.1", 0), drain_seconds=30)
    server.start()
    try:
        yield Running(home=home, url=f"http://127.0.0.1:{server.port}", keys=keys, service=service, server=server)
    finally:
        server.stop()
