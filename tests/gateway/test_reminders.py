"""Reminders that a running gateway sends by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from gateway_home import ANN, BOB, Clock, ask, prepare, running

from hermes.memory.reminders import Reminders
from hermes.settings.home import find_home, person_home

if TYPE_CHECKING:
    from pathlib import Path

    from telegram_server import BotApi


@pytest.mark.proves("reminders.push")
def test_a_reminder_is_sent_to_the_persons_private_chat_once(home: Path, api: BotApi) -> None:
    prepare(home, api)
    clock = Clock(1772620200.0)
    with running(home, clock=clock) as gateway:
        assert "reminder" in ask(api, gateway, ANN, "Remind me in 2 hours to call Ada.")
        ask(api, gateway, BOB, "Hello.")
        assert gateway.remind() == 0
        clock.now += 3 * 3600
        assert gateway.remind() == 1
        assert gateway.remind() == 0
        assert api.texts(ANN)[-1] == "Reminder: call Ada"
        assert "Reminder: call Ada" not in api.texts(BOB)
        assert "call Ada" not in ask(api, gateway, ANN, "What is new?"), "it came up already"
    (kept,) = Reminders(person_home(find_home(home), "ann")).all()
    assert kept.state == "fired"
