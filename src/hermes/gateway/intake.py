"""Takes what platforms receive: known people's messages are stored and queued, strangers are told how to get access."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from hermes.gateway.commands import is_stop
from hermes.gateway.conversations import lane_of
from hermes.gateway.lanes import Lanes
from hermes.gateway.platforms.base import Later, Never

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hermes.gateway.directory import Directory
    from hermes.gateway.ledger import Entry, Ledger
    from hermes.gateway.platforms.base import Incoming, Platform

_LOG = logging.getLogger("hermes.gateway")
_REMEMBERED = 10_000  # strangers who have had their answer
_WAITING = 1_000  # strangers who wait for it
_PAIRING = ("/pair", "/start")
_NO_ACCESS = (
    "I do not know you, so I keep nothing of what you write. Ask whoever runs this bot for access: they make a code "
    "with `hermes gateway pair NAME`, and you send me /pair CODE. Your account here is {user}."
)


class Intake:
    def __init__(
        self,
        platforms: Mapping[str, Platform],
        ledger: Ledger,
        directory: Directory,
        *,
        lanes: Lanes,
        quick: Lanes,
        clock: Callable[[], float],
        profile: str = "",
    ) -> None:
        self._platforms = platforms
        self._ledger = ledger
        self._directory = directory
        self._lanes = lanes
        self._quick = quick  # for what must not wait behind an answer
        self._clock = clock
        self._profile = profile
        self._told: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._untold: dict[int, Incoming] = {}
        self._numbers = count()
        self._greeter = Lanes(self._greet, workers=1)  # whoever has access does not wait for those who have not

    def cursor(self, platform: str) -> str:
        return self._ledger.cursor(platform)

    def take(self, platform: str, messages: Sequence[Incoming], *, cursor: str = "") -> None:
        """Stores messages and how far the platform was read, in one step; only then is anything done with them."""
        known: list[tuple[str, str, Incoming]] = []
        strangers: list[Incoming] = []
        for message in messages:
            person, kept = self._person(message)
            if person:
                known.append((lane_of(kept, person, self._profile), person, kept))
            else:
                strangers.append(message)
        for entry in self._ledger.store(known, self._clock(), platform=platform, cursor=cursor):
            self.queue(entry)
        for stranger in strangers:
            self._tell(stranger)

    def queue(self, entry: Entry) -> None:
        (self._quick if is_stop(entry.message.text) else self._lanes).add(entry.lane or str(entry.id), entry.id)

    def resume(self) -> int:
        """Queues what an earlier process has left; returns how much that is."""
        left = [each for each in self._ledger.open_entries() if each.message.platform in self._platforms]
        for entry in left:
            self.queue(entry)
        return len(left)

    def close(self) -> None:
        self._greeter.close(5)

    def _person(self, message: Incoming) -> tuple[str, Incoming]:
        """Whose message it is, and as what it is kept: a code that has paired an account is a greeting."""
        person = self._directory.person(message.platform, message.user)
        if person:
            return person, message
        word, _, code = message.text.strip().partition(" ")
        if word.lower() in _PAIRING and code and message.kind == "dm":
            person = self._directory.pair(code, message.platform, message.user)
        return person, replace(message, text="/start")

    def _tell(self, stranger: Incoming) -> None:
        """One answer for each stranger, as long as this process lives: nothing about them is stored."""
        who = (stranger.platform, stranger.user)
        if who in self._told or not stranger.addressed:
            return
        self._told[who] = None
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        if len(self._untold) < _WAITING:
            number = next(self._numbers)
            self._untold[number] = stranger
            self._greeter.add(stranger.platform, number)

    def _greet(self, number: int) -> None:
        stranger = self._untold.pop(number)
        try:
            text = _NO_ACCESS.format(user=stranger.user)
            self._platforms[stranger.platform].send(stranger, text, delivery=f"stranger.{stranger.update}")
        except (Later, Never) as error:
            _LOG.warning("a stranger could not be told how to get access: %s", error)
