"""What tests of the gateway share: a home with people and a scripted model, and a gateway that runs on it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from telegram_server import TOKEN

from hermes.gateway.service import Gateway
from hermes.settings.home import find_home
from hermes.settings.people import People

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from telegram_server import BotApi

ANN, BOB, STRANGER = 11, 22, 99
SECRET = "a-shared-secret-of-the-tests"
ECHO = [{"when": "", "text": "Understood."}]


def prepare(
    home: Path,
    api: BotApi,
    steps: list[Any] | None = None,
    *,
    settings: str = "",
    gateway: str = "",
    telegram: str = "",
) -> None:
    """A home that talks to the loopback Bot API, with ann and bob."""
    home.mkdir(exist_ok=True)
    (home / "script.json").write_text(json.dumps(ECHO if steps is None else steps))
    (home / ".env").write_text(f"TELEGRAM_BOT_TOKEN={TOKEN}\nGATEWAY_WEBHOOK_SECRET={SECRET}\n")
    (home / "config.yaml").write_text(
        "model:\n  provider: scripted\n  default: script.json\n  context_length: 32768\n"
        "review:\n  enabled: false\n"
        f"gateway:\n  telegram:\n    enabled: true\n    api_url: {api.url}\n{telegram}"
        f"  people:\n    telegram: {{'{ANN}': ann, '{BOB}': bob}}\n    webhook: {{u1: ann, u2: bob}}\n"
        f"{gateway}{settings}"
    )
    people = People(find_home(home))
    for name in ("ann", "bob"):
        people.add(name)


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@contextmanager
def running(home: Path, **more: Any) -> Iterator[Gateway]:
    gateway = Gateway(find_home(home), **more)
    gateway.start()
    try:
        yield gateway
    finally:
        assert gateway.stop()


def ask(api: BotApi, gateway: Gateway, user: int, text: str) -> str:
    """Says something and returns what came back."""
    before = len(api.texts(user))
    api.say(user, text)
    api.wait_for_texts(user, before + 1)
    assert gateway.settle(60)
    return "\n".join(api.texts(user)[before:])
