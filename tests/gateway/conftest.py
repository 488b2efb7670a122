"""What all tests of the gateway need: a loopback Bot API that nobody sends what Telegram would refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from telegram_server import bot_api

if TYPE_CHECKING:
    from collections.abc import Iterator

    from telegram_server import BotApi


@pytest.fixture
def api() -> Iterator[BotApi]:
    with bot_api() as server:
        yield server
        assert server.problems == []
